"""``python -m langchain_rse``, and the script ``langchain-rse``."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; say what to install if its packages are missing."""
    try:
        from langchain_rse.cli import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("langchain_rse"):
            raise
        sys.exit(
            f"The command line needs {error.name}, which is not installed: "
            "pip install 'langchain-rse[cli]'"
        )
    for stream in (sys.stdout, sys.stderr):
        # Texts may have what the terminal's encoding, or any, has not: lone surrogates.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
