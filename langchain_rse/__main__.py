"""Entry point of ``python -m langchain_rse`` and of the script ``langchain-rse``."""

import codecs
import io
import sys

# Replacements for streams that cannot encode these characters, used in ranges and bars.
_IN_ASCII = dict(zip("–·▁▂▃▄▅▆▇█", "-..--==+##", strict=True))


def main() -> None:
    """Run the command line, or exit with a message that names the package to install."""
    try:
        from langchain_rse.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("langchain_rse"):
            raise
        sys.exit(
            f"The command line needs {error.name}, which is not installed: "
            "pip install 'langchain-rse[cli]'"
        )
    codecs.register_error("look_alike", _look_alike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="look_alike")
    app()


def _look_alike(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace or escape a character that the stream cannot encode."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    escaped = character.encode("ascii", "backslashreplace").decode()
    return _IN_ASCII.get(character, escaped), error.start + 1


if __name__ == "__main__":
    main()
