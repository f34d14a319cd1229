"""``python -m langchain_rse``, and the script ``langchain-rse``."""

import io
import sys


def main() -> None:
    """Run the command line, or exit with a message that says what to install."""
    try:
        from langchain_rse.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("langchain_rse"):
            raise
        sys.exit(
            f"The command line needs {error.name}, which is not installed: "
            "pip install 'langchain-rse[cli]'"
        )
    for stream in (sys.stdout, sys.stderr):
        # Texts may contain characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
