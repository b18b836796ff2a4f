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
from typing import TypeVar

import msgspec

from forged import config
from forged.capture import CaptureService
from forged.config import Setting
from forged.counters import Metrics
from forged.daemon.connection import UNKNOWN, Peer
from forged.daemon.handlers.wire_types import generation_of, memory_record, without_texts
from forged.errors import ForgedError, NotReady, StoreError
from forged.fair_queue import Activity
from forged.files import AGENT_ID, Watcher, atomic
from forged.map import VectorMap
from forged.maps import Indexer
from forged.memories import PATIENCE_S, MemoryParts, sharing
from forged.memory import OF_PERSON, Memory, Origin, Scope
from forged.models import EndpointHealth, Governor
from forged.retrieval import Retriever
from forged.sessions import Sessions
from forged.state import Receipt, State
from forged.stores import Resolver, SessionMemories, SessionViews, View, Workplace, facts_in_session
from forged.trust import TrustRegistry
from forged_client import protocol as wire
from forged_client.framing import HEADER_BYTES, encode
from forged_client.protocol import Reply

_ADDED_S = 1.0


class DaemonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed facts of a daemon for `status`; `lacking` says why models or the shared server are missing."""

    socket: str
    build: str = ""
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...]
    lacking: tuple[str, ...] = ()
    embedding_model: str
    classifier: str
    started_at: float


class Probe(msgspec.Struct, frozen=True):
    """A test call to a model, which gets a deadline and may raise ProviderError, and the health to report."""

    health: EndpointHealth
    call: Callable[[float], Awaitable[object]]


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of a daemon, for the handlers; `disabled` is the reason why retrieval is off, or ""."""

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
    disk_refusals: DiskRefusals
    sessions: Sessions
    session_memories: SessionMemories
    session_views: SessionViews
    capture: CaptureService
    governor: Governor
    healths: tuple[EndpointHealth, ...] = ()
    probes: tuple[Probe, ...] = ()
    state: State
    connections: Callable[[], int]
    reload: Callable[[], Awaitable[bool]]  # starts over if the configuration has changed
    sharing: sharing.Sharing


R = TypeVar("R", bound=Reply)


class Disabled(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised if a needed part is off or paused here; the reply is `disabled`, its `reason` the message."""


class KeyedRequest(msgspec.Struct):
    """Key and digest of a request that may be repeated, and its reply: sent, or planned before a kill."""

    key: str
    digest: str
    reply: Reply | None = None
    is_given: bool = False


class Context(msgspec.Struct, frozen=True):
    """Context of one request for its handler: the daemon, arrival (monotonic clock), key if any, and peer."""

    daemon: Daemon
    arrived: float
    keyed: KeyedRequest | None = None
    peer: Peer = UNKNOWN

    async def doubt(self) -> str:
        """Return why the request may not be of a person at a terminal, or ""."""
        return await asyncio.to_thread(self.peer.doubt)

    async def origin_of(self, claimed: str) -> tuple[str, str]:
        """Return the origin of a text that claims one, and a note if the claim is not believed."""
        if claimed not in OF_PERSON or not (doubt := await self.doubt()):
            return claimed, ""
        return Origin.AGENT, f"kept as written by an agent, because {doubt}"

    def planned(self, kind: type[R]) -> R | None:
        """Return the sent or planned reply of an earlier attempt of this request; None for a new one."""
        reply = None if self.keyed is None else self.keyed.reply
        return reply if isinstance(reply, kind) else None

    async def plan(self, reply: Reply) -> None:
        """Store a keyed request's planned reply on disk, before it writes. Raises StoreError."""
        if (keyed := self.keyed) is not None:
            receipt = Receipt(keyed.digest, encode(without_texts(reply))[HEADER_BYTES:])
            await self.daemon.state.receipts.put(keyed.key, receipt)

    async def view(self, place: Workplace, token: str) -> View:
        """Return a view once it shows a generation and all that this daemon wrote, or after 6 s."""
        now, asked = time.monotonic(), generation_of(self.daemon.epoch, token)
        added = place.files.added_generation()
        if added > asked:
            await place.files.view(added, now + _ADDED_S)
        return await place.files.view(asked, now + PATIENCE_S)

    def memory_record(self, home: VectorMap, found: Memory) -> wire.MemoryRecord:
        """Return a stored memory as a wire record with attributes; an agent's memory gets its agent."""
        if home.scope == Scope.SESSION:
            return memory_record(home, found, facts_in_session(self.daemon.session_memories, found.id))
        facts, name = self.daemon.state.facts(home.root, found.id), os.path.basename(home.root)
        if home.scope == Scope.AGENT and AGENT_ID.fullmatch(name):
            facts = msgspec.structs.replace(facts, agent_id=name)
        return memory_record(home, found, facts)

    async def wait_until_resumed(self) -> None:
        """Wait at most 5 s until operations that a kill interrupted are finished. Raises NotReady."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.daemon.state.intents.resumed.wait()
        except TimeoutError:
            raise NotReady(
                "the daemon is still finishing what was interrupted before its start; try again in a moment"
            ) from None


# Outcomes of a capture and of a past session, and fates of a draft and of a document, after a write.
_STORED = frozenset({"durable", "waiting", "classified", "new", "replaced", "completed", "moved"})
# Words in the sentence of a refusal: a rejected capture has no error code.
_FULL = ("no space left", "quota", "database or disk is full")
_FORBIDDEN = ("permission denied", "read-only")
_LONGEST = 300
# Verb of the daemon's own trial, and the bytes that it writes.
_TRIAL, _TRIAL_BYTES = "a trial", bytes(4096)


class DiskRefusals:
    """Writes that the disk refused, for `status`, until they succeed again; `try_out` tests a disk."""

    def __init__(self, metrics: Metrics, state: State) -> None:
        self._metrics = metrics
        self._state = state
        self._newest: dict[str, str] = {}  # by verb, the newest refusal last
        self._since = Counter[str]()  # by reason, since the last success
        self._tried: Sequence[str] = ()  # folders of the last failed trial

    async def try_out(self, folders: Sequence[str]) -> None:
        """Write into each folder as a trial, and record a failure for `status`; nothing is left there."""
        refusals = await asyncio.to_thread(lambda: list(filter(None, map(_try_write, folders))))
        self._tried = folders if refusals else ()
        if refusals:
            self._note_refusal(_TRIAL, refusals[0])

    async def try_again(self) -> None:
        """Repeat a failed trial of folders, and drop its refusal once all can be written."""
        if _TRIAL in self._newest and not await asyncio.to_thread(lambda: any(map(_try_write, self._tried))):
            self._note_success(_TRIAL)

    def note_failure(self, request: wire.Request[wire.Reply], error: StoreError) -> None:
        """Record a write that failed with StoreError; other requests are ignored."""
        if request.is_write and error.code == StoreError.code:
            self._note_refusal(_verb(request), str(error))

    def note_reply(self, request: wire.Request[wire.Reply], reply: wire.Reply) -> None:
        """Record disk errors that a write's reply reports; a success ends earlier ones of its verb."""
        if refusals := _disk_errors_in(reply):
            for sentence in refusals:
                self._note_refusal(_verb(request), sentence)
        elif reply.status == "ok" and _is_stored(reply):
            self._note_success(_verb(request))

    def _note_success(self, verb: str) -> None:
        """Drop the refusal of a verb that succeeded; without any left, count from zero."""
        self._newest.pop(verb, None)
        if not self._newest:
            self._since.clear()

    def _note_refusal(self, verb: str, sentence: str) -> None:
        """Count a refused write by its reason, and keep its sentence as the newest of its verb."""
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
        """Sentence on the writes that the disk refused, with counts and the last one; "" without any."""
        if not self._newest:
            return ""
        verb, newest = next(reversed(self._newest.items()))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self._since.most_common())
        total = self._since.total()
        writes = "1 write was" if total == 1 else f"{total:,} writes were"
        return f"{writes} refused ({counts}); the last, {verb}: {newest}"


def _try_write(folder: str) -> str:
    """Write to a folder as a trial; return the error, or "". A missing folder is no error."""
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


def _disk_errors_in(reply: wire.Reply) -> tuple[str, ...]:
    """Return the disk errors that a reply itself reports, as for parts of its request."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        code, _, sentence = reply.reason.partition(": ")
        return (sentence,) if reply.outcome == "rejected" and code == StoreError.code else ()
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return tuple(outcome.reason for outcome in reply.outcomes if outcome.code == StoreError.code)
    return ()


def _is_stored(reply: wire.Reply) -> bool:
    """Return True if a reply means that something went to disk; False for a text that existed."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        return reply.outcome in _STORED
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return any(outcome.result in _STORED for outcome in reply.outcomes)
    return not (isinstance(reply, wire.Remembered) and reply.existed)


def _verb(request: object) -> str:
    """Return the name of a request's type in lower case."""
    return type(request).__name__.lower()
