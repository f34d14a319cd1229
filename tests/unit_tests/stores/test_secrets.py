"""Passwords, keys and texts stay out of what is shown: repr, errors, logs."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from sqlalchemy.exc import OperationalError

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.rerankers import CohereReranker
from tests.unit_tests import fakes

SECRET = "s3cr3t"  # noqa: S105


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://user:{SECRET}@host/db",
        f"postgresql+psycopg://user@host/db?password={SECRET}&sslpassword={SECRET}",
    ],
)
def test_a_docstore_does_not_show_its_password(url: str) -> None:
    store = SQLDocStore(url, lexical=False)
    assert SECRET not in repr(store)
    assert "host/db" in repr(store)
    retriever = RSERetriever(vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=store)
    assert SECRET not in repr(retriever) + str(retriever) + dumps(retriever)
    assert SECRET not in repr(retriever._get_ls_params())
    with pytest.raises(ValueError, match="full-text") as caught:
        store.lexical_search("query", 3)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_key_of_a_sqlite_url_is_not_shown(tmp_path: Path) -> None:
    store = SQLDocStore(f"sqlite:///file:{tmp_path}/chunks.db?uri=true&key={SECRET}")
    assert SECRET not in repr(store)
    assert "chunks.db" in repr(store)
    folder = SQLDocStore(f"sqlite:///file:{tmp_path}?mode=ro&uri=true&key={SECRET}")
    with pytest.raises(OperationalError) as caught:
        folder.mget(["a"])
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        f"user:{SECRET}@host",
        f"postgresql://user:{SECRET}",
        f"postgresql://user:{SECRET}@host:port/db",
        f"sqlite:/{SECRET}",
        f"postgresql+asyncpg://user:{SECRET}@host/db",
        f"no-such-database://user:{SECRET}@host/db",
    ],
)
def test_a_url_that_cannot_be_used_is_not_shown(url: str) -> None:
    with pytest.raises((ValueError, ImportError)) as caught:
        SQLDocStore(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_errors_and_logs_of_a_database_do_not_show_documents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store = SQLDocStore("sqlite://", engine_kwargs={"echo": True})
    store.mset([("a", Document(SECRET))])
    with store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE langchain_rse")
    with pytest.raises(Exception, match="no such table") as caught:
        store.mset([("a", Document(SECRET))])
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "INSERT" in caplog.text
    assert SECRET not in caplog.text


def test_a_reranker_does_not_show_its_key() -> None:
    reranker = CohereReranker(model="rerank-v3.5", cohere_api_key=SECRET)  # type: ignore[arg-type]
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        reranker=reranker,
    )
    assert SECRET not in repr(reranker) + str(retriever) + dumps(retriever)
