"""Make what onnxruntime runs, in a process of its own, whose memory the daemon never takes.

`opened` opens it; if it is not there, `Making.make` starts the process and waits about a second. `main` runs
in it: who comes second waits for the first and finds it made. Raises EngineError.
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
from forged.models.e5.model_file import ModelFile, table_of

MAKER = 2
"""The version of what is made; another one makes it anew."""

_NICE = 10
_PATIENCE_S = 120.0  # of a disk that is very slow
_SAID = 300  # characters of what went wrong


class Making:
    """At most one process at a time that makes it. `stop` may be called from any thread."""

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def make(self, model: str, folder: str, of: str) -> None:
        """Make it of this model file and return when it is kept in this folder. Raises EngineError."""
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
            _, said = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise EngineError(f"it was not made within {_PATIENCE_S:g} s") from error
        if process.returncode:
            raise EngineError(_last_line(said) or f"its maker ended with {process.returncode}")

    def stop(self) -> None:
        """Make nothing any more; what is half made leaves nothing that is ever used."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()


def opened(path: str, folder: str, of: str, making: Making) -> Encoder:
    """Open what is kept in the folder and was made of the model file, now if need be. Raises EngineError."""
    found = cache.made(folder, of)
    if found is None:
        making.make(path, folder, of)
        found = cache.made(folder, of)
    if found is None:
        raise EngineError(f"what was made in {folder} is not what was meant to be there")
    return Encoder(ModelFile(path), folder, found)


def main(model: str, folder: str, of: str) -> None:
    """Make it, unless another process has done so meanwhile. Raises OSError and ImportError."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    with cache.alone(folder):
        if cache.made(folder, of) is None:
            _make(ModelFile(model), folder, of)


def _make(model: ModelFile, folder: str, of: str) -> None:
    from forged.models.e5.graph import graph_of  # noqa: PLC0415 - onnx is needed here and only here

    words = io.BytesIO()
    np.save(words, table_of(model))
    graph, weights_name, weights = graph_of(model)
    names = [cache.keep(folder, *file) for file in (("words", words.getvalue()), ("weights", weights))]
    assert names[1] == weights_name, "the graph knows its weights by this name"
    cache.finish(folder, cache.ModelFiles(of, cache.keep(folder, "onnx", graph), weights_name, names[0]))


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:_SAID] if lines else ""


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ImportError, ValueError) as error:
        sys.exit(atomic.why(error) if isinstance(error, OSError) else str(error))
