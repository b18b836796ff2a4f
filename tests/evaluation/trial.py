"""One measurement: memories on disk, a daemon over them, every question asked through the client.

What counts is what was injected: the memories of the reply, in their order. Those that came along an edge
stand apart (`scores`). A question without an answer (an error, a deadline) scores 0 and is counted, so that
a failing model never looks like a good one that was asked less.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from forged.cli.demo.stage import run_daemon
from forged.errors import ForgedError
from forged_client import Client
from forged_client.protocol import Retrieved, RootReport
from tests.evaluation import injected, scores, stores
from tests.evaluation.dataset import Item, Query, Repository
from tests.evaluation.injected import Brought, Injected, One
from tests.evaluation.injected_text import Reader
from tests.evaluation.scores import Interval, Score, Summary
from tests.evaluation.settings import TOP_K, Prepared, Subject
from tests.evaluation.stores import World

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""

LEARNING = "the gate learns what everyday messages look like to the model"
"""What is being done when nothing is asked yet although every memory has its vector."""

_BUILD_S = 3600.0
_CALL_S = 60.0
_LOOK_S = 0.05
ANSWERED = {"ok", "empty"}
PINNED = "pinned"


class MeasurementFailed(ForgedError):  # noqa: N818 - reads as the state it names
    """No figure can be had: what was to be measured, or the model it was to use, is not there."""


class OffTopicCount(msgspec.Struct, frozen=True):
    """How many of the messages that nothing helps with were answered with something all the same."""

    messages: int
    injected: int
    rate: float
    interval: Interval


class Failure(msgspec.Struct, frozen=True):
    """A reason why questions were not answered, or answered by less than they should have been."""

    reason: str
    count: int


class Outcome(msgspec.Struct, frozen=True):
    """What one measurement came to. `indexes` answered; seconds are of this machine and day."""

    indexes: tuple[str, ...]
    memories: int
    total: Summary
    kinds: tuple[Summary, ...]
    off_topic: OffTopicCount | None
    failures: tuple[Failure, ...]
    scores: tuple[Score, ...]
    build_s: float
    ask_s: float
    injected: Injected | None = None
    injected_kinds: tuple[Injected, ...] = ()

    @property
    def failed(self) -> int:
        return sum(failure.count for failure in self.failures)


def run(world: World, subjects: Iterable[Prepared], progress: Progress) -> Iterator[tuple[Subject, Outcome]]:
    """Measure each subject in a scratch directory.

    Neighbours that want the same daemon share it, so that a model embeds the world once for them.
    Raises NotStarted, MeasurementFailed, and ClientError when the daemon is lost meanwhile.
    """
    for variables, alike in groupby(subjects, lambda prepared: prepared.variables):
        with TemporaryDirectory(prefix="forged-eval-") as name:
            scratch = Path(name)
            workspaces = stores.settle(world, scratch / "home", scratch / "repos")
            with asked_daemon(scratch, variables) as client:
                for prepared in alike:
                    subject = prepared.subject
                    yield subject, measure(client, world, workspaces, subject, progress)


@contextmanager
def asked_daemon(scratch: Path, variables: Mapping[str, str]) -> Iterator[Client]:
    """A strict client of a daemon over `scratch`; `variables` are its others than HOME and address."""
    address = str(scratch / "run" / "forged.sock")
    env = {**variables, "HOME": str(scratch / "home"), "FORGED_SOCKET": address}
    with (
        run_daemon(env, scratch / "daemon.log"),
        Client(address, timeout_s=_CALL_S, strict=True, name="eval") as client,
    ):
        yield client


def measure(
    client: Client, world: World, workspaces: Sequence[str], subject: Subject, progress: Progress
) -> Outcome:
    """Wait until all of the world has vectors and the gate knows the model, and ask.

    `workspaces` are those of the world's stores.
    """
    began = time.monotonic()
    build(client, workspaces, progress)
    await_gate(client, progress)
    indexes = indexes_of(client, subject)
    built = time.monotonic()
    asking = _Asking(client, subject, indexes, world, progress)
    judged = tuple(
        score
        for store, workspace in zip(world.stores, workspaces, strict=True)
        for score in asking.queries(store, workspace)
    )
    if not judged:
        raise MeasurementFailed("there is no query to ask")
    off_topic = asking.off_topic(workspaces) if subject.asks_off_topic else None
    return Outcome(
        indexes=indexes,
        memories=len(world.user) + sum(len(store.items) for store in world.stores),
        total=scores.summary("all", judged),
        kinds=scores.by_kind(judged),
        off_topic=off_topic,
        failures=tuple(Failure(reason, count) for reason, count in asking.failures.most_common()),
        scores=judged,
        build_s=round(built - began, 3),
        ask_s=round(time.monotonic() - built, 3),
        injected=injected.figures(asking.brought),
        injected_kinds=injected.by_kind(asking.brought),
    )


def build(client: Client, workspaces: Sequence[str], progress: Progress) -> None:
    """Have every store indexed, with the vectors of all its texts. Raises MeasurementFailed."""
    for workspace in workspaces:
        client.trust(workspace, action="trust")  # its files were written by the measurement itself
        client.rebuild(workspace)  # opens it; all before one is waited for: each sets all watches anew
    _follow(client, progress)
    for workspace in workspaces:
        reply = client.rebuild(workspace, wait=True, timeout_s=_BUILD_S)
        if reply.status != "ok":
            raise MeasurementFailed(f"the memories were not indexed: {reply.reason or reply.status}")


def _follow(client: Client, progress: Progress) -> None:
    """Show how far the builds are, until they have ended one way or another."""
    while True:
        roots = client.status().roots
        progress("embedding", sum(root.embedded for root in roots), sum(root.to_embed for root in roots))
        if not any(root.state in {"loading", "building"} for root in roots):
            return
        time.sleep(_LOOK_S)


def await_gate(client: Client, progress: Progress) -> None:
    """Wait while words judge in place of the model: figures of the first questions would be theirs."""
    deadline = time.monotonic() + _BUILD_S
    while (gate := client.status().gate).state == "learning" and time.monotonic() < deadline:
        progress(LEARNING, 0, 0)
        time.sleep(_LOOK_S)
    if gate.state in {"learning", "failing"}:
        raise MeasurementFailed(f"the gate could not learn the model: {gate.reason or 'it took too long'}")


def indexes_of(client: Client, subject: Subject) -> tuple[str, ...]:
    """The indexes that all stores have. Raises MeasurementFailed if the model's is missing somewhere."""
    report = client.status()
    filled = [root for root in report.roots if root.memories]
    lacking = next((root for root in filled if "dense" not in root.indexes or root.quarantined), None)
    if lacking is not None and subject.needs_vectors:
        why = _why_lacking(lacking, report.warnings)
        raise MeasurementFailed(f"{subject.model} gave no vectors: {why}")
    common = set.intersection(*(set(root.indexes) for root in filled)) if filled else set[str]()
    return tuple(sorted(common))


def _why_lacking(root: RootReport, warnings: Iterable[str]) -> str:
    if root.quarantined:
        return f"{root.quarantined} texts are refused"
    return root.last_error or "; ".join(warnings) or "see `forgectl doctor`"


class _Asking:
    """The questions of one measurement, and what went wrong with them."""

    def __init__(
        self, client: Client, subject: Subject, indexes: tuple[str, ...], world: World, progress: Progress
    ) -> None:
        self.failures: Counter[str] = Counter()
        self.brought: list[Brought] = []
        self._client = client
        self._by_search = subject.by_search
        self._in_session = subject.in_session
        self._by_caller = subject.strategy == "caller"
        self._indexes = frozenset(indexes)
        self._world = world
        self._progress = progress
        self._asked = 0

    def queries(self, store: Repository, workspace: str) -> Iterator[Score]:
        """Scores of a store's queries; with the caller's strategy of those that have hypotheses."""
        visible = (*store.items, *self._world.user)
        by_id = {item.memory.id: item for item in visible}
        reader = Reader(visible)
        for query in store.queries:
            if query.hypotheses or not self._by_caller:
                hypotheses = query.hypotheses if self._by_caller else ()
                reply = self._ask(workspace, query.text, hypotheses)
                self.brought.append(_brought(query, reply, by_id, reader))
                yield _judged(query, reply, by_id, visible)

    def off_topic(self, workspaces: Sequence[str]) -> OffTopicCount | None:
        """Ask each store its messages; None if there are none."""
        brought = [
            _others(self._ask(workspace, message, ()), reader)
            for store, workspace, messages in zip(
                self._world.stores, workspaces, self._world.off_topic, strict=True
            )
            for reader in [Reader((*store.items, *self._world.user))]
            for message in messages
        ]
        if not brought:
            return None
        self.brought += brought
        hits = [bool(each.searched) for each in brought]
        return OffTopicCount(len(hits), sum(hits), sum(hits) / len(hits), scores.interval(hits))

    def _ask(self, workspace: str, text: str, hypotheses: Sequence[str]) -> Retrieved:
        reply = self._reply(workspace, text, hypotheses)
        if reply.status not in ANSWERED:
            self.failures[reply.reason or reply.status] += 1
        elif not self._indexes.issubset(reply.indexes):
            self.failures[f"answered by {', '.join(reply.indexes) or 'no index'} alone: {reply.reason}"] += 1
        self._asked += 1
        self._progress("asking", self._asked, self._world.questions)
        return reply

    def _reply(self, workspace: str, text: str, hypotheses: Sequence[str]) -> Retrieved:
        if self._by_search:
            found = self._client.search(workspace, text, limit=TOP_K)
            return Retrieved(
                status=found.status, reason=found.reason, memories=found.memories, indexes=found.indexes
            )
        session = f"eval-{self._asked}" if self._in_session else ""
        said = [{"role": "user", "content": text}]
        return self._client.retrieve(workspace, said, session_id=session, hypotheses=hypotheses)


def _brought(query: Query, reply: Retrieved, by_id: Mapping[str, Item], reader: Reader) -> Brought:
    items = [by_id[hit.id] for hit in reply.memories]
    pinned = _pinned(reply)
    came = [hit.id in pinned for hit in reply.memories]
    return injected.of_query(query, items, came, reader.parts(reply.text, pinned))


def _others(reply: Retrieved, reader: Reader) -> Brought:
    pinned = _pinned(reply)
    ones = tuple(One(is_pinned=hit.id in pinned) for hit in reply.memories)
    return Brought(ones, reader.parts(reply.text, pinned))


def _pinned(reply: Retrieved) -> frozenset[str]:
    return frozenset(hit.id for hit in reply.memories if hit.found.found_by == PINNED)


def _judged(query: Query, reply: Retrieved, by_id: Mapping[str, Item], visible: Sequence[Item]) -> Score:
    if reply.status not in ANSWERED:
        return Score(query.id, query.kind)
    ranked = [by_id[hit.id] for hit in reply.memories if hit.found.found_by == "search"]
    hopped = [by_id[hit.id] for hit in reply.memories if hit.found.found_by != "search"]
    return scores.judge(query, ranked, hopped, visible)
