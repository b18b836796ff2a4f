"""Writes of a memory or of a new version of one, and the checks that every written text passes.

On return the file is durable; the generation that shows it comes with it. Raises MemoryNotFound,
InvalidRequest, SecretFound, ForgottenText, Conflict and StoreError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from forged import memory
from forged.attributes import UNKNOWN, FactsPatch
from forged.capture import is_refused
from forged.errors import (
    Conflict,
    ForgottenText,
    InvalidRequest,
    MemoryNotFound,
    NoLongerWanted,
    SecretFound,
    StoreError,
)
from forged.files import MAX_FILE_BYTES, MOST_EVIDENCE, EvidenceError, Root, hashed
from forged.maps import RootIndex
from forged.memories.ids import Look, check_changeable, check_scope, look, on_disk, resolve_prefix, within
from forged.memories.parts import MemoryParts
from forged.memory import (
    MOST_CUE_CHARS,
    MOST_CUES,
    Evidence,
    Memory,
    Origin,
    Related,
    Scope,
    Trigger,
    default_category,
    evidence_named,
)
from forged.stores import SessionMemory, Workplace, in_session
from forged.text.private import without_private
from forged.text.redaction import INLINE_LENGTH, shapes_in
from forged.writing import Draft, Written

# The session of what was remembered outside of any.
BY_HAND = "explicit"
# A head that moves while a change of it is being written: the change is made to the next one.
_TRIES = 8
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
    """Write one memory; what it supersedes decides on the scope, if `wanted` has none.

    `wanted` has no id and no times yet, ids in it may be beginnings, `evidence` are lines as given.
    `attributes` gives those of the request, checked for a scope; `names` are texts in them that may hold a
    secret. Returns notes for the caller, too.
    """
    tops, place = place.tops, await _place(memories, place, wanted.scope, agent_id, attributes)
    content = without_private(wanted.content)
    is_cut = content != wanted.content
    new = replace(wanted, content=content, cues=cues_of(wanted.cues))
    secrets = await secrets_in(content, (new.supersedes or "", *fields_of(new), *evidence, *names))
    insist(secrets, allowed=allow_secret)
    if new.scope == Scope.SESSION:
        await check_wanted(memories, tops, content, new.origin, new.session_id)
        _check_of_session(new, agent_id, evidence)
        memories.metrics.remembered += 1
        written, lost = _in_session(memories, place, new, attributes(new.scope), agent_id)
        return written, "; ".join((*notes_on(secrets, is_cut=is_cut), lost))
    index, supersedes = await _home(memories, place, new.supersedes or "", new.scope)
    root = index.root
    await check_wanted(memories, (*tops, root.top), content, new.origin, new.session_id)
    said, edges = attributes(root.scope), await _edges(memories, index, new.related)
    grounds, now = await evidence_of(evidence, _ground(place, root)), memory.utc_now()
    _check_text(content)
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
    written = await memories.writer.add(index, new, insisted=bool(secrets), key=key, said=said)
    memories.metrics.remembered += 1
    if new.origin == Origin.EXPLICIT:  # a person's word holds against an older one
        await memories.state.forgotten.withdraw(root.top, [content])
    unsaid = _unsaid(memories, written, new, said, root.top) if written.existed else ()
    news = await memories.trust.excluding.all_news(root.top)
    return written, "; ".join(notes_on(secrets, *unsaid, *news, is_cut=is_cut))


async def _place(
    memories: MemoryParts,
    place: Workplace,
    scope: str,
    agent_id: str,
    attributes: Callable[[str], FactsPatch],
) -> Workplace:
    """Return where the memory is to be written: an agent's root is made with its first memory."""
    if scope == Scope.ORG:
        raise InvalidRequest("what all agents may read comes from documents: `forgectl ingest PATH`")
    if scope != Scope.AGENT:
        return place
    if agent_id:
        attributes(scope)  # before a directory is made for it
        return await memories.resolver.within(place, scope, agent_id, make=True)
    return await within(memories, place, scope)


def _unsaid(
    memories: MemoryParts, written: Written, new: Memory, said: FactsPatch, top: str
) -> Iterator[str]:
    """Return what was given beside the text and is not so of the memory that is there."""
    there, known = written.memory, memories.state.attributes.of(top, written.memory.id)
    if (new.cues, new.evidence) != (there.cues, there.evidence):
        yield "its cues and evidence are as they were; `forgectl edit` changes them"
    if said.apply(known) != known:
        yield "its type, importance and metadata are as they were; a version that supersedes it changes them"


async def _home(
    memories: MemoryParts, place: Workplace, superseded: str, scope: str
) -> tuple[RootIndex, str]:
    """Return the root to write into, and the whole id of the superseded memory, if there is one."""
    if not superseded:
        return root_of(memories, place, scope or Scope.REPO), ""
    try:
        at, meant = await on_disk(memories, place, superseded, scope)
    except MemoryNotFound:
        root_of(memories, place, scope or Scope.REPO)
        if not scope:
            raise
        at, found = await on_disk(memories, place, superseded)
        raise MemoryNotFound(
            f"{found[:80]!r} is a memory of scope {at.index.root.scope} and stays there with its new "
            "version; leave the scope out, or move it with `forgectl move`"
        ) from None
    at.check_counts(meant)
    return at.index, meant


def root_of(memories: MemoryParts, place: Workplace, scope: str) -> RootIndex:
    """Return the root of a scope. Raises InvalidRequest."""
    for root in place.roots:
        if root.scope == scope:
            return memories.indexer.open(root)
    check_scope(scope)
    if scope != Scope.REPO:
        raise InvalidRequest(f"this goes to repo or user and not to scope {scope}")
    raise InvalidRequest("this workspace has no repository root; remember it with scope user")


async def _edges(memories: MemoryParts, index: RootIndex, asked: Sequence[Related]) -> tuple[Related, ...]:
    """Return links with whole ids; one into nothing is a slip of the pen. Raises MemoryNotFound."""
    if not asked:
        return ()
    at = await look(memories, index)
    return tuple(replace(edge, id=at.meant(edge.id)) for edge in asked)


def _ground(place: Workplace, root: Root) -> Root:
    """Return the root with the files of evidence: the work tree's for a store in git's directory."""
    if not root.in_git:
        return root
    return next((each for each in place.roots if each.has_files), root)


def _check_text(content: str) -> None:
    if not content.strip():
        raise InvalidRequest("the content is blank; say what to remember")


# --- in a session --------------------------------------------------------------------------------------


def _in_session(
    memories: MemoryParts, place: Workplace, new: Memory, said: FactsPatch, agent_id: str
) -> tuple[Written, str]:
    """Keep a text in the daemon, until its session ends or its time is over; say so."""
    sessions = memories.session_memories
    now = sessions.clock()
    kept = in_session(new.content, new.session_id, now, category=new.category, origin=new.origin)
    facts = replace(said.apply(UNKNOWN), agent_id=agent_id)
    there = sessions.add(SessionMemory(kept, facts, now, place.tops))
    until = there.facts.expires_at
    lost = f"in the daemon's memory until {until} at the latest, and lost if the daemon ends before"
    return Written(there.memory, "", 0, existed=there.id != kept.id), lost


def _check_of_session(new: Memory, agent_id: str, evidence: Sequence[str]) -> None:
    """Refuse what a memory without a file cannot have: versions, links, cues, evidence."""
    if not new.session_id or not agent_id:
        raise InvalidRequest("a session's memory needs a session_id and an agent_id (--session, --agent)")
    if len(new.session_id) > _MOST_NAME or not new.session_id.isprintable():
        raise InvalidRequest(f"a session_id has up to {_MOST_NAME} printable characters")
    _check_text(new.content)
    if len(new.content.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise InvalidRequest(f"the content is larger than {MAX_FILE_BYTES >> 10} KiB")
    of_files = {
        "supersedes": new.supersedes,
        "related": new.related,
        "cues": new.cues,
        "evidence": evidence,
    }
    if given := [name for name, value in of_files.items() if value]:
        raise InvalidRequest(f"a session's memory is no file and has no {', '.join(given)}")


# --- edit ----------------------------------------------------------------------------------------------


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a memory: None and "" keep what is there.

    `relate` are links to add and `unrelate` ids of links to take away. `base` is the id or number of the
    version that the change was made of.
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
        said = self.content is not None or self.category or self.relate or self.unrelate
        return not said and self.cues is self.evidence is None


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
    """Write a new version of a memory, unless nothing changes; return notes on it, too."""
    check_changeable(scope)
    place = await within(memories, place, scope, agent_id)
    if change.is_empty:
        raise InvalidRequest("nothing to change; give a text, a category, cues, evidence or a link")
    cues, added = None if change.cues is None else cues_of(change.cues), tuple[Related, ...]()
    if change.relate:
        at, _ = await on_disk(memories, place, memory_id, scope)
        added = await _edges(memories, at.index, change.relate)

    async def changed(base: Memory, root: Root) -> Memory:
        _check_base(base, change.base)
        new = replace(
            base,
            category=change.category or base.category,
            cues=base.cues if cues is None else cues,
            evidence=await _evidence(change, base, _ground(place, root)),
            related=_related(base, added, change.unrelate),
        )
        if change.content is None:
            return new
        if change.content != base.content:
            await check_wanted(memories, (*place.tops, root.top), change.content, change.origin)
        new = replace(new, content=change.content, origin=change.origin)
        # What the old text spoke of says nothing of the new one.
        return new if new.content == base.content else replace(new, entities=(), relations=())

    if key and (before := await _done_before(memories, place, key, scope)):
        return before, ""
    return await _next_version(memories, place, memory_id, scope, changed, allow_secret=allow_secret, key=key)


def _check_base(base: Memory, named: str) -> None:
    if named and named not in {base.id, str(base.version)}:
        raise Conflict(
            f"version {base.version} ({base.id[:80]}) is the newest now, and this was made from "
            f"{named[:80]}; nothing was written, look at it and edit again"
        )


async def _evidence(change: Revision, base: Memory, root: Root) -> tuple[Evidence, ...]:
    """Return the evidence of the next version: a text that is written anew is true of what is there now."""
    if change.evidence is not None:
        return await evidence_of(change.evidence, root)
    if change.content in {None, base.content}:
        return base.evidence
    return await evidence_now(base.evidence, root)


def _related(base: Memory, added: Sequence[Related], gone: Sequence[str]) -> tuple[Related, ...]:
    """Return links of the next version; one that is there with another relationship gets the new one."""
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
    """Write what `changed` makes of the newest version, whichever that is by then."""
    for tries_left in reversed(range(_TRIES)):
        at, named = await on_disk(memories, place, memory_id, scope)
        base = at.base(named)
        source = replace(at.file(base.id).memory, origin=base.origin)
        wanted = await changed(source, at.index.root)
        if wanted == source:
            return _there(at, base.id, existed=True), "it is like this already"
        new = _version_of(wanted, base)
        secrets = await secrets_in(new.content, fields_of(new))
        insist(secrets, allowed=allow_secret or base.id in at.admitted.insisted)
        drafted = Draft(new, bool(secrets), key, base.id, again=True)
        (done,) = await memories.writer.add_all(at.index, (drafted,))
        if isinstance(done, Written):
            news = await memories.trust.excluding.all_news(at.index.root.top)
            return done, "; ".join(notes_on(secrets, *news, is_cut=new.content != wanted.content))
        if not isinstance(done, Conflict) or not tries_left:
            raise done
    raise AssertionError  # the last try returned or raised


async def _done_before(memories: MemoryParts, place: Workplace, key: str, scope: str) -> Written | None:
    """Return the memory that an earlier request of this key has written. Raises NoLongerWanted."""
    await memories.state.opened()
    try:
        known = await memories.state.requests.of(key)
    except StoreError:  # the writer says what can be done without
        return None
    if known is None:
        return None
    if not known.memory_id:
        raise NoLongerWanted("what this request wrote was forgotten since")
    try:
        at, _ = await on_disk(memories, place, known.memory_id, scope)
    except MemoryNotFound:  # its file is not there yet: the writer completes it
        return None
    found = _there(at, known.memory_id, existed=known.existed)
    return replace(found, replaced=found.memory.supersedes or "")


def _there(at: Look, memory_id: str, *, existed: bool) -> Written:
    file = at.file(memory_id)
    return Written(file.memory, file.path, at.index.generations.visible, existed=existed)


def _version_of(wanted: Memory, base: Memory) -> Memory:
    content = without_private(wanted.content)
    if not content.strip():
        raise InvalidRequest("the text is blank; `forgectl forget` takes a memory away")
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


# --- checks of every text --------------------------------------------------------------------------------


def cues_of(given: Sequence[str]) -> tuple[str, ...]:
    """Return cues as they are kept: each once, on one line, without private spans."""
    cues = tuple(dict.fromkeys(filter(None, (" ".join(without_private(cue).split()) for cue in given))))
    if len(cues) > MOST_CUES:
        raise InvalidRequest(f"{len(cues)} cues are too many; a memory has at most {MOST_CUES}")
    if long := next((cue for cue in cues if len(cue) > MOST_CUE_CHARS), None):
        raise InvalidRequest(
            f"the cue {long[:40]!r} is longer than {MOST_CUE_CHARS} characters; make it short"
        )
    return cues


async def evidence_of(given: Sequence[str], root: Root) -> tuple[Evidence, ...]:
    """Return files of a repository with the hashes of their content as it is now."""
    if not given:
        return ()
    if root.scope is not Scope.REPO:
        raise InvalidRequest(
            "evidence is a file of a repository, and this memory is the user's; leave it out"
        )
    named = tuple(evidence_named(each) for each in dict.fromkeys(given))
    if len(named) > MOST_EVIDENCE:
        raise InvalidRequest(f"{len(named)} files are too many; a memory stands on at most {MOST_EVIDENCE}")
    if root.in_git:
        raise InvalidRequest("evidence is a file of a work tree, and this is a bare repository; leave it out")
    try:
        return tuple([await asyncio.to_thread(hashed, root.top, each) for each in named])
    except EvidenceError as error:
        raise InvalidRequest(f"this is no evidence: {error}") from error


async def evidence_now(evidence: Iterable[Evidence], root: Root) -> tuple[Evidence, ...]:
    """Return evidence with hashes of now, without files that are gone."""
    found: list[Evidence] = []
    for each in evidence:
        try:
            found.append(await asyncio.to_thread(hashed, root.top, each))
        except EvidenceError:
            continue
    return tuple(found)


# --- secrets -------------------------------------------------------------------------------------------


def fields_of(new: Memory) -> tuple[str, ...]:
    """Return the fields of a memory, beside its text, that may hold anything."""
    edges = (text for edge in new.related for text in (edge.id, edge.relationship))
    evidence = (str(each) for each in new.evidence)
    return (new.category, new.session_id, *edges, *new.cues, *evidence)


def secrets_now(content: str, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the shapes of all secrets in a text and its fields. Blocks for long ones."""
    return tuple(dict.fromkeys((*shapes_in(content), *shapes_in("\n\n".join(fields)))))


async def secrets_in(content: str, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the shapes of all secrets in a text and its fields."""
    fields = tuple(fields)
    if len(content) + sum(map(len, fields)) < INLINE_LENGTH:
        return secrets_now(content, fields)
    return await asyncio.to_thread(secrets_now, content, fields)


def insist(secrets: Sequence[str], *, allowed: bool) -> None:
    """Refuse a secret that the request does not insist on. Raises SecretFound."""
    if secrets and not allowed:
        raise SecretFound(
            f"this holds what looks like a secret ({', '.join(secrets)}) and was not written; leave it out, "
            "or insist with --allow-secret (allow_secret in the client library): agents will see it"
        )


def notes_on(secrets: Sequence[str], *others: str, is_cut: bool) -> Iterator[str]:
    """Return sentences about what was written: was a private span cut, are there secrets in it."""
    if is_cut:
        yield "what is marked private was left out"
    yield from others
    if secrets:
        yield f"it holds what looks like a secret ({', '.join(secrets)}), and agents will see it"


# --- what a person does not want -----------------------------------------------------------------------


async def check_wanted(
    memories: MemoryParts, tops: Sequence[str], content: str, origin: str, session_id: str = ""
) -> None:
    """Refuse a text that a person forgot or does not want remembered, unless the person gives it.

    A request not to remember counts for the session of `session_id`, and for each session with waiting
    messages in one of these roots. Raises ForgottenText.
    """
    if origin == Origin.EXPLICIT:
        return
    held = memories.sessions.held.held(tops)
    sessions = {session_id, *(each.session_id for each in held)} - {""}
    refused = memories.capture.off_record.of_all(sessions)
    prompts = [text for each in held for text in each.waiting_prompts]
    if await asyncio.to_thread(is_refused, content, refused, prompts):
        raise ForgottenText(
            "the person asked in a session of this repository not to remember this; it is written when the "
            "person says so: `forgectl remember` with the text"
        )
    forgotten = memories.state.forgotten
    at = await asyncio.to_thread(forgotten.since, tops, content) if forgotten else None
    if at is not None:
        raise ForgottenText(
            f"a person forgot this at {memory.utc(at)[:16]}Z, so for 7 days it is written again only when a "
            "person says so: `forgectl remember` with the text, or `forgectl restore`"
        )
