"""The verbs that write a memory or a new version of one: `remember` and `edit`.

Each replies when what it wrote is on disk, and returns the generation that shows it. What becomes a memory
passes here: private spans are left out, and a secret is refused unless somebody insists. Raised are
MemoryNotFound, InvalidRequest, SecretFound, Conflict and StoreError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from forged import memory
from forged.attributes import FactsPatch
from forged.capture import is_refused
from forged.daemon.handlers.attributes import names_in, patch_in
from forged.daemon.handlers.beside import cues_of, evidence_of, looked_at_anew, texts_beside
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import BY_HAND, draft
from forged.daemon.handlers.in_session import remember_in_session
from forged.daemon.handlers.naming import Look, begun_by, check_changeable, check_scope, look, on_disk, within
from forged.daemon.handlers.recall import is_this_user
from forged.daemon.handlers.refusals import ForgottenText, InvalidRequest, insist
from forged.daemon.handlers.trust import git_news
from forged.errors import Conflict, MemoryNotFound, NoLongerWanted, StoreError
from forged.files import Root
from forged.maps import RootIndex
from forged.memory import Evidence, Memory, Origin, Related, Scope, Trigger
from forged.scopes import Workplace
from forged.text.private import without_private
from forged.text.redaction import INLINE_LENGTH, shapes_in
from forged.writing import Draft, Written
from forged_client import protocol as wire

# A head that moves while a change of it is being written: the change is made to the next one.
_TRIES = 8


async def remember(
    context: Context, place: Workplace, request: wire.Remember
) -> wire.Remembered | tuple[wire.Remembered, int]:
    """Write one memory; what it supersedes says where, if the request does not."""
    tops, place = place.tops, await _place(context, place, request)
    content = without_private(request.content)
    given = (request.category, request.session_id, request.supersedes, *texts_of(request.related))
    cues = cues_of(request.cues)
    beside = (*given, *cues, *request.evidence, *names_in(request))
    secrets = await secrets_in(content, beside)
    insist(secrets, allowed=request.allow_secret)
    if request.scope == Scope.SESSION:
        await check_wanted(context, tops, content, request.origin, request.session_id)
        noted = _notes(secrets, is_cut=content != request.content)
        context.daemon.metrics.remembered += 1
        return remember_in_session(context.daemon, place, request, content, noted)
    at, supersedes = await _home(context, place, request)
    await check_wanted(context, (*tops, at.root.top), content, request.origin, request.session_id)
    told = patch_in(request, at.root.scope)
    edges = await _edges(context, at, request.related)
    evidence = await evidence_of(request.evidence, _ground(place, at.root))
    asked = msgspec.structs.replace(request, content=content, supersedes=supersedes, related=edges)
    new = msgspec.structs.replace(draft(asked, at.root), cues=cues, evidence=evidence)
    written = await context.daemon.writer.add(at, new, insisted=bool(secrets), key=request.key, said=told)
    context.daemon.metrics.remembered += 1
    if request.origin == Origin.EXPLICIT:  # a person's word holds against an older one
        await context.daemon.state.forgotten.withdraw(at.root.top, [content])
    unsaid = _unsaid(context, written, new, told, at.root.top) if written.existed else ()
    news = await git_news(context, at.root.top)
    return _told(written, _noted(secrets, *unsaid, *news, is_cut=content != request.content))


async def _place(context: Context, place: Workplace, request: wire.Remember) -> Workplace:
    """Where the memory is to be written: an agent's root is made with its first memory."""
    if request.scope == Scope.ORG:
        raise InvalidRequest("what all agents may read comes from documents: `forgectl ingest PATH`")
    if request.scope == Scope.AGENT and request.agent_id:
        patch_in(request, request.scope)  # before a directory is made for it
        return await context.daemon.resolver.within(place, request.scope, request.agent_id, make=True)
    if request.scope == Scope.USER and not is_this_user(context.daemon.config, request.user_id):
        raise InvalidRequest("the files here are of one user alone; leave user_id out, or name that user")
    return place if request.scope != Scope.AGENT else await within(context, place, request.scope)


def _unsaid(context: Context, written: Written, new: Memory, told: FactsPatch, top: str) -> Iterator[str]:
    """What was said beside the text and is not so of the memory that is there."""
    there, known = written.memory, context.daemon.state.attributes.of(top, written.memory.id)
    if (new.cues, new.evidence) != (there.cues, there.evidence):
        yield "its cues and evidence are as they were; `forgectl edit` changes them"
    if told.apply(known) != known:
        yield "its type, importance and metadata are as they were; a version that supersedes it changes them"


async def edit(context: Context, place: Workplace, request: wire.Edit) -> tuple[wire.Remembered, int]:
    """Write a new version with what is to be another; what is as it was already is not written again."""
    check_changeable(request.scope)
    place = await within(context, place, request.scope, request.agent_id)
    said = request.content is not None or request.category or request.relate or request.unrelate
    if not said and request.cues is request.evidence is None:
        raise InvalidRequest("nothing to change; give a text, a category, cues, evidence or a link")
    cues, added = None if request.cues is None else cues_of(request.cues), tuple[wire.Edge, ...]()
    if request.relate:
        at, _ = await on_disk(context, place, request.memory_id, request.scope)
        added = await _edges(context, at.index, request.relate)

    async def changed(base: Memory, root: Root) -> Memory:
        if request.base and request.base not in {base.id, str(base.version)}:
            raise Conflict(
                f"version {base.version} ({base.id[:80]}) is the newest now, and this was made from "
                f"{request.base[:80]}; nothing was written, look at it and edit again"
            )
        new = msgspec.structs.replace(
            base,
            category=request.category or base.category,
            cues=base.cues if cues is None else cues,
            evidence=await _evidence(request, base, _ground(place, root)),
            related=_related(base, added, request.unrelate),
        )
        if request.content is None:
            return new
        if request.content != base.content:
            await check_wanted(context, (*place.tops, root.top), request.content, request.origin)
        new = msgspec.structs.replace(new, content=request.content, origin=request.origin)
        # What the old text spoke of says nothing of the new one.
        return new if new.content == base.content else msgspec.structs.replace(new, entities=(), relations=())

    return await _next_version(context, place, request, changed)


def _ground(place: Workplace, root: Root) -> Root:
    """The root whose files a memory stands on, which is the work tree's for a store in git's directory."""
    if not root.in_git:
        return root
    return next((each for each in place.roots if each.has_files), root)


async def _evidence(request: wire.Edit, base: Memory, root: Root) -> tuple[Evidence, ...]:
    """What the next version stands on: a text that is written anew is true of what is there now."""
    if request.evidence is not None:
        return await evidence_of(request.evidence, root)
    if request.content in {None, base.content}:
        return base.evidence
    return await looked_at_anew(base.evidence, root)


def _related(base: Memory, added: Sequence[wire.Edge], gone: Sequence[str]) -> tuple[Related, ...]:
    """Links of the next version; one that is there with another relationship gets the new one."""
    if not (added or gone):
        return base.related
    there = {edge.id: edge for edge in base.related}
    left_out = {_linked(there, wanted) for wanted in gone}
    there |= {edge.id: Related(edge.id, edge.relationship) for edge in added}
    return tuple(edge for edge in there.values() if edge.id not in left_out)


async def _next_version(
    context: Context,
    place: Workplace,
    request: wire.Edit,
    changed: Callable[[Memory, Root], Awaitable[Memory]],
) -> tuple[wire.Remembered, int]:
    """Write what `changed` makes of the newest version, whichever that is by then."""
    if request.key and (before := await _done_before(context, place, request)):
        return before
    for tries_left in reversed(range(_TRIES)):
        at, named = await on_disk(context, place, request.memory_id, request.scope)
        base = at.base(named)
        source = msgspec.structs.replace(at.file(base.id).memory, origin=base.origin)
        wanted = await changed(source, at.index.root)
        if wanted == source:
            return _unchanged(at, base)
        new = _version_of(wanted, base)
        beside = (new.category, new.session_id, *texts_of(new.related), *texts_beside(new))
        secrets = await secrets_in(new.content, beside)
        insist(secrets, allowed=request.allow_secret or base.id in at.admitted.insisted)
        drafted = Draft(new, bool(secrets), request.key, base.id, again=True)
        (done,) = await context.daemon.writer.add_all(at.index, (drafted,))
        if isinstance(done, Written):
            news = await git_news(context, at.index.root.top)
            return _told(done, _noted(secrets, *news, is_cut=new.content != wanted.content))
        if not isinstance(done, Conflict) or not tries_left:
            raise done
    raise AssertionError  # the last try returned or raised


async def _done_before(
    context: Context, place: Workplace, request: wire.Edit
) -> tuple[wire.Remembered, int] | None:
    """Return the memory that an earlier request of this key has written. Raises NoLongerWanted."""
    await context.daemon.state.opened()
    try:
        known = await context.daemon.state.requests.of(request.key)
    except StoreError:  # the writer says what can be done without
        return None
    if known is None:
        return None
    if not known.memory_id:
        raise NoLongerWanted("what this request wrote was forgotten since")
    try:
        at, _ = await on_disk(context, place, known.memory_id, request.scope)
    except MemoryNotFound:  # its file is not there yet: the writer completes it
        return None
    file, generation = at.file(known.memory_id), at.index.generations.visible
    written = Written(file.memory, file.path, generation, file.memory.supersedes or "", existed=known.existed)
    return _told(written, "")


def _version_of(wanted: Memory, base: Memory) -> Memory:
    content = without_private(wanted.content)
    if not content.strip():
        raise InvalidRequest("the text is blank; `forgectl forget` takes a memory away")
    now = memory.utc_now()
    return msgspec.structs.replace(
        wanted,
        id=memory.new_id(),
        content=content,
        created_at=now,
        updated_at=now,
        session_id=BY_HAND,
        trigger=Trigger.EXPLICIT,
        supersedes=base.id,
    )


def _unchanged(at: Look, base: Memory) -> tuple[wire.Remembered, int]:
    path, generation = at.file(base.id).path, at.index.generations.visible
    return _told(Written(base, path, generation, existed=True), "it is like this already")


def _told(written: Written, reason: str) -> tuple[wire.Remembered, int]:
    reply = wire.Remembered(
        memory_id=written.memory.id,
        version=written.memory.version,
        path=written.path,
        replaced=written.replaced,
        base_moved=written.base_moved,
        existed=written.existed,
        scope=written.memory.scope,
        category=written.memory.category,
        reason=reason,
    )
    return reply, written.generation


# --- what is named -------------------------------------------------------------------------------------


async def _home(context: Context, place: Workplace, request: wire.Remember) -> tuple[RootIndex, str]:
    """Where a memory is to be written, and the whole id of what it supersedes, if anything."""
    if not request.supersedes:
        return root_of(context, place, request.scope or Scope.REPO), ""
    try:
        at, supersedes = await on_disk(context, place, request.supersedes, request.scope)
    except MemoryNotFound:
        root_of(context, place, request.scope or Scope.REPO)
        if request.scope:
            await _check_not_elsewhere(context, place, request)
        raise
    at.check_counts(supersedes)
    return at.index, supersedes


async def _check_not_elsewhere(context: Context, place: Workplace, request: wire.Remember) -> None:
    """Say so if only the scope is wrong. Raises MemoryNotFound."""
    at, found = await on_disk(context, place, request.supersedes)
    raise MemoryNotFound(
        f"{found[:80]!r} is a memory of scope {at.index.root.scope} and stays there with its new version; "
        "leave the scope out, or move it with `forgectl move`"
    )


def root_of(context: Context, place: Workplace, scope: str) -> RootIndex:
    """The root of a scope. Raises InvalidRequest."""
    for root in place.roots:
        if root.scope == scope:
            return context.daemon.indexer.open(root)
    check_scope(scope)
    if scope != Scope.REPO:
        raise InvalidRequest(f"this goes to repo or user and not to scope {scope}")
    raise InvalidRequest("this workspace has no repository root; remember it with scope user")


async def _edges(context: Context, index: RootIndex, asked: Sequence[wire.Edge]) -> tuple[wire.Edge, ...]:
    """Links with whole ids; one into nothing is a slip of the pen. Raises MemoryNotFound."""
    if not asked:
        return ()
    at = await look(context, index)
    return tuple(msgspec.structs.replace(edge, id=at.meant(edge.id)) for edge in asked)


def _linked(there: Collection[str], wanted: str) -> str:
    """The link that is to go. Raises MemoryNotFound."""
    if found := begun_by(there, wanted):
        return found
    raise MemoryNotFound(f"it has no link to {wanted[:80]!r}")


# --- what must not be written --------------------------------------------------------------------------


async def check_wanted(
    context: Context, tops: Sequence[str], content: str, origin: str, session_id: str = ""
) -> None:
    """Refuse what a person forgot or does not want remembered, unless it is the person's own word.

    A request not to remember counts for the session of `session_id`, and as long as another one of these
    roots is held. Raises ForgottenText.
    """
    if origin == Origin.EXPLICIT:
        return
    held = context.daemon.talks.held(tops)
    sessions = {session_id, *(each.session_id for each in held)} - {""}
    refused = context.daemon.capture.off_record.of_all(sessions)
    prompts = [text for each in held for text in each.waiting_prompts]
    if await asyncio.to_thread(is_refused, content, refused, prompts):
        raise ForgottenText(
            "the person asked in a session of this repository not to remember this; it is written when the "
            "person says so: `forgectl remember` with the text"
        )
    forgotten = context.daemon.state.forgotten
    at = await asyncio.to_thread(forgotten.since, tops, content) if forgotten else None
    if at is not None:
        raise ForgottenText(
            f"a person forgot this at {memory.utc(at)[:16]}Z, so for 7 days it is written again only when a "
            "person says so: `forgectl remember` with the text, or `forgectl restore`"
        )


async def secrets_in(content: str, beside: Iterable[str]) -> tuple[str, ...]:
    """The shapes of all secrets in what would be written, the fields beside the text as well."""
    fields = "\n\n".join(beside)
    if len(content) + len(fields) < INLINE_LENGTH:
        found = shapes_in(content) + shapes_in(fields)
    else:
        found = await asyncio.to_thread(lambda: shapes_in(content) + shapes_in(fields))
    return tuple(dict.fromkeys(found))


def _noted(secrets: tuple[str, ...], *unsaid: str, is_cut: bool) -> str:
    return "; ".join(_notes(secrets, *unsaid, is_cut=is_cut))


def _notes(secrets: tuple[str, ...], *unsaid: str, is_cut: bool) -> list[str]:
    notes = ["what is marked private was left out", *unsaid] if is_cut else [*unsaid]
    if secrets:
        notes.append(f"it holds what looks like a secret ({', '.join(secrets)}), and agents will see it")
    return notes


def texts_of(edges: Iterable[wire.Edge | Related]) -> Iterator[str]:
    for edge in edges:
        yield from (edge.id, edge.relationship)
