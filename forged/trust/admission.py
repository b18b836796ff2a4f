"""What of a root counts: the one step between the files on disk and every map, model and list.

Goes in: a root and its snapshot. Comes out: the memories that count, as they are shown, and those that are
withheld, each with the reason: these are treated as absent, and hide none of the same id that counts.

| root                     | what counts                                                                  |
|--------------------------|------------------------------------------------------------------------------|
| the user's own           | everything                                                                   |
| unknown: never asked     | bytes on record: files that this daemon wrote, and those a person accepted   |
| own: empty at first      | also what a person writes by hand: bytes that no object of git has           |
| own, without git         | instead edits by hand of files that this daemon wrote, where they lie        |
| trusted, mode locked     | as unknown                                                                   |
| trusted, mode follow     | also what is merged into the trusted branch, and edits by hand (`brought`)   |

Edits by hand in an own root are on record durably before they are shown, so that they count once committed;
so is what git brought, so that it never counts as an edit when git has pruned it. `admit` may wait for git
and for `state.db`, so it is called in a thread. It asks git only for files on which nothing is on record.

A memory is shown without a secret or private span, unless that very file was insisted on; `redacted` names
what is left out. `origin` is that on record where this daemon wrote the file as it is now. Elsewhere a file
is believed only where it lowers: `import`, `model` and `agent` stay. An id with a secret is a problem.
Between two builds almost every memory is the same object, which is not looked at again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import filterfalse

import msgspec

from forged.errors import StoreError
from forged.files import File, Root, Snapshot, files_of, one_per_id
from forged.memory import (
    Entity,
    EntityRelation,
    Evidence,
    Memory,
    Origin,
    Problem,
    Related,
    Scope,
    one_form,
    unchanged_ends,
    utc_now,
)
from forged.state import OwnFile, RootRecord, TrustFindings, TrustRecords
from forged.text.redaction import redact, shapes_in
from forged.trust.identity import has_git, identify
from forged.trust.provenance import FROM_GIT, AdmissionDecision, Repository, UnrecordedFile
from forged_client.private_spans import without_private
from forged_client.protocol import WithheldFile

PRIVATE = "private span"

# What a file may say of its own origin without a record: none of these makes it the person's.
_LOWERING = frozenset({Origin.IMPORT, Origin.MODEL, Origin.AGENT})

# What nearly every file has: no secret, but longer than any word of prose, so that all would be looked at.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

# Front matter that may hold a secret as it is.
_TEXTS = ("category", "session_id", "trigger", "created_at", "updated_at")

Own = Callable[[str], OwnFile | None]
"""What is on record of the file that this daemon wrote for an id."""


class RedactedMemory(msgspec.Struct, frozen=True, gc=False):
    """A memory as it is shown, or why it is not. `insisted`: with what looks like a secret."""

    memory: Memory | None
    insisted: bool = False
    problem: str = ""
    has_secret: bool = False


class RedactedView(msgspec.Struct, frozen=True):
    """Memories as they are, each with its shown row; `is_sure`: the records could be read.

    `with_secrets` are those whose file holds a secret or a private span, as they are and as they are shown.
    """

    sources: tuple[Memory, ...] = ()
    rows: tuple[RedactedMemory, ...] = ()
    is_sure: bool = True
    memories: tuple[Memory, ...] = ()
    with_secrets: tuple[tuple[Memory, RedactedMemory], ...] = ()


def redacted_view(
    sources: tuple[Memory, ...], hashes: Sequence[str], own: Own, before: RedactedView, *, is_sure: bool
) -> RedactedView:
    """Show `sources`. `before` is what it came to the last time, or empty.

    Without `is_sure` nobody knows what is on record.
    """
    if before.is_sure != is_sure:
        before = RedactedView()
    head, tail = unchanged_ends(sources, before.sources)
    end = len(sources) - tail
    fresh = [_shown(sources[row], hashes[row], own) for row in range(head, end)]
    behind = len(before.rows) - tail
    rows = (*before.rows[:head], *fresh, *before.rows[behind:])
    if before.with_secrets or any(row.has_secret for row in fresh):
        memories = tuple([row.memory for row in rows if row.memory is not None])
        secret = tuple([pair for pair in zip(sources, rows, strict=True) if pair[1].has_secret])
    else:
        new = [row.memory for row in fresh if row.memory is not None]
        memories, secret = (*before.memories[:head], *new, *before.memories[behind:]), ()
    return RedactedView(sources, rows, is_sure, memories, secret)


def _shown(source: Memory, sha256: str, own: Own) -> RedactedMemory:
    public = without_private(source.content)
    edges = (text for edge in source.related for text in (edge.id, edge.relationship))
    times = dict.fromkeys((source.created_at, source.updated_at))
    odd_times = (text for text in times if not _TIME.fullmatch(text))
    grounds = map(str, source.evidence)
    beside = (source.category, source.session_id, source.trigger, *odd_times, *source.cues, *grounds)
    beside = (*beside, *_spoken(source))
    found = shapes_in("\n\n".join((public, source.id, source.supersedes or "", *beside, *edges)))
    if source.cues != (cues := tuple(map(without_private, source.cues))):
        source = msgspec.structs.replace(source, cues=cues)
    if any("<" in text for text in _spoken(source)):
        source = _speaking(source, without_private)
    record = own(source.id)
    is_own = record is not None and record.sha256 == sha256
    claimed = source.origin if source.origin in _LOWERING else ""
    origin = (record.origin or source.origin) if record is not None and is_own else claimed
    if not found and public == source.content:
        return RedactedMemory(
            source if origin == source.origin else msgspec.structs.replace(source, origin=origin)
        )
    if is_own and record is not None and record.insisted:
        return RedactedMemory(source, insisted=True, has_secret=True)
    if names := shapes_in(source.id):
        told = f"its id seems to contain a secret ({', '.join(names)}); rename it"
        return RedactedMemory(None, problem=told, has_secret=True)
    return RedactedMemory(_without(source, public, found, origin), has_secret=True)


def _spoken(source: Memory) -> Iterator[str]:
    for entity in source.entities:
        yield from (entity.name, entity.type, entity.description)
    for each in source.relations:
        yield from (each.source, each.relation, each.target)


def _speaking(source: Memory, shown: Callable[[str], str]) -> Memory:
    return msgspec.structs.replace(
        source,
        entities=tuple(
            Entity(shown(each.name), shown(each.type), shown(each.description)) for each in source.entities
        ),
        relations=tuple(
            EntityRelation(shown(each.source), shown(each.relation), shown(each.target), each.weight)
            for each in source.relations
        ),
    )


def _without(source: Memory, public: str, found: tuple[str, ...], origin: str) -> Memory:
    def clean(text: str) -> str:
        return redact(text).text

    cut = (PRIVATE,) if public != source.content else ()
    return msgspec.structs.replace(
        _speaking(source, clean),
        **{name: clean(getattr(source, name)) for name in _TEXTS},
        content=clean(public),
        supersedes=clean(source.supersedes) if source.supersedes else None,
        related=tuple(Related(clean(edge.id), clean(edge.relationship)) for edge in source.related),
        origin=origin,
        cues=tuple(map(clean, source.cues)),
        evidence=tuple(Evidence(clean(each.path), clean(each.lines), each.hash) for each in source.evidence),
        redacted=cut + found,
    )


logger = logging.getLogger(__name__)

PINNED = "it changed since you allowed it, and this repository is locked"
FOREIGN = "forged has no record of writing it (reinstalled, restored or cloned?), and you have not allowed it"
REPLACED = "this is not the repository that was trusted at this path (restored, or cloned again)"
BEFORE_GIT = "git was added to this folder after it was trusted"
UNSURE = "the record of what was trusted is incomplete"
NOT_RECORDED = "state.db cannot record now that it may be used"

# So many hashes are looked for one by one, which takes a twentieth of the time of a look at each file.
_FEW = 8


Hashes = set[str] | frozenset[str]


class Admitted(msgspec.Struct, frozen=True):
    """What counts of a snapshot, as it is shown, sorted by id, and what does not, sorted by path.

    `passes`: some of that may be different in a moment, look again. `redacted`: ids of memories that are
    shown without a secret in their file; `insisted`, of those that are shown with one, as somebody wanted.
    `problems`: what cannot be shown without one.
    """

    memories: tuple[Memory, ...]
    withheld: tuple[WithheldFile, ...] = ()
    passes: bool = False
    redacted: tuple[str, ...] = ()
    insisted: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


class Stamp(msgspec.Struct, frozen=True):
    """On what it depends which files of a root count; `follows`: also on what git says now."""

    identity: str
    decisions: int
    doubt: str
    follows: bool


class TrustRecord(msgspec.Struct, frozen=True):
    """What is on record of a root now, and under which identities its files may be.

    `replaced`: another root was trusted at this path.
    """

    identity: str
    identities: tuple[str, ...]
    record: RootRecord | None
    replaced: bool = False

    @property
    def is_trusted(self) -> bool:
        return self.record is not None and bool(self.record.trusted_at)

    @property
    def is_before_git(self) -> bool:
        """Whether what is on record is of the folder, and git has come into it since."""
        return self.record is not None and self.record.identity != self.identities[0]


class Admission:
    """The decision. Roots that it sees for the first time wait for `save` to be written down."""

    def __init__(self, records: TrustRecords) -> None:
        self._records = records
        self._repositories: dict[str, Repository] = {}
        self._found_roots: dict[str, RootRecord] = {}
        self._presented: dict[Root, RedactedView] = {}

    def admit(self, root: Root, snapshot: Snapshot) -> Admitted:
        """Decide on all files of a root."""
        standing = self.standing(root.top)
        if root.is_own:
            return self._shown(root, standing, snapshot.memories, snapshot.hashes)
        if standing.record is None or (standing.is_before_git and not standing.is_trusted):
            standing = self._first_seen(root, snapshot, standing)
        on_record = self._on_record(standing)
        new = _unknown(snapshot.hashes, on_record)
        if not new or self._are_accepted(root, snapshot, standing, new):
            return self._shown(root, standing, snapshot.memories, snapshot.hashes)
        return self._sorted_out(root, snapshot, standing)

    def standing(self, top: str) -> TrustRecord:
        """What is on record of the root that is at `top` now."""
        identity = identify(top)
        ways = tuple(dict.fromkeys(filter(None, (identity.git, identity.folder))))
        recorded = {each.identity: each for each in self._records.roots(top)}
        known = [recorded.get(each) or self._found_roots.get(f"{each} {top}") for each in ways]
        record = next(filter(None, known), None)
        kept_under = identity.own if record is None else record.identity
        replaced = any(recorded[each].trusted_at for each in recorded.keys() - ways)
        return TrustRecord(kept_under, ways, record, replaced)

    def stamp(self, root: Root) -> Stamp:
        """What decides which files of a root count, but for the files. May be asked in any thread."""
        standing = self.standing(root.top)
        record = standing.record
        is_asked = record is not None and (record.mode == "follow" or record.born_empty)
        follows = root.scope is Scope.REPO and is_asked
        return Stamp(standing.identity, self._records.decisions, self._records.doubt, follows)

    def repository(self, top: str) -> Repository:
        return self._repositories.setdefault(top, Repository(top))

    async def save(self) -> None:
        """Write down which roots `admit` saw for the first time; a failure is found out again."""
        try:
            for record in tuple(self._found_roots.values()):
                if all(each.identity != record.identity for each in self._records.roots(record.top)):
                    await self._records.put_root(record)
                self._found_roots.pop(record.key, None)  # on record now, or it counts no more
        except StoreError as error:
            logger.warning("what counts is not written down error=%s", error)

    def _on_record(self, standing: TrustRecord) -> list[Hashes]:
        return [self._records.hashes(each) for each in standing.identities]

    def _first_seen(self, root: Root, snapshot: Snapshot, standing: TrustRecord) -> TrustRecord:
        """Remember whether anything foreign was there at the first look, or when git came into the folder."""
        if self._records.doubt or not standing.identity:
            return standing
        of_folder = standing.record
        listed = {
            f"{listing.path}/{name}": seen.sha256
            for listing in snapshot.listings
            for name, seen in listing.files.items()
        }
        own = {file.sha256 for each in standing.identities for file in self._records.own(each).values()}
        if of_folder is not None and of_folder.born_empty:
            own |= self._records.hashes(of_folder.identity)
            own |= {file.sha256 for file in files_of(snapshot) if self._is_edited(root, file, standing)}
        was_empty = own.issuperset(listed.values()) and (of_folder is None or of_folder.born_empty)
        identity = standing.identities[0]
        record = RootRecord(root.top, identity, utc_now(), was_empty)
        self._found_roots[record.key] = record
        return msgspec.structs.replace(standing, identity=identity, record=record)

    def _are_accepted(self, root: Root, snapshot: Snapshot, standing: TrustRecord, new: set[str]) -> bool:
        """Return True if all files with these hashes count, where each file is a memory with its own id."""
        if sum(len(listing.files) for listing in snapshot.listings) > len(snapshot.memories):
            return False
        rows = _places(snapshot.hashes, new)
        files = [File(snapshot.memories[at], snapshot.paths[at], 0, snapshot.hashes[at]) for at in rows]
        judged = self._judged(root, files, snapshot, standing) if files else AdmissionDecision()
        return judged.accepted.issuperset(file.sha256 for file in files)

    def _sorted_out(self, root: Root, snapshot: Snapshot, standing: TrustRecord) -> Admitted:
        counting: list[File] = []
        strange: list[File] = []
        known = set().union(*self._on_record(standing))
        for file in files_of(snapshot):
            (counting if file.sha256 in known else strange).append(file)
        judged = self._judged(root, strange, snapshot, standing) if strange else AdmissionDecision()
        counting += [file for file in strange if file.sha256 in judged.accepted]
        withheld = (
            WithheldFile(
                id=file.memory.id, path=file.path, sha256=file.sha256, why=judged.refused.get(file.path, "")
            )
            for file in strange
            if file.sha256 not in judged.accepted
        )
        listed = tuple(sorted(withheld, key=lambda each: each.path))
        chosen = one_per_id(counting)
        memories, hashes = tuple(file.memory for file in chosen), tuple(file.sha256 for file in chosen)
        admitted = self._shown(root, standing, memories, hashes)
        return msgspec.structs.replace(admitted, withheld=listed, passes=judged.passes)

    def _shown(
        self, root: Root, standing: TrustRecord, memories: tuple[Memory, ...], hashes: Sequence[str]
    ) -> Admitted:
        records = [self._records.own(each) for each in standing.identities]

        def own(memory_id: str) -> OwnFile | None:
            return next(filter(None, (record.get(memory_id) for record in records)), None)

        before = self._presented.get(root, RedactedView())
        shown = redacted_view(memories, hashes, own, before, is_sure=not self._records.doubt)
        self._presented[root] = shown
        secret = shown.with_secrets
        return Admitted(
            shown.memories,
            redacted=tuple(source.id for source, row in secret if row.memory and not row.insisted),
            insisted=frozenset(source.id for source, row in secret if row.insisted),
            problems=tuple(
                Problem(redact(source.id).text, row.problem, loses=True)
                for source, row in secret
                if row.problem
            ),
        )

    def _is_edited(self, root: Root, file: File, standing: TrustRecord) -> bool:
        if not any(file.memory.id in self._records.own(each) for each in standing.identities):
            return False
        return one_form(file.path) == one_form(os.path.join(root.directories[0], f"{file.memory.id}.md"))

    def _judged(
        self, root: Root, files: Sequence[File], snapshot: Snapshot, standing: TrustRecord
    ) -> AdmissionDecision:
        """Judge files that are not on record; the findings are on record on return."""
        record = standing.record
        if record is None or not (record.trusted_at or record.born_empty):
            why = _why_not(standing, self._records.doubt)
            return AdmissionDecision(refused={file.path: why for file in files})
        if standing.is_before_git:
            return AdmissionDecision(refused={file.path: BEFORE_GIT for file in files})
        if record.mode == "locked":
            return AdmissionDecision(refused={file.path: PINNED for file in files})
        brought = frozenset[str]().union(*map(self._records.brought, standing.identities))
        if record.trusted_at:
            candidates = _candidates(files, snapshot)
            judged = self.repository(root.top).judge(record.branch, candidates, brought)
        elif has_git(root.top) and not root.in_git:  # git checks nothing out into its own directory
            fresh = _candidates([file for file in files if file.sha256 not in brought], snapshot)
            judged = self.repository(root.top).judge_unasked(fresh)
            known = {file.path: FROM_GIT for file in files if file.sha256 in brought}
            judged = msgspec.structs.replace(judged, refused=judged.refused | known)
        else:
            edited = [file for file in files if self._is_edited(root, file, standing)]
            others = {file.path: FOREIGN for file in files if file not in edited}
            judged = AdmissionDecision(frozenset(file.sha256 for file in edited), others)
        return self._noted(record, judged, files)

    def _noted(
        self, record: RootRecord, judged: AdmissionDecision, files: Sequence[File]
    ) -> AdmissionDecision:
        """The same once it is on record; without that only what a trusted root accepts counts."""
        if not judged.accepted and not judged.brought:
            return judged
        try:
            is_noted = self._records.note(TrustFindings(record, judged.accepted, judged.brought))
        except StoreError as error:
            logger.warning("what counts is not written down error=%s", error)
            if record.trusted_at:
                return judged
            is_noted = False
        if is_noted:
            self._found_roots.pop(record.key, None)
            return judged
        lost = {file.path: NOT_RECORDED for file in files if file.sha256 in judged.accepted}
        return msgspec.structs.replace(judged, accepted=frozenset(), refused=judged.refused | lost)


def _candidates(files: Sequence[File], snapshot: Snapshot) -> list[UnrecordedFile]:
    listed = {listing.path: listing.files for listing in snapshot.listings}
    places = (os.path.split(file.path) for file in files)
    keys = [listed[folder][name].key for folder, name in places]
    return [UnrecordedFile(file.path, file.sha256, *key[:3]) for file, key in zip(files, keys, strict=True)]


def _unknown(hashes: Iterable[str], on_record: Sequence[Hashes]) -> set[str]:
    """Those that stand nowhere; without a line of Python for each, as there are as many as files."""
    for known in on_record:
        hashes = filterfalse(known.__contains__, hashes)
    return set(hashes)


def _places(hashes: Sequence[str], wanted: set[str]) -> Iterator[int]:
    """Where each of the wanted stands, in several places where files without an id are alike."""
    if len(wanted) > _FEW:
        yield from (row for row, each in enumerate(hashes) if each in wanted)
        return
    for each in wanted:
        at = -1
        for _ in range(hashes.count(each)):
            at = hashes.index(each, at + 1)
            yield at


def _why_not(standing: TrustRecord, doubt: str) -> str:
    if doubt:
        return UNSURE
    return REPLACED if standing.replaced else FOREIGN
