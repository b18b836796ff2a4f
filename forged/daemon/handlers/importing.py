"""`import`: many memories at once out of files that a person names, each with a fate of its own.

What is imported passes what `remember` passes: private spans are left out and a secret is refused, draft by
draft, unless somebody insists. A whole memory file is written as it is, bytes and id; what it says of its own
origin is not believed, unless the person says that it is out of a root of their own. A draft has its id from
who asks, so whatever is asked again, after a kill or for fun, is found and not done twice. Nothing that is
there is overwritten, and what was forgotten lately comes back only where the person says so. InvalidRequest
is raised for a request that means nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from forged import memory
from forged.daemon.handlers.beside import cues_of, texts_beside
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import check_words
from forged.daemon.handlers.naming import Look, look
from forged.daemon.handlers.refusals import InvalidRequest, SecretFound
from forged.daemon.handlers.writing import root_of, texts_of
from forged.errors import MemoryExists, MemoryFormatError, StoreError
from forged.files import MAX_FILE_BYTES, files_of, parse
from forged.memory import Memory, Origin, Related, Trigger, default_category, one_form
from forged.scopes import Workplace
from forged.text.private import without_private
from forged.text.redaction import shapes_in
from forged.text.same_text import normalised
from forged.writing import Draft, Written
from forged_client import protocol as wire

_MOST_SOURCE = 64


class _There(msgspec.Struct, frozen=True):
    """What a root holds: hashes of the files that count by id, ids by what they say, and all names of files.

    `withheld` are ids of what does not count.
    """

    files: Mapping[str, tuple[str, ...]]
    by_text: Mapping[str, str]
    names: frozenset[str]
    withheld: frozenset[str]


async def import_(context: Context, place: Workplace, request: wire.Import) -> tuple[wire.Imported, int]:
    """Write what can be written; with `look` only tell what would become of it."""
    await context.daemon.trust.opened()
    index = root_of(context, place, request.scope)
    there = await asyncio.to_thread(_there, await look(context, index))
    # What is forgotten in the repository does not come back for its person everywhere, nor the other way.
    tops = tuple(dict.fromkeys((index.root.top, *place.tops)))
    forgotten = context.daemon.state.forgotten
    made: Sequence[Draft | wire.Fate] = await asyncio.to_thread(
        lambda: [_made(request, each, there) for each in request.drafts]
    )
    if not request.allow_forgotten:
        made = await asyncio.to_thread(_without_forgotten, made, partial(forgotten.since, tops))
    drafts = [each for each in made if isinstance(each, Draft)]
    planned = context.planned(wire.Imported)
    if planned is None and not request.look:
        ends = map(_fate, [None] * len(drafts), drafts, [there] * len(drafts))
        planned = wire.Imported(fates=tuple(next(ends) if isinstance(each, Draft) else each for each in made))
        await context.plan(planned)
    done = () if request.look else await context.daemon.writer.add_all(index, drafts)
    fresh = [each for each in done if isinstance(each, Written) and not each.existed]
    if request.allow_forgotten:
        for top in tops:
            texts, ids = (each.memory.content for each in fresh), (each.memory.id for each in fresh)
            await forgotten.withdraw(top, texts, ids)
    context.daemon.metrics.remembered += len(fresh)
    ends = map(_fate, done or [None] * len(drafts), drafts, [there] * len(drafts))
    fates = tuple(next(ends) if isinstance(each, Draft) else each for each in made)
    if planned is not None:
        fates = tuple(map(_as_planned, fates, planned.fates))
    generation = max((each.generation for each in fresh), default=index.generations.wanted)
    return wire.Imported(fates=fates, root=index.root.top, scope=index.root.scope), generation


def _there(seen: Look) -> _There:
    files: dict[str, tuple[str, ...]] = {}
    names = set[str]()
    withheld = {each.path for each in seen.admitted.withheld}
    for file in files_of(seen.snapshot):
        names.add(one_form(file.path.rpartition("/")[2]))
        if file.path not in withheld:
            files[file.memory.id] = (*files.get(file.memory.id, ()), file.sha256)
    texts = {normalised(each.content): each.id for each in seen.admitted.memories}
    ids = frozenset(each.id for each in seen.admitted.withheld)
    return _There(files, texts, frozenset(names), ids)


def _made(request: wire.Import, asked: wire.Draft, there: _There) -> Draft | wire.Fate:
    """The draft as it is written, or what becomes of it instead; all of its text is looked at for secrets."""
    try:
        new = _copied(asked, request) if asked.file else _drafted(asked, request)
    except (MemoryFormatError, InvalidRequest, SecretFound) as error:
        return wire.Fate(became="refused", memory_id=asked.memory_id, reason=str(error))
    if known := _known(new, there):
        return known
    secrets = tuple(dict.fromkeys((*shapes_in(new.memory.content), *shapes_in("\n\n".join(_beside(new))))))
    if secrets and not request.allow_secret:
        told = f"it holds what looks like a secret ({', '.join(secrets)})"
        return wire.Fate(became="secret", memory_id=new.memory.id, reason=told)
    return msgspec.structs.replace(new, insisted=bool(secrets))


def _without_forgotten(
    made: Sequence[Draft | wire.Fate], since: Callable[[str, str], float | None]
) -> list[Draft | wire.Fate]:
    """Leave out each whose text or id was forgotten, and versions of it that were written before that."""
    memories = [each.memory for each in made if isinstance(each, Draft)]
    gone = {each.id: at for each in memories if (at := since(each.content, each.id)) is not None}
    for each in sorted(memories, key=lambda each: each.age_key):
        at = (gone.get(each.supersedes) or since("", each.supersedes)) if each.supersedes else None
        if at is not None and memory.time_ns(each.created_at) / 1e9 < at:
            gone.setdefault(each.id, at)
    told = (
        "it was forgotten in the last 7 days; `--allow-forgotten` imports it all the same, and "
        "`forgectl restore` shows what lies in the trash"
    )
    return [
        wire.Fate(became="forgotten", memory_id=each.memory.id, reason=told)
        if isinstance(each, Draft) and each.memory.id in gone
        else each
        for each in made
    ]


def _known(new: Draft, there: _There) -> wire.Fate | None:
    """What becomes of a draft that is there already, as it is or as something else."""
    wanted = new.memory.id
    if wanted in there.withheld and wanted not in there.files:
        told = "it lies here and is withheld; `forgectl review` shows it"
        return wire.Fate(became="refused", memory_id=wanted, reason=told)
    if new.data:
        if hashlib.sha256(new.data).hexdigest() in there.files.get(wanted, ()):
            return wire.Fate(became="there", memory_id=wanted)
        if wanted in there.files or one_form(new.name) in there.names:
            told = "this id is there with another content; it stays as it is"
            return wire.Fate(became="conflict", memory_id=wanted, reason=told)
        return None
    if wanted in there.files:
        return wire.Fate(became="there", memory_id=wanted)
    same = there.by_text.get(normalised(new.memory.content))
    return wire.Fate(became="there", memory_id=same) if same else None


def _beside(new: Draft) -> tuple[str, ...]:
    memory_ = new.memory
    return (
        *(memory_.id, new.name, memory_.category, memory_.session_id, memory_.supersedes or ""),
        *texts_of(memory_.related),
        *texts_beside(memory_),
        memory_.extra,
    )


def _fate(done: Written | StoreError | None, draft: Draft, there: _There) -> wire.Fate:
    """What became of a draft, or would become where nothing was done."""
    older = draft.memory.supersedes or ""
    replaces = older if older in there.files else ""
    if isinstance(done, StoreError):
        became = "conflict" if isinstance(done, MemoryExists) else "refused"
        return wire.Fate(became=became, memory_id=draft.memory.id, reason=str(done), code=done.code)
    if done is not None and done.existed:
        return wire.Fate(became="there", memory_id=done.memory.id)
    return wire.Fate(became="new", memory_id=draft.memory.id, replaces=replaces)


def _as_planned(now: wire.Fate, planned: wire.Fate) -> wire.Fate:
    """The fate of a draft: what this request has written before a kill is not somebody else's."""
    is_ours = now.became == "there" and (planned.became, planned.memory_id) == ("new", now.memory_id)
    return planned if is_ours else now


# --- from the wire to drafts ---------------------------------------------------------------------------


def _copied(asked: wire.Draft, request: wire.Import) -> Draft:
    """A file as it is. Raises MemoryFormatError, InvalidRequest."""
    name = asked.name or f"{asked.memory_id}.md"
    if len(asked.file) > MAX_FILE_BYTES or not _is_file_name(name):
        raise InvalidRequest(f"{name[:80]!r} cannot be the file of a memory")
    found = parse(asked.file, request.scope, name.removesuffix(".md"))
    origin = found.origin if request.own else Origin.IMPORT
    new = msgspec.structs.replace(found, origin=origin or Origin.FILE)
    return Draft(new, verbatim=True, data=asked.file, name=name)


def _is_file_name(name: str) -> bool:
    is_plain = name.isprintable() and "/" not in name and not name.startswith(".")
    return is_plain and name.endswith(".md") and 3 < len(name.encode("utf-8", "surrogateescape")) <= 255


def _drafted(asked: wire.Draft, request: wire.Import) -> Draft:
    """Raises InvalidRequest."""
    content = without_private(asked.content).strip()
    if not content:
        raise InvalidRequest("nothing is left of it without what is marked private")
    if not memory.is_valid_id(asked.memory_id):
        raise InvalidRequest(f"{asked.memory_id[:80]!r} is no id for a new memory")
    check_words(asked)
    now = memory.utc_now()
    created = asked.created_at if memory.time_ns(asked.created_at) else now
    new = Memory(
        id=asked.memory_id,
        content=content,
        created_at=created,
        updated_at=asked.updated_at if memory.time_ns(asked.updated_at) else created,
        version=1,
        scope=request.scope,
        category=asked.category or default_category(request.scope),
        session_id=f"import:{asked.source}"[:_MOST_SOURCE].rstrip(":"),
        trigger=Trigger.EXPLICIT,
        related=_related(asked.related),
        origin=Origin.IMPORT,
        cues=cues_of(asked.cues),
    )
    return Draft(new)


def _related(edges: Sequence[wire.Edge]) -> tuple[Related, ...]:
    return tuple({edge.id: Related(edge.id, edge.relationship) for edge in edges}.values())
