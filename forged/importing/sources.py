"""Read files that a person names, or that are below a named folder.

Files are treated as foreign: no link is followed except a named one. Only regular files are opened, with a
limit for each kind and for all together, and a walk is limited in entries and depth. Files that are skipped
for such a reason are named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

import msgspec

from forged.errors import MemoryFormatError, WorkspaceError
from forged.importing.values import SkippedPart

MEMORIES = ".forge"
MOST_ENTRIES = 100_000
MOST_DEPTH = 16
MOST_BYTES = 256 << 20
PASSED_BY = frozenset(
    (".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build", ".tox")
)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class SourceFile(msgspec.Struct, frozen=True):
    """File to import: path, displayed name, bytes, and modification time in Unix seconds."""

    path: str
    where: str
    data: bytes = b""
    changed: float = 0.0

    @property
    def name(self) -> str:
        """Return the file's base name."""
        return os.path.basename(self.path)

    @property
    def folder(self) -> str:
        """Return the file's folder."""
        return os.path.dirname(self.path)

    def text(self) -> str:
        """Return the file as text. Raises MemoryFormatError for invalid bytes."""
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise MemoryFormatError("not a text file in UTF-8") from error
        if "\0" in text:
            raise MemoryFormatError("not a text file: it contains NUL characters")
        return text


def read_file(path: str, where: str, most: int, *, follow: bool = False) -> SourceFile:
    """Read a regular file of at most `most` bytes; a link only with `follow`. Raises MemoryFormatError."""
    try:
        fd = os.open(path, _READ | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        raise MemoryFormatError(f"cannot be read: {error.strerror}") from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise MemoryFormatError("is not a regular file")
        if status.st_size > most:
            raise MemoryFormatError(f"larger than {_size_text(most)}")
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise MemoryFormatError(f"cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise MemoryFormatError(f"larger than {_size_text(most)}")
    return SourceFile(path, where, data, status.st_mtime)


class Walk:
    """Iterable of the wanted files below a folder, read within limits; `left` has those skipped."""

    def __init__(self, top: str, wanted: Callable[[str], int], *, with_memories: bool = False) -> None:
        """Take `wanted`, which returns the size limit for a path below the top, or 0."""
        self._with_memories = with_memories
        self.left: list[SkippedPart] = []
        self._top = top
        self._wanted = wanted
        self._entries = 0
        self._bytes = 0

    def __iter__(self) -> Iterator[SourceFile]:
        yield from self._files_below(self._top, "", 0)

    def _files_below(self, folder: str, below: str, depth: int) -> Iterator[SourceFile]:
        """Yield the wanted files below a folder, to a limited depth; note deeper folders as skipped."""
        if depth > MOST_DEPTH:
            self.left.append(SkippedPart(below, f"lies more than {MOST_DEPTH} folders deep"))
            return
        for entry in self._listed(folder, below):
            where = f"{below}{entry.name}"
            if not _is_printable(where):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._files_of_folder(entry, where, depth)
            elif most := self._wanted(where):
                yield from self._files_of_entry(entry, where, most)

    def _files_of_folder(self, entry: os.DirEntry[str], where: str, depth: int) -> Iterator[SourceFile]:
        """Yield a subfolder's files; skip `.forge`, `.git`, `build`... unless memories are read."""
        if entry.name == MEMORIES and not self._with_memories:
            self.left.append(SkippedPart(where, "memories of forged; import that folder separately"))
        elif self._with_memories or entry.name not in PASSED_BY:
            yield from self._files_below(entry.path, f"{where}/", depth + 1)

    def _listed(self, folder: str, below: str) -> list[os.DirEntry[str]]:
        """Return a folder's sorted entries within the walk's limit of entries; note what is left out."""
        room = MOST_ENTRIES - self._entries
        try:
            with os.scandir(folder) as entries:
                found = [entry for entry, _ in zip(entries, range(room + 1), strict=False)]
        except OSError as error:
            if not below:
                raise WorkspaceError(f"{folder} cannot be read: {error.strerror}") from error
            self.left.append(SkippedPart(below, f"cannot be read: {error.strerror}"))
            return []
        if len(found) > room:
            self.left.append(
                SkippedPart(below or ".", f"more than {MOST_ENTRIES:,} files and folders; import it in parts")
            )
        self._entries += len(found[:room])
        return sorted(found[:room], key=lambda entry: entry.name)

    def _files_of_entry(self, entry: os.DirEntry[str], where: str, most: int) -> Iterator[SourceFile]:
        """Yield an entry's file, or note it as skipped: a link, unreadable, or beyond the limits."""
        if entry.is_symlink():
            self.left.append(SkippedPart(where, "a symbolic link; import the file that it points to"))
            return
        try:
            source = read_file(entry.path, where, most)
        except MemoryFormatError as error:
            self.left.append(SkippedPart(where, str(error)))
            return
        self._bytes += len(source.data)
        if self._bytes > MOST_BYTES:
            self.left.append(
                SkippedPart(where, f"more than {_size_text(MOST_BYTES)} in all; import it in parts")
            )
            return
        yield source


def repository_of(folder: str, home: str) -> str:
    """Return the top of the repository that contains a folder, by its `.git`, "" without one below `home`.

    The daemon decides by its own rules which memories count there.
    """
    current = os.path.realpath(folder)
    while current != os.path.dirname(current) and current != home:
        if os.path.lexists(os.path.join(current, ".git")):
            return current
        current = os.path.dirname(current)
    return ""


def _is_printable(name: str) -> bool:
    """Return True for a name that is valid UTF-8, so that it can be printed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _size_text(count: int) -> str:
    """Return a number of bytes as text in MiB or KiB."""
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
