"""Decisions of a person about proposals of capture: save or drop.

A saved proposal passes the checks of every memory, and its origin is typed if a person at a terminal has read
it. One from a past session keeps the time of its conversation. A dropped one counts as forgotten, so that its
messages do not bring it back. Raises MemoryNotFound, InvalidRequest, SecretFound and StoreError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from forged.errors import InvalidRequest, MemoryNotFound
from forged.memories.ids import resolve_prefix
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.removal import drop_proposals
from forged.memories.write import fields_of, find_secrets, require_permission
from forged.memory import Memory, Origin, Scope, Trigger, utc_now
from forged.state import DecidedMemory
from forged.stores import Workplace
from forged.trust import elsewhere
from forged_client.private_spans import without_private


def proposals(memories: MemoryParts, place: Workplace) -> tuple[DecidedMemory, ...]:
    """Return the proposals for the roots of a workspace, and for agents, which have no workspace."""
    waiting = memories.state.to_review.of()
    return tuple(each for each in waiting if each.root in place.roots or each.root.scope is Scope.AGENT)


async def proposals_here(memories: MemoryParts, place: Workplace) -> tuple[DecidedMemory, ...]:
    """Return a workspace's proposals, without those for a folder no longer at its path."""
    waiting = proposals(memories, place)
    gone = await asyncio.to_thread(elsewhere, [(each.root, each.identity) for each in waiting])
    return tuple(each for each in waiting if (each.root, each.identity) not in gone)


def find_proposals(
    waiting: Sequence[DecidedMemory], names: Sequence[str], *, again: bool
) -> list[DecidedMemory]:
    """Return the proposals that ids or prefixes name; a missing one raises, unless `again`."""
    by_id = {each.memory.id: each for each in waiting}
    found: dict[str, DecidedMemory] = {}
    for name in names:
        meant = resolve_prefix(by_id, name)
        if not meant and again:
            continue
        if not meant:
            raise MemoryNotFound(f"nothing {name[:80]!r} waits here; `forgectl review` lists the proposals")
        found[meant] = by_id[meant]
    return list(found.values())


async def check_here(proposal: DecidedMemory) -> None:
    """Refuse a proposal for a folder that is not at its path now. Raises InvalidRequest."""
    gone = await asyncio.to_thread(elsewhere, [(proposal.root, proposal.identity)])
    if gone:
        raise InvalidRequest(
            f"{proposal.memory.id} was proposed for another folder ({next(iter(gone.values()))}); keep it "
            "with a daemon that runs where that folder is, or erase it: "
            f"`forgectl dead drop {proposal.memory.id}`"
        )


def with_scope(proposal: DecidedMemory, place: Workplace, scope: str) -> DecidedMemory:
    """Return a copy of a proposal for another scope of the workspace. Raises InvalidRequest."""
    if scope in {"", proposal.root.scope}:
        return proposal
    root = next((each for each in place.roots if each.scope == scope), None)
    if root is None:
        raise InvalidRequest(f"there is no place for scope {scope} here; use a workspace in a repository")
    memory = replace(proposal.memory, scope=scope, version=1, supersedes=None, related=(), evidence=())
    return replace(
        proposal, root=root, memory=memory, attributes=replace(proposal.attributes, memory_type=None)
    )


async def keep_proposal(
    memories: MemoryParts, proposal: DecidedMemory, text: str, *, origin: Origin, allow_secret: bool
) -> None:
    """Save a proposal as a memory, with a new text if given; take it off the review list.

    `origin` is typed if a person at a terminal keeps it. A text that was agreed to stays that.
    """
    if proposal.memory.origin == Origin.AGREED and not text.strip():
        origin = Origin.AGREED
    memory = await _write_proposal(memories, proposal, text, origin=origin, allow_secret=allow_secret)
    memories.state.capture_log.decide(
        proposal.memory.id, memory.content, memory_id=memory.id, root=proposal.root
    )
    await memories.state.to_review.remove([proposal.memory.id])


async def refuse_proposals(memories: MemoryParts, drop: Sequence[DecidedMemory]) -> None:
    """Drop proposals, log that, and mark their texts as forgotten so that they do not come back.

    A refused replacement forgets nothing, as both memories count.
    """
    for proposal in drop:
        if not proposal.is_question:
            await memories.state.forgotten.add(proposal.root.top, [proposal.memory.content])
        memories.state.capture_log.decide(
            proposal.memory.id, "", reason="you dropped it in `forgectl review`"
        )
    await drop_proposals(memories, drop)


async def _write_proposal(
    memories: MemoryParts, proposal: DecidedMemory, text: str, *, origin: Origin, allow_secret: bool
) -> Memory:
    """Write a proposal, replacing its target if that still exists; return the memory once visible."""
    before = proposal.memory
    content = without_private(text if text.strip() else before.content).strip()
    if not content:
        raise InvalidRequest("the text is blank; say what to keep")
    secrets = await find_secrets(content, fields_of(before))
    require_permission(secrets, allowed=allow_secret)
    index, now = memories.indexer.open(proposal.root), utc_now()
    memory = replace(
        before,
        content=content,
        created_at=before.created_at if proposal.learned_at else now,
        updated_at=now,
        trigger=Trigger.EXPLICIT,
        origin=origin,
    )
    write, insisted = memories.writer.add, bool(secrets)
    try:
        written = await write(index, memory, insisted=insisted, patch=proposal.attributes)
    except MemoryNotFound:
        alone = replace(memory, supersedes=None, version=1)
        written = await write(index, alone, insisted=insisted, patch=proposal.attributes)
    memories.metrics.remembered += 1
    await index.until_tried(written.generation, time.monotonic() + PATIENCE_S)
    return written.memory
