"""What the reference describes, page by page; the hooks and the extension of Griffe read it."""

import importlib

# The pages of the reference; a name that ends in a dot stands for all names of that module.
REFERENCE = {
    "RSERetriever": ["retriever.RSERetriever", "access.StoredDocument"],
    "Settings": [
        "config.RSEConfig",
        "config.QuerySettings",
        "config.PRESETS",
        "config.Greedy",
        "config.BestSegment",
    ],
    "Indexing": [
        "indexer.",
        "ingest.syncing.SyncResult",
        "ingest.checking.CheckReport",
        "ingest.splitting.Splitter",
        "ingest.splitting.Span",
        "embeddings.",
    ],
    "Docstores": [
        "stores.sql.SQLDocStore",
        "stores.json.JSONDocStore",
        "stores.redis.RedisDocStore",
    ],
    "Existing indexes": ["adopting.ExistingIndex", "adopting.Adoption", "adopting.Gap"],
    "Headers": ["headers."],
    "Rerankers": ["rerankers."],
    "Relevance filters": ["filters."],
    "Evaluation": ["evaluation.", "query.floor.FittedFloor"],
    "Traces": [
        "explaining.traces.RSETrace",
        "explaining.traces.TraceCollector",
        "query.trace.Trace",
        "query.candidates.Reason",
        "query.candidates.Candidate",
        "query.candidates.Exclusion",
        "query.candidates.Hit",
        "query.scoring.Chunk",
        "explaining.traces.DocumentTrace",
        "explaining.side_by_side.SideBySide",
        "explaining.side_by_side.Piece",
    ],
    "For agents": ["tools."],
    "Ray": ["ray."],
    "Engine": ["engine."],
    "Errors": ["errors."],
}


def page_of(title: str) -> str:
    """The page of the reference with a title."""
    return f"reference/{title.lower().replace(' ', '-')}.md"


def expanded(names: list[str]) -> list[str]:
    """The full names of what a page of the reference describes."""
    full = []
    for name in names:
        module = importlib.import_module(f"langchain_rse.{name.rpartition('.')[0]}")
        public = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if module.__name__ == defined_in(value) and not name.startswith("_")
        ]
        some = public if name.endswith(".") else [name.rpartition(".")[2]]
        full += [f"{module.__name__}.{one}" for one in some]
    return full


def defined_in(value: object) -> str:
    """The module of a class or function."""
    return str(getattr(value, "__module__", ""))
