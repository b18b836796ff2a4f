"""Recognise PDF, HTML and Word files by their content, and get their text from a process with limits.

The content decides, and the name only where it says nothing. The process (`converter`) has a limit of memory,
computing time and clock time, and may write no file. Its text is markdown, so that headings stay. Formats
that look like text and are none are refused by name. Raises OSError for an unreadable file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from typing import BinaryIO, NamedTuple

import msgspec

EXTRA = "documents"
"""Extra of forged with the packages that read these formats."""

MOST_FILE_BYTES = 32 << 20
HEAD_BYTES = 4096
"""So many bytes of a file are enough to recognise it."""

CPU_S, WALL_S, MEMORY_BYTES = 30, 60.0, 1 << 30
_COMMAND = (sys.executable, "-P", "-m", "forged.documents.converter")
REFUSED = 65
"""Exit code of the process if its output is the reason of a refusal; of sysexits, EX_DATAERR."""

_LONGEST_REASON = 300
_DOCX_PART = b"word/document.xml"
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?>(?:<!--(?:(?!-->).)*-->\s*)*)<(?:!doctype\s+html|html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_NO_TEXT = (
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of an old Office program"),
)


class Format(NamedTuple):
    """A format with text in it: its name for people, the suffixes, and the packages that read it."""

    name: str
    article: str
    suffixes: tuple[str, ...]
    packages: tuple[str, ...]


_TO_MARKDOWN = ("bs4", "lxml", "markdownify")
PDF = Format("PDF", "a", (".pdf",), ("pypdf",))
HTML = Format("HTML", "an", (".html", ".htm", ".xhtml"), _TO_MARKDOWN)
DOCX = Format("Word", "a", (".docx",), ("mammoth", *_TO_MARKDOWN))
FORMATS = {each.name: each for each in (PDF, HTML, DOCX)}
SUFFIXES = frozenset(suffix for each in FORMATS.values() for suffix in each.suffixes)


class Refusal(msgspec.Struct, frozen=True):
    """Reason why a file has no text for a document; `lacks` is the extra that would read it, or ""."""

    why: str
    lacks: str = ""


def recognise(path: str, file: BinaryIO) -> Format | Refusal | None:
    """Return the format of an open file, why it is refused, or None for what may be plain text.

    The file stays at its beginning.
    """
    head = os.pread(file.fileno(), HEAD_BYTES, 0)
    suffix = os.path.splitext(path)[1].lower()
    named = next((each for each in FORMATS.values() if suffix in each.suffixes), None)
    if head.lstrip().startswith(b"%PDF-") or (named is PDF and b"%PDF-" in head[:1024]):
        return PDF
    if head.startswith(b"PK\x03\x04"):
        return DOCX if named is DOCX or _has_word_part(file) else Refusal("a zip file, and no Word document")
    if kind := next((name for magic, name in _NO_TEXT if head.startswith(magic)), ""):
        return Refusal(f"{kind}; save it as PDF, docx or text")
    if _HTML.match(head) or (named is HTML and head.strip()):
        return HTML
    if named is not None and head.strip():
        return Refusal(f"its name ends in {suffix}, and it is no {named.name} file")
    return None


def _has_word_part(file: BinaryIO) -> bool:
    """Return True if the names in a zip file, which are not compressed, include that of a Word text."""
    data = os.pread(file.fileno(), MOST_FILE_BYTES, 0)
    return _DOCX_PART in data


def text_of(file: BinaryIO, kind: Format, most_bytes: int) -> str | Refusal:
    """Return the text of an open file as markdown, of at most `most_bytes`, or why there is none."""
    if any(importlib.util.find_spec(package) is None for package in kind.packages):
        return Refusal(f"{kind.article} {kind.name} file, and the extra `{EXTRA}` is not installed", EXTRA)
    if os.fstat(file.fileno()).st_size > MOST_FILE_BYTES:
        return Refusal(f"larger than {MOST_FILE_BYTES >> 20} MiB; split it")
    code, output, is_late = _run_converter(file, kind, most_bytes)
    if is_late or code == -signal.SIGXCPU:
        return Refusal(f"its text was not read within {WALL_S if is_late else CPU_S:g} s; split it")
    if code == REFUSED:
        return Refusal(output.decode(errors="replace")[:_LONGEST_REASON])
    if len(output) > most_bytes:
        return Refusal(f"its text is larger than {most_bytes >> 10} KiB; split it")
    if code:
        return Refusal(f"the program that reads {kind.name} files failed ({_ending(code)})")
    return output.decode(errors="replace")


def _run_converter(file: BinaryIO, kind: Format, most_bytes: int) -> tuple[int, bytes, bool]:
    """Run the process on a file; return its exit code, its output and if it was too late."""
    process = subprocess.Popen(
        (*_COMMAND, kind.name),
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        process.kill()

    assert process.stdout is not None
    deadline = threading.Timer(WALL_S, end)
    deadline.start()
    try:
        output = process.stdout.read(most_bytes + 1)
        if len(output) > most_bytes:
            process.kill()
        return process.wait(), output, is_late.is_set()
    finally:
        deadline.cancel()
        process.kill()
        process.stdout.close()
        process.wait()


def _ending(code: int) -> str:
    """Return how a process ended: the name of a signal, or its exit code."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
