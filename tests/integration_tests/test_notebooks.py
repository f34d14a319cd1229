"""The notebooks run from top to bottom."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

# Of a machine, a user or a moment.
PASSING = re.compile(
    r"/(tmp|home|root|Users)/|[A-Z]:\\|\b\d?\d:\d\d(:\d\d)?\b|\d ms\b|0x[0-9a-f]{6}"
)


def read(path: Path) -> Any:
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_can_be_read_as_it_is(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    for output in outputs:
        assert output.get("name") != "stderr"
        shown = output.get("text", "") + "".join(output.get("data", {}).get("text/plain", ""))
        assert not PASSING.search(shown), shown


# Whenever tests run, the first notebook does, without what asks hundreds of questions.
RUNS = [
    pytest.param(NOTEBOOKS[0], "fit_score_floor", id=f"{NOTEBOOKS[0].stem}, fast"),
    *(pytest.param(path, None, id=path.stem, marks=pytest.mark.nightly) for path in NOTEBOOKS),
]


# The warnings are about Jupyter's own event loop and sockets.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("path", "without"), RUNS)
def test_a_notebook_runs(path: Path, without: str | None, tmp_path: Path) -> None:
    notebook = read(path)
    if without:
        notebook.cells = [cell for cell in notebook.cells if without not in cell.source]
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not [output for output in outputs if output.get("name") == "stderr"]
