"""Admission of memory files: decides which files of a root count, before every map, model and list.

Takes a root and its snapshot. Returns the memories that count, redacted, and the withheld files, each with
the reason. A withheld file is treated as absent and hides no other file of the same id.

| root                     | files that count                                                             |
|--------------------------|------------------------------------------------------------------------------|
| the user's own           | all                                                                          |
| unknown: never asked     | recorded bytes: files of this daemon, and files that a person accepted       |
| own: empty at first      | also edits by hand: bytes that no object of git has                          |
| own, without git         | instead edits by hand of files of this daemon, at their paths                |
| trusted, mode locked     | as unknown                                                                   |
| trusted, mode follow     | also merges into the trusted branch, and edits by hand (`provenance`)        |

Edits by hand in an own root are recorded durably before they are shown, so that they still count when
committed. Files from git are recorded, too, so that they never count as edits after git has pruned them.
`admit` may wait for git and for `state.db`, so it is called in a thread. It asks git only for files without
a record.

A memory is shown without secrets and private spans, unless a person allowed exactly that file. `redacted`
names the kinds of secrets. `origin` is the recorded one if the file is as this daemon wrote it. Otherwise
the file's own origin is believed only if it lowers trust: `import`, `model`, `agent`, `agreed`. An id with a
secret is a problem. Between two builds almost all memories are the same objects, which are not checked again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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

# Origins that are believed without a record: none of these makes a text the person's.
_LOWERING = frozenset({Origin.IMPORT, Origin.MODEL, Origin.AGENT, Origin.AGREED})

# Fields of nearly every file that are no secrets, but longer than words of prose: not searched for secrets.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

# Fields of front matter that may contain a secret.
_TEXTS = ("category", "session_id", "trigger", "created_at", "updated_at")

Own = Callable[[str], OwnFile | None]
"""Returns the record of the file that this daemon wrote for an id, or None."""


class RedactedMemory(msgspec.Struct, frozen=True, gc=False):
    """A memory as it is shown, without secrets unless `insisted`; or the problem why it cannot be."""

    memory: Memory | None
    insisted: bool = False
    problem: str = ""
    has_secret: bool = False


class RedactedView(msgspec.Struct, frozen=True):
    """Memories of a root as in their files, and as shown; `is_sure`: the records were readable.

    `with_secrets` are those whose file has a secret or a private span, in both forms.
    """

    sources: tuple[Memory, ...] = ()
    rows: tuple[RedactedMemory, ...] = ()
    is_sure: bool = True
    memories: tuple[Memory, ...] = ()
    with_secrets: tuple[tuple[Memory, RedactedMemory], ...] = ()


def redacted_view(
    sources: tuple[Memory, ...],
    hashes: Sequence[str],
    own: Own,
    before: RedactedView,
    *,
    is_sure: bool,
    is_of_team: bool = False,
) -> RedactedView:
    """Return the redacted form of `sources`; unchanged ones are taken from `before`, the last result.

    Without `is_sure` the records are unknown.
    """
    if before.is_sure != is_sure:
        before = RedactedView()
    head, tail = unchanged_ends(sources, before.sources)
    end = len(sources) - tail
    fresh = [_redact(sources[row], hashes[row], own, is_of_team) for row in range(head, end)]
    behind = len(before.rows) - tail
    rows = (*before.rows[:head], *fresh, *before.rows[behind:])
    if before.with_secrets or any(row.has_secret for row in fresh):
        memories = tuple([row.memory for row in rows if row.memory is not None])
        secret = tuple([pair for pair in zip(sources, rows, strict=True) if pair[1].has_secret])
    else:
        new = [row.memory for row in fresh if row.memory is not None]
        memories, secret = (*before.memories[:head], *new, *before.memories[behind:]), ()
    return RedactedView(sources, rows, is_sure, memories, secret)


def _redact(source: Memory, sha256: str, own: Own, is_of_team: bool) -> RedactedMemory:
    """Return a memory without secrets and private spans, unless a person insisted; or a problem."""
    public = without_private(source.content)
    edges = (text for edge in source.related for text in (edge.id, edge.relationship))
    times = dict.fromkeys((source.created_at, source.updated_at))
    odd_times = (text for text in times if not _TIME.fullmatch(text))
    grounds = map(str, source.evidence)
    other_texts = (source.category, source.session_id, source.trigger, *odd_times, *source.cues, *grounds)
    other_texts = (*other_texts, *_entity_texts(source))
    found = shapes_in("\n\n".join((public, source.id, source.supersedes or "", *other_texts, *edges)))
    if source.cues != (cues := tuple(map(without_private, source.cues))):
        source = msgspec.structs.replace(source, cues=cues)
    if any("<" in text for text in _entity_texts(source)):
        source = _with_entities(source, without_private)
    record = own(source.id)
    is_own = record is not None and record.sha256 == sha256
    claimed = source.origin if source.origin in _LOWERING else ""
    origin = (record.origin or source.origin) if record is not None and is_own else claimed
    origin = Origin.TEAM if is_of_team else origin
    trusted = source if origin == source.origin else msgspec.structs.replace(source, origin=origin)
    if not found and public == source.content:
        return RedactedMemory(trusted)
    if is_own and record is not None and record.insisted:
        return RedactedMemory(trusted, insisted=True, has_secret=True)
    if names := shapes_in(source.id):
        problem = f"its id seems to contain a secret ({', '.join(names)}); rename it"
        return RedactedMemory(None, problem=problem, has_secret=True)
    return RedactedMemory(_without_secrets(source, public, found, origin), has_secret=True)


def _entity_texts(source: Memory) -> Iterator[str]:
    """Yield all texts of a memory's entities and relations, which may contain secrets."""
    for entity in source.entities:
        yield from (entity.name, entity.type, entity.description)
    for each in source.relations:
        yield from (each.source, each.relation, each.target)


def _with_entities(source: Memory, shown: Callable[[str], str]) -> Memory:
    """Return a memory with each text of its entities and relations changed by `shown`."""
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


def _without_secrets(source: Memory, public: str, found: tuple[str, ...], origin: str) -> Memory:
    """Return a memory without private spans and secrets, and with the kinds of secrets it lost."""

    def clean(text: str) -> str:
        return redact(text).text

    cut = (PRIVATE,) if public != source.content else ()
    return msgspec.structs.replace(
        _with_entities(source, clean),
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

LOCKED = "it changed since you allowed it, and this repository is locked"
FOREIGN = "forged has no record of writing it (reinstalled, restored or cloned?), and you have not allowed it"
REPLACED = "this is not the repository that was trusted at this path (restored, or cloned again)"
BEFORE_GIT = "git was added to this folder after it was trusted"
UNSURE = "the record of what was trusted is incomplete"
NOT_RECORDED = "state.db cannot record now that it may be used"

# Up to this number, hashes are searched one by one, in a twentieth of the time of a loop over all files.
_FEW = 8


Hashes = set[str] | frozenset[str]


class Admitted(msgspec.Struct, frozen=True):
    """Result of an admission: memories that may be used, redacted, and withheld files.

    `may_change`: part of the result may differ in a moment, look again. `redacted`: ids of memories shown
    without a secret of their file. `insisted`: ids of those shown with one, as a person wanted. `problems`:
    memories that cannot be shown without one.
    """

    memories: tuple[Memory, ...]
    withheld: tuple[WithheldFile, ...] = ()
    may_change: bool = False
    redacted: tuple[str, ...] = ()
    insisted: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


class Stamp(msgspec.Struct, frozen=True):
    """State by which a root's files are judged; it differs if the result may. `follows`: git decides, too."""

    identity: str
    decisions: int
    doubt: str
    follows: bool


class TrustState(msgspec.Struct, frozen=True):
    """Trust record of a root, or None, and the identities under which its files may be recorded.

    `replaced`: another root was trusted at this path.
    """

    identity: str
    identities: tuple[str, ...]
    record: RootRecord | None
    replaced: bool = False

    @property
    def is_trusted(self) -> bool:
        """Return True if a person trusts the root."""
        return self.record is not None and bool(self.record.trusted_at)

    @property
    def is_before_git(self) -> bool:
        """Return True if git came into the folder after the record."""
        return self.record is not None and self.record.identity != self.identities[0]


class Admission:
    """Decides which memory files of a root may be used; `save` records roots seen for the first time."""

    def __init__(self, records: TrustRecords, of_team: Collection[str] = ()) -> None:
        """Take the tops of roots `of_team`, whose memories are never the person's."""
        self._records = records
        self._of_team = frozenset(of_team)
        self._repositories: dict[str, Repository] = {}
        self._found_roots: dict[str, RootRecord] = {}
        self._views: dict[Root, RedactedView] = {}

    def admit(self, root: Root, snapshot: Snapshot) -> Admitted:
        """Return a root's memories that may be used, redacted, and its withheld files. May wait for git."""
        trust = self.state_of(root.top)
        if root.is_own:
            return self._admitted(root, trust, snapshot.memories, snapshot.hashes)
        if trust.record is None or (trust.is_before_git and not trust.is_trusted):
            trust = self._note_first_look(root, snapshot, trust)
        on_record = self._recorded_hashes(trust)
        new = _unrecorded_hashes(snapshot.hashes, on_record)
        if not new or self._are_accepted(root, snapshot, trust, new):
            return self._admitted(root, trust, snapshot.memories, snapshot.hashes)
        return self._partition(root, snapshot, trust)

    def state_of(self, top: str) -> TrustState:
        """Return the trust record and the identities of the root that is at `top` now."""
        identity = identify(top)
        ways = tuple(dict.fromkeys(filter(None, (identity.git, identity.folder))))
        recorded = {each.identity: each for each in self._records.roots(top)}
        known = [recorded.get(each) or self._found_roots.get(f"{each} {top}") for each in ways]
        record = next(filter(None, known), None)
        kept_under = identity.own if record is None else record.identity
        replaced = any(recorded[each].trusted_at for each in recorded.keys() - ways)
        return TrustState(kept_under, ways, record, replaced)

    def stamp(self, root: Root) -> Stamp:
        """Return what `admit` decides by, apart from files. Callable in any thread."""
        trust = self.state_of(root.top)
        record = trust.record
        is_asked = record is not None and (record.mode == "follow" or record.born_empty)
        follows = root.scope is Scope.REPO and is_asked
        return Stamp(trust.identity, self._records.decisions, self._records.doubt, follows)

    def repository(self, top: str) -> Repository:
        return self._repositories.setdefault(top, Repository(top))

    async def save(self) -> None:
        """Record roots that `admit` saw for the first time, durably; failures are repeated next time."""
        try:
            for record in tuple(self._found_roots.values()):
                if all(each.identity != record.identity for each in self._records.roots(record.top)):
                    await self._records.put_root(record)
                self._found_roots.pop(record.key, None)  # recorded now, or no longer needed
        except StoreError as error:
            logger.warning("what counts is not written down error=%s", error)

    def _recorded_hashes(self, trust: TrustState) -> list[Hashes]:
        """Return the hashes of usable files on record, for each identity of a root."""
        return [self._records.hashes(each) for each in trust.identities]

    def _note_first_look(self, root: Root, snapshot: Snapshot, trust: TrustState) -> TrustState:
        """Note a root at its first look, `born_empty` if no file is foreign; return its state."""
        if self._records.doubt or not trust.identity:
            return trust
        of_folder = trust.record
        listed = {
            f"{listing.path}/{name}": seen.sha256
            for listing in snapshot.listings
            for name, seen in listing.files.items()
        }
        own = {file.sha256 for each in trust.identities for file in self._records.own(each).values()}
        if of_folder is not None and of_folder.born_empty:
            own |= self._records.hashes(of_folder.identity)
            own |= {file.sha256 for file in files_of(snapshot) if self._is_edited(root, file, trust)}
        was_empty = own.issuperset(listed.values()) and (of_folder is None or of_folder.born_empty)
        identity = trust.identities[0]
        record = RootRecord(root.top, identity, utc_now(), was_empty)
        self._found_roots[record.key] = record
        return msgspec.structs.replace(trust, identity=identity, record=record)

    def _are_accepted(self, root: Root, snapshot: Snapshot, trust: TrustState, new: set[str]) -> bool:
        """Return True if files of these hashes all count and each listed file is its own memory."""
        if sum(len(listing.files) for listing in snapshot.listings) > len(snapshot.memories):
            return False
        rows = _positions_of(snapshot.hashes, new)
        files = [File(snapshot.memories[at], snapshot.paths[at], 0, snapshot.hashes[at]) for at in rows]
        decision = self._decide(root, files, snapshot, trust) if files else AdmissionDecision()
        return decision.accepted.issuperset(file.sha256 for file in files)

    def _partition(self, root: Root, snapshot: Snapshot, trust: TrustState) -> Admitted:
        """Decide on the files of a snapshot; return memories that may be used, and withheld files."""
        counting: list[File] = []
        strange: list[File] = []
        known = set().union(*self._recorded_hashes(trust))
        for file in files_of(snapshot):
            (counting if file.sha256 in known else strange).append(file)
        decision = self._decide(root, strange, snapshot, trust) if strange else AdmissionDecision()
        counting += [file for file in strange if file.sha256 in decision.accepted]
        withheld = (
            WithheldFile(
                id=file.memory.id, path=file.path, sha256=file.sha256, why=decision.refused.get(file.path, "")
            )
            for file in strange
            if file.sha256 not in decision.accepted
        )
        listed = tuple(sorted(withheld, key=lambda each: each.path))
        chosen = one_per_id(counting)
        memories, hashes = tuple(file.memory for file in chosen), tuple(file.sha256 for file in chosen)
        admitted = self._admitted(root, trust, memories, hashes)
        return msgspec.structs.replace(admitted, withheld=listed, may_change=decision.may_change)

    def _admitted(
        self, root: Root, trust: TrustState, memories: tuple[Memory, ...], hashes: Sequence[str]
    ) -> Admitted:
        """Redact admitted memories; return them, and the problems of those that cannot be shown."""
        records = [self._records.own(each) for each in trust.identities]

        def own(memory_id: str) -> OwnFile | None:
            return next(filter(None, (record.get(memory_id) for record in records)), None)

        before = self._views.get(root, RedactedView())
        is_sure, is_of_team = not self._records.doubt, root.top in self._of_team
        shown = redacted_view(memories, hashes, own, before, is_sure=is_sure, is_of_team=is_of_team)
        self._views[root] = shown
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

    def _is_edited(self, root: Root, file: File, trust: TrustState) -> bool:
        """Return True if a file has the id and the path of one that this daemon wrote: an edit by hand."""
        if not any(file.memory.id in self._records.own(each) for each in trust.identities):
            return False
        return one_form(file.path) == one_form(os.path.join(root.directories[0], f"{file.memory.id}.md"))

    def _decide(
        self, root: Root, files: Sequence[File], snapshot: Snapshot, trust: TrustState
    ) -> AdmissionDecision:
        """Decide which files without a record may be used, by the root's trust; the result is recorded."""
        record = trust.record
        if record is None or not (record.trusted_at or record.born_empty):
            why = _refusal_reason(trust, self._records.doubt)
            return AdmissionDecision(refused={file.path: why for file in files})
        if trust.is_before_git:
            return AdmissionDecision(refused={file.path: BEFORE_GIT for file in files})
        if record.mode == "locked":
            return AdmissionDecision(refused={file.path: LOCKED for file in files})
        from_git = frozenset[str]().union(*map(self._records.from_git, trust.identities))
        if record.trusted_at:
            candidates = _unrecorded_files(files, snapshot)
            decision = self.repository(root.top).judge(record.branch, candidates, from_git)
        elif has_git(root.top) and not root.in_git:  # checkouts never go there
            fresh = _unrecorded_files([file for file in files if file.sha256 not in from_git], snapshot)
            decision = self.repository(root.top).judge_unasked(fresh)
            known = {file.path: FROM_GIT for file in files if file.sha256 in from_git}
            decision = msgspec.structs.replace(decision, refused=decision.refused | known)
        else:
            edited = [file for file in files if self._is_edited(root, file, trust)]
            others = {file.path: FOREIGN for file in files if file not in edited}
            decision = AdmissionDecision(frozenset(file.sha256 for file in edited), others)
        return self._record_decision(record, decision, files)

    def _record_decision(
        self, record: RootRecord, decision: AdmissionDecision, files: Sequence[File]
    ) -> AdmissionDecision:
        """Record a decision and return it; after a failure only files of a trusted root are accepted."""
        if not decision.accepted and not decision.from_git:
            return decision
        try:
            is_noted = self._records.note(TrustFindings(record, decision.accepted, decision.from_git))
        except StoreError as error:
            logger.warning("what counts is not written down error=%s", error)
            if record.trusted_at:
                return decision
            is_noted = False
        if is_noted:
            self._found_roots.pop(record.key, None)
            return decision
        lost = {file.path: NOT_RECORDED for file in files if file.sha256 in decision.accepted}
        return msgspec.structs.replace(decision, accepted=frozenset(), refused=decision.refused | lost)


def _unrecorded_files(files: Sequence[File], snapshot: Snapshot) -> list[UnrecordedFile]:
    """Return files in the form that `provenance` judges, with their change keys."""
    listed = {listing.path: listing.files for listing in snapshot.listings}
    places = (os.path.split(file.path) for file in files)
    keys = [listed[folder][name].key for folder, name in places]
    return [UnrecordedFile(file.path, file.sha256, *key[:3]) for file, key in zip(files, keys, strict=True)]


def _unrecorded_hashes(hashes: Iterable[str], on_record: Sequence[Hashes]) -> set[str]:
    """Return those hashes that are in no record; without a Python loop, because there may be many."""
    for known in on_record:
        hashes = filterfalse(known.__contains__, hashes)
    return set(hashes)


def _positions_of(hashes: Sequence[str], wanted: set[str]) -> Iterator[int]:
    """Yield the positions of the wanted hashes in a sequence; equal files have several."""
    if len(wanted) > _FEW:
        yield from (row for row, each in enumerate(hashes) if each in wanted)
        return
    for each in wanted:
        at = -1
        for _ in range(hashes.count(each)):
            at = hashes.index(each, at + 1)
            yield at


def _refusal_reason(trust: TrustState, doubt: str) -> str:
    """Return why files without a record do not count in a root that is neither trusted nor own."""
    if doubt:
        return UNSURE
    return REPLACED if trust.replaced else FOREIGN
