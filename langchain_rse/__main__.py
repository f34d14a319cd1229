"""Entry point of ``python -m langchain_rse`` and of the script ``langchain-rse``."""

import io
import sys


def main() -> None:
    """Run the command line, or exit with a message that names the package to install."""
    try:
        from langchain_rse.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(
            f"The command line needs {error.name}, which is not installed: "
            "pip install 'langchain-rse[cli]'"
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of characters it cannot encode
    app()


if __name__ == "__main__":
    main()
