"""Edit a memory: write its next version, based on the newest one.

Raises MemoryNotFound, InvalidRequest, SecretFound, ForgottenText, Conflict and StoreError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from forged import memory
from forged.errors import Conflict, InvalidRequest, MemoryNotFound, NoLongerWanted, StoreError
from forged.files import EvidenceError, Root, with_hash
from forged.memories.ids import RootOnDisk, check_changeable, find_on_disk, place_of_scope, resolve_prefix
from forged.memories.parts import MemoryParts
from forged.memories.write import (
    BY_HAND,
    check_wanted,
    clean_cues,
    evidence_root,
    fields_of,
    find_secrets,
    hash_evidence,
    notes_on,
    require_permission,
    whole_links,
)
from forged.memory import Evidence, Memory, Origin, Related, Trigger
from forged.stores import Workplace
from forged.writing import WriteRequest, Written
from forged_client.private_spans import without_private

# Attempts, if the head changes while its next version is being written.
_TRIES = 8


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """Requested edit of a memory's text, category, cues, evidence or links; None and "" keep a field.

    `base` is the id or number of the version that the person changed.
    """

    content: str | None = None
    category: str = ""
    cues: Sequence[str] | None = None
    evidence: Sequence[str] | None = None
    relate: Sequence[Related] = ()
    unrelate: Sequence[str] = ()
    origin: str = Origin.AGENT
    base: str = ""

    @property
    def is_empty(self) -> bool:
        """True if the edit names no change."""
        has_changes = self.content is not None or self.category or self.relate or self.unrelate
        return not has_changes and self.cues is self.evidence is None


async def edit(
    memories: MemoryParts,
    place: Workplace,
    memory_id: str,
    change: Revision,
    *,
    scope: str = "",
    agent_id: str = "",
    allow_secret: bool = False,
    key: str = "",
) -> tuple[Written, str]:
    """Write a new version of a memory, unless nothing changes; return it with notes."""
    check_changeable(scope)
    place = await place_of_scope(memories, place, scope, agent_id)
    if change.is_empty:
        raise InvalidRequest("nothing to change; give a text, a category, cues, evidence or a link")
    cues, added = None if change.cues is None else clean_cues(change.cues), tuple[Related, ...]()
    if change.relate:
        at, _ = await find_on_disk(memories, place, memory_id, scope)
        added = await whole_links(memories, at.index, change.relate)

    async def changed(base: Memory, root: Root) -> Memory:
        """Return `base` with the edit applied, after checks of its version and of a new text."""
        _check_base(base, change.base)
        new = replace(
            base,
            category=change.category or base.category,
            cues=base.cues if cues is None else cues,
            evidence=await _next_evidence(change, base, evidence_root(place, root)),
            related=_next_links(base, added, change.unrelate),
        )
        if change.content is None:
            return new
        if change.content != base.content:
            await check_wanted(memories, (*place.tops, root.top), change.content, change.origin)
        new = replace(new, content=change.content, origin=change.origin)
        # Entities of the old text do not apply to the new one.
        return new if new.content == base.content else replace(new, entities=(), relations=())

    if key and (before := await _earlier_result(memories, place, key, scope)):
        return before, ""
    return await _next_version(memories, place, memory_id, scope, changed, allow_secret=allow_secret, key=key)


def _check_base(base: Memory, named: str) -> None:
    """Raise Conflict if another version than the named one is the newest."""
    if named and named not in {base.id, str(base.version)}:
        raise Conflict(
            f"version {base.version} ({base.id[:80]}) is the newest now, and this was made from "
            f"{named[:80]}; nothing was written, look at it and edit again"
        )


async def _next_evidence(change: Revision, base: Memory, root: Root) -> tuple[Evidence, ...]:
    """Return a new version's evidence: requested, or hashed again for a new text, or unchanged."""
    if change.evidence is not None:
        return await hash_evidence(change.evidence, root)
    if change.content in {None, base.content}:
        return base.evidence
    return await rehash_evidence(base.evidence, root)


def _next_links(base: Memory, added: Sequence[Related], gone: Sequence[str]) -> tuple[Related, ...]:
    """Return a memory's links after adding or changing `added` ones and dropping `gone` ones."""
    if not (added or gone):
        return base.related
    there = {edge.id: edge for edge in base.related}
    left_out = set[str]()
    for wanted in gone:
        if not (found := resolve_prefix(there, wanted)):
            raise MemoryNotFound(f"it has no link to {wanted[:80]!r}")
        left_out.add(found)
    there |= {edge.id: edge for edge in added}
    return tuple(edge for edge in there.values() if edge.id not in left_out)


async def _next_version(
    memories: MemoryParts,
    place: Workplace,
    memory_id: str,
    scope: str,
    changed: Callable[[Memory, Root], Awaitable[Memory]],
    *,
    allow_secret: bool,
    key: str,
) -> tuple[Written, str]:
    """Write `changed` of the newest version, retried on conflict; return the result with notes."""
    for tries_left in reversed(range(_TRIES)):
        at, named = await find_on_disk(memories, place, memory_id, scope)
        base = at.base(named)
        source = replace(at.file(base.id).memory, origin=base.origin)
        wanted = await changed(source, at.index.root)
        if wanted == source:
            return _existing_result(at, base.id, existed=True), "it has these values already"
        new = _as_next_version(wanted, base)
        secrets = await find_secrets(new.content, fields_of(new))
        require_permission(secrets, allowed=allow_secret or base.id in at.admitted.insisted)
        drafted = WriteRequest(new, bool(secrets), key, base.id, again=True)
        (done,) = await memories.writer.add_all(at.index, (drafted,))
        if isinstance(done, Written):
            news = await memories.trust.excluding.all_notices(at.index.root.top)
            return done, "; ".join(notes_on(secrets, *news, is_cut=new.content != wanted.content))
        if not isinstance(done, Conflict) or not tries_left:
            raise done
    raise AssertionError  # the last attempt returned or raised


async def _earlier_result(memories: MemoryParts, place: Workplace, key: str, scope: str) -> Written | None:
    """Return the result of an earlier request with this key; None if unknown or without a file."""
    await memories.state.wait_until_open()
    try:
        known = await memories.state.requests.of(key)
    except StoreError:  # the writer reports it
        return None
    if known is None:
        return None
    if not known.memory_id:
        raise NoLongerWanted("the memory of this request was forgotten since")
    try:
        at, _ = await find_on_disk(memories, place, known.memory_id, scope)
    except MemoryNotFound:  # its file is missing: the writer completes it
        return None
    found = _existing_result(at, known.memory_id, existed=known.existed)
    return replace(found, replaced=found.memory.supersedes or "")


def _existing_result(at: RootOnDisk, memory_id: str, *, existed: bool) -> Written:
    """Return a result that names an existing memory, for a request that wrote nothing."""
    file = at.file(memory_id)
    return Written(file.memory, file.path, at.index.generations.visible, existed=existed)


def _as_next_version(wanted: Memory, base: Memory) -> Memory:
    """Turn an edited copy of `base` into its next version. Raises InvalidRequest for a blank text."""
    content = without_private(wanted.content)
    if not content.strip():
        raise InvalidRequest("the text is blank; `forgectl forget` removes a memory")
    now = memory.utc_now()
    return replace(
        wanted,
        id=memory.new_id(),
        content=content,
        created_at=now,
        updated_at=now,
        session_id=BY_HAND,
        trigger=Trigger.EXPLICIT,
        supersedes=base.id,
    )


async def rehash_evidence(evidence: Iterable[Evidence], root: Root) -> tuple[Evidence, ...]:
    """Return evidence with the current hashes of its files, without missing or unfit files."""
    found: list[Evidence] = []
    for each in evidence:
        try:
            found.append(await asyncio.to_thread(with_hash, root.top, each))
        except EvidenceError:
            continue
    return tuple(found)
