"""``python -m langchain_rse`` without its packages."""

import os
import subprocess
import sys

import pytest


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("langchain-rse in", {"index"}),
        ("langchain-rse query q --rep", {"--report"}),
    ],
)
def test_shell_completion(words: str, expected: set[str]) -> None:
    program = "from langchain_rse.cli.app import app; app(prog_name='langchain-rse')"
    environment = {
        **os.environ,
        "_LANGCHAIN_RSE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert set(result.stdout.split()) == expected
