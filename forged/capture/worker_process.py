"""One worker process from start to end: its queue, its pipe, and the thread that listens to it.

Tasks go over a `multiprocessing.Queue`, reports come back over a one-way pipe, both as msgspec bytes. A
killed process leaves either locked or torn, so both go with it. All that can block happens in a thread. The
process is spawned: a forked one would keep the daemon's lock and socket. It ends with the daemon by watching
for that itself; PR_SET_PDEATHSIG would fire when the thread that started it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from typing import TypeVar

import msgspec

from forged.capture.values import Ready, Report, Task

T = TypeVar("T")
Target = Callable[["Queue[bytes]", Connection, bytes], None]

_DECODE = msgspec.msgpack.Decoder(Report).decode
# A worker that closed its pipe is about to end by itself, with an exit code that says more than SIGKILL.
_LAST_S = 1.0
# The event loop waits so long for the queue's thread, if ever.
_FEEDER_S = 0.1


def work(queue: Queue[bytes], results: Connection, settings: bytes) -> None:
    """What the new process runs. The worker is imported there: the daemon needs none of what it needs."""
    from forged.capture import worker  # noqa: PLC0415

    worker.main(queue, results, settings)


class WorkerProcess:
    """Used once, from the event loop. `over` gets the cause of death, after the last report."""

    def __init__(self, target: Target, settings: bytes, heard: Callable[[Report], None]) -> None:
        """`heard` is called in the loop with each report."""
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[str] = self._loop.create_future()
        self.pid = 0
        self.was_ready = False
        self._target = target
        self._settings = settings
        self._heard = heard
        self._thread = threading.Thread(target=self._run, name="capture-worker", daemon=True)
        # Guards what follows: a process that has been waited for must not be signalled any more, for its
        # number may be another's.
        self._lock = threading.Lock()
        self._queue: Queue[bytes] | None = None
        self._is_there = False
        self._killed_for = ""

    def begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread for us
            self.over.set_result(f"cannot be started: {error}")

    def give(self, task: Task) -> None:
        assert self._queue is not None
        try:
            self._queue.put_nowait(msgspec.msgpack.encode(task))
        except RuntimeError as error:  # the system has no thread for the queue
            self.kill(f"cannot be given a task: {error}")

    def kill(self, reason: str) -> None:
        """End the process and its group, at once or as soon as it has been started."""
        with self._lock:
            self._killed_for = self._killed_for or reason
            if self._is_there:
                _kill_group(self.pid)

    def close(self) -> None:
        """Give the queue's thread and pipe back. Here and not in our thread, lest `give` meets it closed.

        That thread is waited for, as it ends at once when no worker reads: as the last to let go of the
        queue's semaphores while the interpreter ends, it may be cut off when half of them are removed.
        """
        if self._queue is not None:
            self._queue.close()
            feeder = self._queue._thread  # type: ignore[attr-defined]
            if feeder is not None and feeder.ident is not None:  # else the system had no thread for it
                feeder.join(_FEEDER_S)
            self._queue = None

    def _tell(self, report: Report) -> None:
        """Pass a report on; of a worker that is being killed only what it got done."""
        if isinstance(report, Ready):
            self.was_ready = True
            if self._killed_for:
                return
        self._heard(report)

    def _run(self) -> None:
        cause = "cannot be started"
        try:
            process, results = self._launch()
            with results:
                self._listen(results)
            cause = self._wait_for(process)
        except (OSError, RuntimeError, MemoryError) as error:  # no thread, no process or no room for one
            cause = f"cannot be started: {error or type(error).__name__}"
        finally:
            self._in_loop(self.over.set_result, cause)

    def _in_loop(self, callback: Callable[[T], None], value: T) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for us
            self._loop.call_soon_threadsafe(callback, value)

    def _launch(self) -> tuple[SpawnProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        queue: Queue[bytes] = context.Queue(maxsize=1)
        queue.cancel_join_thread()  # what a dead worker has not read must not hold the daemon's end
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=self._target,
            args=(queue, theirs, self._settings),
            name="forged-capture",
            daemon=True,
        )
        # The queue feeds its pipe in a thread of its own, which would wait for ever for a dead worker to read
        # on as long as we ourselves hold the reading end. Without it the thread gets EPIPE, and ends quietly
        # if told so. There is no public name for either; concurrent.futures does the same (both attributes
        # are in 3.11 to 3.14, a test looks).
        queue._ignore_epipe = True  # type: ignore[attr-defined]
        try:
            process.start()
        finally:
            theirs.close()  # else its end would not be the end of the file
            queue._reader.close()  # type: ignore[attr-defined]
        assert process.pid is not None
        with self._lock:
            self._queue, self.pid, self._is_there = queue, process.pid, True
        if self._killed_for:
            self.kill(self._killed_for)
        return process, results

    def _listen(self, results: Connection) -> None:
        """Pass reports on until the pipe ends, perhaps in the middle of one."""
        while True:
            try:
                data = results.recv_bytes()
            except (EOFError, OSError):
                return
            try:
                report = _DECODE(data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a newer version lies on disk
                self.kill(f"its report cannot be read: {error}")
                return
            self._in_loop(self._tell, report)

    def _wait_for(self, process: SpawnProcess) -> str:
        """Wait for the end of the process, and say what it died of."""
        if not wait([process.sentinel], _LAST_S):
            self.kill("it closed its pipe")
        wait([process.sentinel])
        with self._lock:
            _kill_group(self.pid)  # what it may have started
            process.join()
            self._is_there = False
        cause = self._killed_for or _cause(process.exitcode or 0)
        process.close()
        return cause


def _kill_group(pid: int) -> None:
    """Kill a child that has not been waited for and all of its group; it may not have one of its own yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"
