"""Reads the text of notebooks and e-mails."""

import email
import email.policy
import json
from typing import Any

from langchain_rse.cli.page_blocks import fenced
from langchain_rse.cli.webpages import read_html

_FIELDS = ("Subject", "From", "To", "Date")


def read_notebook(source: str) -> str:
    """Read the cells of a Jupyter notebook as Markdown, without their output.

    Raises:
        ValueError: If the text is not a notebook.
    """
    notebook: Any = json.loads(source)
    if not isinstance(notebook, dict):
        raise ValueError("not a notebook")  # noqa: TRY004 - callers catch ValueError
    sheets = notebook.get("worksheets") or [notebook]  # before format 4
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "")
    cells = []
    for sheet in sheets:
        for cell in sheet.get("cells", ()):
            lines = cell.get("source", cell.get("input", ""))
            text = "".join(lines).strip("\n")
            if text.strip() and cell.get("cell_type") == "code":
                text = fenced(text, str(language))
            if text.strip():
                cells.append(text)
    return "\n\n".join(cells)


def read_email(content: bytes) -> tuple[str, str]:
    """Return an e-mail's text (header fields and body, without attachments) and its subject."""
    message = email.message_from_bytes(content, policy=email.policy.default)
    fields = []
    for name in _FIELDS:
        if message[name]:
            fields.append(f"{name}: {' '.join(str(message[name]).split())}")
    part = message.get_body(("plain", "html"))
    body = ""
    if part is not None:
        payload = part.get_payload(decode=True)
        charset = part.get_content_charset("utf-8")
        body = _decode(payload if isinstance(payload, bytes) else b"", charset)
        if part.get_content_subtype() == "html":
            body = read_html(body).text
    text = "\n\n".join(each for each in ("\n".join(fields), body.strip()) if each)
    return text, " ".join(str(message["Subject"] or "").split())


def _decode(payload: bytes, charset: str) -> str:
    """Decode the body of an e-mail; as windows-1252 if its declared encoding is wrong."""
    try:
        text = payload.decode(charset)
    except (LookupError, UnicodeDecodeError):
        text = payload.decode("cp1252", "replace")
    return text.replace("\r\n", "\n")
