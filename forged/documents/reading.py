"""Read documents from files that a person names, or below a folder that they name.

A walk finds markdown, plain text, PDF, HTML and Word files by suffix; a named file may have any name. Files
are treated as foreign: no link is followed except a named one, only regular files are opened, a text has at
most 900 KiB, and a walk is limited in entries and depth. Hidden files and folders are skipped. First all
files are found by name, then each is `read`. An unreadable one is an `UnreadFile` with the reason. Raises
WorkspaceError for a missing path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from forged.documents import formats
from forged.errors import WorkspaceError

MOST_BYTES = 900 << 10
"""A document goes to the daemon in one request."""

MARKDOWN = frozenset((".md", ".markdown", ".mdx", ".mkd"))
TEXT = MARKDOWN | {".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org"}
_PASSED_BY = frozenset(("node_modules", "__pycache__", "venv", "target", "dist", "build"))
_MOST_ENTRIES = 100_000
_MOST_DEPTH = 16
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_FOUND = TEXT | formats.SUFFIXES


class DocumentText(msgspec.Struct, frozen=True):
    """Text of a document, the name of its source, and `is_markdown` by its format or the file's extension."""

    source: str
    text: str
    is_markdown: bool


class UnreadFile(msgspec.Struct, frozen=True):
    """File or folder that is not read as a document, by source name, with the reason.

    `lacks` is the extra of forged that would read it, or "".
    """

    source: str
    why: str
    lacks: str = ""


class DocumentFile(msgspec.Struct, frozen=True):
    """File that may be a document; `is_named`: the person named it."""

    source: str
    path: str
    is_named: bool = False


def find_files(path: str, source: str = "") -> Iterator[DocumentFile | UnreadFile]:
    """Yield the file, or the text files below a folder and its unread folders; `source` renames `path`.

    Each is named by its path, or by `source` and the path below the folder. Raises WorkspaceError.
    """
    if not os.path.lexists(path):
        raise WorkspaceError(f"{path} is not there")
    if os.path.isdir(path):
        yield from _DocumentWalk(source or path).below(path, "", 0)
    else:
        yield DocumentFile(source or path, path, is_named=True)


def read(file: DocumentFile) -> DocumentText | UnreadFile:
    """Return the text of a document's file, or the reason why it is not read."""
    try:
        text, is_markdown = _read_text(file)
    except OSError as error:
        if not file.is_named and os.path.islink(file.path):
            return UnreadFile(file.source, "a symbolic link; ingest the file that it points to")
        return UnreadFile(file.source, f"cannot be read: {error.strerror}")
    if isinstance(text, formats.Refusal):
        return UnreadFile(file.source, text.why, text.lacks)
    return DocumentText(file.source, text, is_markdown)


class _DocumentWalk:
    """Finds text files below a folder, within limits of depth and entries; reports unread folders."""

    def __init__(self, source: str) -> None:
        self._source = source.rstrip("/")
        self._room = _MOST_ENTRIES

    def below(self, folder: str, below: str, depth: int) -> Iterator[DocumentFile | UnreadFile]:
        """Yield the text files and unread folders below a folder; `below` is its path in the walk."""
        if depth > _MOST_DEPTH:
            yield UnreadFile(self._source_name(below), f"lies more than {_MOST_DEPTH} folders deep")
            return
        try:
            entries = self._listed(folder)
        except OSError as error:
            if not below:
                raise WorkspaceError(f"{folder} cannot be read: {error.strerror}") from error
            yield UnreadFile(self._source_name(below), f"cannot be read: {error.strerror}")
            return
        for entry in entries:
            where = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED_BY:
                    yield from self.below(entry.path, f"{where}/", depth + 1)
            elif os.path.splitext(entry.name)[1].lower() in _FOUND:
                yield DocumentFile(self._source_name(where), entry.path)
        if self._room <= 0 and not below:
            yield UnreadFile(
                self._source, f"more than {_MOST_ENTRIES:,} files and folders; ingest it in parts"
            )

    def _listed(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the sorted visible entries of a folder, within the walk's limit of entries."""
        with os.scandir(folder) as entries:
            found = [entry for entry, _ in zip(entries, range(self._room), strict=False)]
        self._room -= len(found)
        return sorted((each for each in found if _is_visible_name(each.name)), key=lambda each: each.name)

    def _source_name(self, below: str) -> str:
        """Return the source name of a document: the walk's source and the path below it."""
        return f"{self._source}/{below}"


def _is_visible_name(name: str) -> bool:
    """Return True for a name that does not begin with a dot and is valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(".")


def _read_text(file: DocumentFile) -> tuple[str | formats.Refusal, bool]:
    """Return the text of a regular file, or why it has none, and if it is markdown. Raises OSError."""
    descriptor = os.open(file.path, _READ | (0 if file.is_named else os.O_NOFOLLOW))
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return formats.Refusal("not a regular file"), False
        kind = formats.recognise(file.path, opened)
        if isinstance(kind, formats.Format):
            return formats.text_of(opened, kind, MOST_BYTES), True
        text = _plain_text(opened) if kind is None else kind
    return text, os.path.splitext(file.path)[1].lower() in MARKDOWN


def _plain_text(opened: BinaryIO) -> str | formats.Refusal:
    """Return the text of a file in UTF-8, or why it is no document: too large, no text, or empty."""
    data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        return formats.Refusal(f"larger than {MOST_BYTES >> 10} KiB; split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_wide = data.startswith(_UTF_16)
        return formats.Refusal(f"{'UTF-16' if is_wide else 'not a text'}; save it as text in UTF-8")
    if "\0" in text:
        return formats.Refusal("not a text: it contains NUL characters")
    return text if text.strip() else formats.Refusal("it is empty")
