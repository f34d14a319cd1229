"""Reads files: text, HTML, Word and PDF.

Word and HTML are read with the packages that Docx2txtLoader and BSHTMLLoader use, 1 MB;
langchain-community would add 50 MB and half a second of imports.
"""

import contextlib
import io
import logging
import os
import re
import stat
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

_TEXT = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})
_HTML = frozenset({".html", ".htm"})
SUFFIXES = _TEXT | _HTML | {".docx", ".pdf"}

# Encodings in use, of those that charset-normalizer knows: for short texts, all seem likely to it.
_ENCODINGS = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("koi8_r", "shift_jis", "euc_jp", "euc_kr", "gb18030", "big5"),
]
# HTML tags that begin a line.
_BLOCK = re.compile("^(blockquote|br|d[dt]|div|h[1-6]|li|p|pre|section|t[dhr]|title)$")


@dataclass
class Files:
    """Finds and reads files; notes those that cannot be read, and guessed encodings."""

    encoding: str | None = None  # of text files and HTML; None to guess it for each
    failures: dict[Path, str] = field(default_factory=dict)  # reasons why files cannot be read
    guessed: dict[Path, str] = field(default_factory=dict)  # encodings that were guessed
    skipped: Counter[str] = field(default_factory=Counter)  # files in folders, by suffix

    def find(self, paths: Iterable[Path], without: Path) -> list[Path]:
        """List the given files, and those in given folders except ``without``, each once."""
        files: dict[Path, None] = {}
        for path in paths:
            found = list(self._inside(path, without.resolve())) if path.is_dir() else [path]
            if not found and path not in self.failures:
                kinds = ", ".join(sorted(SUFFIXES))
                self.failures[path] = f"it has no files of a known kind ({kinds})"
            files |= dict.fromkeys(Path(os.path.realpath(file)) for file in sorted(found))
        return list(files)

    def _inside(self, folder: Path, without: Path) -> Iterator[Path]:
        def failed(error: OSError) -> None:
            self.failures[Path(str(error.filename))] = _reason(error)

        for place, folders, names in os.walk(folder, onerror=failed):
            folders[:] = [name for name in folders if Path(place, name).resolve() != without]
            for file in (Path(place, name) for name in names):
                if not Path(os.path.realpath(file)).is_relative_to(folder.resolve()):
                    self.skipped["links out of the folder"] += 1
                elif file.suffix.lower() in SUFFIXES:
                    yield file
                else:
                    self.skipped[file.suffix.lower() or "without ending"] += 1

    def read(self, files: Iterable[Path]) -> Iterator[Document]:
        """Read files one by one; reasons for those that cannot be read go into ``failures``."""
        for path in files:
            try:
                documents = list(self._load(path))
            except Exception as error:  # noqa: BLE001 - readers of PDF and DOCX raise anything
                self.failures[path] = _reason(error)
                continue
            if not any(document.page_content.strip() for document in documents):
                scanned = path.suffix.lower() == ".pdf"
                self.failures[path] = f"it has no text{' (a scan needs OCR first)' * scanned}"
            yield from documents

    def _load(self, path: Path) -> Iterator[Document]:
        """Yield a file's Documents: one per page of a PDF, else one."""
        metadata: dict[str, Any] = {"source": str(path)}
        metadata["source"].encode()  # an error for file names that are not Unicode
        content, suffix = _content(path), path.suffix.lower()
        if suffix == ".pdf":
            import pypdf

            logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # not each flaw that it corrects
            reader = pypdf.PdfReader(io.BytesIO(content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise ValueError("it is encrypted and needs a password: save it without one")
            for number, page in enumerate(reader.pages):
                fields = {**metadata, "page": number, "total_pages": len(reader.pages)}
                yield Document(page.extract_text(), metadata=fields)
            return
        if suffix == ".docx":
            import docx2txt

            text = docx2txt.process(io.BytesIO(content))
        elif suffix in _HTML:
            text = self._html(content, path, metadata)
        else:
            text = self._decode(content, path)
        yield Document(text, metadata=metadata)

    def _html(self, content: bytes, path: Path, metadata: dict[str, Any]) -> str:
        """Extract the text of HTML; its title is put into the metadata."""
        import bs4

        with warnings.catch_warnings():  # XHTML is XML too; a text may look like a file name
            warnings.simplefilter("ignore", UserWarning)
            soup = bs4.BeautifulSoup(self._decode(content, path, is_html=True), "html.parser")
        for tag in soup.find_all(_BLOCK):
            tag.insert_before("\n")
            tag.append("\n")
        if soup.title:
            metadata["title"] = " ".join(soup.title.get_text().split())
        return re.sub(r"\s*\n\s*\n", "\n\n", soup.get_text()).strip()

    def _decode(self, content: bytes, path: Path, *, is_html: bool = False) -> str:
        """Decode the content of a text file."""
        if self.encoding:
            return content.decode(self.encoding).removeprefix("\ufeff")
        from bs4.dammit import EncodingDetector

        content, marked = EncodingDetector.strip_byte_order_mark(content)
        if marked:
            return content.decode(marked)
        if b"\0" in content:
            raise ValueError("it is not a text file; if it is, give its --encoding")
        # The declared encoding may be wrong.
        declared = EncodingDetector.find_declared_encoding(content, is_html=True) if is_html else ""
        for encoding in filter(None, (declared, "utf-8")):
            with contextlib.suppress(LookupError, UnicodeDecodeError):
                return content.decode(encoding)
        import charset_normalizer

        # Of equally likely encodings, windows-1252, which is the most frequent.
        best = min(
            charset_normalizer.from_bytes(content, cp_isolation=_ENCODINGS),
            key=lambda one: (one.chaos, -one.coherence, "cp1252" not in one.could_be_from_charset),
            default=None,
        )
        likely = best.could_be_from_charset if best else ["cp1252"]
        encoding = "cp1252" if "cp1252" in likely else likely[0]
        self.guessed[path] = encoding.replace("cp125", "windows-125").replace("_", "-")
        return content.decode(encoding, "replace")


def _content(path: Path) -> bytes:
    """Read the bytes of a file; a ValueError if it changes meanwhile."""
    before = path.stat()
    if not stat.S_ISREG(before.st_mode):
        raise ValueError("it is not a file")
    content = path.read_bytes()
    after = path.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise ValueError("it changed while it was read; index it again")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeEncodeError):
        return "its name is not Unicode: rename it"
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
