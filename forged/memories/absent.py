"""Erase the rows of memories whose file is missing for many days; files and texts stay.

A day counts only if the root is the one at which its memories were seen last, and all its folders could be
listed. So an unplugged disk loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

from forged.errors import ForgedError
from forged.files import Root, Snapshot, agent_ids, agent_root, org_root, root_at, scan
from forged.memories.parts import MemoryParts
from forged.state import RootIds, RootListing

logger = logging.getLogger(__name__)
# The first look waits until the start is done.
_AFTER_S, _DAY_S = 600.0, 24 * 3600.0
# A scan shares the interpreter with requests.
_PAUSE_S = 0.0005


async def sweep_absent_daily(memories: MemoryParts) -> None:
    """Erase rows of memories whose files are missing for many days: once a day until cancelled."""
    wait_s = _AFTER_S
    while True:
        await asyncio.sleep(wait_s)
        await sweep_absent(memories, time.time())
        wait_s = _DAY_S


async def sweep_absent(memories: MemoryParts, now: float) -> None:
    """Count a day for each missing file; erase database rows of those missing for many days."""
    await memories.state.wait_until_open()
    if memories.state.problem:
        return
    home, swept = memories.resolver.home, 0
    known = memories.state.removal.known_ids()
    tops = known.keys() | set(await asyncio.to_thread(_own_tops, home))
    for top in sorted(tops):
        try:
            root = await asyncio.to_thread(root_at, top, home)
            swept += await _sweep_root(memories, root, known.get(top, set()), now) if root.top == top else 0
        except (ForgedError, OSError) as error:
            logger.info("absent memories not counted root=%s error=%s", top, error)
    if swept:
        logger.info("rows of absent memories swept count=%d", swept)
        try:
            await memories.state.erase_traces()
        except ForgedError as error:
            logger.warning("traces not erased error=%s", error)


async def _sweep_root(memories: MemoryParts, root: Root, known: set[str], now: float) -> int:
    """Count a day for a root's missing files; erase due rows; return for how many memories."""
    removal, ids = memories.state.removal, await memories.trust.ids(root.top)
    known = known | removal.own_file_ids(ids.identities)
    look = (
        await asyncio.to_thread(_list_root, root, ids, memories.indexer.snapshot(root), now)
        if known
        else None
    )
    if look is None:
        return 0
    await removal.count_absences(look, known)
    due = removal.expired(look, await memories.trust.tracked(root, removal.in_question(look)))
    if due:
        await removal.forget(ids, due)
        memories.sessions.forget(root.top, due)
    return len(due)


def _own_tops(home: str) -> list[str]:
    """Return the paths of the user's own roots: home, org and each agent's."""
    agents = [agent_root(home, each).top for each in agent_ids(home)]
    return [os.path.realpath(home), org_root(home).top, *agents]


def _list_root(root: Root, ids: RootIds, before: Snapshot | None, now: float) -> RootListing | None:
    """Return the ids of memories in a root's files; None if a folder cannot be listed. Blocks."""
    place = _identity_on_disk(root, ids)
    if not place:
        return None
    snapshot = scan(root, before, pause=lambda: time.sleep(_PAUSE_S))
    if any(listing.reason for listing in snapshot.listings) or _identity_on_disk(root, ids) != place:
        return None
    read = [(name, seen) for listing in snapshot.listings for name, seen in listing.files.items()]
    return RootListing(
        root=ids,
        place=place,
        day=time.strftime("%Y-%m-%d", time.gmtime(now)),
        seen=frozenset(seen.memory.id for _, seen in read if seen.memory is not None),
        unread=frozenset(os.path.splitext(name)[0] for name, seen in read if seen.memory is None),
    )


def _identity_on_disk(root: Root, ids: RootIds) -> str:
    """Return a root's identity with the device of its folders, or "" if it does not exist."""
    try:
        path = os.path.join(root.top, root.folders[0])
        while not os.path.isdir(path) and path != root.top:
            path = os.path.dirname(path)
        device = os.stat(path).st_dev
    except OSError:
        return ""
    return f"{ids.identities[0]} {device if os.major(device) else 0:x}" if ids.identities else ""
