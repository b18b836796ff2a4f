"""Write a memory, and check every text to be written.

On return the file is durable; the result names the generation that shows it. Raises MemoryNotFound,
InvalidRequest, SecretFound, ForgottenText, Conflict and StoreError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from forged import memory
from forged.attributes import UNKNOWN, FactsPatch
from forged.capture import is_opted_out
from forged.errors import ForgottenText, InvalidRequest, MemoryNotFound, SecretFound
from forged.files import MAX_FILE_BYTES, MOST_EVIDENCE, EvidenceError, Root, with_hash
from forged.maps import RootIndex
from forged.memories.ids import check_scope, find_on_disk, place_of_scope, scan_root
from forged.memories.parts import MemoryParts
from forged.memory import (
    MOST_CUE_CHARS,
    MOST_CUES,
    Evidence,
    Memory,
    Origin,
    Related,
    Scope,
    default_category,
    evidence_named,
)
from forged.stores import SessionMemory, Workplace, new_session_memory
from forged.text.redaction import INLINE_LENGTH, shapes_in
from forged.writing import Written
from forged_client.private_spans import without_private

# Session id of memories written outside of any session.
BY_HAND = "explicit"
_MOST_NAME = 200


async def remember(
    memories: MemoryParts,
    place: Workplace,
    wanted: Memory,
    attributes: Callable[[str], FactsPatch],
    *,
    agent_id: str = "",
    evidence: Sequence[str] = (),
    names: Sequence[str] = (),
    allow_secret: bool = False,
    key: str = "",
) -> tuple[Written, str]:
    """Check and write one memory, to a file or into a session's memory; return it with notes.

    `wanted` has no id and no times yet; ids in it may be prefixes. `attributes` returns those of the request,
    checked for a scope. `names` in them may contain a secret. A superseded memory decides on the scope.
    """
    tops, place = place.tops, await _place_of_write(memories, place, wanted.scope, agent_id, attributes)
    content = without_private(wanted.content)
    is_cut = content != wanted.content
    new = replace(wanted, content=content, cues=clean_cues(wanted.cues))
    secrets = await find_secrets(content, (new.supersedes or "", *fields_of(new), *evidence, *names))
    require_permission(secrets, allowed=allow_secret)
    if new.scope == Scope.SESSION:
        await check_wanted(memories, tops, content, new.origin, new.session_id)
        _check_session_memory(new, agent_id, evidence)
        memories.metrics.remembered += 1
        written, lost = _keep_in_session(memories, place, new, attributes(new.scope), agent_id)
        return written, "; ".join((*notes_on(secrets, is_cut=is_cut), lost))
    index, supersedes = await _target_root(memories, place, new.supersedes or "", new.scope)
    root = index.root
    await check_wanted(memories, (*tops, root.top), content, new.origin, new.session_id)
    patch, edges = attributes(root.scope), await whole_links(memories, index, new.related)
    grounds, now = await hash_evidence(evidence, evidence_root(place, root)), memory.utc_now()
    _check_not_blank(content)
    new = replace(
        new,
        id=memory.new_id(),
        created_at=now,
        updated_at=now,
        scope=root.scope,
        category=new.category or ("" if supersedes else default_category(root.scope)),
        session_id=new.session_id or BY_HAND,
        supersedes=supersedes or None,
        related=edges,
        evidence=grounds,
    )
    written = await memories.writer.add(index, new, insisted=bool(secrets), key=key, patch=patch)
    memories.metrics.remembered += 1
    if new.origin == Origin.EXPLICIT:  # a person may override an earlier forget
        await memories.state.forgotten.withdraw(root.top, [content])
    ignored = _ignored_fields(memories, written, new, patch, root.top) if written.existed else ()
    news = await memories.trust.excluding.all_notices(root.top)
    return written, "; ".join(notes_on(secrets, *ignored, *news, is_cut=is_cut))


async def _place_of_write(
    memories: MemoryParts,
    place: Workplace,
    scope: str,
    agent_id: str,
    attributes: Callable[[str], FactsPatch],
) -> Workplace:
    if scope == Scope.ORG:
        raise InvalidRequest("memories of scope org come from documents: `forgectl ingest PATH`")
    if scope != Scope.AGENT:
        return place
    if agent_id:
        attributes(scope)  # before its directory is created
        return await memories.resolver.within(place, scope, agent_id, make=True)
    return await place_of_scope(memories, place, scope)


def _ignored_fields(
    memories: MemoryParts, written: Written, new: Memory, patch: FactsPatch, top: str
) -> Iterator[str]:
    """Yield notes on attributes, cues and evidence that an existing memory did not get."""
    there, known = written.memory, memories.state.attributes.of(top, written.memory.id)
    if (new.cues, new.evidence) != (there.cues, there.evidence):
        yield "its cues and evidence were not changed; `forgectl edit` changes them"
    if patch.apply(known) != known:
        yield "its type, importance and metadata were not changed; a version that supersedes it changes them"


async def _target_root(
    memories: MemoryParts, place: Workplace, superseded: str, scope: str
) -> tuple[RootIndex, str]:
    """Return the root to write into, and the complete id of the superseded memory or ""."""
    if not superseded:
        return open_root(memories, place, scope or Scope.REPO), ""
    try:
        at, meant = await find_on_disk(memories, place, superseded, scope)
    except MemoryNotFound:
        open_root(memories, place, scope or Scope.REPO)
        if not scope:
            raise
        at, found = await find_on_disk(memories, place, superseded)
        raise MemoryNotFound(
            f"{found[:80]!r} is a memory of scope {at.index.root.scope} and stays there with its new "
            "version; leave the scope out, or move it with `forgectl move`"
        ) from None
    at.check_counts(meant)
    return at.index, meant


def open_root(memories: MemoryParts, place: Workplace, scope: str) -> RootIndex:
    """Return the root of a scope in a place, opened. Raises InvalidRequest."""
    for root in place.roots:
        if root.scope == scope:
            return memories.indexer.open(root)
    check_scope(scope)
    if scope != Scope.REPO:
        raise InvalidRequest(f"only scope repo or user is possible here, not {scope}")
    raise InvalidRequest("there is no repository here; save it for all your repositories with --scope user")


async def whole_links(
    memories: MemoryParts, index: RootIndex, asked: Sequence[Related]
) -> tuple[Related, ...]:
    """Return links with their targets' complete ids. Raises MemoryNotFound for an unknown one."""
    if not asked:
        return ()
    at = await scan_root(memories, index)
    return tuple(replace(edge, id=at.resolve_id(edge.id)) for edge in asked)


def evidence_root(place: Workplace, root: Root) -> Root:
    """Return the root with the evidence files: the work tree's for a store in git's directory."""
    if not root.in_git:
        return root
    return next((each for each in place.roots if each.has_files), root)


def _check_not_blank(content: str) -> None:
    if not content.strip():
        raise InvalidRequest("the text is blank; say what to remember")


def _keep_in_session(
    memories: MemoryParts, place: Workplace, new: Memory, patch: FactsPatch, agent_id: str
) -> tuple[Written, str]:
    """Keep a text in memory until its session ends or expires; return it with a note about that."""
    sessions, now = memories.session_memories, memories.session_memories.clock()
    kept = new_session_memory(new.content, new.session_id, now, category=new.category, origin=new.origin)
    facts = replace(patch.apply(UNKNOWN), agent_id=agent_id)
    there = sessions.add(SessionMemory(kept, facts, now, place.tops))
    until = there.facts.expires_at
    lost = f"in the daemon's memory until {until} at the latest, and lost if the daemon ends before"
    return Written(there.memory, "", 0, existed=there.id != kept.id), lost


def _check_session_memory(new: Memory, agent_id: str, evidence: Sequence[str]) -> None:
    if not new.session_id or not agent_id:
        raise InvalidRequest("a session's memory needs a session_id and an agent_id (--session, --agent)")
    if len(new.session_id) > _MOST_NAME or not new.session_id.isprintable():
        raise InvalidRequest(f"a session_id has up to {_MOST_NAME} printable characters")
    _check_not_blank(new.content)
    if len(new.content.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise InvalidRequest(f"the text is larger than {MAX_FILE_BYTES >> 10} KiB")
    of_files = {"supersedes": new.supersedes, "related": new.related, "cues": new.cues, "evidence": evidence}
    if given := [name for name, value in of_files.items() if value]:
        raise InvalidRequest(f"a session's memory is no file and has no {', '.join(given)}")


def clean_cues(given: Sequence[str]) -> tuple[str, ...]:
    """Clean cues to be stored: each once, on one line, without private spans. Raises InvalidRequest."""
    cues = tuple(dict.fromkeys(filter(None, (" ".join(without_private(cue).split()) for cue in given))))
    if len(cues) > MOST_CUES:
        raise InvalidRequest(f"{len(cues)} cues are too many; a memory has at most {MOST_CUES}")
    if long := next((cue for cue in cues if len(cue) > MOST_CUE_CHARS), None):
        raise InvalidRequest(
            f"the cue {long[:40]!r} is longer than {MOST_CUE_CHARS} characters; make it short"
        )
    return cues


async def hash_evidence(given: Sequence[str], root: Root) -> tuple[Evidence, ...]:
    """Return the named evidence files with current hashes. Raises InvalidRequest."""
    if not given:
        return ()
    if root.scope is not Scope.REPO:
        raise InvalidRequest("only memories of a repository can have evidence; leave it out")
    named = tuple(evidence_named(each) for each in dict.fromkeys(given))
    if len(named) > MOST_EVIDENCE:
        raise InvalidRequest(
            f"{len(named)} files are too many; a memory has at most {MOST_EVIDENCE} evidence files"
        )
    if root.in_git:
        raise InvalidRequest("evidence needs a work tree, and this is a bare repository; leave it out")
    try:
        return tuple([await asyncio.to_thread(with_hash, root.top, each) for each in named])
    except EvidenceError as error:
        raise InvalidRequest(f"invalid evidence: {error}") from error


def fields_of(new: Memory) -> tuple[str, ...]:
    """Return the fields of a memory, other than its text, that may contain a secret."""
    edges = (text for edge in new.related for text in (edge.id, edge.relationship))
    evidence = (str(each) for each in new.evidence)
    return (new.category, new.session_id, *edges, *new.cues, *evidence)


def find_secrets_blocking(content: str, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of all secrets in a text and its fields. Blocks the caller for long ones."""
    return tuple(dict.fromkeys((*shapes_in(content), *shapes_in("\n\n".join(fields)))))


async def find_secrets(content: str, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of all secrets in a text and its fields; long ones are checked in a thread."""
    fields = tuple(fields)
    if len(content) + sum(map(len, fields)) < INLINE_LENGTH:
        return find_secrets_blocking(content, fields)
    return await asyncio.to_thread(find_secrets_blocking, content, fields)


def require_permission(secrets: Sequence[str], *, allowed: bool) -> None:
    """Raise SecretFound if there are secrets that the request does not allow."""
    if secrets and not allowed:
        raise SecretFound(
            f"this holds what looks like a secret ({', '.join(secrets)}) and was not written; leave it out, "
            "or insist with --allow-secret (allow_secret in the client library): agents will see it"
        )


def notes_on(secrets: Sequence[str], *others: str, is_cut: bool) -> Iterator[str]:
    """Yield notes about a written text: private spans that were cut, the `others`, and secrets."""
    if is_cut:
        yield "text that is marked private was left out"
    yield from others
    if secrets:
        yield f"it seems to contain a secret ({', '.join(secrets)}), and agents will see it"


async def check_wanted(
    memories: MemoryParts, tops: Sequence[str], content: str, origin: str, session_id: str = ""
) -> None:
    """Raise ForgottenText for a text that a person forgot or does not want saved, unless they give it.

    A request not to save counts for `session_id`, and for each session with pending messages in these roots.
    """
    if origin == Origin.EXPLICIT:
        return
    held = memories.sessions.buffer.of_roots(tops)
    sessions = {session_id, *(each.session_id for each in held)} - {""}
    refused = memories.capture.off_record.of_all(sessions)
    prompts = [text for each in held for text in each.waiting_prompts]
    if await asyncio.to_thread(is_opted_out, content, refused, prompts):
        raise ForgottenText(
            "the person asked in a session of this repository not to remember this; it is written when the "
            "person says so: `forgectl remember` with the text"
        )
    forgotten = memories.state.forgotten
    at = await asyncio.to_thread(forgotten.forgotten_at, tops, content) if forgotten else None
    if at is not None:
        raise ForgottenText(
            f"a person forgot this at {memory.utc(at)[:16]}Z, so for 7 days it is written again only when a "
            "person says so: `forgectl remember` with the text, or `forgectl restore`"
        )
