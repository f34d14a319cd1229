"""The example of the demo, the pictures and the first notebook: it shows what they claim."""

from pathlib import Path

import pytest

from langchain_rse import RSERetriever
from langchain_rse.cli.demo import (
    MAX_CONTEXT_LENGTH,
    QUESTION,
    Outline,
    language_reference,
    outline_of,
)
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.explaining import SideBySide


@pytest.fixture(scope="module")
def comparison() -> SideBySide:
    reference = language_reference()
    retriever = RSERetriever.from_texts(
        reference.values(), WordLlamaEmbeddings(), [{"source": title} for title in reference]
    )
    return retriever.compare(QUESTION, max_context_length=MAX_CONTEXT_LENGTH)


def test_one_passage_has_the_whole_answer(comparison: SideBySide) -> None:
    (passage,) = comparison.passages
    assert passage.text.startswith("Overview\n--------\n")
    assert passage.text.rstrip().endswith("Case 3, y: 200")
    outline = outline_of(comparison.passages)
    assert outline.answered == 1
    assert outline.missing == []
    assert steps_of(outline) == ["1.", "2.", "3."]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for side in (comparison.passages, comparison.other):
        assert f" {sum(len(piece.text) for piece in side):,} characters," in readme


def test_chunks_of_the_same_length_have_it_in_pieces(comparison: SideBySide) -> None:
    outline = outline_of(comparison.other)
    assert outline.answered < 0.6
    # They have the last paragraph of the answer, before its first two; the third step is missing.
    assert len(outline.pieces) == 3
    assert [text for text, is_answer in outline.pieces[0] if is_answer] == [
        "* If there are no further case blocks, the match statement is completed."
    ]
    assert steps_of(outline) == ["1.", "2."]
    assert [text[:25] for text, _ in outline.missing[:2]] == [
        *("Note: During failed patte", "3. If the pattern succeed")
    ]


def steps_of(outline: Outline) -> list[str]:
    """The numbers of the answer's steps."""
    texts = [text for piece in outline.pieces for text, is_answer in piece if is_answer]
    return [text[:2] for text in texts if text[0].isdigit()]
