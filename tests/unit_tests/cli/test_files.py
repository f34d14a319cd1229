"""Finding and reading files, and the reasons for those that cannot be read."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable
from pathlib import Path

import docx
import pytest
from fpdf import FPDF
from langchain_core.documents import Document

from langchain_rse.cli.files import Files

GERMAN = "Über die Größe der Bäume im Frühling schreibt er nichts."
RUSSIAN = "Привет, как дела? Это простой текст на русском языке о кошках и собаках."  # noqa: RUF001


def read(*paths: Path, encoding: str | None = None) -> tuple[list[Document], Files]:
    files = Files(encoding)
    return list(files.read(files.find(paths))), files


def text_of(path: Path, content: bytes, **options: str) -> tuple[str, Files]:
    path.write_bytes(content)
    documents, files = read(path, **options)
    assert not files.failures
    return "".join(document.page_content for document in documents), files


def pdf(path: Path, *pages: str, password: str | None = None) -> Path:
    writer = FPDF()
    writer.set_font("Helvetica", size=12)
    for page in pages:
        writer.add_page()
        writer.multi_cell(0, text=page)
    if password is not None:
        writer.set_encryption("the owner's", user_password=password)
    writer.output(str(path))
    return path


def lines_pdf(path: Path, *pages: Iterable[str]) -> Path:
    return pdf(path, *map("\n".join, pages))


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("text", encoding="utf-8")


# Encodings


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode_is_read_as_it_is(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith(("-le", "-be")) else ""
    text, files = text_of(tmp_path / "notes.txt", f"{mark}{GERMAN}\r\n{RUSSIAN}".encode(encoding))
    assert text == f"{GERMAN}\r\n{RUSSIAN}"
    assert not files.notes


@pytest.mark.parametrize(
    ("text", "encoding", "reported"),
    [
        (GERMAN, "latin-1", "cp1252"),
        ("The “café” costs 3 €.", "cp1252", "cp1252"),
        ("All is written in plain English here.\n" * 99 + "It costs 50 £.", "latin-1", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
        ("これは日本語の文章です。猫は一日中寝ています。", "shift_jis", "shift_jis"),
    ],
)
def test_other_encodings_are_guessed_and_reported(
    tmp_path: Path, text: str, encoding: str, reported: str
) -> None:
    decoded, files = text_of(tmp_path / "notes.txt", text.encode(encoding))
    assert decoded == text
    assert files.notes == [f"notes.txt: read as {reported} (a guess; set it with --encoding)"]


# Kinds of files


def test_html(tmp_path: Path) -> None:
    page = """<!DOCTYPE html><html><head><title>About
    pets</title><style>p { color: red }</style></head><body><script>var x = 1;</script>
    <h1>Pets</h1><p>Cats <b>sleep</b>.</p><p>Dogs bark.</p><ul><li>one</li><li>two</li></ul>
    first<br>second</body></html>"""
    path = tmp_path / "pets.HTML"
    path.write_text(page, encoding="utf-8")
    (document,) = read(path)[0]
    assert document.metadata == {"source": str(path), "title": "About pets"}
    lines = [line.strip() for line in document.page_content.splitlines() if line.strip()]
    assert lines == [*("# Pets", "Cats sleep.", "Dogs bark.", "- one", "- two", "first", "second")]


def test_html_is_read_as_it_declares(tmp_path: Path) -> None:
    page = f'<html><head><meta charset="koi8-r"></head><p>{RUSSIAN}</p></html>'
    text, files = text_of(tmp_path / "a.htm", page.encode("koi8-r"))
    assert text == RUSSIAN
    assert not files.notes
    page = f'<?xml version="1.0" encoding="koi8-r"?><p>{RUSSIAN}</p>'
    assert text_of(tmp_path / "a.xml", page.encode("koi8-r"))[0] == page
    # The declared encoding may be wrong or unknown.
    for declared in ("ascii", "no-such"):
        page = f'<meta charset="{declared}"><p>{GERMAN}'
        assert text_of(tmp_path / "b.html", page.encode())[0] == GERMAN
    xhtml = f'<?xml version="1.0" encoding="utf-8"?><html><p>{GERMAN}</p></html>'
    assert GERMAN in text_of(tmp_path / "c.html", xhtml.encode())[0]


def test_headings_and_tables_of_a_word_file(tmp_path: Path) -> None:
    path = tmp_path / "pets.docx"
    word = docx.Document()
    word.add_heading("Pets", 1)
    word.add_paragraph("Cats sleep.")
    word.add_heading("Legs", 2)
    table = word.add_table(3, 2)
    for row, cells in enumerate([("Pet", "Legs"), ("cat", "4"), ("bird", "2")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    word.add_paragraph("One", style="List Number")
    word.save(str(path))
    (document,) = read(path)[0]
    assert document.metadata == {"source": str(path)}
    assert [line for line in document.page_content.split("\n") if line] == [
        *("# Pets", "Cats sleep.", "## Legs", "| Pet | Legs |", "| cat | 4 |", "| bird | 2 |"),
        "1. One",
    ]


def test_pages_of_a_pdf(tmp_path: Path) -> None:
    documents, _ = read(pdf(tmp_path / "a.pdf", "First.", "Second."))
    assert [document.page_content for document in documents] == ["First.", "Second."]
    assert [document.metadata["page"] for document in documents] == [0, 1]
    assert {document.metadata["total_pages"] for document in documents} == {2}


def test_lines_and_divided_words_of_a_pdf(tmp_path: Path) -> None:
    lines = ("Cats are found in all para-", "graphs of this text.", "Dogs are not.")
    (document,), _ = read(lines_pdf(tmp_path / "a.pdf", lines))
    assert document.page_content.endswith("in all\nparagraphs of this text.\nDogs are not.")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["The part X-", "100 is here."], "The part X-100 is here."),
        (["The error E-", "1042 is here."], "The error E-1042 is here."),
        (["It was Smith-", "Jones again."], "It was Smith-Jones again."),
        (["The non-", "European birds."], "The non-European birds."),
        (["A well-known bird, well-", "known to all."], "A well-known bird, well-known to all."),
        (["Herons of the COVID-", "years, and e-", "mails."], "COVID-years, and e-mails."),
        (["Ab-", "leitung, An-", "wendung."], "Ableitung, Anwendung."),
        (["in-", "for-", "ma-", "tion"], "information"),
        (["A SEQUENCE, or a SE-", "QUENCE."], "A SEQUENCE, or a SEQUENCE."),
        (["From McDonald, Mc-", "Donald and Mac-", "Arthur."], "McDonald and Mac-Arthur."),
        (
            ["An Email, an E-", "mail of X100, X-100 or X-", "100."],
            "Email of X100, X-100 or X-100.",
        ),
    ],
)
def test_hyphens_at_line_ends_of_a_pdf(tmp_path: Path, lines: list[str], expected: str) -> None:
    (document,), _ = read(lines_pdf(tmp_path / "a.pdf", lines))
    assert " ".join(document.page_content.split()).endswith(expected)


BODIES = [f"{text}." for text in ("A heron waits", "A carp", "A pike", "It rains", "B", "End")]


@pytest.mark.parametrize(
    ("heads", "feet"),
    [
        (["Annual Report 2023 Confidential"] * 6, [f"Page {n} of 6" for n in range(1, 7)]),
        (["Annual Report", "Chapter 1"] * 3, ["- 7 -"] * 6),
        (["", *["Annual Report"] * 5], ["", *[str(n) for n in range(2, 7)]]),
        (["Report 7", "8 Birds", "Birds 9", "10 Fish", "11 Fish", "12"], [""] * 6),
        (["Birds"] * 6, [f"Report 2 {name}, page {n} of 9" for n, name in enumerate("aabbcd", 3)]),
    ],
)
def test_running_heads_and_feet_of_a_pdf_are_left_out(
    tmp_path: Path, heads: list[str], feet: list[str]
) -> None:
    pages = [
        [head, body, "Each page says this in its text.", body, body, body, foot]
        for head, body, foot in zip(heads, BODIES, feet, strict=True)
    ]
    path = lines_pdf(tmp_path / "a.pdf", *pages)
    documents, files = read(path)
    text = "\n".join(document.page_content for document in documents)
    assert [document.page_content.split("\n")[0].strip() for document in documents] == BODIES
    assert text.count("Each page") == 6
    assert "Report" not in text
    assert f"(keep it with --running-heads): {next(filter(None, heads))}" in files.notes[0]
    kept = Files(keep_running=True)
    text = "\n".join(document.page_content for document in kept.read([path]))
    assert all(line in text for line in [*heads, *feet])
    assert not kept.notes


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=repr)
def test_running_heads_of_a_text_with_form_feeds_are_left_out(
    tmp_path: Path, line_end: str
) -> None:
    pages = []
    for number, body in enumerate(BODIES, 8):  # the white space depends on the number
        foot = f"Heron{'Standard':>20}{f'[Page {number}]':>20}"
        pages.append(line_end.join(["", "RFC 9000    May", "", body, "Birds.", body, "", foot, ""]))
    content = "\f".join(pages).encode()
    text, files = text_of(tmp_path / "a.txt", content)
    assert text.split() == " ".join(f"{body} Birds. {body}" for body in BODIES).split()
    assert re.search(r": RFC 9000 +May, Heron ", files.notes[0])
    # Form feeds in code separate sections.
    assert text_of(tmp_path / "a.c", content)[0].encode() == content


def test_pages_without_other_text_and_different_lines_are_kept(tmp_path: Path) -> None:
    path = lines_pdf(tmp_path / "a.pdf", *[["Form A"]] * 4, *[[body] for body in BODIES])
    documents, files = read(path)
    assert [each.page_content for each in documents] == ["Form A"] * 4 + BODIES
    assert not files.notes
    # Pages of the same text but for numbers have no heads.
    path = lines_pdf(tmp_path / "c.pdf", *[[f"Form {number}, field"] * 9 for number in "1234"])
    documents, files = read(path)
    assert [each.page_content.count("field") for each in documents] == [9] * 4
    assert not files.notes
    # Nor are numbered titles of slides, of which one goes on.
    slides = [f"{number}. {title}" for number, title in enumerate("abcddefg", 1)]
    path = lines_pdf(tmp_path / "d.pdf", *[[slide, *BODIES] for slide in slides])
    documents, files = read(path)
    assert [each.page_content.split("\n")[0] for each in documents] == slides
    # Two pages are too few.
    documents, _ = read(lines_pdf(tmp_path / "b.pdf", ["Head", "One."], ["Head", "Two."]))
    assert all("Head" in document.page_content for document in documents)


def test_encrypted_pdfs(tmp_path: Path) -> None:
    # Without a user's password anybody may read it: the owner's is for changing it.
    open_to_all = pdf(tmp_path / "open.pdf", "Anybody.", password="")
    closed = pdf(tmp_path / "closed.pdf", "Nobody.", password="a")  # noqa: S106
    documents, files = read(open_to_all, closed)
    assert [document.page_content for document in documents] == ["Anybody."]
    assert list(files.failures) == [closed]
    assert "password" in files.failures[closed]


# Folders, and what cannot be read


def test_a_folder_is_searched_and_other_files_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "sub/b.MD", "sub/c.png", "d.PNG", "e.xlsx", "Makefile", "kb/a.txt")
    write(tmp_path, "kb/chunks.db")
    files = Files()
    paths = files.find([tmp_path, tmp_path / "a.txt"])
    assert paths == [tmp_path / "Makefile", tmp_path / "a.txt", tmp_path / "sub" / "b.MD"]
    assert files.skipped == {".png": 2, ".xlsx": 1}
    assert not files.failures


def found(folder: Path, files: Files | None = None) -> set[str]:
    paths = (files or Files()).find([folder])
    return {path.relative_to(folder).as_posix() for path in paths}


def test_source_code_and_data_are_text(tmp_path: Path) -> None:
    names = {"a.py", "a.csv", "a.json", "a.jsonl", "a.yaml", "a.xml", "a.ts", "a.SQL", "a.tex"}
    write(tmp_path, *names, "a.exe", "a.pyc", "a.zip")
    assert found(tmp_path) == names
    (tmp_path / "a.csv").write_text("name,town\r\nAda,Oslo\r\n", encoding="utf-8", newline="")
    documents, _ = read(tmp_path / "a.csv")
    assert documents[0].page_content == "name,town\r\nAda,Oslo\r\n"


def test_text_is_found_without_a_suffix(tmp_path: Path) -> None:
    write(tmp_path, "LICENSE", "README", "sub/Makefile", ".env", ".gitignore")
    (tmp_path / "program").write_bytes(b"\x7fELF\x02\x01\x00\x00")
    (tmp_path / "lock").write_bytes(b"")
    (tmp_path / "AUTHORS").write_bytes(f"{GERMAN}\n".encode("latin-1") * 1_000)
    os.mkfifo(tmp_path / "pipe")
    files = Files()
    assert found(tmp_path, files) == {"LICENSE", "README", "sub/Makefile", "AUTHORS"}
    assert files.skipped == {"without extension": 5}  # three that are no text, two hidden
    text, _ = text_of(tmp_path / "LICENSE", b"Permission is granted")
    assert text == "Permission is granted"


def test_numbers_are_no_suffixes(tmp_path: Path) -> None:
    names = {"Apache-2.0", "tar.1", "notes.2024", "v1.2", "CHANGES.3.1"}
    write(tmp_path, *names, "a.7z", "b.so.x1")
    (tmp_path / "libc.6").write_bytes(b"\x7fELF\x02\x01\x00\x00")
    files = Files()
    assert found(tmp_path, files) == names
    assert files.skipped == {".7z": 1, ".x1": 1, ".6": 1}
    assert text_of(tmp_path / "tar.1", b"TAR(1)")[0] == "TAR(1)"


@pytest.mark.parametrize("content", [b"", b" \n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
@pytest.mark.parametrize("name", ["a.txt", "__init__.py", "LICENSE"])
def test_an_empty_file_is_no_failure(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    documents, files = read(path)
    assert "".join(document.page_content for document in documents).strip() == ""
    assert not files.failures
    assert files.empty == [name]


def test_folders_that_programs_write_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        *("a.md", ".git/b.txt", "sub/.cache/b.txt", "node_modules/x/README.md"),
        *("env/pyvenv.cfg", "env/lib/b.txt", "conda/conda-meta/b.json", "conda/b.txt"),
        *("environment/c.txt", "node_modules.md"),
    )
    assert found(tmp_path) == {"a.md", "environment/c.txt", "node_modules.md"}
    # One that the user names is read.
    assert found(tmp_path / ".git") == {"b.txt"}
    assert found(tmp_path / "env" / "lib") == {"b.txt"}


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        *(".git/HEAD", "a.log", "keep.log", "build/b.txt", "sub/build/b.txt", "sub/a.log"),
    )
    patterns = "!\n[z-a]\n*.log\n!keep.log\n/build/\n# *.txt\n"  # Git skips the invalid ones
    (tmp_path / ".gitignore").write_text(patterns, encoding="utf-8")
    assert found(tmp_path) == {"keep.log", "sub/build/b.txt"}
    # A repository's rules hold below it, but not for what the user names.
    assert found(tmp_path / "sub") == {"build/b.txt"}
    assert found(tmp_path / "build") == {"b.txt"}
    files = Files()
    assert files.find([tmp_path / "a.log"]) == [tmp_path / "a.log"]
    (tmp_path / ".git" / "HEAD").unlink()
    (tmp_path / ".git").rmdir()
    assert "a.log" in found(tmp_path / "sub")


def test_a_name_that_is_not_unicode_does_not_stop_the_search(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", os.fsdecode(b"caf\xe9.txt"), os.fsdecode(b"caf\xe9/b.log"))
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    assert found(tmp_path) == {"a.txt", os.fsdecode(b"caf\xe9.txt")}


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.txt", "docs/sub/b.txt", "outside/secret.txt", "docs-too/c.txt")
    docs = tmp_path / "docs"
    (docs / "to_file.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (docs / "sub" / "to_sibling.txt").symlink_to("../../docs-too/c.txt")
    (docs / "to_folder").symlink_to(tmp_path / "outside")
    (docs / "chain.txt").symlink_to(docs / "to_folder" / "secret.txt")
    (docs / "inside.txt").symlink_to(docs / "sub" / "b.txt")
    (docs / "inside").symlink_to(docs / "sub")
    (docs / "up").symlink_to(tmp_path)
    assert Files().find([docs]) == [docs / "a.txt", docs / "sub" / "b.txt"]
    # A link that the user gives is followed.
    (tmp_path / "link").symlink_to(docs)
    for link in (tmp_path / "link", docs / "to_file.txt", docs / "to_folder"):
        assert Files().find([link])


def test_files_that_cannot_be_read_have_a_reason_and_the_others_are_read(tmp_path: Path) -> None:
    reasons = {
        os.fsdecode(b"caf\xe9.txt"): "surrogates not allowed",
        "gone.txt": "No such file or directory",
        "loop.txt": "symbolic link",
        "dangling.txt": "No such file or directory",
        "pipe.txt": "not a regular file",
        "broken.docx": "not a zip file",
        "broken.pdf": "",
        "binary.txt": "not a text file (if it is one, set --encoding)",
        "blank.html": "no text",
    }
    for name in ("gone.txt", "broken.docx", "broken.pdf", "good.txt"):
        (tmp_path / name).write_text("%PDF-1.4 and no more", encoding="utf-8")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("text", encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(b"a\0b")
    (tmp_path / "blank.html").write_text("<p> </p>", encoding="utf-8")
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nothing.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    files = Files()
    paths = files.find([tmp_path])
    (tmp_path / "gone.txt").unlink()  # between finding and reading
    documents = [document for document in files.read(paths) if document.page_content.strip()]
    assert [Path(document.metadata["source"]).name for document in documents] == ["good.txt"]
    failures = {path.name: reason for path, reason in files.failures.items()}
    assert failures.keys() == reasons.keys() - {"dangling.txt"} | {"nothing.txt"}
    for name, reason in reasons.items():
        assert reason in failures["nothing.txt" if name == "dangling.txt" else name]
