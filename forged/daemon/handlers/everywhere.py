"""The memories of every root that was ever seen, as maps that can be listed and not searched.

Looked up on disk, as a root that nobody works in has no index, and making one would embed all of its texts.
What does not count in a root is left out as everywhere, and so is a root where memory is off or that cannot
be looked at. Raised is nothing.
"""

from __future__ import annotations

import asyncio
import logging

from forged.daemon.handlers.context import Context
from forged.errors import ForgedError
from forged.files import Grounds, Root, repo_root
from forged.map import Part, Traits, VectorMap, link
from forged.memory import Memory
from forged.stores import Workplace

logger = logging.getLogger(__name__)


async def everywhere(context: Context, place: Workplace) -> tuple[VectorMap, ...]:
    """A map of each root; those of a workplace are among them."""
    await context.daemon.trust.opened()
    roots = dict.fromkeys(place.roots)
    for top in await context.daemon.trust.seen():
        roots |= dict.fromkeys(await _roots_at(context, top))
    return tuple([await _map(context, root) for root in roots])


async def _roots_at(context: Context, top: str) -> tuple[Root, ...]:
    try:
        place = await context.daemon.resolver.resolve(top)
    except ForgedError as error:
        logger.debug("left out of a list top=%s error=%s", top, error)
        return ()
    if place.off:
        return ()
    named = await asyncio.to_thread(repo_root, top)
    return place.roots if named in place.roots or not named.in_git else (named, *place.roots)


async def _map(context: Context, root: Root) -> VectorMap:
    _, admitted = await context.daemon.trust.look(root)
    memories = await asyncio.to_thread(_shown, root, admitted.memories)
    part = Part(memories, None, None, await asyncio.to_thread(Traits.of, memories))
    return VectorMap(root.top, root.scope, 0, memories, (part,), link(memories))


def _shown(root: Root, memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """Memories with what is stale of them."""
    if not root.has_files:
        return memories
    return Grounds(root.top).shown(memories, afresh=True, pause=_at_once)


def _at_once() -> None:
    """Somebody waits for it."""
