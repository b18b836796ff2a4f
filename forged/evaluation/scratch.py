"""A daemon of its own for one measurement: scratch HOME, own socket, gone at the end.

The same program that a user runs, `forged serve`, so that nothing between the files and the reply is left
out. The user's own daemon, files and configuration are never touched.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from forged.errors import ForgedError
from forged_client import Client

_READY_S = 30.0
_CALL_S = 60.0
_LOG_SHOWN = 2000


class MeasurementFailed(ForgedError):  # noqa: N818 - reads as the state it names
    """No figure can be had: the daemon, or the model it was to use, is not there."""


@contextmanager
def daemon(scratch: Path, home: Path, env: Mapping[str, str]) -> Iterator[Client]:
    """A strict client of a new daemon, which ends with the block. Raises MeasurementFailed.

    `scratch` is an existing directory for socket and log, `env` the daemon's other variables.
    """
    address, log = str(scratch / "run" / "forged.sock"), scratch / "daemon.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "forged", "serve", "--log-level", "warning"],
            env={**env, "HOME": str(home), "FORGED_SOCKET": address},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_for(address, process, log)
        with Client(address, timeout_s=_CALL_S, strict=True, name="forgectl eval") as client:
            yield client
    finally:
        process.kill()  # nothing in a scratch directory is worth a longer goodbye
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    with Client(address, timeout_s=_CALL_S) as client:
        while client.ping().status != "ok":
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip()[-_LOG_SHOWN:]
                raise MeasurementFailed(f"the daemon did not start: {said or 'it said nothing'}")
            time.sleep(0.01)
