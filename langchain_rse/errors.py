"""The exceptions that this package defines."""


class CandidateError(ValueError):
    """A candidate does not say which chunk of which document it is."""


class MetadataError(TypeError, ValueError):
    """The id or the metadata of a document cannot be kept."""


class MissingRecordError(LookupError):
    """The docstore lacks a record that the vector store points to."""


class CorruptRecordError(ValueError):
    """A record of the docstore cannot be read."""


class FormatError(ValueError):
    """A record of the docstore was written by another version of this package."""


class StoreMismatchError(ValueError):
    """The docstore belongs to another vector store or embedding model, or the vectors are lost."""


class SplittingError(ValueError):
    """A splitter's chunks cannot be found in the text they were made from."""


class AdoptionError(ValueError):
    """The chunks of an existing index cannot be joined into documents."""
