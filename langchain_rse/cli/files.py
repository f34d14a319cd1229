"""Finds and reads files: text, source code and data, HTML, Word and PDF."""

import codecs
import contextlib
import io
import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from langchain_rse.text.quoting import first_few, shortened

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
_MARKED_UP = frozenset({".html", ".htm", ".docx", ".pdf"})
_SUFFIXES = _MARKED_UP.union(f"{_PROSE} {_DATA} {_CODE}".split())
# What virtual environments and knowledge bases contain.
_IN_FOLDERS_OF_PROGRAMS = ("pyvenv.cfg", "conda-meta", "chunks.db")
_KINDS = "text, source code, data such as .csv and .json, HTML, .docx, .pdf"
# The number of bytes that decide whether a file without suffix, such as LICENSE, is text.
_TEXT_WITHIN = 8_192
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")

# The encodings to guess. charset-normalizer knows more, and finds all of them likely for short
# texts.
_ENCODINGS = (
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 "
    "koi8_r shift_jis euc_jp euc_kr gb18030 big5"
)
# The number of bytes that may declare the encoding; browsers read 1,024.
_DECLARATION_WITHIN = 8_192

# PDFium puts U+FFFE in place of the hyphen and line break in a divided word.
_DIVISION = re.compile(" ?(?<![\\w-])(?P<left>[\\w-]*+)\ufffe(?=(?P<right>[\\w-]*))")
_WORD = re.compile(r"[\w-]+")
# Lines of a page that are compared with those of other pages, at its top and at its bottom.
_EDGE_LINES = 3
# A line is a running head or foot if it is on this share of the pages, and on so many.
_RUNNING_SHARE = 0.4  # heads of odd and even pages may differ
_FEWEST_RUNNING = 3
# Of lines that number the pages, at most this share differ apart from digits.
_MOST_DISTINCT = 0.7
_DIGITS = re.compile(r"\d+")
_LONGEST_LINE = 60  # of a page, in a note


@dataclass
class Files:
    """Finds and reads files; records unreadable files, and what else the user should know."""

    encoding: str | None = None  # of text files and HTML; None to detect it for each
    failures: dict[Path, str] = field(default_factory=dict)  # unreadable files, with the reason
    keep_running: bool = False  # whether to keep running heads and feet of pages
    notes: list[str] = field(default_factory=list)  # on guessed encodings and text left out
    skipped: Counter[str] = field(default_factory=Counter)  # counts of other files by suffix
    empty: list[str] = field(default_factory=list)  # names of files without text

    def find(self, paths: Iterable[Path]) -> list[Path]:
        """List files, and the files in folders, each once."""
        found = []
        for path in paths:
            files = sorted(self._files_in(path.resolve())) if path.is_dir() else [path]
            if not files:
                self.failures.setdefault(path.resolve(), f"no files of a known kind ({_KINDS})")
            found += [Path(os.path.realpath(file)) for file in files]
        return list(dict.fromkeys(found))

    def _files_in(self, folder: Path) -> list[Path]:
        """List the files of known kinds in a folder and its subfolders; count the others."""
        unreadable: list[OSError] = []
        is_ignored = _git_rules(folder)
        files = []
        for parent, folders, names in os.walk(folder, onerror=unreadable.append):
            for name in list(folders):
                path = Path(parent, name)
                is_hidden = name.startswith(".") or name == "node_modules"
                # Unlike Path.exists, this is False in folders without access rights.
                is_of_program = any(os.path.exists(path / mark) for mark in _IN_FOLDERS_OF_PROGRAMS)  # noqa: PTH110
                if is_hidden or is_of_program or is_ignored(path, "/"):
                    folders.remove(name)  # os.walk does not enter it
            for name in names:
                path = Path(parent, name)
                suffix = path.suffix.lower()
                is_inside = Path(os.path.realpath(path)).is_relative_to(folder)  # if it is a link
                if not is_inside or is_ignored(path):
                    continue
                if suffix in _SUFFIXES or _is_text_without_suffix(path):
                    files.append(path)
                else:
                    self.skipped[suffix or "without extension"] += 1
        self.failures |= {Path(error.filename): _reason(error) for error in unreadable}
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
                if path.suffix.lower() in _MARKED_UP:
                    self.failures[path] = "no text (a scan needs OCR first)"
                else:
                    self.empty.append(path.name)
            yield from documents

    def _load(self, path: Path) -> list[Document]:
        """Read a file's Documents: one for each page of a PDF, one for any other file."""
        source = str(path)
        source.encode()  # raises an error for file names that are not Unicode
        if path.exists() and not path.is_file():
            raise ValueError("not a regular file")  # a pipe or a device, which may never end
        content = path.read_bytes()
        suffix = path.suffix.lower()
        if suffix == ".pdf":
            return self._load_pdf(content, path)
        metadata = {"source": source}
        if suffix in _MARKED_UP:
            from langchain_rse.cli.webpages import read_html

            if suffix == ".docx":
                import mammoth

                no_pictures = mammoth.images.img_element(lambda _: {})
                word = mammoth.convert_to_html(io.BytesIO(content), convert_image=no_pictures)
                html = word.value
            else:
                html = self._decode(content, path)
            text, title = read_html(html)
            if title:
                metadata["title"] = title
        else:
            text = self._decode(content, path)
            pages = text.split("\f") if suffix == ".txt" else []
            shorter = self._without_running(pages, path)
            if shorter != pages:
                text = "\n\n".join(page.strip("\n") for page in shorter)
        return [Document(text, metadata=metadata)]

    def _load_pdf(self, content: bytes, path: Path) -> list[Document]:
        import pypdfium2

        with contextlib.closing(pypdfium2.PdfDocument(content)) as pdf:
            pages = [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in pdf]
        documents = []
        for number, text in enumerate(self._without_running(_join_divided(pages), path)):
            metadata = {"source": str(path), "page": number, "total_pages": len(pages)}
            documents.append(Document(text, metadata=metadata))
        return documents

    def _without_running(self, pages: Sequence[str], path: Path) -> Sequence[str]:
        """Leave out running heads and feet, and record them, unless they are to be kept.

        These are the outermost lines that most pages have at the same place, apart from digits and
        white space, or that number the pages.
        """
        if self.keep_running:
            return pages
        lines_of_pages = [page.split("\n") for page in pages]
        running: list[str] = []
        for _ in range(2):  # heads, then feet: the lines of the reversed pages
            shorter = [list(lines) for lines in lines_of_pages]
            removed = [_remove_first_lines(shorter) for _ in range(_EDGE_LINES + 1)]
            if not removed[-1]:  # else the pages are alike, such as forms
                lines_of_pages = shorter
                running += itertools.chain(*removed)
            for lines in lines_of_pages:
                lines.reverse()
        if running:
            lines = [shortened(line, _LONGEST_LINE) for line in dict.fromkeys(running)]
            self.notes.append(
                f"{path.name}: left out what repeats at the top or bottom of pages (keep it with "
                f"--running-heads): {first_few(lines)}"
            )
        return ["\n".join(lines) for lines in lines_of_pages]

    def _decode(self, content: bytes, path: Path) -> str:
        """Decode the content of a text file; record the encoding if it is guessed."""
        if self.encoding:
            return content.decode(self.encoding).removeprefix("\ufeff")
        from bs4.dammit import EncodingDetector

        if content in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return ""
        content, marked = EncodingDetector.strip_byte_order_mark(content)
        if marked:
            return content.decode(marked)
        if b"\0" in content:
            raise ValueError("not a text file (if it is one, set --encoding)")
        beginning = content[:_DECLARATION_WITHIN]  # of HTML or XML
        is_html = path.suffix.lower() in _MARKED_UP
        declared = EncodingDetector.find_declared_encoding(beginning, is_html=is_html)
        for encoding in (declared or "utf-8", "utf-8"):
            # The declared encoding may be wrong.
            with contextlib.suppress(LookupError, UnicodeDecodeError):
                return content.decode(encoding)
        encoding = _guess_encoding(content)
        self.notes.append(f"{path.name}: read as {encoding} (a guess; set it with --encoding)")
        return content.decode(encoding, "replace")


def _git_rules(folder: Path) -> Callable[..., bool]:
    """Make a function that tells whether Git ignores a path; those of folders get a slash.

    The rules are in the ``.gitignore`` file of the folder's repository, or of the folder outside of
    one. If they ignore the folder itself, they do not apply: the user has named the folder.
    """
    from pathspec import GitIgnoreSpec

    parents = (folder, *folder.parents)
    root = next((each for each in parents if os.path.exists(each / ".git")), folder)  # noqa: PTH110
    text = ""
    with contextlib.suppress(OSError):
        text = (root / ".gitignore").read_text(encoding="utf-8", errors="replace")
    patterns: list[Any] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, re.error):  # such as "!": Git passes over it
            patterns += GitIgnoreSpec.from_lines([line]).patterns
    rules = GitIgnoreSpec(patterns)

    def is_ignored(path: Path, end: str = "") -> bool:
        relative = path.relative_to(root).as_posix() + end
        # google-re2, which pathspec uses if it is installed, only takes names that are Unicode.
        return rules.match_file(relative.encode("utf-8", "replace").decode())

    if folder != root and is_ignored(folder, "/"):
        rules = GitIgnoreSpec([])
    return is_ignored


def _is_text_without_suffix(path: Path) -> bool:
    """Return True for text files such as LICENSE and Apache-2.0, and for unreadable files.

    A number is no suffix. Hidden files, such as .env, are not read.
    """
    has_suffix = any(map(str.isalpha, path.suffix))
    if has_suffix or path.name.startswith(".") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            beginning = file.read(_TEXT_WITHIN)
    except OSError:
        return True
    has_text = bool(beginning.removeprefix(codecs.BOM_UTF8).strip())
    return has_text and _NO_TEXT.search(beginning) is None


def _guess_encoding(content: bytes) -> str:
    """Guess an encoding; among equally likely ones cp1252, the most frequent."""
    from charset_normalizer import from_bytes

    # Much ASCII around a few other bytes would make every encoding likely.
    lines = [line for line in content.splitlines() if not line.isascii()]
    best = min(
        from_bytes(b"\n".join(lines), cp_isolation=_ENCODINGS.split()),
        key=lambda each: (each.chaos, -each.coherence, "cp1252" not in each.could_be_from_charset),
        default=None,
    )
    encodings = ["cp1252"] if best is None else best.could_be_from_charset
    return "cp1252" if "cp1252" in encodings else encodings[0]


def _join_divided(pages: Sequence[str]) -> list[str]:
    """Join the words that line ends divide, without the hyphen if it is not part of the word.

    The line ends before the word, so that lines keep their width. The hyphen is part of the word
    between other characters than small letters (X-100, non-European), after a single letter
    (e-mail), and where the document writes the word with a hyphen elsewhere.
    """
    words = {word.lower() for page in pages for word in _WORD.findall(page)}

    def join(division: re.Match[str]) -> str:
        left, right = division["left"], division["right"]
        is_between_small = left[-1:].islower() and right[:1].islower()
        is_written_whole = f"{left}{right}".lower() in words
        is_written_with_hyphen = f"{left}-{right}".lower() in words
        is_word = is_written_whole or (len(left) > 1 and is_between_small)
        is_divided = is_word and not is_written_with_hyphen
        line_end = "\n" if division[0].startswith(" ") else ""
        return f"{line_end}{left}" if is_divided else f"{line_end}{left}-"

    return [_DIVISION.sub(join, page) for page in pages]


def _remove_first_lines(pages: Sequence[list[str]]) -> list[str]:
    """Remove the first lines that most pages have, and return one of each."""
    keys_of: dict[int, set[str | int]] = {}  # by page
    forms_by_key: defaultdict[str | int, list[str]] = defaultdict(list)
    for page, lines in enumerate(pages):
        if len(lines) > 1:
            form = _without_digits(lines[0])
            numbers = _DIGITS.findall(lines[0])
            # Lines that number the pages have the same difference, whatever stands beside it.
            keys_of[page] = {form, *(int(number[:9]) - page for number in numbers)}
            for key in keys_of[page]:
                forms_by_key[key].append(form)
    fewest = max(_RUNNING_SHARE * len(pages), _FEWEST_RUNNING)
    running: set[str | int] = set()
    for key, forms in forms_by_key.items():
        # Numbered lines that all differ are no heads: they may be the titles of slides.
        if len(forms) >= fewest and len(set(forms)) <= _MOST_DISTINCT * len(forms):
            running.add(key)
    removed: dict[str, str] = {}
    for page, keys in keys_of.items():
        if running & keys:
            line = pages[page].pop(0)
            removed.setdefault(_without_digits(line), line.strip())
    return [line for line in removed.values() if line]


def _without_digits(line: str) -> str:
    # In any order: the number of a page is on its outer side.
    return " ".join(sorted(_DIGITS.sub("0", line).split()))


def _reason(error: Exception) -> str:
    """Return the reason why a file cannot be read."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
