"""Keep what was made of the model file in the user's cache: whole and as it was made, or not at all.

Files are named by the hash of their content, synced, and written before the list that names them. So however
many make them, and whoever is killed, the list names files that are there. A file whose bytes changed later
is found out by its hash when it is opened. No text and no vector of a text is ever kept here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator

import msgspec

from forged.errors import ForgedError
from forged.files import atomic

_LIST, _LOCK = "made.json", "lock"


class EngineError(ForgedError):
    """This engine cannot be had here; the sentence says why."""


class ModelFiles(msgspec.Struct, frozen=True):
    """Names of the files, each its SHA-256 and an ending; `of` is what they were made of and by."""

    of: str
    graph: str
    weights: str
    words: str

    @property
    def files(self) -> tuple[str, ...]:
        return self.graph, self.weights, self.words


def made(folder: str, of: str) -> ModelFiles | None:
    """Return what is kept there if it was made of this and has not changed since; else None."""
    try:
        with open(os.path.join(folder, _LIST), "rb") as file:
            found = msgspec.json.decode(file.read(), type=ModelFiles)
        whole = found.of == of and all(_is_whole(folder, name) for name in found.files)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if whole else None


def keep(folder: str, ending: str, data: bytes) -> str:
    """Keep a file under the name of its hash, which is returned. Raises OSError."""
    name = f"{hashlib.sha256(data).hexdigest()}.{ending}"
    atomic.replace(os.path.join(folder, name), data)
    return name


def finish(folder: str, all_of_it: ModelFiles) -> None:
    """Write the list, and remove what else lies there: of an earlier one, of makers that were killed.

    To be called `alone`. Raises OSError.
    """
    atomic.replace(os.path.join(folder, _LIST), msgspec.json.encode(all_of_it))
    for name in set(os.listdir(folder)) - {_LIST, _LOCK, *all_of_it.files}:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def alone(folder: str) -> Iterator[None]:
    """Wait for whoever makes something there, and be the only one who does. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, _LOCK), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(folder: str, name: str) -> bool:
    with open(os.path.join(folder, name), "rb") as file:
        return name.startswith(f"{hashlib.file_digest(file, 'sha256').hexdigest()}.")
