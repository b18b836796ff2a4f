"""Rows of an agent's own process: its delay at the end of a turn, and its first call without a daemon."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

from commits import Checkout
from daemons import Daemon, prepared, running_over
from judging import Goal
from processes import Broken, process
from row import Row, Side, inside
from sampling import Probe

_CALLERS, _END_S = 30, 10.0
_START = """
import sys, time
from forged_client import Client
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
with Client(autostart=True, executable=sys.argv[1], timeout_s=30) as client:
    reply = client.ping()
took = time.perf_counter() - began
print(took if reply.status == "ok" else reply.reason, flush=True)
"""


def _turn(form: str) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, 10) as (daemon, _):
            words = ("turn-complete", form, daemon.socket, daemon.workspace)
            with checkout.inside(*words) as running:
                yield running.figure

    return side


def _starts(callers: int) -> Side:
    """Measure the slowest first call of several processes that find no daemon at the same moment."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        def round_() -> float:
            with prepared(checkout) as daemon, contextlib.ExitStack() as stack:
                agents = [stack.enter_context(_agent(daemon)) for _ in range(callers)]
                stack.callback(_end, daemon)
                for agent in agents:
                    _line(agent)
                for agent in agents:
                    assert agent.stdin is not None
                    agent.stdin.write(b"go\n")
                    agent.stdin.flush()
                return max(_seconds(_line(agent)) for agent in agents)

        yield round_

    return side


def _agent(daemon: Daemon) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    config = daemon.home / ".config/forged"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('[memory]\nembedding_model = "builtin:lexical"\n')
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [daemon.checkout.python, "-c", _START, daemon.checkout.script("forged")]
    return process(command, daemon.environment(), cwd=daemon.home, **pipes)


def _line(agent: subprocess.Popen[bytes]) -> str:
    assert agent.stdout is not None
    return agent.stdout.readline().decode()


def _seconds(line: str) -> float:
    try:
        return float(line)
    except ValueError:
        raise Broken(f"a call that was to start a daemon came to {line!r}") from None


def _end(daemon: Daemon) -> None:
    """End the daemon that an agent has started, and wait until it is gone."""
    with contextlib.closing(daemon.connect()) as caller:
        report = daemon.frames.state(caller.call(daemon.frames.status()))
    os.kill(report.pid, signal.SIGTERM)
    until = time.monotonic() + _END_S
    while os.path.exists(f"/proc/{report.pid}"):
        if time.monotonic() > until:
            raise Broken("the daemon did not end")
        time.sleep(0.01)


ROWS = (
    *(
        Row(
            f"turn-{form}",
            f"on_turn_complete, p99 of 200 turns to 1.5 MB during a busy thread, {form} / json.dumps of it",
            Goal(1.0, "an agent waits 5 ms at most, which is what writing the window out once takes"),
            _turn(form),
            inside("window-as-json", form),
        )
        for form in ("openai", "anthropic")
    ),
    Row(
        "autostart-30",
        "30 clients that find no daemon at once, the slowest call / one client",
        Goal(2.5, "one starts it for all: 2.5 s are a client's whole deadline, and one start takes a second"),
        _starts(_CALLERS),
        _starts(1),
        warm_up=False,
        slow=True,
    ),
)
