"""Convert the model in a separate process, so that the daemon never needs the memory.

`open_encoder` opens the cached model. If it is absent, `GraphBuild.make` starts the process and waits about
a second. `main` runs in that process; a second process waits for the first and finds the result. Raises
EngineError.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading

import numpy as np

from forged.files import atomic
from forged.models.e5 import cache
from forged.models.e5.cache import EngineError
from forged.models.e5.encoder import Encoder
from forged.models.e5.model_file import ModelFile, vocabulary_trie

MAKER = 2
"""Version of the converter; another version converts again."""

_NICE = 10
_PATIENCE_S = 120.0  # for a very slow disk
_SAID = 300  # characters of the error


class GraphBuild:
    """Conversion of the local model for onnxruntime, in a process that any thread may `stop`."""

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def make(self, model: str, folder: str, of: str) -> None:
        """Convert a model file into the cache folder, in a process. Blocks. Raises EngineError."""
        command = [sys.executable, "-P", "-m", __name__, model, folder, of]
        with self._lock:
            if self.stopped:
                raise EngineError("the daemon stops")
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        try:
            _, output = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise EngineError(f"it was not made within {_PATIENCE_S:g} s") from error
        if process.returncode:
            raise EngineError(_last_line(output) or f"its maker ended with {process.returncode}")

    def stop(self) -> None:
        """End the process that converts and start no more; a partial result is never used."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()


def open_encoder(path: str, folder: str, of: str, build: GraphBuild) -> Encoder:
    """Open the cached local model, and convert it first if it is absent. Raises EngineError."""
    found = cache.load(folder, of)
    if found is None:
        build.make(path, folder, of)
        found = cache.load(folder, of)
    if found is None:
        raise EngineError(f"what was made in {folder} is not what was meant to be there")
    return Encoder(ModelFile(path), folder, found)


def main(model: str, folder: str, of: str) -> None:
    """Convert the model at low priority, unless another process has. Raises OSError and ImportError."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    with cache.exclusive(folder):
        if cache.load(folder, of) is None:
            _convert(ModelFile(model), folder, of)


def _convert(model: ModelFile, folder: str, of: str) -> None:
    """Convert the model into files of the cache, and publish their list."""
    from forged.models.e5.graph import graph_of  # noqa: PLC0415 - onnx is needed here and only here

    words = io.BytesIO()
    np.save(words, vocabulary_trie(model))
    graph, weights_name, weights = graph_of(model)
    names = [cache.store(folder, *file) for file in (("words", words.getvalue()), ("weights", weights))]
    assert names[1] == weights_name, "the graph knows its weights by this name"
    cache.publish(folder, cache.ModelFiles(of, cache.store(folder, "onnx", graph), weights_name, names[0]))


def _last_line(output: bytes) -> str:
    """Return the last line of an error output, cut to 300 characters."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:_SAID] if lines else ""


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ImportError, ValueError) as error:
        sys.exit(atomic.why(error) if isinstance(error, OSError) else str(error))
