"""Cache of the converted model files, in the user's cache folder: complete and unchanged, or absent.

Files are named by the hash of their content, synced, and written before the list that names them. So with
several writers, or a killed one, the list names only files that exist. A file whose bytes changed later is
detected by its hash when it is opened. No text and no vector of a text is ever stored here.
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
from forged_client.typed import resolved

_LIST, _LOCK = "made.json", "lock"


class EngineError(ForgedError):
    """Raised if onnxruntime cannot run the local model, or its graph cannot be built."""


class ModelFiles(msgspec.Struct, frozen=True):
    """Names of the three files of a converted model; `of` identifies their source and converter."""

    of: str
    graph: str
    weights: str
    words: str

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the graph, the weights and the vocabulary's trie."""
        return self.graph, self.weights, self.words


def load(folder: str, of: str) -> ModelFiles | None:
    """Return the names of the cached model files if they come from `of` and are unchanged; else None."""
    try:
        with open(os.path.join(folder, _LIST), "rb") as file:
            found = msgspec.json.decode(file.read(), type=resolved(ModelFiles))
        whole = found.of == of and all(_is_whole(folder, name) for name in found.files)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if whole else None


def store(folder: str, ending: str, data: bytes) -> str:
    """Store data in the cache folder under the name of its hash, and return the name. Raises OSError."""
    name = f"{hashlib.sha256(data).hexdigest()}.{ending}"
    atomic.replace(os.path.join(folder, name), data)
    return name


def publish(folder: str, all_of_it: ModelFiles) -> None:
    """Write the list of a model's files, and remove all other files from the cache folder.

    Call it inside `exclusive`. Raises OSError.
    """
    atomic.replace(os.path.join(folder, _LIST), msgspec.json.encode(all_of_it))
    for name in set(os.listdir(folder)) - {_LIST, _LOCK, *all_of_it.files}:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def exclusive(folder: str) -> Iterator[None]:
    """Wait for the lock of the cache folder, hold it during the `with` block. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, _LOCK), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(folder: str, name: str) -> bool:
    """Return True if a file still has the hash in its name."""
    with open(os.path.join(folder, name), "rb") as file:
        return name.startswith(f"{hashlib.file_digest(file, 'sha256').hexdigest()}.")
