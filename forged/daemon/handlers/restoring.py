"""`restore`: what was forgotten, undone or moved in the last 7 days comes back; and what a kill interrupted.

All that one request took away comes back together. Returned is the generation that shows it. Raised are
MemoryNotFound, InvalidRequest, NotReady and StoreError.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from forged import memory
from forged.daemon.handlers.attributes import full_record
from forged.daemon.handlers.context import PATIENCE_S, Context, Daemon
from forged.daemon.handlers.convert import fitting
from forged.daemon.handlers.knowledge import take_files_away
from forged.daemon.handlers.memories import put_away, went_with
from forged.daemon.handlers.moving import leave
from forged.daemon.handlers.naming import on_disk, within
from forged.daemon.handlers.refusals import InvalidRequest
from forged.errors import MemoryNotFound, StoreError
from forged.files import Root, root_at
from forged.maps import RootIndex
from forged.memory import Scope
from forged.scopes import Workplace
from forged.state import Became, Intent
from forged.trust import elsewhere
from forged.writing import TRASH_S, Taking, Trashed
from forged_client import protocol as wire

logger = logging.getLogger(__name__)


async def restore(context: Context, place: Workplace, request: wire.Restore) -> tuple[wire.Restored, int]:
    """Put back what went with a memory; without an id tell what could come back."""
    await context.resumed()
    place = await within(context, place, request.scope, request.agent_id)
    held = await asyncio.to_thread(context.daemon.writer.trash.held, time.time())
    named = [each for each in held if each.note.top in place.tops]
    gone = await asyncio.to_thread(elsewhere, map(_stored_root, named))
    there = [each for each in named if _stored_root(each) not in gone]
    if not request.memory_id:
        listed = tuple(_told(each) for each in _batches(there) if request.scope in {"", each[0].note.scope})
        return wire.Restored(status="ok" if listed else "empty", restorable=fitting(listed)), 0
    planned = context.planned(wire.Restored)
    if planned is not None and context.keyed is not None and context.keyed.is_given:
        return await _told_again(context, place, planned, 0)
    meant = _meant(there, request)
    if not meant and planned is not None:  # a kill came, and what was begun was brought to its end
        return await _told_again(context, place, planned, 0)
    if not meant:
        _check_here([each for each in named if _stored_root(each) in gone], gone, request)
        return await _nothing(context, place, request)
    if planned is None:
        planned = wire.Restored(restorable=tuple(map(_bare, meant)))
        await context.plan(planned)
    generation = 0
    for root in place.roots:
        some = [each for each in meant if each.note.top == root.top]
        if some:
            generation = max(generation, await _back(context, context.daemon.indexer.open(root), some))
    return await _told_again(context, place, planned, generation)


async def _told_again(
    context: Context, place: Workplace, planned: wire.Restored, generation: int
) -> tuple[wire.Restored, int]:
    """The reply about what is back, as it is now; `planned` names it."""
    named = [(each.id, each.scope) for each in planned.restorable]
    named += [(each.id, each.scope) for each in planned.memories]
    view = await place.files.view(generation, time.monotonic() + PATIENCE_S)
    found = [(memory_id, view.find(memory_id, scope)) for memory_id, scope in named]
    shown = fitting([full_record(context, *item) for _, items in found for item in items])
    missing = ", ".join(memory_id for memory_id, items in found if not items)
    reason = f"back, and withheld or not in use yet: {missing}" if missing else ""
    return wire.Restored(memories=shown, reason=reason), generation


def _bare(each: Trashed) -> wire.Trashed:
    """Name a restored memory without its text."""
    return wire.Trashed(id=each.note.id, scope=each.note.scope, root=each.note.top)


def _stored_root(each: Trashed) -> tuple[Root, str]:
    return Root(each.note.top, Scope(each.note.scope)), each.note.identity


def _check_here(
    others: Sequence[Trashed], gone: Mapping[tuple[Root, str], str], request: wire.Restore
) -> None:
    """Refuse what lay in a folder that is not at its path now. Raises InvalidRequest."""
    if meant := _meant(others, request):
        raise InvalidRequest(
            f"{request.memory_id[:80]!r} lay in another folder ({gone[_stored_root(meant[0])]}); "
            "restore it with a daemon that runs where that folder is, such as its container"
        )


async def _back(context: Context, index: RootIndex, some: Sequence[Trashed]) -> int:
    """Files of one root; what they say may be captured again."""
    rows = {each.note.id: each.note.rows for each in some}
    await context.daemon.state.removal.returned(index.root.top, rows)
    back = await context.daemon.writer.restore(index, some)
    generation = index.mark()
    texts = [each.memory.content for each in some]
    await context.daemon.state.forgotten.withdraw(index.root.top, texts, rows)
    await context.daemon.writer.finish(back)
    await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    context.daemon.retriever.turns.purge()
    return generation


def _meant(there: Sequence[Trashed], request: wire.Restore) -> tuple[Trashed, ...]:
    """All that went with the memory that is named, oldest versions first; of several times, the last."""
    tops = {each.note.top for each in there}
    found = went_with(there, tops, request.memory_id, request.scope)
    return tuple(sorted(found, key=lambda each: each.memory.age_key))


async def _nothing(context: Context, place: Workplace, request: wire.Restore) -> tuple[wire.Restored, int]:
    """Say why: it is there already, or nobody knows it any more. Raises MemoryNotFound."""
    try:
        await on_disk(context, place, request.memory_id, request.scope)
    except MemoryNotFound as error:
        raise MemoryNotFound(
            f"no memory {request.memory_id[:80]!r} in the trash of this workspace; "
            "`forgectl restore` lists what can come back, for 7 days"
        ) from error
    return wire.Restored(status="empty", reason="it is there already"), 0


# --- what can come back --------------------------------------------------------------------------------


def _batches(there: Iterable[Trashed]) -> list[list[Trashed]]:
    """What went together in one root, newest versions first."""

    def together(each: Trashed) -> tuple[float, str, str]:
        return -each.note.taken_at, each.note.batch, each.note.top

    groups = (list(group) for _, group in groupby(sorted(there, key=together), together))
    return [sorted(group, key=lambda each: each.memory.age_key, reverse=True) for group in groups]


def _told(group: Sequence[Trashed]) -> wire.Trashed:
    newest = group[0]
    return wire.Trashed(
        id=newest.memory.id,
        ids=tuple(each.memory.id for each in reversed(group)),
        scope=newest.note.scope,
        root=newest.note.top,
        why=newest.note.why,
        taken_at=memory.utc(newest.note.taken_at),
        until=memory.utc(newest.note.taken_at + TRASH_S),
        first_line=newest.memory.first_line,
    )


# --- after a kill --------------------------------------------------------------------------------------


async def resume(daemon: Daemon) -> None:
    """Bring to an end what an earlier daemon had begun; requests to forget, move or restore wait for that.

    What cannot be done now waits for the next start. So does what was begun in a folder that is not at its
    path now; status names it.
    """
    daemon.state.intents.resumed.clear()
    try:
        await _resume_all(daemon)
    finally:
        daemon.state.intents.resumed.set()


async def _resume_all(daemon: Daemon) -> None:
    await daemon.state.opened()
    context = Context(daemon, time.monotonic())
    for intent in tuple(daemon.state.intents.values()):
        if gone := await asyncio.to_thread(elsewhere, roots_of(intent)):
            logger.warning("waits for its folder kind=%s reason=%s", intent.kind, next(iter(gone.values())))
            continue
        if not await asyncio.to_thread(os.path.isdir, intent.top):
            continue
        if intent.key not in daemon.state.intents:
            continue  # a person dropped it meanwhile
        try:
            await _resumed(context, intent)
            await daemon.state.intents.drop(intent.key)
            logger.info("finished after a kill kind=%s ids=%d", intent.kind, len(intent.ids))
        except StoreError as error:
            logger.warning("cannot finish kind=%s error=%s", intent.kind, error)


def roots_of(intent: Intent) -> list[tuple[Root, str]]:
    """The roots in which a verb is half done, with the identities that they had."""
    ends = ((intent.top, intent.scope, intent.identity), (intent.to_top, intent.to_scope, intent.to_identity))
    return [(Root(top, Scope(scope)), identity) for top, scope, identity in ends if top]


async def _resumed(context: Context, intent: Intent) -> None:
    daemon = context.daemon
    index = daemon.indexer.open(await asyncio.to_thread(root_at, intent.top, daemon.resolver.home))
    taking = Taking(intent.erase, intent.why, intent.batch, became=intent.became)
    if intent.kind == "remove" and intent.why == "document":
        await take_files_away(daemon, index, intent.ids)
    elif intent.kind == "remove" and any(
        each.kind == "move" and each.top == intent.top and set(each.ids) >= set(intent.ids)
        for each in daemon.state.intents.values()
    ):
        return  # the move is brought to its end as a whole
    elif intent.kind == "remove":
        await put_away(
            context, index, intent.ids, taking, purge=intent.why == "forget", earlier=intent.rewrites
        )
    elif intent.kind == "restore":
        held = await asyncio.to_thread(daemon.writer.trash.held, time.time())
        some = [each for each in held if (each.note.batch, each.note.top) == (intent.batch, intent.top)]
        if some:
            await _back(context, index, some)
    else:
        target = root_at(intent.to_top, daemon.resolver.home)
        _, there = await daemon.trust.look(target)
        for each in there.memories:
            if each.id == intent.became:
                await leave(
                    context,
                    index,
                    intent.ids,
                    taking,
                    Became(each.id, each.version, target.top, target.scope),
                )
