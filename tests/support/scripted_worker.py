"""A scripted worker: its settings decide how it starts, a task's id decides the result.

It is started as a process, so this module imports little.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue

import msgspec

from forged.capture.values import CallSent, Classified, Classify, Ready, Report, WorkerSettings
from forged.counters import EgressRecord

CALL = CallSent(EgressRecord("nowhere", "capture", calls=1))


def scripted(queue: Queue[bytes], results: Connection, settings: bytes) -> None:
    """Start as `classifier` of the settings says, then handle tasks as their ids say."""
    wanted = msgspec.msgpack.decode(settings, type=WorkerSettings)
    start = wanted.classifier
    if start != "groupless":
        os.setpgid(0, 0)

    def report(one: Report) -> None:
        results.send_bytes(msgspec.msgpack.encode(one))

    match start:
        case "crash":
            os._exit(3)
        case "crash-once":
            try:
                os.mkdir(wanted.base_url)
                os._exit(3)
            except FileExistsError:
                pass
        case "silent":
            _wait()
        case "useless":
            report(Ready(os.getpid(), "no such model"))
            _wait()
        case "brief":
            report(Ready(os.getpid()))
            os._exit(0)
        case "family":
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            report(Ready(child.pid))
            _wait()
    report(Ready(os.getpid()))
    while True:
        task = msgspec.msgpack.decode(queue.get(), type=Classify)
        match task.event.id:
            case "hang":
                _wait()
            case "half":
                os.write(results.fileno(), (1000).to_bytes(4, "big") + b"only this much")
                _wait()
            case "babble":
                results.send_bytes(b"\xc1")
                _wait()
            case "deaf":
                results.close()
                _wait()
            case "slow":
                for _ in range(30):
                    time.sleep(0.05)
                    report(CALL)
            case "work":
                report(CALL)
                report(CALL)
        report(Classified(event_id=task.event.id))


def _wait() -> None:
    while True:
        signal.pause()
