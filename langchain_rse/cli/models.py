"""Loads embedding models by name."""

import importlib
import os
import sys
from importlib.util import find_spec

from langchain_core.embeddings import Embeddings

DEFAULT = "langchain_rse.embeddings:WordLlamaEmbeddings"


def load_embeddings(name: str, *, trusted: bool = True) -> Embeddings:
    """Load a model by its name; ``trusted`` allows modules in the working directory."""
    if trusted and os.getcwd() not in sys.path:  # noqa: PTH109 - entries are strings
        sys.path.append(os.getcwd())  # noqa: PTH109
    model = _find_attribute(name)
    if model is None:
        model = _model_of_provider(name, trusted=trusted)
    elif isinstance(model, type) and issubclass(model, Embeddings):
        model = model()
    if not isinstance(model, Embeddings):
        raise ValueError(  # noqa: TRY004 - the option is wrong
            f"--embeddings {name} must name a subclass of LangChain Embeddings whose constructor "
            f"needs no arguments; got {model!r:.200}"
        )
    return model


def _find_attribute(name: str) -> object:
    """Import the object at ``module:attribute``; None if there is no such object."""
    module, _, attribute = name.partition(":")
    if not attribute.isidentifier():
        return None
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):  # no such package, or not a module name
        return None
    return getattr(importlib.import_module(module), attribute, None)


def _model_of_provider(name: str, *, trusted: bool) -> object:
    unknown = f"--embeddings {name}: no module:Class of this name is installed"
    if trusted:
        unknown = f"{unknown} or in the working directory"
    else:
        unknown = f"{unknown} (for a module in the working directory, set PYTHONPATH=.)"
    try:
        from langchain.embeddings import init_embeddings
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{unknown}. For provider:model, run pip install langchain and the provider's package, "
            "such as langchain-openai"
        ) from error
    try:
        return init_embeddings(name)
    except ValueError as error:
        raise ValueError(f"{unknown}. LangChain does not know the model either: {error}") from error
