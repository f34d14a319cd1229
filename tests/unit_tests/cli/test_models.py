"""Embedding models by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from langchain_rse.cli.knowledge_base import load_embeddings

MODULE = """
from langchain_core.embeddings import DeterministicFakeEmbedding

class Eight(DeterministicFakeEmbedding):
    size: int = 8

def explode():
    raise AssertionError

class Plain:
    pass

class Sized(Eight):
    def __init__(self, size):
        pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user."""
    (tmp_path / "own_models.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    load_embeddings.cache_clear()
    monkeypatch.delitem(sys.modules, "own_models", raising=False)


def test_a_class_of_the_user() -> None:
    embeddings = load_embeddings("own_models:Eight")
    assert len(embeddings.embed_documents(["one", "two"])) == 2
    assert len(embeddings.embed_query("three")) == 8


@pytest.mark.filterwarnings("ignore:.*init_embeddings:DeprecationWarning")  # langchain-classic's
def test_a_model_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    embeddings = load_embeddings("openai:text-embedding-3-small")
    assert embeddings.model == "text-embedding-3-small"  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*init_embeddings:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("own_models:Plain", ValueError, "is no class of LangChain Embeddings"),
        ("own_models:Sized", TypeError, "missing 1 required positional argument"),
        ("own_models:Missing", ValueError, "module:Class"),
        ("no_such_module:Class", ValueError, "module:Class"),
        ("wordllama", ValueError, "module:Class"),
        ("mistralai:mistral-embed", ValueError, "pip install langchain[-_]mistralai"),
    ],
)
def test_names_of_no_model(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_embeddings(name)


@pytest.mark.filterwarnings("ignore:.*init_embeddings:DeprecationWarning")
@pytest.mark.parametrize("name", ["os:abort", "sys:exit", "own_models:explode"])
def test_only_a_class_of_embeddings_is_called(name: str) -> None:
    with pytest.raises(ValueError, match=r"Embeddings|module:Class"):
        load_embeddings(name)
