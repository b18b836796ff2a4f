"""Documents out of files that a person names, or that lie below a folder that they name.

Markdown and plain text by the end of the name; a file that is named itself may be called anything. What lies
there is somebody else's: no link is followed but one that a person names itself, only regular files are
opened, each of at most 900 KiB, and a walk ends after so many entries and so deep. Hidden files and folders
are passed by. First all files are `found` by their names, then each is `read`: what is no such text is
`UnreadFile` with the reason. WorkspaceError is raised for a path that is not there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

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


class DocumentText(msgspec.Struct, frozen=True):
    """A text by the name of where it is from."""

    source: str
    text: str
    is_markdown: bool


class UnreadFile(msgspec.Struct, frozen=True):
    """A file that is not read, or what ended a walk, and why."""

    source: str
    why: str


class DocumentFile(msgspec.Struct, frozen=True):
    """A file that may be a document; `is_named`: a person named it itself."""

    source: str
    path: str
    is_named: bool = False


def found(path: str, source: str = "") -> Iterator[DocumentFile | UnreadFile]:
    """The files of a path, which names one or a folder, in the order of their names.

    Each is named by its path, or by `source` with the path below the folder. Raises WorkspaceError.
    """
    if not os.path.lexists(path):
        raise WorkspaceError(f"{path} is not there")
    if os.path.isdir(path):
        yield from _Walk(source or path).below(path, "", 0)
    else:
        yield DocumentFile(source or path, path, is_named=True)


def read(file: DocumentFile) -> DocumentText | UnreadFile:
    """The text of a file."""
    try:
        data = _bytes(file)
    except OSError as error:
        if not file.is_named and os.path.islink(file.path):
            return UnreadFile(file.source, "a symbolic link; ingest the file that it points to")
        return UnreadFile(file.source, f"cannot be read: {error.strerror}")
    text = data if isinstance(data, UnreadFile) else _text(file.source, data)
    if isinstance(text, UnreadFile):
        return text
    return DocumentText(file.source, text, os.path.splitext(file.path)[1].lower() in MARKDOWN)


class _Walk:
    def __init__(self, source: str) -> None:
        self._source = source.rstrip("/")
        self._room = _MOST_ENTRIES

    def below(self, folder: str, below: str, depth: int) -> Iterator[DocumentFile | UnreadFile]:
        """All documents of a folder, which lies at `below` in the one that was named, with a slash behind."""
        if depth > _MOST_DEPTH:
            yield UnreadFile(self._named(below), f"lies more than {_MOST_DEPTH} folders deep")
            return
        try:
            entries = self._listed(folder)
        except OSError as error:
            if not below:
                raise WorkspaceError(f"{folder} cannot be read: {error.strerror}") from error
            yield UnreadFile(self._named(below), f"cannot be read: {error.strerror}")
            return
        for entry in entries:
            where = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED_BY:
                    yield from self.below(entry.path, f"{where}/", depth + 1)
            elif os.path.splitext(entry.name)[1].lower() in TEXT:
                yield DocumentFile(self._named(where), entry.path)
        if self._room <= 0 and not below:
            yield UnreadFile(
                self._source, f"more than {_MOST_ENTRIES:,} files and folders; ingest it in parts"
            )

    def _listed(self, folder: str) -> list[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            found = [entry for entry, _ in zip(entries, range(self._room), strict=False)]
        self._room -= len(found)
        return sorted((each for each in found if _is_shown(each.name)), key=lambda each: each.name)

    def _named(self, below: str) -> str:
        return f"{self._source}/{below}"


def _is_shown(name: str) -> bool:
    """Whether it is not hidden, and its name can be told to anybody."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(".")


def _bytes(file: DocumentFile) -> bytes | UnreadFile:
    """Raises OSError."""
    descriptor = os.open(file.path, _READ | (0 if file.is_named else os.O_NOFOLLOW))
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return UnreadFile(file.source, "not a regular file")
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        return UnreadFile(file.source, f"larger than {MOST_BYTES >> 10} KiB; split it")
    return data


def _text(source: str, data: bytes) -> str | UnreadFile:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_wide = data.startswith(_UTF_16)
        return UnreadFile(source, f"{'UTF-16' if is_wide else 'not a text'}; save it as text in UTF-8")
    if "\0" in text:
        return UnreadFile(source, "not a text: it contains NUL characters")
    return text if text.strip() else UnreadFile(source, "it is empty")
