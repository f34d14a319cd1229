"""A score floor in words and as a table: what ``print(floor)`` shows."""

from langchain_rse.query.floor import ScoreFloor
from langchain_rse.text.quoting import as_html

_PERCENTILES = (2, 25, 50, 75, 98)  # that are printed


def distributions_of(floor: ScoreFloor) -> dict[str, tuple[float, ...]]:
    """The percentiles of both kinds of questions, by what they are called."""
    return {
        f"{floor.unrelated_count} general questions": floor.unrelated,
        f"{floor.answered_count} {floor.answered_name}": floor.answered,
    }


def summarize_floor(floor: ScoreFloor) -> str:
    """What is refused, in three sentences."""
    sign = "+" if floor.higher_is_better else "-"
    side = "below" if floor.higher_is_better else "above"
    return (
        f"Questions that score {side} {floor.floor:.3g} return nothing. That refuses "
        f"{floor.refused(floor.unrelated):.0%} of general questions and "
        f"{floor.refused(floor.answered):.0%} of {floor.answered_name}. (Score = best "
        f"{floor.reranker or floor.searcher} score {sign} {floor.word_bonus:.3g} x share of the "
        "question's words found in one chunk.)"
    )


def floor_as_text(floor: ScoreFloor) -> str:
    """The summary, and a table of the percentiles of both kinds of questions."""
    rows = [["", *(f"{percentile}%" for percentile in _PERCENTILES), "refused"]]
    for name, percentiles in distributions_of(floor).items():
        values = [f"{percentiles[percentile]:.3g}" for percentile in _PERCENTILES]
        rows.append([name, *values, f"{floor.refused(percentiles):.0%}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [summarize_floor(floor), ""]
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        for cell, width in zip(others, widths[1:], strict=True):
            cells.append(cell.rjust(width))
        lines.append("  ".join(cells))
    return "\n".join(lines)


def floor_as_html(floor: ScoreFloor) -> str:
    """The same for a notebook."""
    text = as_html(floor_as_text(floor), "\n")
    return f"<pre>{text}</pre>"
