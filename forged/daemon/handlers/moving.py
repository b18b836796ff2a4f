"""`move`: a memory gets another scope.

It is copied first and taken away afterwards, so that a kill between leaves two and none is lost; a daemon
that starts goes on with it. Returned is the generation that shows it. Raised are MemoryNotFound,
InvalidRequest, NotReady, SecretFound and StoreError.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from forged import memory
from forged.daemon.handlers.attributes import carried_over
from forged.daemon.handlers.beside import texts_beside
from forged.daemon.handlers.context import PATIENCE_S, Context
from forged.daemon.handlers.convert import BY_HAND
from forged.daemon.handlers.memories import with_rows
from forged.daemon.handlers.naming import check_changeable, check_scope, on_disk, within
from forged.daemon.handlers.refusals import InvalidRequest, insist
from forged.daemon.handlers.writing import root_of, secrets_in
from forged.errors import MemoryNotFound
from forged.files import MemoryStore
from forged.map import link
from forged.maps import RootIndex
from forged.memory import Memory, Scope, Trigger
from forged.scopes import Workplace
from forged.state import Became, Intent
from forged.text.private import without_private
from forged.trust import stored_identity
from forged.writing import Gone, Taking, new_batch
from forged_client import protocol as wire


async def move(context: Context, place: Workplace, request: wire.Move) -> tuple[wire.Moved, int]:
    """Write the newest version into the other root, and put the whole chain into the trash."""
    await context.resumed()
    target, place = await _ends(context, place, request)
    planned = context.planned(wire.Moved)
    try:
        at, named = await on_disk(context, place, request.memory_id, request.scope)
    except MemoryNotFound:
        if planned is not None:  # a kill came, and what was begun was brought to its end
            return planned, 0
        raise
    if target is at.index:
        raise InvalidRequest(f"it has scope {request.to} already")
    base = at.base(named)
    source = at.file(base.id).memory
    new = _in_scope(msgspec.structs.replace(source, origin=base.origin), request.to)
    if planned is not None:
        new = msgspec.structs.replace(new, id=planned.memory_id)
    secrets = await secrets_in(new.content, (new.category, *texts_beside(new)))
    insist(secrets, allowed=request.allow_secret or base.id in at.admitted.insisted)
    ids = link(at.admitted.memories).chain(base.id)
    if planned is None:
        planned = wire.Moved(
            memory_id=new.id,
            path=MemoryStore(target.root).path_of(new.id),
            scope=request.to,
            category=new.category,
            ids=ids,
            trash=context.daemon.writer.trash.path,
            unlinked=len(source.related),
        )
        await context.plan(planned)
    intent = await asyncio.to_thread(_intent, at.index, target, ids, new)
    await context.daemon.state.intents.begin(intent)
    try:
        told = carried_over(context.daemon.state.attributes.of(at.index.root.top, base.id), request.to)
        written = await context.daemon.writer.add(target, new, insisted=bool(secrets), said=told)
        became = Became(written.memory.id, written.memory.version, target.root.top, target.root.scope)
        _, generation = await leave(context, at.index, ids, Taking(why="move", became=became.id), became)
    finally:
        await context.daemon.state.intents.drop(intent.key)
    reply = msgspec.structs.replace(
        planned,
        memory_id=written.memory.id,
        path=written.path,
        category=written.memory.category,
        reason="the same text was there already" if written.memory.id != new.id else "",
    )
    return reply, max(written.generation, generation)


async def _ends(context: Context, place: Workplace, request: wire.Move) -> tuple[RootIndex, Workplace]:
    """Where it goes, and where it is looked for: one of both may be the agent's that is named."""
    check_scope(request.to)
    for scope in (request.to, request.scope):
        check_changeable(scope)
    if request.to != Scope.AGENT:
        return root_of(context, place, request.to), await within(
            context, place, request.scope, request.agent_id
        )
    if request.scope == Scope.AGENT:
        raise InvalidRequest("it has scope agent already, and stays with its agent")
    there = await within(context, place, request.to, request.agent_id)
    if not there.roots:
        there = await context.daemon.resolver.within(place, request.to, request.agent_id, make=True)
    return root_of(context, there, request.to), place


async def leave(
    context: Context, index: RootIndex, ids: tuple[str, ...], taking: Taking, became: Became
) -> tuple[Gone, int]:
    """Take away what has been copied to another root; its text may be captured again."""
    daemon = context.daemon
    gone = await daemon.writer.remove(index, ids, with_rows(daemon, index, ids, taking))
    generation = index.mark()
    await daemon.state.removal.moved(await daemon.trust.ids(index.root.top), ids, became)
    await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    daemon.retriever.turns.forget(index.root.top, ids)
    await daemon.writer.finish(gone)
    return gone, generation


def _in_scope(source: Memory, scope: str) -> Memory:
    """The memory as it is there: no versions before it, and its links and evidence would lead nowhere."""
    return msgspec.structs.replace(
        source,
        id=memory.new_id(),
        content=without_private(source.content),
        updated_at=memory.utc_now(),
        version=1,
        scope=scope,
        session_id=BY_HAND,
        trigger=Trigger.EXPLICIT,
        supersedes=None,
        related=(),
        evidence=(),
    )


def _intent(at: RootIndex, target: RootIndex, ids: tuple[str, ...], new: Memory) -> Intent:
    return Intent(
        key=new_batch(),
        kind="move",
        top=at.root.top,
        scope=at.root.scope,
        ids=ids,
        why="move",
        became=new.id,
        to_top=target.root.top,
        identity=stored_identity(at.root),
        to_scope=target.root.scope,
        to_identity=stored_identity(target.root),
    )
