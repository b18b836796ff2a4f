"""The daemon where the system has no further thread: it works with those it has, and still ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from forged.daemon.process import Threads

NO_THREAD = "can't start new thread"


def _none(_: threading.Thread) -> None:
    raise RuntimeError(NO_THREAD)


def test_the_threads_that_there_are_do_all_work_where_no_other_can_be_started(monkeypatch):
    async def worked() -> list[int]:
        return await asyncio.gather(*[asyncio.to_thread(lambda n=n: n * n) for n in range(100)])

    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Threads())
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _none)
            assert runner.run(worked()) == [n * n for n in range(100)]
        assert runner.run(worked())[-1] == 99 * 99


def test_a_pool_without_any_thread_says_so(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", _none)
    with pytest.raises(RuntimeError, match="new thread"):
        Threads()


STUCK = """
import threading, time
from forged.daemon.process import HardStop

def none(_):
    raise RuntimeError("can't start new thread")

threading.Thread.start = none
stop = HardStop({seconds}, 0)
if {cancelled}:
    stop.cancel()
    time.sleep(0.2)
else:
    time.sleep(600)
"""


@pytest.mark.parametrize(("cancelled", "code"), [(False, -signal.SIGALRM), (True, 0)])
def test_a_daemon_that_hangs_ends_without_a_thread_to_end_it(cancelled, code):
    script = STUCK.format(seconds=0.1, cancelled=cancelled)
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)

    assert done.returncode == code
