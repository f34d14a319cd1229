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
    if isinstance(model, type) and issubclass(model, Embeddings):
        return model()
    unknown = (
        f"--embeddings {name}: no module:Class of LangChain Embeddings has this name "
        "(in an existing knowledge base, set PYTHONPATH=. for the working directory)"
    )
    try:
        from langchain.embeddings import init_embeddings

        return init_embeddings(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{unknown}. For provider:model, run pip install langchain and the provider's package, "
            "such as langchain-openai"
        ) from error
    except ValueError as error:
        raise ValueError(f"{unknown}. LangChain does not know the model either: {error}") from error


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
