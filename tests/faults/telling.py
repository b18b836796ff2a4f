"""Facts that are captured by a daemon, and a record of those that became memories.

Every event tells of one fact by name; a scripted provider plays the classifier and answers with a memory, or
several, for each fact in the window. It never says the same twice, so whatever is written for a second time
stands beside the first. So after any kill it can be said of every fact whether it is on disk, and how often.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from forged_client import Client
from forged_client.protocol import Captured, CaptureReport
from tests.faults.orders import Faults
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess, configuration, processes_with, state_of
from tests.support.provider import CHAT, Answer, Request, ScriptedProvider, proposal, reply

# What a killed daemon may leave its helpers, to notice and to end.
DISK_BYTES = 1 << 20
REPO = Path(__file__).parents[2]
PARTS = ("http", "grpc", "admin")
_ENV = {"PYTHONPATH": str(REPO), "FORGED_CAPTURE__BATCH_TURNS": "1"}
# What Python says when a process is being spawned and the one that spawns it is killed, and when the process
# ends between the removal of a semaphore and the note to the resource tracker that it is gone.
_CUT_SHORT = re.compile(
    r"^Traceback.*\n"
    r'(?:  File "(?:<string>|[^"]*/multiprocessing/\w+[.]py)".*\n(?:    .*\n)*)+'
    r"\w+(?:Error|Warning).*\n",
    re.MULTILINE,
)
_REPORTED = re.compile(r"FACT<([a-z0-9-]+)>")
_KEPT = re.compile(r"^Service (\S+) listens on port (\d+)\.$", re.MULTILINE)


def said(name: str) -> str:
    """What the user says about a fact."""
    return f"Please remember where FACT<{name}> listens, all of it."


def facts_in(request: Request) -> list[str]:
    """Names of the facts in the conversation that a classifier is asked about; none if it was cut short."""
    if len(request.body) < int(request.headers["content-length"]):
        return []
    return _REPORTED.findall(request.json["messages"][-1]["content"])


def classified(names: Iterable[str], parts: Iterable[str] = PARTS[:1], port: int = 8080) -> Answer:
    """The model's answer: a memory for every part of every fact."""
    contents = [f"Service {name}-{part} listens on port {port}." for name in names for part in parts]
    return reply(*(proposal(text, category="architectural-decisions") for text in contents))


@dataclass
class Telling:
    """A daemon with a model as classifier, and what it was told.

    `go` is clear while the model hangs. A `steady` model says the same again, as it must of an event that is
    told again because its acknowledgement was lost.
    """

    top: Path
    provider: ScriptedProvider
    daemon: DaemonProcess
    faults: Faults
    parts: tuple[str, ...] = PARTS[:1]
    go: threading.Event = field(default_factory=threading.Event)
    steady: bool = False
    durable: list[str] = field(default_factory=list)
    _ports: Iterator[int] = field(default_factory=lambda: itertools.count(10_000))

    def __post_init__(self) -> None:
        self.client = self.daemon.client()
        self.provider.chat = self._classify
        self.go.set()

    def _classify(self, _: ScriptedProvider, request: Request) -> Answer:
        port = 8080 if self.steady else next(self._ports)
        answer = classified(facts_in(request), self.parts, port)
        return Answer(answer.json, hold=self.go)

    # --- telling --------------------------------------------------------------------------------------

    def tell(self, name: str, kind: str = "explicit", client: Client | None = None) -> Captured:
        """Tell a fact in an event of its own; the session is the first part of its name."""
        messages = [{"role": "user", "content": said(name)}]
        session = name.partition("-")[0]
        reported = (client or self.client).capture(str(self.top), messages, session, kind=kind)
        if reported.outcome == "durable":
            self.durable.append(name)
        return reported

    def tell_for_sure(self, name: str, kind: str = "explicit") -> None:
        """Tell a fact until it is acknowledged, as an agent does that finds the daemon dead; restarts it."""
        while (reported := self.tell(name, kind)).outcome != "durable":
            assert reported.status in ("error", "unavailable"), reported
            self.back()  # fails if it lives

    # --- the daemon -----------------------------------------------------------------------------------

    def report(self) -> CaptureReport:
        with self.daemon.client(strict=True) as client:
            return client.status().capture

    def worker(self) -> int:
        """Process id of a worker that waits in `get`."""

        def idle() -> int:
            report = self.report()
            return report.worker_pid if report.state == "idle" and state_of(report.worker_pid) == "S" else 0

        return eventually(idle)

    def asked(self, name: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the model has been asked about a fact."""
        self.provider.wait_until(
            lambda: any(name in facts_in(request) for request in self.provider.requests(CHAT)), timeout_s
        )

    def finished(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until so many events have been finished since the daemon started."""
        eventually(lambda: self.report().finished >= count, timeout_s)

    def drained(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until nothing waits any more."""
        eventually(lambda: self.report().state == "idle", timeout_s, 0.05)

    def killed(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until a fault has killed the daemon."""
        eventually(lambda: self.daemon.process.poll() is not None, timeout_s, 0.005)

    def back(self, within_s: float = PATIENCE_S) -> None:
        """Start the daemon again once it is dead."""
        self.killed(within_s)
        self.daemon.start()

    def kill(self) -> float:
        """SIGKILL the daemon alone; seconds until nothing of it is left, its helpers included."""
        assert self.remaining()
        since = time.monotonic()
        os.kill(self.daemon.pid, signal.SIGKILL)
        self.killed()
        return self.gone(since)

    def gone(self, since: float) -> float:
        """Wait until no process of a dead daemon is left; seconds that took."""
        eventually(lambda: not self.remaining())
        return time.monotonic() - since

    def remaining(self) -> list[int]:
        """Processes that belong to the daemon, as their environment says."""
        return processes_with(self.daemon.socket)

    def seen(self, path: Path) -> Path:
        """The daemon's view of a path, for it may have mounts that we do not see."""
        return Path(f"/proc/{self.daemon.pid}/root{path}")

    # --- the account ----------------------------------------------------------------------------------

    def kept(self) -> Counter[str]:
        """How often each part of each fact is among the memories on disk."""
        directory = self.seen(self.top / ".forge/memory")
        texts = (_text_of(path) for path in directory.glob("*.md")) if directory.is_dir() else ()
        return Counter(name for text in texts for name, _ in _KEPT.findall(text))

    def keeps_once(self, names: Iterable[str]) -> bool:
        """Whether just these facts are on disk; a file whose directory cannot be synced comes and goes."""
        return self.kept() == Counter({f"{name}-{part}": 1 for name in names for part in self.parts})

    def assert_kept_once(self, names: Iterable[str]) -> None:
        """Every one of these facts is on disk, each part of it once, and nothing else is."""
        wanted = Counter({f"{name}-{part}": 1 for name in names for part in self.parts})
        kept = self.kept()
        assert kept == wanted, (sorted((wanted - kept).elements()), sorted((kept - wanted).elements()))

    def assert_in_order(self) -> None:
        """Events of a session were first asked about in the order in which they were told."""
        asked: dict[str, list[str]] = {}
        for request in self.provider.requests(CHAT):
            for name in facts_in(request):
                session = asked.setdefault(name.partition("-")[0], [])
                if name not in session:
                    session.append(name)
        for session in asked.values():
            assert session == sorted(session)


@contextlib.contextmanager
def telling(home: Path, *, parts: int = 1, disk: Path | None = None) -> Iterator[Telling]:
    """A started daemon that can be given faults, its provider, and a repository; all gone at the end.

    With `disk`, the daemon sees a small file system of its own there, for its state and the repository.
    """
    top = (disk or home) / "repo"
    (top / ".git").mkdir(parents=True)
    faults = Faults(home / "faults")
    with ScriptedProvider() as provider:
        daemon = DaemonProcess(
            home,
            env={**_ENV, **faults.env, **_state_on(disk)},
            config=configuration(provider, embedding_model="builtin:lexical", classifier_model="m"),
            command=(*_mounting(disk), sys.executable, "-m", "tests.faults.faulty"),
        )
        one = Telling(top, provider, daemon, faults, PARTS[:parts])
        try:
            daemon.start()
            yield one
            one.go.set()
            if daemon.process is not None and daemon.process.poll() is None:
                assert daemon.stop() == 0
            assert "Traceback" not in _CUT_SHORT.sub("", daemon.log()), daemon.log()
            one.gone(0)
        finally:
            one.client.close()
            daemon.close()
            for pid in one.remaining():  # a test that failed because of them
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _state_on(disk: Path | None) -> dict[str, str]:
    return {} if disk is None else {"XDG_STATE_HOME": str(disk / "state")}


def _mounting(disk: Path | None) -> tuple[str, ...]:
    """What to put before a command, so that it alone sees 1 MiB of memory at a place."""
    script = f'mount -t tmpfs -o size={DISK_BYTES} none "$0" && mkdir -p "$0/repo/.git" && exec "$@"'
    return () if disk is None else ("unshare", "-Urm", "sh", "-c", script, str(disk))


def can_mount() -> bool:
    """Whether this user may have a mount of its own."""
    try:
        return subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


# Files of a killed process stay in the page cache, so memory shows what a disk would, only sooner.
FAST = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


def _text_of(path: Path) -> str:
    """The text of a file that may be taken back at any moment."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
