"""The verbs about single memories: `remember`, `get`, `list`, `history`, `forget`.

Each returns its reply and the generation that it speaks of: for a write the one that shows it. Raised are
MemoryNotFound, InvalidRequest, SecretFound, NotReady while a root is read for the first time, and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from forged import memory
from forged.daemon.handlers.context import PATIENCE_S, Context
from forged.daemon.handlers.convert import draft, fitting, record
from forged.daemon.handlers.refusals import InvalidRequest, NotReady, SecretFound
from forged.daemon.handlers.trust import in_reply
from forged.errors import MemoryNotFound, StoreError
from forged.files import Root
from forged.map import VectorMap
from forged.maps import RootIndex
from forged.memory import Memory, Scope
from forged.retrieval import FIRST_BUILD
from forged.scopes import View, Workplace
from forged.state import Cut
from forged.text.forgetting import words_of
from forged.text.private import without_private
from forged.text.redaction import INLINE_LENGTH, shapes_in
from forged.writing import Gone
from forged_client import protocol as wire

_MOST_IN_REPLY = 1000

_Found = TypeVar("_Found")


async def remember(context: Context, place: Workplace, request: wire.Remember) -> tuple[wire.Remembered, int]:
    """Write one memory; the reply comes after fsync and names the generation that shows it.

    Private spans are left out. Raises SecretFound for a secret that nobody insisted on, before anything is
    written or sent.
    """
    content = without_private(request.content)
    secrets = await _secrets(content, request)
    if secrets and not request.allow_secret:
        raise SecretFound(
            f"this holds what looks like a secret ({', '.join(secrets)}) and was not written; leave it out, "
            "or insist with --allow-secret (allow_secret in the client library): agents will see it"
        )
    index = context.daemon.indexer.open(_root_of_scope(place, request.scope))
    await _check_related(place, request)
    new = draft(msgspec.structs.replace(request, content=content), index.root)
    written = await context.daemon.writer.add(index, new, insisted=bool(secrets), key=request.key)
    context.daemon.metrics.remembered += 1
    reply = wire.Remembered(
        memory_id=written.memory.id,
        version=written.memory.version,
        path=written.path,
        reason=_noted(secrets, is_cut=content != request.content),
        replaced=written.replaced,
        base_moved=written.base_moved,
        existed=written.existed,
    )
    return reply, written.generation


async def _secrets(content: str, request: wire.Remember) -> tuple[str, ...]:
    """The shapes of all secrets in what would be written, the fields beside the text as well."""
    edges = (text for edge in request.related for text in (edge.id, edge.relationship))
    fields = "\n\n".join((request.category, request.session_id, request.supersedes, *edges))
    if len(content) + len(fields) < INLINE_LENGTH:
        found = shapes_in(content) + shapes_in(fields)
    else:
        found = await asyncio.to_thread(lambda: shapes_in(content) + shapes_in(fields))
    return tuple(dict.fromkeys(found))


def _noted(secrets: tuple[str, ...], *, is_cut: bool) -> str:
    notes = ["what is marked private was left out"] if is_cut else []
    if secrets:
        notes.append(f"it holds what looks like a secret ({', '.join(secrets)}), and agents will see it")
    return "; ".join(notes)


async def _check_related(place: Workplace, request: wire.Remember) -> None:
    """An edge into nothing is a slip of the pen: say so before anything is written. Raises MemoryNotFound."""
    if not request.related:
        return
    deadline = time.monotonic() + PATIENCE_S
    view = await place.files.see(sys.maxsize, deadline)  # also what was just written
    for edge in request.related:
        if not view.find(edge.id, request.scope):
            raise _not_found(edge.id, request.scope)


def _root_of_scope(place: Workplace, scope: str) -> Root:
    for root in place.roots:
        if root.scope == scope:
            return root
    _check_scope(scope)
    raise InvalidRequest("this workspace has no repository root; remember it with scope user")


async def forget(context: Context, place: Workplace, request: wire.Forget) -> tuple[wire.Forgotten, int]:
    """Take a chain (or one version) away, and answer when no retrieve can find it any more."""
    index, chain = await _on_disk(context, place, request)
    ids = (request.memory_id,) if request.version_only else chain
    gone, cut, generation = await put_away(context, index, ids, erase=request.erase_now, purge=True)
    context.daemon.metrics.forgotten += len(gone.ids)
    reply = wire.Forgotten(
        ids=gone.ids,
        trash=gone.trash,
        unreachable=gone.unreachable,
        cut_sentences=cut.sentences,
        cut_events=cut.events,
    )
    return reply, generation


async def put_away(
    context: Context, index: RootIndex, ids: tuple[str, ...], *, erase: bool, purge: bool
) -> tuple[Gone, Cut, int]:
    """Remove memories so that no retrieve finds them any more.

    Returns the receipt, what was cut out of events and the generation. What they say is not captured again
    from what was heard before. With `purge` the sentences of events that wait or were given up go too, if
    they hold such a text. Raises StoreError.
    """
    daemon, cut = context.daemon, Cut()
    await _announce(context, index, ids)
    gone = await daemon.writer.remove(index, ids, erase=erase)
    generation = index.mark()
    try:
        await daemon.state.forgotten.add(index.root.top, gone.contents)
        if purge:
            texts = [words for words in map(words_of, gone.contents) if words]
            cut = await daemon.capture.purge(texts)
            await daemon.state.erase_traces()
        if erase:
            await asyncio.to_thread(daemon.writer.erase_from_trash, gone.contents)
    finally:  # the files are gone, whatever else could not be done
        await index.until_tried(generation, time.monotonic() + PATIENCE_S)
        daemon.retriever.turns.purge()
    return gone, cut, generation


async def _announce(context: Context, index: RootIndex, ids: tuple[str, ...]) -> None:
    """Make known what is about to be forgotten: a capture that comes between would write it again."""
    snapshot, _ = await context.daemon.trust.look(index.root)
    contents = [found.content for found in snapshot.memories if found.id in ids]
    with contextlib.suppress(StoreError):  # known at once; that it is on disk is seen to afterwards
        await context.daemon.state.forgotten.add(index.root.top, contents)


async def _on_disk(
    context: Context, place: Workplace, request: wire.Forget
) -> tuple[RootIndex, tuple[str, ...]]:
    """The root that holds a memory, and its chain; whether it is in a map already does not matter.

    Of two roots it does: a file that is withheld must not come between a person and a memory.
    """
    found = []
    for root in place.roots:
        index = context.daemon.indexer.open(root)
        if request.scope in {"", root.scope} and (
            chain := await context.daemon.writer.chain(index, request.memory_id)
        ):
            found.append((index, chain))
    shown = [each for each in found if (there := each[0].map) and there.find(request.memory_id)]
    return _the_one(shown or found, request)


def _the_one(found: Sequence[_Found], request: wire.Forget | wire.History) -> _Found:
    """The memory that a request means. Raises MemoryNotFound, and InvalidRequest for one of two."""
    _check_scope(request.scope, "")
    if len(found) > 1:
        raise InvalidRequest(
            f"the repository and the user both have a memory {request.memory_id[:80]!r}; "
            "say which with --scope repo or --scope user"
        )
    if not found:
        raise _not_found(request.memory_id, request.scope)
    return found[0]


def _check_scope(scope: str, *others: str) -> None:
    if scope not in (*Scope, *others):
        raise InvalidRequest(f"unknown scope {scope[:64]!r}; use repo or user")


async def get(context: Context, place: Workplace, request: wire.GetMemories) -> tuple[wire.Memories, int]:
    """Memories by id, in the order asked, two where two roots have it; ids that are not visible are named."""
    _check_scope(request.scope, "")
    view = await context.view(place, request.min_generation)
    found = [(wanted, view.find(wanted, request.scope)) for wanted in request.ids[:_MOST_IN_REPLY]]
    items = [item for _, holders in found for item in holders]
    reply = wire.Memories(
        status=_status(view, bool(items)),
        reason=FIRST_BUILD if view.waiting else "",
        memories=fitting([record(*item) for item in items]),
        total=len(items),
        missing=tuple(wanted for wanted, holders in found if not holders),
    )
    return reply, view.generation


async def list_page(
    context: Context, place: Workplace, request: wire.ListMemories
) -> tuple[wire.Memories, int]:
    """One page of what the workspace sees, newest first."""
    _check_scope(request.scope, "")
    view = await context.view(place, request.min_generation)
    chosen = _chosen(view, request)
    start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_IN_REPLY)
    page = fitting([record(*item) for item in chosen[start : start + count]])
    reply = wire.Memories(
        status=_status(view, bool(page)),
        reason=FIRST_BUILD if view.waiting else view.problem,
        memories=page,
        total=len(chosen),
        notice=await in_reply(context, place),
    )
    return reply, view.generation


def _status(view: View, found: bool) -> str:
    if found:
        return "ok"
    return "not_ready" if view.waiting else "empty"


def _chosen(view: View, request: wire.ListMemories) -> list[tuple[VectorMap, Memory]]:
    chosen = [
        (home, found)
        for home in view.maps
        for found in home.memories
        if (not request.scope or home.scope == request.scope)
        and (not request.category or found.category == request.category)
        and (request.all_versions or home.chains.is_head(found.id))
    ]
    return sorted(chosen, key=lambda item: (-memory.time_ns(item[1].created_at), item[1].id))


async def history(context: Context, place: Workplace, request: wire.History) -> tuple[wire.Chain, int]:
    """A memory's version chain, oldest first, with what is odd about it."""
    view = await context.view(place, request.min_generation)
    found = view.find(request.memory_id, request.scope)
    if not found and view.waiting:
        raise NotReady(FIRST_BUILD)
    home, _ = _the_one(found, request)
    head = home.chains.head(request.memory_id)
    reply = wire.Chain(
        memories=fitting([record(home, version) for version in view.chain(home, head)]),
        flags=home.chains.flags.get(head, ()),
    )
    return reply, view.generation


def _not_found(memory_id: str, scope: str = "") -> MemoryNotFound:
    where = f"scope {scope}" if scope else "this workspace"
    return MemoryNotFound(f"no memory {memory_id[:80]!r} in {where}; `forgectl list` shows what is there")
