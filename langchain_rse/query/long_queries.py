"""Warns of queries of which not all is read for its words."""

from collections.abc import Sequence

from langchain_rse._messages import warn
from langchain_rse.config import QuerySettings
from langchain_rse.text.words import MAX_QUERY_LENGTH


def warn_of_long(queries: Sequence[str], settings: QuerySettings) -> None:
    """Warn if words at the end of a query do not count, and they would in a shorter one."""
    config = settings.config
    reads_words = (
        config.lexical_credit or config.name_weight or settings.hybrid not in {"auto", 0.0}
    )
    longest = max(map(len, queries), default=0)
    if longest > MAX_QUERY_LENGTH and reads_words:
        warn(
            f"a query has {longest:,} characters: only words among its first {MAX_QUERY_LENGTH:,} "
            "count (lexical_credit, name_weight, hybrid); the vector store and the reranker get "
            "all of it. Ask a shorter question, or several with queries=[...]"
        )
