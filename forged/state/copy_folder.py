"""Files of copied documents in a folder of the state directory: one for each document, mode 0600.

The folder belongs to one login on one server. It is erased for another one, and after 30 days without
contact. A damaged file is removed, as the server still has the document. Raises OSError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from forged.files import atomic
from forged.memory import Memory
from forged_client.typed import resolved

KEPT_S = 30 * 24 * 3600.0
_NOTE, _SUFFIX = "server", ".pieces"


class PieceCopy(msgspec.Struct, frozen=True):
    """Copy of one piece as it is shown, and the version of its row."""

    memory: Memory
    version: str = ""

    @property
    def document_id(self) -> str:
        """Return the id of the document that the piece belongs to."""
        return self.memory.piece.document_id if self.memory.piece is not None else ""


class CopyFolder:
    """Folder of copied documents of one login; for one task at a time, in a thread."""

    def __init__(self, path: str, login: str) -> None:
        """Take the folder, which may be missing, and the digest of the login that its files are of."""
        self._path, self._login = path, login
        self._note = os.path.join(path, _NOTE)
        self._decoder = msgspec.msgpack.Decoder(resolved(tuple[PieceCopy, ...]))

    def load(self) -> Iterator[PieceCopy]:
        """Yield all copies; erase them if they are of another login, or too old."""
        if not self._is_ours():
            self.erase()
            return
        for name in sorted(os.listdir(self._path)):
            if name.endswith(_SUFFIX):
                yield from self._read(os.path.join(self._path, name))

    def _is_ours(self) -> bool:
        """Return True if the note names this login, and the last contact was in the last 30 days."""
        try:
            with open(self._note, encoding="ascii") as note:
                is_same = note.read() == self._login
            age_s = time.time() - os.stat(self._note).st_mtime
        except (OSError, ValueError):
            return False
        return is_same and abs(age_s) < KEPT_S

    def _read(self, path: str) -> tuple[PieceCopy, ...]:
        """Return the copies in one file; remove a damaged one and return none."""
        try:
            with open(path, "rb") as file:
                return self._decoder.decode(file.read())
        except msgspec.MsgspecError:
            os.unlink(path)
            return ()

    def store(self, files: Mapping[str, Sequence[PieceCopy]]) -> None:
        """Write the files of documents by id, and remove those without pieces; all are tried."""
        failure: OSError | None = None
        for document_id, copies in files.items():
            name = hashlib.sha256(document_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            path = os.path.join(self._path, f"{name}{_SUFFIX}")
            try:
                self._write(path, copies)
            except OSError as error:
                failure = error
                with suppress(OSError):
                    os.unlink(path)  # its text is no longer that of the server
        if failure is not None:
            raise failure

    def _write(self, path: str, copies: Sequence[PieceCopy]) -> None:
        """Write one file, or remove it if there are no copies."""
        if not copies:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        if not os.path.exists(self._note):
            atomic.replace(self._note, self._login.encode())
        atomic.replace(path, msgspec.msgpack.encode(tuple(copies)))

    def note_contact(self) -> None:
        """Record that the server was read now."""
        with suppress(FileNotFoundError):
            os.utime(self._note)

    def is_expired(self) -> bool:
        """Return True if there are copies, and the last contact was 30 days ago."""
        return os.path.exists(self._note) and not self._is_ours()

    def erase(self) -> None:
        """Remove the folder with all copies."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path)
