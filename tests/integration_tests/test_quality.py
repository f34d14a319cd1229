"""Passages have more of the answers than what a user would build instead, in the same length.

The questions are about Python's own reference, and their evidence is a section of it.
"""

from collections.abc import Iterator
from pydoc_data.topics import topics
from typing import Any

from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import RunnableLambda

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.evaluation import Evidence, Question, evaluate

# A question, the topic with the answer, and where the answer begins and ends there.
QUESTIONS = """
How is an exception handler chosen in a try statement? | compound | "except" clause | "except*" clause
What does an except* clause do with an exception group? | compound | "except*" clause | "else" clause
When is a finally clause executed, and what if it returns? | compound | "finally" clause | The "with" statement
How does a match statement choose a case? | compound | Overview | Guards
How are guards of case blocks evaluated? | compound | Guards | Irrefutable Case Blocks
How does a sequence pattern match a value? | compound | Sequence Patterns | Mapping Patterns
How does a mapping pattern match a dictionary? | compound | Mapping Patterns | Class Patterns
How do class patterns match attributes? | compound | Class Patterns | Function definitions
How is a new instance of a class created? | specialnames | object.__new__(cls[, ...]) | object.__init__(self[, ...])
When is the finalizer of an object called? | specialnames | object.__del__(self) | object.__repr__(self)
What must __hash__ return, and which objects are unhashable? | specialnames | object.__hash__(self) | object.__bool__(self)
How can a module customize access to its attributes? | specialnames | Customizing module attribute access | Implementing Descriptors
How is a descriptor invoked? | specialnames | Invoking Descriptors | __slots__
What are the rules for __slots__? | specialnames | __slots__ | Customizing class creation
How is the metaclass of a class determined? | specialnames | Determining the appropriate metaclass | Preparing the class namespace
When is __class_getitem__ called instead of __getitem__? | specialnames | *__class_getitem__* versus *__getitem__* | Emulating callable objects
How does Python look up special methods implicitly? | specialnames | Special method lookup |
How are names resolved in nested scopes? | execmodel | Resolution of names | Builtins and restricted execution
What is a future statement and where may it stand? | import | Future statements |
What are examples of formatting arguments, numbers and dates? | formatstrings | Format examples |
How can a breakpoint of the debugger run commands? | debugger | commands [bpnumber] | s(tep)
What does partition return if the separator is not found? | string-methods | str.partition(sep) | str.removeprefix(prefix, /)
Which line boundaries does splitlines know? | string-methods | str.splitlines(keepends=False) | str.startswith(prefix[, start[, end]])
How does translate map characters with a table? | string-methods | str.translate(table) | str.upper()
What are dictionary view objects? | typesmapping | Dictionary view objects |
How is a value assigned to a variable with an annotation? | assignment | Annotated assignment statements |
What is an instance method object, and what is its __self__? | types | Instance methods | Generator functions
Which attributes does a frame object have? | types | Frame objects | Traceback objects
What are the attributes of a code object? | types | Code objects | Frame objects
How do the in and not in operators test membership? | comparisons | Membership test operations | Identity comparisons
"""  # noqa: E501 - a table
BUDGETS = (2_000, 4_000)
CHUNKS = 50
# With the defaults it is 0.12. With a neighbor weight of 0.25, a vector weight of 1, a name weight
# of 1, without lexical weight, or with two candidates that select documents, it is smaller.
LEAD = 0.105


def questions() -> Iterator[Question]:
    for row in QUESTIONS.strip().splitlines():
        question, topic, first, last = [cell.strip() for cell in row.split("|")]
        text = f"\n{topics[topic]}\n"
        start = text.find(f"\n{first}\n")
        end = text.find(f"\n{last}\n", start + 1) if last else len(text) - 2
        if 0 <= start < end:  # the reference differs from version to version
            yield Question(question, [Evidence(topic, start, end)])


def recall_of(retriever: RetrieverLike, **arguments: Any) -> float:
    report = evaluate(retriever, questions(), BUDGETS, sources=topics, **arguments)
    return float(report.mean("recall").mean())


def test_passages_have_more_of_the_evidence_than_other_retrievers() -> None:
    assert len(list(questions())) >= 25
    names = sorted({question.evidence[0].doc_id for question in questions()})
    texts = [topics[name] for name in names]
    sources = [{"source": name} for name in names]
    retriever = RSERetriever.from_texts(texts, WordLlamaEmbeddings(), sources)
    vectorstore, docstore = retriever.vectorstore, retriever.docstore
    assert vectorstore is not None
    assert isinstance(docstore, SQLDocStore)

    def search_words(query: str) -> list[Document]:
        return [chunk for chunk, _ in docstore.lexical_search(query, CHUNKS)]

    chunks = vectorstore.as_retriever(search_kwargs={"k": CHUNKS})
    words = RunnableLambda(search_words)
    both: list[RetrieverLike] = [chunks, words]
    ensemble = EnsembleRetriever(retrievers=both, weights=[0.5, 0.5], id_key="chunk_id")
    recalls = [recall_of(other) for other in (chunks, words, ensemble)]
    passages = recall_of(retriever, irrelevant_chunk_penalty=0.0)
    assert passages >= max(recalls) + LEAD, (passages, recalls)
