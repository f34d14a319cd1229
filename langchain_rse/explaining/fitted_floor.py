"""FittedFloor: a score floor with its views as text, table and plot."""

from typing import Any

from langchain_rse.explaining.traces import load_plots
from langchain_rse.query.floor import ScoreFloor
from langchain_rse.text.quoting import as_html

_PERCENTILES = (2, 25, 50, 75, 98)  # that are printed


class FittedFloor(ScoreFloor):
    """The `ScoreFloor` that `RSERetriever.fit_score_floor` found. Prints as text with a table."""

    @property
    def distributions(self) -> dict[str, tuple[float, ...]]:
        """The percentiles of the scores of both kinds of questions, by their names."""
        return {
            f"{self.unrelated_count} general questions": self.unrelated,
            f"{self.answered_count} {self.answered_name}": self.answered,
        }

    @property
    def summary(self) -> str:
        """Three sentences: the floor, the shares of refused questions, and the score."""
        sign = "+" if self.higher_is_better else "-"
        side = "below" if self.higher_is_better else "above"
        return (
            f"Questions that score {side} {self.floor:.3g} return nothing. That refuses "
            f"{self.refused(self.unrelated):.0%} of general questions and "
            f"{self.refused(self.answered):.0%} of {self.answered_name}. (Score = best "
            f"{self.reranker or self.searcher} score {sign} {self.word_bonus:.3g} x share of the "
            "question's words found in one chunk.)"
        )

    def __str__(self) -> str:
        title = "score at the percentile"
        width = max(map(len, [title, *self.distributions]))
        header = "".join(f"{f'{percentile}%':>8}" for percentile in _PERCENTILES)
        lines = [self.summary, "", f"{title:{width}}{header} refused"]
        for name, percentiles in self.distributions.items():
            values = "".join(f"{percentiles[number]:>8.3g}" for number in _PERCENTILES)
            lines.append(f"{name:{width}}{values}{self.refused(percentiles):>8.0%}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{as_html(str(self), chr(10))}</pre>"

    def plot(self, *, dark: bool | None = None) -> Any:  # noqa: ANN401 - matplotlib is optional
        """Plot the scores of both kinds of questions, and the floor; needs the extra ``plot``.

        Args:
            dark: True for a dark background, False for a light one. Default: dark if matplotlib's
                style is.

        Returns:
            A matplotlib Figure, which notebooks show with an alternative text.
        """
        return load_plots().plot_floor(self, dark=dark)
