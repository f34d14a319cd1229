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
└── CalibrationError (ValueError)

Each is also the built-in kind in parentheses. Wrong arguments raise a plain `ValueError` or
`TypeError`.
"""


class RSEError(Exception):
    """The base of all exceptions that this package defines."""


class CandidateError(RSEError, ValueError):
    """A candidate does not say which chunk of which document it is."""


class MetadataError(RSEError, TypeError, ValueError):
    """The id or the metadata of a document cannot be kept."""


class MissingRecordError(RSEError, LookupError):
    """The docstore lacks a record that the vector store points to."""


class CorruptRecordError(RSEError, ValueError):
    """A record of the docstore cannot be read."""


class FormatError(CorruptRecordError):
    """A record of the docstore was written by another version of this package."""


class StoreMismatchError(RSEError, ValueError):
    """The docstore belongs to another vector store or embedding model, or the vectors are lost."""


class SplittingError(RSEError, ValueError):
    """A splitter's chunks cannot be found in the text they were made from."""


class AdoptionError(RSEError, ValueError):
    """The chunks of an existing index cannot be joined into documents."""


class EmbeddingError(RSEError, ValueError):
    """The embedding model returned vectors that cannot be searched."""


class FullTextError(RSEError, ValueError):
    """The full-text index of a docstore cannot be searched: it is damaged or missing."""


class CalibrationError(RSEError, ValueError):
    """The scores of a search do not tell whether the documents have an answer."""
