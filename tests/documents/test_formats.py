"""PDF, HTML and Word files as documents: their text, their limits, and what is refused by name."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.documents import DocumentFile, DocumentText, UnreadFile, find_files, formats, read
from forged.documents.converter import NoTextError, convert
from forged.documents.reading import MOST_BYTES
from tests.documents import files
from tests.support.daemon import processes_with

PDF = files.pdf("Deploy\nOn Mondays we sail.", "Make back.", bookmarks=[("Deploy", 0), ("Roll back", 1)])
HTML = files.HTML.encode()
DOCX = files.docx(
    ("Title", "Handbook"),
    ("Heading 1", "Deploy"),
    ("", "On Mondays."),
    ("Heading 2", "Roll back"),
    ("", "No."),
)
LAUGHS = (
    b"<!DOCTYPE w [<!ENTITY a 'ha'>"
    + b"".join(b"<!ENTITY %c '%s'>" % (98 + at, b"&%c;" % (97 + at) * 20) for at in range(9))
    + b"]><w>&j;</w>"
)
PLAIN = b"# Plain\n\nA text with %PDF- and <html> in it.\n"


def got(folder: Path, name: str, data: bytes) -> str | UnreadFile:
    """The text of a file that a person names, or why there is none."""
    (folder / name).write_bytes(data)
    found = read(DocumentFile("d", str(folder / name), is_named=True))
    return found.text if isinstance(found, DocumentText) else found


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.pdf", PDF, "# Deploy\n\nOn Mondays we sail.\n\n# Roll back\n\nMake back.\n"),
        (
            "a.html",
            HTML,
            (
                "# Deploy\n\nOn Mondays &\nnever later.\n\n## Roll back\n\n- make back\n- tell the team\n\n"
                "| who | when |\n| --- | --- |\n| ada | noon |\n"
            ),
        ),
        ("a.docx", DOCX, "# Handbook\n\n# Deploy\n\nOn Mondays.\n\n## Roll back\n\nNo.\n"),
        ("a.xhtml", b"<?xml version='1.0'?>\n<html><title>Menu</title><p>Tea.</html>", "# Menu\n\nTea.\n"),
        ("a.htm", b"<h2>Tea</h2>at four", "## Tea\n\nat four\n"),
        ("a.html", "<!doctype html><p>Käse 茶".encode("utf-16"), "Käse 茶\n"),
        ("a.html", b'<!doctype html><meta charset="iso-8859-1"><p>K\xe4se', "Käse\n"),
    ],
    ids=lambda each: each if isinstance(each, str) and len(each) < 9 else "",
)
def test_the_text_is_markdown_with_its_headings(tmp_path, name, data, text):
    (tmp_path / name).write_bytes(data)

    (found,) = map(read, find_files(str(tmp_path), "docs"))

    assert found == DocumentText(f"docs/{name}", text, True)


# --- content before name -----------------------------------------------------------------------------------

CONTENTS = {"pdf": PDF, "html": HTML, "docx": DOCX, "plain": PLAIN}
MARKS = {"pdf": "On Mondays we sail.", "html": "make back", "docx": "On Mondays.", "plain": "A text with"}
SUFFIXES = (".md", ".txt", ".pdf", ".html", ".docx", ".bin", "")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", CONTENTS)
def test_the_content_says_what_a_file_is_whatever_it_is_called(tmp_path, content, suffix):
    """No file of these formats is a document as raw text, and no plain text is taken for one of them."""
    found = got(tmp_path, f"a{suffix}", CONTENTS[content])

    if content == "plain" and suffix in {".pdf", ".docx"}:
        assert isinstance(found, UnreadFile)
        assert f"ends in {suffix}" in found.why or "cannot be read as PDF" in found.why
    else:
        assert isinstance(found, str)
        assert MARKS[content] in found
        assert not any(raw in found for raw in ("/Type", "<p>", "<script", "w:t", "alert("))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.pdf", files.pdf("", ""), "it seems to be scanned"),
        ("a.pdf", files.pdf("x")[:300], "cannot be read as PDF"),
        ("a.pdf", files.encrypted_pdf("secret", "key"), "it is encrypted"),
        ("a.pdf", files.bomb_pdf(300 << 20), "cannot be read as PDF"),
        ("a.html", b"<!doctype html><body><script>x()</script></body>", "there is no text in it"),
        ("a.html", b"<!doctype html>" + b"<div>" * 30_000 + b"x", "too deeply nested"),
        ("a.docx", b"PK\x03\x04 and no more", "it is damaged"),
        ("a.docx", files.docx(("", "x"), more={"word/big.xml": bytes(200 << 20)}), "unpacks to more than"),
        ("a.docx", files.docx(("", "")), "there is no text in it"),
        ("a.docx", files.docx(("", "x"), more={"word/document.xml": LAUGHS}), "cannot be read as Word"),
        ("a", files.zipped({"a.txt": b"x"}), "a zip file, and no Word document"),
        ("a.docx", files.zipped({"a.txt": b"x"}), "a zip file, and no Word document"),
        ("a", b"{\\rtf1\\ansi Hello}", "an RTF file"),
        ("a.md", b"%!PS-Adobe-3.0\n(Hello) show", "a PostScript file"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 Hello", "an old Office program"),
        ("a.html", b"", "it is empty"),
        ("a.pdf", b"", "it is empty"),
        ("a.html", b"<!doctype html>" + b"<p>" + b"word " * (MOST_BYTES // 4), "larger than 900 KiB"),
        ("a.pdf", PDF + bytes(33 << 20), "larger than 32 MiB"),
    ],
    ids=range(19),
)
def test_a_file_without_a_usable_text_is_refused_with_the_reason(tmp_path, name, data, why):
    found = got(tmp_path, name, data)

    assert isinstance(found, UnreadFile)
    assert why in found.why


def test_a_pdf_that_is_only_protected_against_changes_is_read(tmp_path):
    assert "Sail" in got(tmp_path, "a.pdf", files.encrypted_pdf("Sail at noon.", ""))


@pytest.mark.parametrize(
    ("name", "data", "packages"),
    [("a.pdf", PDF, ("pypdf",)), ("a", HTML, ("lxml", "markdownify")), ("a.docx", DOCX, ("mammoth",))],
)
def test_without_the_packages_a_file_is_refused_by_name_and_never_raw_text(
    tmp_path, monkeypatch, name, data, packages
):
    find = formats.importlib.util.find_spec
    monkeypatch.setattr(
        formats.importlib.util, "find_spec", lambda each: None if each in packages else find(each)
    )
    found = got(tmp_path, name, data)

    assert isinstance(found, UnreadFile)
    assert (found.lacks, "the extra `documents` is not installed" in found.why) == ("documents", True)


# --- the process -----------------------------------------------------------------------------------------


def reading_by(monkeypatch, script: str) -> None:
    """Have files read by this program in place of the converter."""
    monkeypatch.setattr(formats, "_COMMAND", (sys.executable, "-c", script))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed (SIGSEGV)"),
        ("import sys; sys.exit(3)", "failed (exit code 3)"),
        ("while True: print('x' * 99_999)", "its text is larger than 900 KiB"),
        ("import sys; print('because\\n' * 999); sys.exit(65)", "because"),
    ],
)
def test_a_process_that_fails_or_never_stops_writing_is_a_refusal(tmp_path, monkeypatch, script, why):
    reading_by(monkeypatch, script)
    found = got(tmp_path, "a.pdf", PDF)

    assert isinstance(found, UnreadFile)
    assert why in found.why
    assert len(found.why) < 400


def test_a_process_that_takes_too_long_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "WALL_S", 0.3)
    mark = f"mark of {os.getpid()}"
    reading_by(monkeypatch, f"import time; '{mark}'; time.sleep(600)")

    found = got(tmp_path, "a.pdf", PDF)

    assert "not read within 0.3 s" in found.why
    assert processes_with(mark) == []


_LIMITED = """
import sys
from forged.documents import converter
converter.CPU_S = 1
converter.READERS = {{"PDF": lambda data: {what}}}
sys.exit(converter.main("PDF"))
"""


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("bytes(2 << 30)", "too large or too deeply nested"),
        ("any(iter(int, 1))", "not read within"),
        ("str(open('written', 'wb', 0).write(b'x'))", "it cannot be read as PDF: OSError"),
        ("1 // 0", "it cannot be read as PDF: ZeroDivisionError"),
    ],
)
def test_a_package_has_limits_of_memory_computing_time_and_files(tmp_path, monkeypatch, what, why):
    monkeypatch.chdir(tmp_path)
    reading_by(monkeypatch, _LIMITED.format(what=what))
    found = got(tmp_path, "a.pdf", PDF)

    assert isinstance(found, UnreadFile)
    assert why in found.why
    assert not (tmp_path / "written").exists() or (tmp_path / "written").read_text() == ""


def test_an_interrupted_reading_leaves_no_process(tmp_path, monkeypatch):
    mark = f"mark of {os.getpid()}"
    reading_by(
        monkeypatch,
        f"import os, signal, time; '{mark}'; os.kill(os.getppid(), signal.SIGINT); time.sleep(600)",
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            got(tmp_path, "a.pdf", PDF)
    finally:
        signal.signal(signal.SIGINT, before)

    assert processes_with(mark) == []


@given(
    st.sampled_from(["PDF", "HTML", "Word"]),
    st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=4)), max_size=6),
    st.floats(0.2, 1),
)
@settings(max_examples=60, deadline=None)
def test_a_broken_file_has_a_text_or_a_reason(kind, edits, length):
    data = bytearray({"PDF": PDF, "HTML": HTML, "Word": DOCX}[kind])
    data = data[: int(len(data) * length)]
    for place, new in edits:
        at = int(place * len(data))
        data[at : at + len(new)] = new
    try:
        found = convert(kind, bytes(data))
    except NoTextError as error:
        found = str(error)
    assert found.strip()
