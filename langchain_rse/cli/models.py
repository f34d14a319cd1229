"""Loads embedding models by name."""

import importlib
import os
import sys
from importlib.util import find_spec
from typing import Any

from langchain_core.embeddings import Embeddings

DEFAULT = "langchain_rse.embeddings:WordLlamaEmbeddings"


class CountingEmbeddings(Embeddings):
    """Wraps a model and counts the texts it embeds; other attributes are those of the model."""

    def __init__(self, model: Embeddings) -> None:
        self.model = model
        self.texts_embedded = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the model
        return getattr(self.model, name)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:  # noqa: D102
        vectors = self.model.embed_documents(texts)
        self.texts_embedded += len(texts)
        return vectors

    def embed_query(self, text: str) -> list[float]:  # noqa: D102
        return self.model.embed_query(text)


def load_embeddings(name: str, *, trusted: bool = True) -> CountingEmbeddings:
    """Make the model of a name; if ``trusted``, modules in the working directory count too."""
    if trusted and os.getcwd() not in sys.path:  # noqa: PTH109 - entries are strings
        sys.path.append(os.getcwd())  # noqa: PTH109
    model = _find_attribute(name)
    if model is None:
        model = _model_of_provider(name)
    elif isinstance(model, type) and issubclass(model, Embeddings):
        model = model()
    if not isinstance(model, Embeddings):
        raise ValueError(  # noqa: TRY004 - the option is wrong
            f"--embeddings {name} must name a class of LangChain Embeddings that is made without "
            f"arguments; got {model!r:.200}"
        )
    return CountingEmbeddings(model)


def _find_attribute(name: str) -> object:
    """Import what a name of the form module:attribute stands for; None if nothing is there."""
    module, _, attribute = name.partition(":")
    # Some modules of Python have effects when they are imported.
    is_of_python = module.partition(".")[0] in sys.stdlib_module_names
    if is_of_python or not attribute.isidentifier():
        return None
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):  # no such package, or no name of a module
        return None
    return getattr(importlib.import_module(module), attribute, None)


def _model_of_provider(name: str) -> object:
    unknown = (
        f"--embeddings {name}: it is no module:Class that is installed or, if the option is given, "
        "in this directory (without the option, set PYTHONPATH=. if you trust this directory)"
    )
    try:
        from langchain.embeddings import init_embeddings
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{unknown}. For provider:model, pip install langchain and the provider's package, "
            "such as langchain-openai"
        ) from error
    try:
        return init_embeddings(name)
    except ValueError as error:
        raise ValueError(f"{unknown}, nor a model that LangChain knows. {error}") from error
