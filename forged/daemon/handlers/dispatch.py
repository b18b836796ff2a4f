"""From a request to its reply: where it may be carried out, which function does it, what all replies share.

In: any request. Out: its reply, at once for `ping` and `hello`; for `events` a stream of replies; else a
coroutine of the reply. Each raises ForgedError for what cannot be carried out.

A handler gets the daemon's parts, the workspace as it was resolved if the verb has one, and the request. It
returns its reply, and beside it the generation of which the reply speaks, if there is one. Filled in here and
nowhere else: the `id` of the reply, its `generation`, and `disabled` with the reason where memory is off.

Writes that were refused because a disk did not take them: counted by reason, and told until one succeeds.
In: each request that writes, with its reply or what it raised. Out: a sentence for status' first line; it is
empty unless the newest write of some verb was refused. While `state.db` is not open that is the cause, which
status says by itself and which ends by itself: what it refuses is counted alone. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from forged.counters import Metrics
from forged.daemon.handlers import (
    capture,
    health,
    hook,
    importing,
    knowledge,
    looking,
    memories,
    moving,
    recall,
    records,
    restoring,
    retrieve,
    reviewing,
    trust,
    writing,
)
from forged.daemon.handlers.context import Context, Daemon, Keyed
from forged.daemon.handlers.convert import check_words, token_of, without_texts
from forged.daemon.handlers.refusals import Disabled
from forged.errors import Conflict, StoreError
from forged.files import atomic
from forged.scopes import Workplace
from forged.state import Receipt, State
from forged_client import protocol as wire
from forged_client.framing import HEADER_BYTES, decode_reply, encode

# Outcomes of a capture and of a past session, and fates of a draft and of a document, after a write.
_STORED = frozenset({"durable", "waiting", "judged", "new", "replaced", "completed"})
# By words of the sentence, which is all that a rejected capture has.
_FULL = ("no space left", "quota", "database or disk is full")
_FORBIDDEN = ("permission denied", "read-only")
_LONGEST = 300
# Stands for a verb where the daemon itself has tried, and what it writes then.
_TRIAL, _TRIAL_BYTES = "a trial", bytes(4096)


class RefusedWrites:
    """One for the daemon."""

    def __init__(self, metrics: Metrics, state: State) -> None:
        self._metrics = metrics
        self._state = state
        self._newest: dict[str, str] = {}  # by verb, the newest refusal last
        self._since = Counter[str]()  # by reason, since all went well
        self._tried: Sequence[str] = ()  # folders of which one took nothing

    async def try_out(self, folders: Sequence[str]) -> None:
        """Write into each folder and leave nothing: a disk that was full before a start may still be full."""
        refusals = await asyncio.to_thread(lambda: list(filter(None, map(_trial, folders))))
        self._tried = folders if refusals else ()
        if refusals:
            self._refused(_TRIAL, refusals[0])

    async def try_again(self) -> None:
        """End what a trial had found and is over by now."""
        if _TRIAL in self._newest and not await asyncio.to_thread(lambda: any(map(_trial, self._tried))):
            self._succeeded(_TRIAL)

    def failed(self, request: wire.Request[wire.Reply], error: StoreError) -> None:
        if request.is_write and error.code == StoreError.code:
            self._refused(_verb(request), str(error))

    def answered(self, request: wire.Request[wire.Reply], reply: wire.Reply) -> None:
        """Take note of a reply: one that succeeds may still say that the disk refused all or some of it."""
        if not request.is_write:
            return
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
        told = sentence.lower()
        if any(words in told for words in _FULL):
            reason = "for a full disk"
            self._metrics.writes_refused_full += 1
        elif any(words in told for words in _FORBIDDEN):
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
        """What a person has to know now, or nothing."""
        if not self._newest:
            return ""
        verb, newest = next(reversed(self._newest.items()))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self._since.most_common())
        total = self._since.total()
        writes = "1 write was" if total == 1 else f"{total:,} writes were"
        return f"{writes} refused ({counts}); the last, {verb}: {newest}"


def _trial(folder: str) -> str:
    """Return the error of a trial write to a folder, or nothing; a missing folder is no error."""
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
    """Sentences on what of a request the disk did not take: a capture's outcome, or fates of its parts."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        code, _, sentence = reply.reason.partition(": ")
        return (sentence,) if reply.outcome == "rejected" and code == StoreError.code else ()
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return tuple(fate.reason for fate in reply.fates if fate.code == StoreError.code)
    return ()


def _is_stored(reply: wire.Reply) -> bool:
    """True unless nothing went to disk: a capture may wait in memory, and a text may be there already."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        return reply.outcome in _STORED
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return any(fate.became in _STORED for fate in reply.fates)
    return not (isinstance(reply, wire.Remembered) and reply.existed)


def _verb(request: object) -> str:
    return type(request).__name__.lower()


Answered = wire.Reply | tuple[wire.Reply, int]
Handler = Callable[..., Awaitable[Answered]]


# Called with the context, the place of the workspace if one is needed, and the request. `Dispatcher.handle`
# answers a stream, a hook and what is answered at once, and the server a hand-over.
HANDLERS: Mapping[type, Handler] = {
    wire.Retrieve: retrieve.retrieve,
    wire.Search: looking.search,
    wire.Why: looking.why,
    wire.Recall: recall.recall,
    wire.Remember: writing.remember,
    wire.Edit: writing.edit,
    wire.Move: moving.move,
    wire.Restore: restoring.restore,
    wire.Import: importing.import_,
    wire.GetMemories: memories.get,
    wire.ListMemories: memories.list_page,
    wire.History: memories.history,
    wire.Forget: memories.forget,
    wire.Undo: capture.undo,
    wire.Capture: capture.capture,
    wire.Learn: records.learn,
    wire.Ingest: knowledge.ingest,
    wire.ListDocuments: knowledge.list_documents,
    wire.RemoveDocument: knowledge.remove_document,
    wire.Status: health.status,
    wire.Rebuild: health.rebuild,
    wire.Pause: capture.pause,
    wire.Dead: capture.dead,
    wire.Cost: capture.cost,
    wire.Outbound: capture.outbound,
    wire.ListPast: records.list_past,
    wire.ListJudged: records.list_judged,
    wire.ListInjections: records.list_injections,
    wire.Trust: trust.trust,
    wire.Review: reviewing.review,
    wire.Try: health.try_all,
}


# Of these the writer knows what each key came to, in the transaction that puts the file on record.
_ON_RECORD = (wire.Remember, wire.Edit)
# What these replies say of memories is not on record; the handler finds it again.
_WITH_TEXTS = (wire.Restored, wire.Undone, wire.Reviewed)
_RECEIPTS = 1000


def _digest(request: wire.Request[Any]) -> str:
    """By what two requests of one key are known to ask for the same."""
    return hashlib.blake2b(encode(replace(request, id=0, seen={})), digest_size=16).hexdigest()


def _is_required(kind: type[wire.Request[Any]], field: str) -> bool:
    """Return True for a field of a request that has no default."""
    return field in kind.__struct_fields__[: -len(kind.__struct_defaults__)]


class Dispatcher:
    """Carries out requests; one instance for the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._refused = daemon.refused_writes
        self._newest: dict[str, Keyed] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def handle(
        self, request: wire.Request[Any]
    ) -> wire.Reply | Awaitable[wire.Reply] | AsyncIterator[wire.Reply]:
        """Carry out one request."""
        self._daemon.metrics.requests += 1
        if isinstance(request, wire.Ping):  # the commonest, and the one that is timed
            return wire.Pong(id=request.id)
        if isinstance(request, wire.Events):
            return health.events(self._daemon, request)
        self._daemon.watcher.used_at = monotonic()
        if isinstance(request, wire.Hello):  # what follows in the same read relies on it
            return replace(health.hello(self._daemon, request), id=request.id)
        if request.needs:
            self._daemon.activity.asked()
        if isinstance(request, wire.Hook):
            self._daemon.activity.asked()
            return self._answer_hook(request)
        return self._answer(request)

    def sent(self, request: wire.Request[Any], *, whole: bool) -> None:
        """A reply was handed to the network, or not all of it."""
        session_id, captured = self._daemon.sessions.sent(self._daemon.state, request, whole=whole)
        if captured:
            self._daemon.capture.news.told(session_id, captured)

    async def _answer_hook(self, request: wire.Hook) -> wire.Hooked:
        """What a hook asked for on its way is heard when the hook's own reply is."""

        async def ask(asked: wire.Request[Any]) -> wire.Reply:
            reply = await self._answer(asked)
            self._daemon.sessions.carried(asked, request)
            return reply

        reply = await hook.hook(Context(self._daemon, monotonic()), request, ask)
        return replace(reply, id=request.id)

    async def _answer(self, request: wire.Request[wire.Reply]) -> wire.Reply:
        try:
            answered = await self._carry_out(request)
        except Disabled as off:
            return request.reply_type()(id=request.id, status="disabled", reason=str(off))
        except StoreError as error:
            self._refused.failed(request, error)
            raise
        reply, generation = answered if isinstance(answered, tuple) else (answered, None)
        self._refused.answered(request, reply)
        if generation is None:
            return replace(reply, id=request.id)
        return replace(reply, id=request.id, generation=token_of(self._daemon.epoch, generation))

    async def _carry_out(self, request: wire.Request[wire.Reply]) -> Answered:
        if not (key := getattr(request, "key", "")) or request.only_shows:
            return await self._handled(request, Context(self._daemon, monotonic()))
        async with self._lock_of(key):
            return await self._once(request, key)

    async def _once(self, request: wire.Request[wire.Reply], key: str) -> Answered:
        """Carry out what has a key, unless it was carried out: then its first reply is given again."""
        digest = _digest(request)
        keyed = self._newest.get(key) or await self._receipt(request, key) or Keyed(key, digest)
        if keyed.digest != digest:
            raise Conflict("this key was used for another request; make a new one")
        is_whole = key in self._newest or not isinstance(keyed.reply, _WITH_TEXTS)
        if keyed.is_given and keyed.reply is not None and is_whole:
            return keyed.reply
        answered = await self._handled(request, Context(self._daemon, monotonic(), keyed))
        reply, generation = answered if isinstance(answered, tuple) else (answered, None)
        if generation is not None and not getattr(reply, "generation", ""):
            reply = replace(reply, generation=token_of(self._daemon.epoch, generation))
        self._newest[key] = Keyed(key, digest, reply, is_given=True)
        if len(self._newest) > _RECEIPTS:
            del self._newest[next(iter(self._newest))]
        if not isinstance(request, _ON_RECORD):
            receipt = Receipt(digest, encode(without_texts(reply))[HEADER_BYTES:], is_given=True)
            with suppress(StoreError):  # it is done, and known as long as this daemon runs
                await self._daemon.state.receipts.put(key, receipt)
        return reply

    async def _receipt(self, request: wire.Request[wire.Reply], key: str) -> Keyed | None:
        """Return the receipt of this key, which an earlier daemon may have left."""
        if isinstance(request, _ON_RECORD):
            return None
        await self._daemon.state.opened()
        try:
            receipt = await self._daemon.state.receipts.of(key)
        except StoreError:  # what needs the state says so itself
            return None
        if receipt is None:
            return None
        return Keyed(key, receipt.digest, decode_reply(receipt.reply), is_given=receipt.is_given)

    def _lock_of(self, key: str) -> asyncio.Lock:
        """The client sends again while the first of the two is being carried out: the second waits for it."""
        return self._locks.setdefault(key, asyncio.Lock())

    async def _handled(self, request: wire.Request[wire.Reply], context: Context) -> Answered:
        if not self._daemon.resolver.agrees(request.seen):
            await self._daemon.resolver.agree(request.seen)
        handler, where = HANDLERS[type(request)], tuple[Workplace, ...]()
        if request.needs:
            where = (await self._daemon.resolver.resolve(self._where(request)),)
            if off := await self._off(*where, request):
                raise Disabled(off)
        check_words(request)
        return await handler(context, *where, request)

    def _where(self, request: wire.Request[wire.Reply]) -> str:
        """The workspace of a request; what need not name one is asked where the user's own memories are."""
        workspace: str = request.workspace  # type: ignore[attr-defined]
        return workspace or ("" if _is_required(type(request), "workspace") else self._daemon.resolver.home)

    async def _off(self, place: Workplace, request: wire.Request[wire.Reply]) -> str:
        """Why what the verb needs is off here, or nothing."""
        off, state = self._switched_off(place, request), self._daemon.state
        if off or "state" not in request.needs:
            return off
        if not state.tried.is_set():  # it is, but for the first moments
            await state.opened(place.settings.retrieval_timeout_s)
        return self._paused(place)

    def _switched_off(self, place: Workplace, request: wire.Request[Any]) -> str:
        off = self._daemon.disabled if "retrieval" in request.needs else ""
        return off or (place.off if "memory" in request.needs else "")

    def _paused(self, place: Workplace) -> str:
        pauses = self._daemon.state.pauses
        return pauses.reason(place.tops) if pauses.places or pauses.doubt else ""
