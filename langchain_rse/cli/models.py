"""Loads embedding models by name."""

import pkgutil
from functools import cache
from typing import Any

from langchain_core.embeddings import Embeddings

DEFAULT = "langchain_rse.embeddings:WordLlamaEmbeddings"


@cache
def load_embeddings(name: str) -> Embeddings:
    """Load a model by its name, ``module:Class`` or ``provider:model``."""
    model: Any = None
    reason: object = "no class of Embeddings"
    try:
        model = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        reason = error
    if isinstance(model, type) and issubclass(model, Embeddings):
        return model()
    unknown = (
        f"--embeddings {name}: no module:Class of LangChain Embeddings has this name ({reason}; "
        "in an existing knowledge base, set PYTHONPATH=. for the working directory)"
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
