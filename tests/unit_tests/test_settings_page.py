"""docs/settings.md names every setting."""

from pathlib import Path

from langchain_rse.config import PRESETS, QuerySettings, RSEConfig

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_every_setting_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = {*QuerySettings.model_fields, *RSEConfig.model_fields, *PRESETS}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
