"""The exceptions that this package defines.

RSEError
├── CandidateError (ValueError)
├── MetadataError (TypeError, ValueError)
├── MissingRecordError (LookupError)
├── CorruptRecordError (ValueError)
│   └── FormatError
├── StoreMismatchError (ValueError)
├── SplittingError (ValueError)
├── AdoptionError (ValueError)
├── EmbeddingError (ValueError)
├── FullTextError (ValueError)
└── ScoreFloorError (ValueError)

Each class also derives from the built-in exception in parentheses. Wrong arguments raise a plain
`ValueError` or `TypeError`.
"""


class RSEError(Exception):
    """Base class of all exceptions of this package."""


class CandidateError(RSEError, ValueError):
    """The metadata of a candidate does not identify its chunk."""


class MetadataError(RSEError, TypeError, ValueError):
    """The id or metadata of a document cannot be stored."""


class MissingRecordError(RSEError, LookupError):
    """A record is missing from the docstore, although the vector store refers to it."""


class CorruptRecordError(RSEError, ValueError):
    """A record of the docstore is corrupt: it cannot be read."""


class FormatError(CorruptRecordError):
    """A record of the docstore was written by another version of this package."""


class StoreMismatchError(RSEError, ValueError):
    """The docstore does not match the vector store or embedding model, or vectors are lost."""


class SplittingError(RSEError, ValueError):
    """A splitter's chunks cannot be found in the text that was split."""


class AdoptionError(RSEError, ValueError):
    """The chunks of an existing index cannot be joined into documents."""


class EmbeddingError(RSEError, ValueError):
    """The embedding model returned vectors that cannot be searched."""


class FullTextError(RSEError, ValueError):
    """The full-text index of a docstore is damaged or missing."""


class ScoreFloorError(RSEError, ValueError):
    """No score floor can be fitted: scores do not separate answerable from other questions."""
