"""Handler of `review`: withheld files and proposals that wait for a decision."""

from __future__ import annotations

from msgspec.structs import replace

from forged.daemon.handlers import trust
from forged.daemon.handlers.request_context import Context, Disabled
from forged.daemon.handlers.wire_types import fitting
from forged.errors import InvalidRequest
from forged.memories import review as reviewing
from forged.memory import Origin, Scope
from forged.state import DecidedMemory
from forged_client import protocol as wire


async def review(context: Context, request: wire.Review) -> wire.Reviewed:
    """Keep or drop proposals, accept withheld files, and list the proposals and files that still wait."""
    memories = context.daemon.memories
    await memories.trust.wait_until_open()
    place = await memories.resolver.resolve(request.workspace)
    planned = context.planned(wire.Reviewed)
    waits, again = reviewing.proposals(memories, place), planned is not None
    keep, drop = (
        reviewing.find_proposals(waits, names, again=again) for names in (request.keep, request.drop)
    )
    if planned is None:
        planned = wire.Reviewed(
            kept=tuple(each.memory.id for each in keep), dropped=tuple(each.memory.id for each in drop)
        )
        await context.plan(planned)
    if request.text.strip() and len(planned.kept) != 1:
        raise InvalidRequest("a text needs exactly one proposal; give its id")
    for document in keep:
        await reviewing.check_here(document)
    if keep and place.off:
        raise Disabled(place.off)
    moved = [reviewing.with_scope(document, place, request.scope) for document in keep]
    origin = Origin.TYPED if not (moved and await context.doubt()) else Origin.AGENT
    for document in moved:
        await reviewing.keep_proposal(
            memories, document, request.text, origin=origin, allow_secret=request.allow_secret
        )
    await reviewing.refuse_proposals(memories, drop)
    waiting = await reviewing.proposals_here(memories, place)
    # Without a repository, its withheld files are not listed.
    is_repository = any(root.scope is Scope.REPO for root in place.roots)
    are_needed = not (waiting or keep or drop) or request.accept or request.everything
    files = await trust.review(context, request) if is_repository or are_needed else wire.Reviewed()
    there = {document.root.top for document in memories.state.to_review.of()}
    return replace(
        files,
        waiting=fitting([_proposal_record(each) for each in waiting]),
        elsewhere=tuple(sorted(there - set(place.tops))),
        kept=planned.kept,
        dropped=planned.dropped,
        accepted=tuple(dict.fromkeys((*planned.accepted, *files.accepted))),
    )


def _proposal_record(document: DecidedMemory) -> wire.Proposed:
    """Return a proposal that waits for a decision as a wire record."""
    memory = document.memory
    return wire.Proposed(
        id=memory.id,
        content=memory.content,
        why=document.waits,
        pasted=document.pasted,
        scope=memory.scope,
        category=memory.category,
        root=document.root.top,
        session_id=memory.session_id,
        agent=document.agent,
        created_at=memory.created_at,
        supersedes=memory.supersedes or "",
    )
