"""The verbs about single memories: `remember`, `get`, `list`, `history`, `forget`."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence

from forged import memory
from forged.daemon.handlers.context import PATIENCE_S, Context, InvalidRequest, NotReady, Workplace
from forged.daemon.handlers.translation import draft, fitting, record
from forged.errors import MemoryNotFound
from forged.files.roots import Root
from forged.map.vector_map import VectorMap
from forged.map.view import View
from forged.maps.root_index import RootIndex
from forged.maps.writer import Gone
from forged.memory import Memory, Scope
from forged.retrieval.retriever import FIRST_BUILD
from forged.text.same_text import normalised
from forged_client import protocol as wire

_MOST_IN_REPLY = 1000


async def remember(context: Context, request: wire.Remember) -> wire.Remembered:
    """Write one memory; the reply comes after fsync and names the generation that shows it."""
    place = context.workplace(request.workspace)
    if place.off:
        return wire.Remembered(id=request.id, status="disabled", reason=place.off)
    index = context.daemon.indexer.open(_root_of_scope(place, request.scope))
    await _check_related(context, place, request)
    written, path = await context.daemon.writer.add(index, draft(request, index.root))
    context.daemon.metrics.remembered += 1
    return wire.Remembered(
        id=request.id,
        memory_id=written.id,
        version=written.version,
        path=path,
        generation=context.token(index.mark(frozenset({path}))),
    )


async def _check_related(context: Context, place: Workplace, request: wire.Remember) -> None:
    """An edge into nothing is a slip of the pen: say so before anything is written. Raises MemoryNotFound."""
    if not request.related:
        return
    deadline = time.monotonic() + PATIENCE_S
    view = await context.daemon.indexer.view(place.roots, sys.maxsize, deadline)  # also what was just written
    for edge in request.related:
        if view.find(edge.id) is None:
            raise _not_found(edge.id)


def _root_of_scope(place: Workplace, scope: str) -> Root:
    for root in place.roots:
        if root.scope == scope:
            return root
    if scope == Scope.REPO:
        raise InvalidRequest("this workspace has no repository root; remember it with scope user")
    raise InvalidRequest(f"unknown scope {scope[:64]!r}; use repo or user")


async def forget(context: Context, request: wire.Forget) -> wire.Forgotten:
    """Take a chain (or one version) away, and answer when no retrieve can find it any more."""
    place = context.workplace(request.workspace)
    if place.off:
        return wire.Forgotten(id=request.id, status="disabled", reason=place.off)
    index, chain = await _on_disk(context, place, request.memory_id)
    ids = (request.memory_id,) if request.version_only else chain
    gone, generation = await put_away(context, index, ids, erase=request.erase_now, purge=True)
    context.daemon.metrics.forgotten += len(gone.ids)
    return wire.Forgotten(
        id=request.id,
        ids=gone.ids,
        trash=gone.trash,
        unreachable=gone.unreachable,
        generation=context.token(generation),
    )


async def put_away(
    context: Context, index: RootIndex, ids: tuple[str, ...], *, erase: bool, purge: bool
) -> tuple[Gone, int]:
    """Remove memories so that no retrieve finds them any more; returns the receipt and its generation.

    The same sentence will not be captured again from a conversation that still holds it. With `purge` the
    events that wait or were given up with that text go too. Raises StoreError.
    """
    daemon = context.daemon
    gone = await daemon.writer.remove(index, ids, erase=erase)
    generation = index.mark()
    try:
        await daemon.state.forgotten.add(index.root.top, gone.contents)
        if purge:
            texts = tuple(filter(None, map(normalised, gone.contents)))
            await daemon.capture.purge(lambda held: _holds(held, texts))
            await daemon.state.erase_traces()
        if erase:
            await asyncio.to_thread(daemon.writer.erase_from_trash, gone.contents)
    finally:  # the files are gone, whatever else could not be done
        await index.reach(generation, time.monotonic() + PATIENCE_S)
        daemon.retriever.cache.purge()
        daemon.ledger.purge()
    return gone, generation


def _holds(held: Sequence[str], texts: tuple[str, ...]) -> bool:
    """Whether one of `texts`, normalised, is in what is held, as whole words: "go" is not in "going"."""
    return any(_is_in(text, each) for each in map(normalised, held) for text in texts)


def _is_in(text: str, said: str) -> bool:
    return text in said and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None


async def _on_disk(context: Context, place: Workplace, memory_id: str) -> tuple[RootIndex, tuple[str, ...]]:
    """The root that holds a memory, and its chain; whether it is in a map already does not matter."""
    for root in place.roots:
        index = context.daemon.indexer.open(root)
        if chain := await context.daemon.writer.chain(index, memory_id):
            return index, chain
    raise _not_found(memory_id)


async def get(context: Context, request: wire.GetMemories) -> wire.Memories:
    """Memories by id, in the order asked; ids that are not visible are named."""
    place = context.workplace(request.workspace)
    if place.off:
        return wire.Memories(id=request.id, status="disabled", reason=place.off)
    view = await context.view(place, request.min_generation)
    found = [(wanted, view.find(wanted)) for wanted in request.ids[:_MOST_IN_REPLY]]
    return wire.Memories(
        id=request.id,
        status=_status(view, any(item for _, item in found)),
        reason=FIRST_BUILD if view.waiting else "",
        memories=fitting([record(*item) for _, item in found if item is not None]),
        total=sum(item is not None for _, item in found),
        missing=tuple(wanted for wanted, item in found if item is None),
        generation=context.token(view.generation),
    )


async def list_page(context: Context, request: wire.ListMemories) -> wire.Memories:
    """One page of what the workspace sees, newest first."""
    place = context.workplace(request.workspace)
    if request.scope not in ("", *Scope):
        raise InvalidRequest(f"unknown scope {request.scope[:64]!r}; use repo or user")
    if place.off:
        return wire.Memories(id=request.id, status="disabled", reason=place.off)
    view = await context.view(place, request.min_generation)
    chosen = _chosen(view, request)
    start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_IN_REPLY)
    page = fitting([record(*item) for item in chosen[start : start + count]])
    return wire.Memories(
        id=request.id,
        status=_status(view, bool(page)),
        reason=FIRST_BUILD if view.waiting else view.problem,
        memories=page,
        total=len(chosen),
        generation=context.token(view.generation),
    )


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


async def history(context: Context, request: wire.History) -> wire.Chain:
    """A memory's version chain, oldest first, with what is odd about it."""
    place = context.workplace(request.workspace)
    if place.off:
        return wire.Chain(id=request.id, status="disabled", reason=place.off)
    view = await context.view(place, request.min_generation)
    home, _ = _must_find(view, request.memory_id)
    head = home.chains.head(request.memory_id)
    return wire.Chain(
        id=request.id,
        memories=fitting([record(home, found) for found in view.chain(home, head)]),
        flags=home.chains.flags.get(head, ()),
        generation=context.token(view.generation),
    )


def _must_find(view: View, memory_id: str) -> tuple[VectorMap, Memory]:
    found = view.find(memory_id)
    if found is None and view.waiting:
        raise NotReady(FIRST_BUILD)
    if found is None:
        raise _not_found(memory_id)
    return found


def _not_found(memory_id: str) -> MemoryNotFound:
    return MemoryNotFound(
        f"no memory {memory_id[:80]!r} in this workspace; `forgectl list` shows what is there"
    )
