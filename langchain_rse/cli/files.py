"""Finds and reads files: text, source code and data, HTML, Word and PDF."""

import contextlib
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from langchain_core.documents import Document

_PROSE = (
    ".txt .text .md .markdown .mdx .rst .adoc .asciidoc .org .tex .bib .log .srt .vtt .diff .patch"
)
_DATA = (
    ".csv .tsv .json .jsonl .ndjson .yaml .yml .toml .ini .cfg .conf .properties .xml .sql "
    ".graphql .proto"
)
_CODE = (
    ".py .pyi .js .jsx .mjs .cjs .ts .tsx .vue .css .scss .java .kt .scala .groovy .c .h .cc .cpp "
    ".cxx .hpp .cs .fs .vb .go .rs .rb .php .pl .pm .lua .r .jl .swift .dart .ex .exs .erl .clj "
    ".hs .ml .sh .bash .zsh .fish .ps1 .bat .tf"
)
_TEXT = frozenset(f"{_PROSE} {_DATA} {_CODE}".split())
_HTML = frozenset({".html", ".htm"})
SUFFIXES = _TEXT | _HTML | {".docx", ".pdf"}
# What makes a folder one that a program writes.
_FOLDERS_OF_PROGRAMS = {
    "pyvenv.cfg": "virtual environment",
    "conda-meta": "virtual environment",
    "chunks.db": "knowledge base",
}
_IGNORED = "ignored by .gitignore"
_KINDS = "text, source code, data such as .csv and .json, HTML, .docx, .pdf"
# The number of bytes that decide whether a file without suffix, such as LICENSE, is text.
_TEXT_WITHIN = 8_192
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")

# The encodings to guess. charset-normalizer knows more, and finds all of them likely for short
# texts.
_ENCODINGS = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("koi8_r", "shift_jis", "euc_jp", "euc_kr", "gb18030", "big5"),
]
# The number of bytes of HTML that may declare its encoding; browsers read 1,024.
_DECLARATION_WITHIN = 8_192

# PDFium puts this in place of the hyphen and line break in a divided word.
_DIVISION = "\ufffe"


@dataclass
class Files:
    """Finds and reads files; records unreadable files and guessed encodings."""

    encoding: str | None = None  # of text files and HTML; None to detect it for each
    failures: dict[Path, str] = field(default_factory=dict)  # unreadable files, with the reason
    guessed: dict[Path, str] = field(default_factory=dict)  # guessed encodings
    skipped: Counter[str] = field(default_factory=Counter)  # counts by suffix or reason

    def find(self, paths: Iterable[Path]) -> list[Path]:
        """List files, and the files in folders, each once."""
        files: list[Path] = []
        for path in paths:
            if not path.is_dir():
                files.append(path)
                continue
            files_in_folder = self._files_in(path.resolve())
            files += sorted(files_in_folder)
            if not files_in_folder and path.resolve() not in self.failures:
                self.failures[path] = f"no files of a known kind ({_KINDS})"
        real_paths = [Path(os.path.realpath(file)) for file in files]
        return list(dict.fromkeys(real_paths))

    def _files_in(self, folder: Path) -> list[Path]:
        """List the files of known kinds in a folder and its subfolders; count the others."""

        def note(error: OSError) -> None:
            self.failures[Path(str(error.filename))] = _reason(error)

        git_ignore = _GitIgnore(folder)
        files = []
        for parent, folders, names in os.walk(folder, onerror=note):
            for name in list(folders):
                reason = _reason_to_skip(Path(parent, name), git_ignore)
                if reason:
                    self.skipped[reason] += 1
                    folders.remove(name)  # os.walk does not enter it
            for name in names:
                path = Path(parent, name)
                suffix = path.suffix.lower()
                if not Path(os.path.realpath(path)).is_relative_to(folder):
                    self.skipped["links out of the folder"] += 1
                elif git_ignore.ignores(path):
                    self.skipped[_IGNORED] += 1
                elif suffix in SUFFIXES or _is_text_without_suffix(path):
                    files.append(path)
                else:
                    self.skipped[suffix or "without extension"] += 1
        return files

    def read(self, files: Iterable[Path]) -> Iterator[Document]:
        """Read files one by one; unreadable ones go into ``failures``, with the reason."""
        for path in files:
            try:
                documents = self._load(path)
            except Exception as error:  # noqa: BLE001 - readers of PDF and DOCX raise any error
                self.failures[path] = _reason(error)
                continue
            if not any(document.page_content.strip() for document in documents):
                self.failures[path] = "no text (a scan needs OCR first)"
            yield from documents

    def _load(self, path: Path) -> list[Document]:
        """Read a file's Documents: one for each page of a PDF, one for any other file."""
        source = str(path)
        source.encode()  # raises an error for file names that are not Unicode
        content = _content(path)
        suffix = path.suffix.lower()
        if suffix == ".pdf":
            return _load_pdf(content, source)
        metadata = {"source": source}
        if suffix not in _HTML and suffix != ".docx":
            return [Document(self._decode(content, path), metadata=metadata)]
        from langchain_rse.cli.webpages import read_html

        if suffix == ".docx":
            html = _html_of_word(content)
        else:
            html = self._decode(content, path, is_html=True)
        text, title = read_html(html)
        if title:
            metadata["title"] = title
        return [Document(text, metadata=metadata)]

    def _decode(self, content: bytes, path: Path, *, is_html: bool = False) -> str:
        """Decode the content of a text file; record the encoding if it is guessed."""
        if self.encoding:
            return content.decode(self.encoding).removeprefix("\ufeff")
        from bs4.dammit import EncodingDetector

        content, marked = EncodingDetector.strip_byte_order_mark(content)
        if marked:
            return content.decode(marked)
        if b"\0" in content:
            raise ValueError("not a text file (if it is one, set --encoding)")
        encodings = ["utf-8"]
        if is_html:
            declared = EncodingDetector.find_declared_encoding(
                content[:_DECLARATION_WITHIN], is_html=True, search_entire_document=True
            )
            if declared:
                encodings.insert(0, declared)
        for encoding in encodings:
            # The declared encoding may be wrong.
            with contextlib.suppress(LookupError, UnicodeDecodeError):
                return content.decode(encoding)
        encoding = _guess_encoding(content)
        self.guessed[path] = encoding.replace("cp125", "windows-125").replace("_", "-")
        return content.decode(encoding, "replace")


class _GitIgnore:
    """The ``.gitignore`` file of a folder's repository, or of the folder outside of one.

    If it ignores the folder itself, it does not apply: the user has named the folder.
    """

    def __init__(self, folder: Path) -> None:
        from pathspec import GitIgnoreSpec

        repositories = [each for each in (folder, *folder.parents) if (each / ".git").exists()]
        self._root = repositories[0] if repositories else folder
        self._spec = GitIgnoreSpec([])
        file = self._root / ".gitignore"
        if not os.access(file, os.R_OK):
            return
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):  # an invalid pattern; Git skips it, too
                self._spec += GitIgnoreSpec.from_lines([line])
        if folder != self._root and self.ignores(folder, "/"):
            self._spec = GitIgnoreSpec([])

    def ignores(self, path: Path, end: str = "") -> bool:
        """Tell whether a path is ignored; the paths of folders end with a slash."""
        relative = path.relative_to(self._root).as_posix() + end
        # google-re2, which pathspec uses if it is installed, only takes names that are Unicode.
        return self._spec.match_file(relative.encode("utf-8", "replace").decode())


def _reason_to_skip(folder: Path, git_ignore: _GitIgnore) -> str:
    """Return the reason why a subfolder is not searched; empty if it is."""
    if folder.name.startswith("."):
        return "hidden folder"
    if folder.name == "node_modules":
        return "node_modules"
    for name, reason in _FOLDERS_OF_PROGRAMS.items():
        # Unlike Path.exists, this is False in folders without access rights.
        if os.path.exists(folder / name):  # noqa: PTH110
            return reason
    return _IGNORED if git_ignore.ignores(folder, "/") else ""


def _is_text_without_suffix(path: Path) -> bool:
    """Return True for text files such as LICENSE and Makefile, and for unreadable files.

    Hidden files, such as .env, are not read.
    """
    if path.suffix or path.name.startswith(".") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            beginning = file.read(_TEXT_WITHIN)
    except OSError:
        return True
    return bool(beginning.strip()) and _NO_TEXT.search(beginning) is None


def _guess_encoding(content: bytes) -> str:
    """Guess an encoding; among equally likely ones windows-1252, the most frequent."""
    import charset_normalizer

    def rank(match: charset_normalizer.CharsetMatch) -> tuple[float, float, bool]:
        return match.chaos, -match.coherence, "cp1252" not in match.could_be_from_charset

    matches = charset_normalizer.from_bytes(content, cp_isolation=_ENCODINGS)
    best = min(matches, key=rank, default=None)
    if best is None or "cp1252" in best.could_be_from_charset:
        return "cp1252"
    return best.could_be_from_charset[0]


def _html_of_word(content: bytes) -> str:
    """Convert a Word file, with its headings and tables and without its pictures."""
    import mammoth

    no_pictures = mammoth.images.img_element(lambda _: {})
    html: str = mammoth.convert_to_html(io.BytesIO(content), convert_image=no_pictures).value
    return html


def _load_pdf(content: bytes, source: str) -> list[Document]:
    import pypdfium2

    documents = []
    with contextlib.closing(pypdfium2.PdfDocument(content)) as pdf:
        for number, page in enumerate(pdf):
            text = page.get_textpage().get_text_range().replace("\r\n", "\n")
            metadata = {"source": source, "page": number, "total_pages": len(pdf)}
            documents.append(Document(text.replace(_DIVISION, ""), metadata=metadata))
    return documents


def _content(path: Path) -> bytes:
    """Read the bytes of a file; a ValueError for pipes and devices, which may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not a regular file")
    return path.read_bytes()


def _reason(error: Exception) -> str:
    """Return the reason why a file cannot be read."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
