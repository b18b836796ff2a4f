"""Dispatch requests to their handlers, and complete the replies.

A handler gets the daemon's parts, the resolved workspace if the verb has one, and the request. It returns its
reply, and maybe the generation of the reply. Only this module sets a reply's `id` and `generation`, and the
status `disabled` with its reason. Raises ForgedError for a request that cannot be carried out.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from forged.daemon.connection import UNKNOWN, Peer
from forged.daemon.handlers import (
    capture,
    documents,
    health,
    hook,
    listing,
    memories,
    recall,
    records,
    retrieve,
    review,
    search,
    trust,
)
from forged.daemon.handlers.request_context import Context, Daemon, Disabled, KeyedRequest
from forged.daemon.handlers.wire_types import check_words, token_of, without_texts
from forged.errors import Conflict, StoreError
from forged.state import Receipt
from forged.stores import Workplace
from forged_client import protocol as wire
from forged_client.framing import HEADER_BYTES, decode_reply, encode

Handler = Callable[..., Awaitable[wire.Reply | tuple[wire.Reply, int]]]

# Called with the context, the workplace if one is needed, and the request. `Dispatcher.handle` answers
# streams, hooks and requests that are answered at once; the server answers a hand-over.
HANDLERS: Mapping[type, Handler] = {
    wire.Retrieve: retrieve.retrieve,
    wire.Search: search.search,
    wire.Why: search.why,
    wire.Recall: recall.recall,
    wire.Remember: memories.remember,
    wire.Edit: memories.edit,
    wire.Move: memories.move,
    wire.Restore: memories.restore,
    wire.Import: documents.import_,
    wire.GetMemories: listing.get,
    wire.ListMemories: listing.list_page,
    wire.History: listing.history,
    wire.Forget: memories.forget,
    wire.Undo: memories.undo,
    wire.Capture: capture.capture,
    wire.Learn: records.learn,
    wire.Ingest: documents.ingest,
    wire.ListDocuments: documents.list_documents,
    wire.RemoveDocument: documents.remove_document,
    wire.RemoveDocuments: documents.remove_documents,
    wire.Status: health.status,
    wire.Rebuild: health.rebuild,
    wire.Pause: capture.pause,
    wire.Dead: capture.dead,
    wire.Cost: capture.cost,
    wire.Egress: capture.egress,
    wire.ListPast: records.list_past,
    wire.ListCaptured: records.list_captured,
    wire.ListInjections: records.list_injections,
    wire.Trust: trust.trust,
    wire.Review: review.review,
    wire.Try: health.try_all,
}


# The writer stores the keys of these, in the transaction that records the file.
_ON_RECORD = (wire.Remember, wire.Edit)
# The texts of these replies are not stored; the handler finds them again.
_WITH_TEXTS = (wire.Restored, wire.Undone, wire.Reviewed)
_RECEIPTS = 1000


def _digest(request: wire.Request[Any]) -> str:
    """Return a digest of a request apart from id and seen paths, to compare repeated requests."""
    return hashlib.blake2b(encode(replace(request, id=0, seen={})), digest_size=16).hexdigest()


def _is_required(kind: type[wire.Request[Any]], field: str) -> bool:
    """Return True if requests of a type must name this field."""
    return field in kind.__struct_fields__[: -len(kind.__struct_defaults__)]


class Dispatcher:
    """Calls the handler of each request: once per request key, and only if the needed parts are on."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._disk_refusals = daemon.disk_refusals
        self._metrics, self._activity, self._watcher = daemon.metrics, daemon.activity, daemon.watcher
        self._resolver, self._state, self._sessions = daemon.resolver, daemon.state, daemon.sessions
        self._newest: dict[str, KeyedRequest] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def handle(
        self, request: wire.Request[Any], peer: Peer = UNKNOWN
    ) -> wire.Reply | Awaitable[wire.Reply] | AsyncIterator[wire.Reply]:
        """Carry out a request of a process: return its reply, a coroutine of it, or a stream."""
        self._metrics.requests += 1
        if isinstance(request, wire.Ping):  # the most frequent one, and the one that is timed
            return wire.Pong(id=request.id)
        if isinstance(request, wire.Events):
            return health.events(self._daemon, request)
        self._watcher.used_at = monotonic()
        if isinstance(request, wire.Hello):  # later frames of the same read rely on it
            return replace(health.hello(self._daemon, request), id=request.id)
        if request.needs:
            self._activity.note_request()
        if isinstance(request, wire.Hook):
            self._activity.note_request()
            return self._answer_hook(request)
        return self._answer(request, peer)

    def sent(self, request: wire.Request[Any], *, whole: bool) -> None:
        """Mark a request's injection as delivered if its reply was sent whole and in time."""
        self._sessions.sent(request, whole=whole)

    async def _answer_hook(self, request: wire.Hook) -> wire.Hooked:
        """Handle a harness's hook event; return the output for the harness."""
        return replace(await hook.hook(Context(self._daemon, monotonic()), request), id=request.id)

    async def _answer(self, request: wire.Request[wire.Reply], peer: Peer) -> wire.Reply:
        """Carry out a request; return a `disabled` reply if a part is off. Records disk errors of writes."""
        try:
            reply = await self._carry_out(request, peer)
        except Disabled as off:
            return request.reply_type()(id=request.id, status="disabled", reason=str(off))
        except StoreError as error:
            self._disk_refusals.note_failure(request, error)
            raise
        if request.is_write:
            self._disk_refusals.note_reply(request, reply)
        return replace(reply, id=request.id)

    async def _carry_out(self, request: wire.Request[wire.Reply], peer: Peer) -> wire.Reply:
        """Return a handler's reply; a repeated key waits for the first call and gets its reply."""
        if not (key := getattr(request, "key", "")) or request.only_shows:
            return await self._call_handler(request, Context(self._daemon, monotonic(), peer=peer))
        # A client may repeat a request that is being carried out: the second one waits.
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._carry_out_once(request, key, peer)

    async def _carry_out_once(self, request: wire.Request[wire.Reply], key: str, peer: Peer) -> wire.Reply:
        """Return the reply kept for a key, or the handler's, which is kept. Raises Conflict."""
        digest = _digest(request)
        keyed = self._newest.get(key) or await self._stored_receipt(request, key) or KeyedRequest(key, digest)
        if keyed.digest != digest:
            raise Conflict("this request key was used for another request; use a new key")
        is_whole = key in self._newest or not isinstance(keyed.reply, _WITH_TEXTS)
        if keyed.is_given and keyed.reply is not None and is_whole:
            return keyed.reply
        reply = await self._call_handler(request, Context(self._daemon, monotonic(), keyed, peer))
        self._newest[key] = KeyedRequest(key, digest, reply, is_given=True)
        if len(self._newest) > _RECEIPTS:
            del self._newest[next(iter(self._newest))]
        if not isinstance(request, _ON_RECORD):
            receipt = Receipt(digest, encode(without_texts(reply))[HEADER_BYTES:], is_given=True)
            with suppress(StoreError):  # it is done, and this daemon remembers it
                await self._state.receipts.put(key, receipt)
        return reply

    async def _stored_receipt(self, request: wire.Request[wire.Reply], key: str) -> KeyedRequest | None:
        """Return the stored reply to a request key, if any; None for `remember` and `edit`."""
        if isinstance(request, _ON_RECORD):
            return None
        await self._state.wait_until_open()
        try:
            receipt = await self._state.receipts.of(key)
        except StoreError:  # requests that need the state report it themselves
            return None
        if receipt is None:
            return None
        return KeyedRequest(key, receipt.digest, decode_reply(receipt.reply), is_given=receipt.is_given)

    async def _call_handler(self, request: wire.Request[wire.Reply], context: Context) -> wire.Reply:
        """Check paths and words, resolve the workspace, call the handler; raise Disabled if a part is off."""
        if not self._resolver.has_checked(request.seen):
            await self._resolver.check_paths(request.seen)
        handler, where = HANDLERS[type(request)], tuple[Workplace, ...]()
        if request.needs:
            where = (await self._resolver.resolve(self._workspace_of(request)),)
            if off := await self._off_reason(*where, request):
                raise Disabled(off)
        check_words(request)
        answered = await handler(context, *where, request)
        if not isinstance(answered, tuple):
            return answered
        reply, generation = answered
        if context.keyed and getattr(reply, "generation", None):  # the planned reply has it
            return reply
        return replace(reply, generation=token_of(self._daemon.epoch, generation))

    def _workspace_of(self, request: wire.Request[wire.Reply]) -> str:
        """Return a request's workspace; if it may be left out and is, the user's home."""
        workspace: str = request.workspace  # type: ignore[attr-defined]
        return workspace or ("" if _is_required(type(request), "workspace") else self._resolver.home)

    async def _off_reason(self, place: Workplace, request: wire.Request[wire.Reply]) -> str:
        """Return why a part that the request needs is off or paused in its workplace, or ""."""
        needs, state = request.needs, self._state
        off = self._daemon.disabled if "retrieval" in needs else ""
        off = off or (place.off if "memory" in needs else "")
        if off or "state" not in needs:
            return off
        if not state.tried.is_set():  # only in the first moments
            await state.wait_until_open(place.settings.retrieval_timeout_s)
        pauses = state.pauses
        return pauses.reason(place.tops) if pauses.places or pauses.doubt else ""
