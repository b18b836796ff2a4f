"""Import many memories out of files that a person names, each with its own fate.

Imported texts pass the checks of every memory. A complete memory file is written as it is, bytes and id; its
origin is believed only if the person says that it comes from a root of their own. The request gives each
draft its id, so a repetition is recognized. Nothing is overwritten, and texts forgotten lately come back only
if the person says so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

import msgspec
from msgspec.structs import replace

from forged import memory
from forged.errors import InvalidRequest, MemoryExists, MemoryFormatError, SecretFound, StoreError
from forged.files import MAX_FILE_BYTES, files_of, parse
from forged.maps import RootIndex
from forged.memories.ids import RootOnDisk, scan_root
from forged.memories.parts import MemoryParts
from forged.memories.write import clean_cues, fields_of, find_secrets_blocking, open_root
from forged.memory import Memory, Origin, Related, Trigger, default_category, one_form
from forged.stores import Workplace
from forged.text.same_text import normalised
from forged.writing import WriteRequest, Written
from forged_client.private_spans import without_private
from forged_client.protocol import ImportedDraft, ImportOutcome

_MOST_SOURCE = 64


class ImportTerms(msgspec.Struct, frozen=True):
    """Terms of an import: the scope of its memories, and permissions that the person gives.

    `own`: the origin that files state is believed.
    """

    scope: str
    own: bool = False
    allow_secret: bool = False
    allow_forgotten: bool = False


class _ExistingMemories(msgspec.Struct, frozen=True):
    """Existing memories of an import's root: hashes of files by id, ids by text, file names.

    `withheld` are ids of files that do not count.
    """

    files: Mapping[str, tuple[str, ...]]
    by_text: Mapping[str, str]
    names: frozenset[str]
    withheld: frozenset[str]


class ImportJob(msgspec.Struct, frozen=True):
    """An import's prepared drafts for a root, and outcomes of the others, in the request's order."""

    index: RootIndex
    tops: tuple[str, ...]
    made: Sequence[WriteRequest | ImportOutcome]
    there: _ExistingMemories
    terms: ImportTerms

    @property
    def drafts(self) -> list[WriteRequest]:
        """Drafts that are to be written."""
        return [each for each in self.made if isinstance(each, WriteRequest)]

    def outcomes(self, done: Sequence[Written | StoreError] = ()) -> tuple[ImportOutcome, ...]:
        """Return the outcome of each draft; without `done` the expected one."""
        pairs = zip_longest(done, self.drafts)
        ends = (_outcome_of(end, draft, self.there) for end, draft in pairs)
        return tuple(next(ends) if isinstance(each, WriteRequest) else each for each in self.made)


async def prepare(
    memories: MemoryParts,
    place: Workplace,
    asked: Sequence[ImportedDraft],
    terms: ImportTerms,
    check: Callable[[ImportedDraft], None],
) -> ImportJob:
    """Prepare an import without writing: drafts to write, and outcomes of refused or known ones.

    A draft for which `check` raises InvalidRequest or SecretFound gets the outcome `refused`.
    """
    await memories.trust.wait_until_open()
    index = open_root(memories, place, terms.scope)
    there = await asyncio.to_thread(_existing_memories, await scan_root(memories, index))
    # A text forgotten in the repository does not come back for the user, nor the reverse.
    tops = tuple(dict.fromkeys((index.root.top, *place.tops)))
    made: Sequence[WriteRequest | ImportOutcome] = await asyncio.to_thread(
        lambda: [_prepare_draft(each, terms, there, check) for each in asked]
    )
    if not terms.allow_forgotten:
        since = partial(memories.state.forgotten.forgotten_at, tops)
        made = await asyncio.to_thread(_without_forgotten, made, since)
    return ImportJob(index, tops, made, there, terms)


async def write(memories: MemoryParts, job: ImportJob) -> tuple[tuple[ImportOutcome, ...], int]:
    """Write an import's drafts durably; return all outcomes and the generation that shows them."""
    done = await memories.writer.add_all(job.index, job.drafts)
    fresh = [each for each in done if isinstance(each, Written) and not each.existed]
    if job.terms.allow_forgotten:
        for top in job.tops:
            texts, ids = (each.memory.content for each in fresh), (each.memory.id for each in fresh)
            await memories.state.forgotten.withdraw(top, texts, ids)
    memories.metrics.remembered += len(fresh)
    generation = max((each.generation for each in fresh), default=job.index.generations.wanted)
    return job.outcomes(done), generation


def as_planned(now: ImportOutcome, planned: ImportOutcome) -> ImportOutcome:
    """Return `planned` if a memory that exists now was written by this same request, else `now`."""
    is_ours = now.result == "exists" and (planned.result, planned.memory_id) == ("new", now.memory_id)
    return planned if is_ours else now


def _existing_memories(seen: RootOnDisk) -> _ExistingMemories:
    """Collect the files, texts and names of a root that drafts are compared with."""
    files: dict[str, tuple[str, ...]] = {}
    names = set[str]()
    withheld = {each.path for each in seen.admitted.withheld}
    for file in files_of(seen.snapshot):
        names.add(one_form(file.path.rpartition("/")[2]))
        if file.path not in withheld:
            files[file.memory.id] = (*files.get(file.memory.id, ()), file.sha256)
    texts = {normalised(each.content): each.id for each in seen.admitted.memories}
    ids = frozenset(each.id for each in seen.admitted.withheld)
    return _ExistingMemories(files, texts, frozenset(names), ids)


def _prepare_draft(
    asked: ImportedDraft, terms: ImportTerms, there: _ExistingMemories, check: Callable[[ImportedDraft], None]
) -> WriteRequest | ImportOutcome:
    """Return the request to write a draft, or its outcome if refused, secret or there already."""
    try:
        new = _file_request(asked, terms) if asked.file else _text_request(asked, terms, check)
    except (MemoryFormatError, InvalidRequest, SecretFound) as error:
        return ImportOutcome(result="refused", memory_id=asked.memory_id, reason=str(error))
    if known := _existing_outcome(new, there):
        return known
    made = new.memory
    fields = (made.id, new.name, made.supersedes or "", *fields_of(made), made.extra)
    secrets = find_secrets_blocking(made.content, fields)
    if secrets and not terms.allow_secret:
        reason = f"it seems to contain a secret ({', '.join(secrets)})"
        return ImportOutcome(result="secret", memory_id=made.id, reason=reason)
    return replace(new, insisted=bool(secrets))


def _without_forgotten(
    made: Iterable[WriteRequest | ImportOutcome], since: Callable[[str, str], float | None]
) -> list[WriteRequest | ImportOutcome]:
    """Replace drafts of forgotten texts, and versions of them made before that, by outcomes."""
    made = list(made)
    memories = [each.memory for each in made if isinstance(each, WriteRequest)]
    gone = {each.id: at for each in memories if (at := since(each.content, each.id)) is not None}
    for each in sorted(memories, key=lambda each: each.age_key):
        at = (gone.get(each.supersedes) or since("", each.supersedes)) if each.supersedes else None
        if at is not None and memory.time_ns(each.created_at) / 1e9 < at:
            gone.setdefault(each.id, at)
    reason = (
        "it was forgotten in the last 7 days; `--allow-forgotten` imports it all the same, and "
        "`forgectl restore` shows what lies in the trash"
    )
    return [
        ImportOutcome(result="forgotten", memory_id=each.memory.id, reason=reason)
        if isinstance(each, WriteRequest) and each.memory.id in gone
        else each
        for each in made
    ]


def _existing_outcome(new: WriteRequest, there: _ExistingMemories) -> ImportOutcome | None:
    """Return the outcome of a draft whose id or text exists already, or None."""
    wanted = new.memory.id
    if wanted in there.withheld and wanted not in there.files:
        reason = "it is here already but not used yet; `forgectl review` shows it"
        return ImportOutcome(result="refused", memory_id=wanted, reason=reason)
    if new.data:
        if hashlib.sha256(new.data).hexdigest() in there.files.get(wanted, ()):
            return ImportOutcome(result="exists", memory_id=wanted)
        if wanted in there.files or one_form(new.name) in there.names:
            reason = "a memory with this id and another text exists; it was not changed"
            return ImportOutcome(result="conflict", memory_id=wanted, reason=reason)
        return None
    same = wanted if wanted in there.files else there.by_text.get(normalised(new.memory.content))
    return ImportOutcome(result="exists", memory_id=same) if same else None


def _outcome_of(
    done: Written | StoreError | None, draft: WriteRequest, there: _ExistingMemories
) -> ImportOutcome:
    """Return the outcome of a written draft, or the expected one if nothing was done."""
    older = draft.memory.supersedes or ""
    if isinstance(done, StoreError):
        result = "conflict" if isinstance(done, MemoryExists) else "refused"
        return ImportOutcome(result=result, memory_id=draft.memory.id, reason=str(done), code=done.code)
    if done is not None and done.existed:
        return ImportOutcome(result="exists", memory_id=done.memory.id)
    return ImportOutcome(
        result="new", memory_id=draft.memory.id, replaces=older if older in there.files else ""
    )


def _file_request(asked: ImportedDraft, terms: ImportTerms) -> WriteRequest:
    """Return the request to write a complete memory file as it is. Raises InvalidRequest."""
    name = asked.name or f"{asked.memory_id}.md"
    if len(asked.file) > MAX_FILE_BYTES or not _is_file_name(name):
        raise InvalidRequest(f"{name[:80]!r} cannot be the name of a memory file")
    found = parse(asked.file, terms.scope, name.removesuffix(".md"))
    origin = found.origin if terms.own else Origin.IMPORT
    return WriteRequest(
        replace(found, origin=origin or Origin.FILE), verbatim=True, data=asked.file, name=name
    )


def _is_file_name(name: str) -> bool:
    """Return True if a name can be that of a memory file in a root."""
    is_plain = name.isprintable() and "/" not in name and not name.startswith(".")
    return is_plain and name.endswith(".md") and 3 < len(name.encode("utf-8", "surrogateescape")) <= 255


def _text_request(
    asked: ImportedDraft, terms: ImportTerms, check: Callable[[ImportedDraft], None]
) -> WriteRequest:
    """Return the request to write a memory of a draft's text and fields. Raises InvalidRequest."""
    content = without_private(asked.content).strip()
    if not content:
        raise InvalidRequest("nothing is left without the text that is marked private")
    if not memory.is_valid_id(asked.memory_id):
        raise InvalidRequest(f"{asked.memory_id[:80]!r} is not a valid id for a new memory")
    check(asked)
    now = memory.utc_now()
    created = asked.created_at if memory.time_ns(asked.created_at) else now
    new = Memory(
        id=asked.memory_id,
        content=content,
        created_at=created,
        updated_at=asked.updated_at if memory.time_ns(asked.updated_at) else created,
        version=1,
        scope=terms.scope,
        category=asked.category or default_category(terms.scope),
        session_id=f"import:{asked.source}"[:_MOST_SOURCE].rstrip(":"),
        trigger=Trigger.EXPLICIT,
        related=tuple({edge.id: Related(edge.id, edge.relationship) for edge in asked.related}.values()),
        origin=Origin.IMPORT,
        cues=clean_cues(asked.cues),
    )
    return WriteRequest(new)
