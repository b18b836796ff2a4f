"""Context of a request: the daemon's parts for the handlers, and the record of refused writes.

Refused writes are reported until one succeeds. While `state.db` is not open, its refusals are only counted.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from forged import config
from forged.capture import CaptureService
from forged.config import Setting
from forged.counters import Metrics
from forged.daemon.handlers.wire_types import generation_of, memory_record, without_texts
from forged.errors import ForgedError, NotReady, StoreError
from forged.fair_queue import Activity
from forged.files import AGENT_ID, Watcher, atomic
from forged.map import VectorMap
from forged.maps import Indexer
from forged.memories import PATIENCE_S, MemoryParts
from forged.memory import Memory, Scope
from forged.models import EndpointHealth, Governor
from forged.retrieval import Retriever
from forged.sessions import Sessions
from forged.state import Receipt, State
from forged.stores import Resolver, SessionMemories, SessionViews, View, Workplace, facts_in_session
from forged.trust import TrustRegistry
from forged_client import protocol as wire
from forged_client.framing import HEADER_BYTES, encode
from forged_client.protocol import Reply

if TYPE_CHECKING:
    from forged.postgres import RootSync, SharedServer

_ADDED_S = 1.0


class DaemonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a daemon for `status` that do not change; `lacking` are the reasons for missing models."""

    socket: str
    build: str = ""
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...]
    lacking: tuple[str, ...] = ()
    embedding_model: str
    classifier: str
    started_at: float


class Probe(msgspec.Struct, frozen=True):
    """A model at an endpoint, and one real call to it, which ends in time or raises ProviderError."""

    health: EndpointHealth
    call: Callable[[float], Awaitable[object]]


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a daemon; `disabled` is the reason why retrieval is off, `reload` may start over."""

    epoch: str
    config: config.Config
    disabled: str
    about: DaemonFacts
    metrics: Metrics
    activity: Activity = msgspec.field(default_factory=Activity)
    indexer: Indexer
    watcher: Watcher
    retriever: Retriever
    memories: MemoryParts
    resolver: Resolver
    trust: TrustRegistry
    refused_writes: RefusedWrites
    sessions: Sessions
    session_memories: SessionMemories
    session_views: SessionViews
    capture: CaptureService
    governor: Governor
    healths: tuple[EndpointHealth, ...] = ()
    probes: tuple[Probe, ...] = ()
    state: State
    connections: Callable[[], int]
    reload: Callable[[], Awaitable[bool]]
    shared: SharedServer | None = None
    machines: RootSync | None = None


R = TypeVar("R", bound=Reply)


class Disabled(ForgedError):  # noqa: N818 - reads as the state it names
    """Memory is off here. No failure: the reply has this `status`, and the message as `reason`."""


class KeyedRequest(msgspec.Struct):
    """Key and digest of a request; `reply` is its reply, or the planned one after a kill."""

    key: str
    digest: str
    reply: Reply | None = None
    is_given: bool = False


class Context(msgspec.Struct, frozen=True):
    """Context of a request: the daemon, its arrival (monotonic clock), and its key, if it has one."""

    daemon: Daemon
    arrived: float
    keyed: KeyedRequest | None = None

    def planned(self, kind: type[R]) -> R | None:
        """Return the sent or planned reply of an earlier attempt; None for a new request."""
        reply = None if self.keyed is None else self.keyed.reply
        return reply if isinstance(reply, kind) else None

    async def plan(self, reply: Reply) -> None:
        """Record the planned reply, durably, before the first step. Raises StoreError."""
        if (keyed := self.keyed) is not None:
            receipt = Receipt(keyed.digest, encode(without_texts(reply))[HEADER_BYTES:])
            await self.daemon.state.receipts.put(keyed.key, receipt)

    async def view(self, place: Workplace, token: str) -> View:
        """Return the view of a generation, after at most 5 s, 1 s of them for own additions."""
        now, asked = time.monotonic(), generation_of(self.daemon.epoch, token)
        added = place.files.added()
        if added > asked:
            await place.files.view(added, now + _ADDED_S)
        return await place.files.view(asked, now + PATIENCE_S)

    def memory_record(self, home: VectorMap, found: Memory) -> wire.MemoryRecord:
        """Return a memory with its attributes; an agent's memory gets its agent from the root."""
        if home.scope == Scope.SESSION:
            return memory_record(home, found, facts_in_session(self.daemon.session_memories, found.id))
        facts, name = self.daemon.state.facts(home.root, found.id), os.path.basename(home.root)
        if home.scope == Scope.AGENT and AGENT_ID.fullmatch(name):
            facts = msgspec.structs.replace(facts, agent_id=name)
        return memory_record(home, found, facts)

    async def resumed(self) -> None:
        """Wait at most 5 s until interrupted operations are finished. Raises NotReady."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.daemon.state.intents.resumed.wait()
        except TimeoutError:
            raise NotReady(
                "the daemon is still finishing what was interrupted before its start; try again in a moment"
            ) from None


# Outcomes of a capture and of a past session, and fates of a draft and of a document, after a write.
_STORED = frozenset({"durable", "waiting", "classified", "new", "replaced", "completed"})
# Words in the sentence of a refusal: a rejected capture has no error code.
_FULL = ("no space left", "quota", "database or disk is full")
_FORBIDDEN = ("permission denied", "read-only")
_LONGEST = 300
# Verb of the daemon's own trial, and the bytes that it writes.
_TRIAL, _TRIAL_BYTES = "a trial", bytes(4096)


class RefusedWrites:
    """Refused writes by reason and verb, for `status`. Nothing is raised."""

    def __init__(self, metrics: Metrics, state: State) -> None:
        self._metrics = metrics
        self._state = state
        self._newest: dict[str, str] = {}  # by verb, the newest refusal last
        self._since = Counter[str]()  # by reason, since the last success
        self._tried: Sequence[str] = ()  # folders of the last failed trial

    async def try_out(self, folders: Sequence[str]) -> None:
        """Write into each folder and leave nothing: a disk that was full before a start may still be full."""
        refusals = await asyncio.to_thread(lambda: list(filter(None, map(_trial, folders))))
        self._tried = folders if refusals else ()
        if refusals:
            self._refused(_TRIAL, refusals[0])

    async def try_again(self) -> None:
        """Repeat a failed trial, and forget its refusal once it succeeds."""
        if _TRIAL in self._newest and not await asyncio.to_thread(lambda: any(map(_trial, self._tried))):
            self._succeeded(_TRIAL)

    def failed(self, request: wire.Request[wire.Reply], error: StoreError) -> None:
        """Take note of a write that failed."""
        if request.is_write and error.code == StoreError.code:
            self._refused(_verb(request), str(error))

    def answered(self, request: wire.Request[wire.Reply], reply: wire.Reply) -> None:
        """Take note of a write's reply: it may report that the disk refused all or some."""
        if refusals := _refusals(reply):
            for sentence in refusals:
                self._refused(_verb(request), sentence)
        elif reply.status == "ok" and _is_stored(reply):
            self._succeeded(_verb(request))

    def _succeeded(self, verb: str) -> None:
        self._newest.pop(verb, None)
        if not self._newest:
            self._since.clear()

    def _refused(self, verb: str, sentence: str) -> None:
        message = sentence.lower()
        if any(words in message for words in _FULL):
            reason = "for a full disk"
            self._metrics.writes_refused_full += 1
        elif any(words in message for words in _FORBIDDEN):
            reason = "for missing permission"
            self._metrics.writes_refused_forbidden += 1
        else:
            reason = "for another reason"
            self._metrics.writes_refused_otherwise += 1
        if not (self._state.problem and self._state.problem in sentence):
            self._since[reason] += 1
            self._newest.pop(verb, None)
            self._newest[verb] = sentence[:_LONGEST]

    @property
    def sentence(self) -> str:
        """Sentence on the refused writes, "" if there are none."""
        if not self._newest:
            return ""
        verb, newest = next(reversed(self._newest.items()))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self._since.most_common())
        total = self._since.total()
        writes = "1 write was" if total == 1 else f"{total:,} writes were"
        return f"{writes} refused ({counts}); the last, {verb}: {newest}"


def _trial(folder: str) -> str:
    """Return the error of a trial write to a folder, or ""; a missing folder is no error."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_TRIAL_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot write into {folder}: {atomic.why(error)}"
    return ""


def _refusals(reply: wire.Reply) -> tuple[str, ...]:
    """Return the sentences on parts of a request that the disk refused."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        code, _, sentence = reply.reason.partition(": ")
        return (sentence,) if reply.outcome == "rejected" and code == StoreError.code else ()
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return tuple(outcome.reason for outcome in reply.outcomes if outcome.code == StoreError.code)
    return ()


def _is_stored(reply: wire.Reply) -> bool:
    """Return False if nothing went to disk: a capture may wait in memory, and a text may exist already."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        return reply.outcome in _STORED
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return any(outcome.result in _STORED for outcome in reply.outcomes)
    return not (isinstance(reply, wire.Remembered) and reply.existed)


def _verb(request: object) -> str:
    return type(request).__name__.lower()
