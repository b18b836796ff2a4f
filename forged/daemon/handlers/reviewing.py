"""`review`: what a person has to decide about, files that are withheld and proposals of capture that wait.

What is kept of the proposals goes the way of everything that is remembered: private spans are left out, a
secret is refused unless somebody insists, and it is typed, for a person has read it; when the reply comes it
is found. What was learned of a past session stays as old as what was said in it. What is dropped counts as
forgotten, so that the messages it came from do not bring it again.
Raised are what `trust.review` raises, and SecretFound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from forged.daemon.handlers import trust
from forged.daemon.handlers.beside import texts_beside
from forged.daemon.handlers.context import PATIENCE_S, Context, Daemon
from forged.daemon.handlers.convert import fitting
from forged.daemon.handlers.naming import begun_by
from forged.daemon.handlers.refusals import Disabled, InvalidRequest, insist
from forged.daemon.handlers.writing import secrets_in
from forged.errors import MemoryNotFound
from forged.memory import Memory, Origin, Scope, Trigger, utc_now
from forged.scopes import Workplace
from forged.state import Document
from forged.text.private import without_private
from forged.trust import elsewhere
from forged_client import protocol as wire


async def review(context: Context, request: wire.Review) -> wire.Reviewed:
    """List what a person has to decide about, after doing what the request says."""
    await context.daemon.trust.opened()
    place = await context.daemon.resolver.resolve(request.workspace)
    planned = context.planned(wire.Reviewed)
    waits, again = _of_paths(context, place), planned is not None
    keep, drop = (_named(waits, names, again=again) for names in (request.keep, request.drop))
    if planned is None:
        planned = wire.Reviewed(
            kept=tuple(each.memory.id for each in keep), dropped=tuple(each.memory.id for each in drop)
        )
        await context.plan(planned)
    if request.text.strip() and len(planned.kept) != 1:
        raise InvalidRequest("a text is for one proposal; name the one to keep")
    for document in keep:
        await _check_here(document)
    await _keep(context, place, keep, request)
    await _drop(context, drop)
    waiting = await _here(context, place)
    files = await _files(context, place, request, is_needed=not (waiting or keep or drop))
    there = {document.root.top for document in context.daemon.state.to_review.of()}
    return msgspec.structs.replace(
        files,
        waiting=fitting([_proposed(each) for each in waiting]),
        elsewhere=tuple(sorted(there - set(place.tops))),
        kept=planned.kept,
        dropped=planned.dropped,
        accepted=tuple(dict.fromkeys((*planned.accepted, *files.accepted))),
    )


async def _files(
    context: Context, place: Workplace, request: wire.Review, *, is_needed: bool
) -> wire.Reviewed:
    """What is withheld of the repository; where there is none it is not missed beside proposals."""
    is_repository = any(root.scope is Scope.REPO for root in place.roots)
    if is_repository or is_needed or request.accept or request.everything:
        return await trust.review(context, request)
    return wire.Reviewed()


async def _here(context: Context, place: Workplace) -> tuple[Document, ...]:
    """Proposals for this workspace's roots, but for those of another folder at one of their paths."""
    waiting = _of_paths(context, place)
    gone = await asyncio.to_thread(elsewhere, [(each.root, each.identity) for each in waiting])
    return tuple(each for each in waiting if (each.root, each.identity) not in gone)


def _of_paths(context: Context, place: Workplace) -> tuple[Document, ...]:
    """Proposals for the paths of this workspace's roots, and for any agent's: those have no workspace."""
    waiting = context.daemon.state.to_review.of()
    return tuple(each for each in waiting if each.root in place.roots or each.root.scope is Scope.AGENT)


async def _check_here(document: Document) -> None:
    """Refuse what was proposed for a folder that is not at its path now. Raises InvalidRequest."""
    gone = await asyncio.to_thread(elsewhere, [(document.root, document.identity)])
    if gone:
        raise InvalidRequest(
            f"{document.memory.id} was proposed for another folder ({next(iter(gone.values()))}); keep it "
            "with a daemon that runs where that folder is, or erase it: "
            f"`forgectl dead drop {document.memory.id}`"
        )


def _named(waiting: Sequence[Document], names: Sequence[str], *, again: bool) -> list[Document]:
    """The proposals that ids, or beginnings of them, stand for; `again`: some may be decided on by now.

    Raises MemoryNotFound, InvalidRequest.
    """
    by_id = {each.memory.id: each for each in waiting}
    found: dict[str, Document] = {}
    for name in names:
        meant = begun_by(by_id, name)
        if not meant and again:
            continue
        if not meant:
            raise MemoryNotFound(f"nothing {name[:80]!r} waits here; `forgectl review` shows what does")
        found[meant] = by_id[meant]
    return list(found.values())


async def _keep(context: Context, place: Workplace, keep: Sequence[Document], asked: wire.Review) -> None:
    if keep and place.off:
        raise Disabled(place.off)
    state = context.daemon.state
    for document in keep:
        memory = await _kept(context, document, asked)
        state.judged.decide(document.memory.id, memory.content, memory_id=memory.id)
        await state.to_review.remove([document.memory.id])


async def _kept(context: Context, document: Document, asked: wire.Review) -> Memory:
    """Write one, in the place of what it replaces if that is still there; the memory that there is now."""
    before = document.memory
    content = without_private(asked.text if asked.text.strip() else before.content).strip()
    if not content:
        raise InvalidRequest("the text is blank; say what to keep")
    secrets = await secrets_in(content, (before.session_id, *texts_beside(before)))
    insist(secrets, allowed=asked.allow_secret)
    index, now = context.daemon.indexer.open(document.root), utc_now()
    memory = msgspec.structs.replace(
        before,
        content=content,
        created_at=before.created_at if document.learned_at else now,
        updated_at=now,
        trigger=Trigger.EXPLICIT,
        origin=Origin.TYPED,
    )
    try:
        written = await context.daemon.writer.add(index, memory, insisted=bool(secrets), said=document.said)
    except MemoryNotFound:
        alone = msgspec.structs.replace(memory, supersedes=None, version=1)
        written = await context.daemon.writer.add(index, alone, insisted=bool(secrets), said=document.said)
    context.daemon.metrics.remembered += 1
    await index.until_tried(written.generation, time.monotonic() + PATIENCE_S)
    return written.memory


async def _drop(context: Context, drop: Sequence[Document]) -> None:
    state = context.daemon.state
    for document in drop:
        await state.forgotten.add(document.root.top, [document.memory.content])
        state.judged.decide(document.memory.id, "", reason="you dropped it in `forgectl review`")
    await drop_proposals(context.daemon, drop)


async def drop_proposals(daemon: Daemon, drop: Sequence[Document]) -> None:
    """Keep no byte of what waited and was refused. Raises StoreError."""
    if drop:
        await daemon.state.to_review.remove([each.memory.id for each in drop])
        await daemon.state.judged.forget((), [each.memory.content for each in drop])
        await daemon.state.erase_traces()


def _proposed(document: Document) -> wire.Proposed:
    memory = document.memory
    return wire.Proposed(
        id=memory.id,
        content=memory.content,
        why=document.waits,
        beside=document.beside,
        scope=memory.scope,
        category=memory.category,
        root=document.root.top,
        session_id=memory.session_id,
        agent=document.agent,
        created_at=memory.created_at,
        supersedes=memory.supersedes or "",
    )
