"""The settings file in the folder of a knowledge base."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from langchain_rse.cli.output import command_line

_SETTINGS = "settings.json"


class StoredSettings(BaseModel):
    """The settings of a knowledge base, stored in its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    embeddings: str  # the name of the model

    @classmethod
    def read(cls, folder: Path) -> StoredSettings:
        """Read the settings of a knowledge base; a ValueError if the folder has none."""
        if not exists(folder):
            raise ValueError(
                f"{folder} is not a knowledge base. Create one with: {command_line()} index "
                f"PATH... --kb {folder}"
            )
        try:
            return cls.model_validate_json((folder / _SETTINGS).read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(
                f"The knowledge base in {folder} has no readable {_SETTINGS} ({error}). It was "
                "made by Python code or by another version of langchain-rse. Index the files again "
                "into a new folder"
            ) from error

    def write(self, folder: Path) -> None:
        """Write the settings to the folder atomically."""
        temporary = folder / f"{_SETTINGS}.new"
        temporary.write_text(self.model_dump_json(), encoding="utf-8")
        temporary.replace(folder / _SETTINGS)


def exists(folder: Path) -> bool:
    """Tell whether a folder is a knowledge base, maybe with unreadable settings."""
    from langchain_rse.stores.embedded import DOCSTORE_FILE

    return (folder / _SETTINGS).exists() or (folder / DOCSTORE_FILE).exists()
