"""``python -m langchain_rse`` without its packages."""

import subprocess
import sys


def test_without_the_extra_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['typer'] = None; from langchain_rse.__main__ import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "typer, which is not installed: pip install 'langchain-rse[cli]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_waits_for_no_store_and_no_model() -> None:
    program = (
        "import sys; import langchain_rse.cli.app; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    slow = {"chromadb", "langchain_chroma", "pypdfium2", "sqlalchemy", "bs4", "wordllama"}
    slow |= {"langchain_core", "numpy", "pydantic"}
    assert not slow & set(result.stdout.split())
