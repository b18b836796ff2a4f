"""A daemon with memories and an agent, both traced, and recordings of their flows.

A recording begins with an action. It ends after the visible end, when no process has entered a function for
a while, heartbeats aside. It is made three times, after one that is discarded, because that one does
first-time work. A file belongs to a flow if all three entered it; so the daemon's periodic work (its scan
every half minute, say) is left out. A text file that a module has read belongs to the flows that enter the
module. An action whose end was missed is recorded again.

A flow may be cut at an earlier moment, after which calls of no process count: when a memory file is linked
to its name, or when the agent has the reply.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.house.traces import Call, Traces
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess

HERE = Path(__file__).parent
SESSION = "session"
PROCESSES = ("client", "daemon", "worker")
RUNS, _MOST_RUNS = 3, 8
_QUIET_S = 0.3
_IDLE_S = 1.3  # longer than the longest period of a heartbeat, which is a second
# Methods through which asyncio hands received data to a connection: the start of a request.
_RECEIVING = ("data_received", "buffer_updated")


class Walk(NamedTuple):
    """The files that one process entered in each run of a flow, in order of the first entry.

    `data` are the text files that belong to these. `calls` are those of the last run. `switches` are calls
    into another of the files than the call before, in the run with the fewest. `own` are the files that the
    request's own task entered, in its order; all files where no request came in. `sometimes` were entered in
    one run or two.
    """

    files: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    calls: Counter[str] = Counter()  # noqa: RUF012 - never changed
    switches: int = 0
    own: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()


class Flow(NamedTuple):
    """One flow of data: the walks of its processes. `has_limit` is false if it is only shown."""

    title: str
    client: Walk
    daemon: Walk
    worker: Walk
    has_limit: bool = True


class Run(NamedTuple):
    """One recording: its calls, the time of the first linked memory file (0: never), the end of `act`."""

    calls: list[Call]
    linked_at: int
    acted_at: int


class Stage:
    """Daemon, agent and traces of the flows. `say` has the agent call a method and returns the reply."""

    def __init__(
        self, daemon: DaemonProcess, agent: subprocess.Popen[bytes], repo: Path, traces: Traces
    ) -> None:
        self.daemon = daemon
        self.repo = repo
        self._agent = agent
        self._traces = traces

    def say(self, method: str, *arguments: object, **named: object) -> Any:
        assert self._agent.stdin is not None
        assert self._agent.stdout is not None
        self._agent.stdin.write(msgspec.json.encode([method, arguments, named]) + b"\n")
        self._agent.stdin.flush()
        answer = self._agent.stdout.readline()
        assert answer, f"the agent ended\n{self.daemon.log()}"
        return msgspec.json.decode(answer)

    def memory_files(self) -> frozenset[Path]:
        tops = (self.repo, self.daemon.home)
        return frozenset(path for top in tops for path in (top / ".forge").rglob("*.md"))

    def learn_heartbeats(self) -> None:
        """Trace an idle daemon twice; rarer work is seen once at most."""
        self._wait_until_quiet(time.monotonic_ns())
        seen = []
        for _ in range(2):
            since = time.monotonic_ns()
            time.sleep(_IDLE_S)
            seen.append({call.edge for call in self._traces.calls(since)})
        self._traces.heartbeats = frozenset.intersection(*map(frozenset, seen))

    def record(
        self,
        title: str,
        act: Callable[[int], object],
        *,
        before: Callable[[int], object],
        is_whole: Callable[[int], bool],
    ) -> list[Run]:
        """Record `act(number)` until it was complete three times, after a discarded first one.

        `before` prepares it unrecorded. `is_whole` checks afterwards, by requests, that its end had come.
        """
        runs: list[Run] = []
        for number in range(_MOST_RUNS):
            before(number)
            run = self._recorded(lambda: act(number))  # noqa: B023 - called at once
            if is_whole(number) and number:
                runs.append(run)
            if len(runs) == RUNS:
                return runs
        raise AssertionError(f"{title}: its end was missed in {_MOST_RUNS - len(runs)} of {_MOST_RUNS} runs")

    def flow(self, title: str, runs: Sequence[Run], *, has_limit: bool = True) -> Flow:
        calls = [run.calls for run in runs]
        return Flow(title, *(self._walk(calls, role) for role in PROCESSES), has_limit=has_limit)

    def _walk(self, runs: Sequence[Sequence[Call]], role: str) -> Walk:
        readings = [call for call in self._traces.readings if self._role(call) == role]
        return walk([[call for call in run if self._role(call) == role] for run in runs], readings)

    def _recorded(self, act: Callable[[], object]) -> Run:
        self._wait_until_quiet(time.monotonic_ns())
        since = time.monotonic_ns()
        act()
        acted_at = time.monotonic_ns()
        eventually(lambda: self._traces.calls(since), PATIENCE_S)
        self._wait_until_quiet(since)
        calls = self._traces.calls(since)
        linked_at = min((each.at for each in self._traces.links if each.at >= since), default=0)
        return Run(calls, linked_at, acted_at)

    def _wait_until_quiet(self, since: int) -> None:
        def is_quiet() -> bool:
            calls = self._traces.calls(since)
            last = calls[-1].at if calls else since
            return time.monotonic_ns() - last > _QUIET_S * 1e9

        eventually(is_quiet, PATIENCE_S)

    def _role(self, call: Call) -> str:
        return {self._agent.pid: "client", self.daemon.pid: "daemon"}.get(call.pid, "worker")


def until_linked(run: Run) -> Run:
    """Cut a recording at the moment at which its memory file was linked."""
    assert run.linked_at, "no memory file was linked"
    return run._replace(calls=[call for call in run.calls if call.at <= run.linked_at])


def until_answered(run: Run) -> Run:
    """Cut a recording at the moment at which the agent had its reply."""
    return run._replace(calls=[call for call in run.calls if call.at <= run.acted_at])


def walk(runs: Sequence[Sequence[Call]], readings: Sequence[Call]) -> Walk:
    entered = Counter(file for run in runs for file in dict.fromkeys(call.file for call in run))
    last = runs[-1]
    ordered = dict.fromkeys(call.file for run in reversed(runs) for call in run)
    files = {file: None for file in ordered if entered[file] == len(runs)}
    causes = {call.cause for call in last if call.function.rpartition(".")[2] in _RECEIVING}
    own = dict.fromkeys(call.file for call in last if not causes or call.cause in causes)
    return Walk(
        files=tuple(files),
        data=tuple(sorted({call.file for call in readings if call.caller.partition(":")[0] in files})),
        calls=Counter(call.file for call in last),
        switches=min(_switches([call.file for call in run if call.file in files]) for run in runs),
        own=tuple(file for file in own if file in files),
        sometimes=tuple(sorted(set(entered) - set(files))),
    )


def _switches(files: Sequence[str]) -> int:
    return sum(one != other for one, other in itertools.pairwise(files))


@contextlib.contextmanager
def staged(top: Path, model: str) -> Iterator[Stage]:
    """Start daemon and agent under an empty folder; both are gone at the end."""
    home, repo, folder = top / "home", top / "home" / "repo", top / "traces"
    (repo / ".git").mkdir(parents=True)
    folder.mkdir()
    watched = {
        "PYTHONPATH": str(HERE / "hook"),
        "HOUSE_TO": str(folder),
        "HOUSE_OF": os.pathsep.join(map(_directory, ("forged", "forged_client"))),
    }
    daemon = DaemonProcess(home, env={**watched, "FORGED_MEMORY__EMBEDDING_MODEL": model})
    try:
        daemon.start()
        with _agent(daemon, repo) as agent:
            yield Stage(daemon, agent, repo, Traces(folder))
        daemon.stop()
    finally:
        daemon.close()


@contextlib.contextmanager
def _agent(daemon: DaemonProcess, repo: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, HERE / "agent.py", daemon.socket, repo, SESSION],
        env=daemon.env,
        cwd=repo,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as agent:
        try:
            yield agent
            assert agent.stdin is not None
            agent.stdin.close()
            agent.wait(PATIENCE_S)
        finally:
            agent.kill()


def _directory(package: str) -> str:
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    return os.path.dirname(found.origin)
