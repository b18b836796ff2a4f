"""One reply to a session that hears a memory once: what of it stands, and what has been heard by then.

In go the session's list as it was before the turn, the maps, and what was found for the turn; out comes a
`Said`: the text, the memories in it, and the list as it is when the reply was heard. Nothing here keeps
anything, so the same turn in the same maps is the same bytes, however often it is asked.

A `block` has all that was heard, in that order, then corrections of it, then what stands with the session,
then what is new. When it is over its budget the oldest half of what was heard goes at once, but for what
stands, so that many turns go by until the next cut. `append` gives only what is new. A memory that is gone,
or whose text is another one, is left out of what was heard; the new text comes again as a correction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from forged.map import VectorMap
from forged.memory import Memory
from forged.retrieval.injection import outdated
from forged.retrieval.session_form import Names, Note, closing, entry, opening
from forged.scopes import Ranked
from forged.state import Entry, HeardList

Key = tuple[str, str]
_DIGEST_BYTES = 6
# Bytes of a closing tail, more than any has.
_TAIL = 64


class Said(msgspec.Struct, frozen=True):
    """A reply; with no text there is nothing to say.

    `ranked` are the memories of the text in its order, of which `heard` were heard before; `left_out` had no
    room. `after` is the list once the reply was heard, `contents` the texts of what is on it.
    """

    text: str
    ranked: tuple[Ranked, ...]
    heard: int
    left_out: tuple[Ranked, ...]
    after: HeardList
    contents: tuple[str, ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn brings.

    `stands`, if it is the first with something to say, from now on (`stood` says that it is); and what was
    `found`. `limit` is in bytes; `whole`: a block, and not only what is new.
    """

    stands: tuple[Ranked, ...] = ()
    stood: bool
    found: tuple[Ranked, ...] = ()
    limit: int
    whole: bool


class _Row(msgspec.Struct, frozen=True):
    """An entry of the list with its memory."""

    entry: Entry
    ranked: Ranked


def said(before: HeardList, maps: Sequence[VectorMap], turn: Turn) -> Said:
    """Compose the reply of one turn."""
    homes = {home.root: home for home in maps}
    known = {_key(row.entry): row for row in _still_there(before.entries, homes)}
    kept = tuple(known.values())
    new = _new(kept, before, homes, turn)
    if turn.whole:
        while _size(before.token, (*kept, *new)) > turn.limit and (fewer := _cut(kept)) != kept:
            kept = fewer
            new = _new(kept, before, homes, turn)
    fitting = _fitting(before.token, kept, new, turn)
    shown = (*kept, *fitting) if turn.whole else fitting
    included = {row.ranked.key for row in (*kept, *fitting)}
    left_out = tuple(row.ranked for row in new if row.ranked.key not in included)
    first = turn.whole or not before.entries
    text = _text(before.token, shown, kept, len(left_out), first=first) if shown else ""
    entries = (*kept, *fitting) if turn.whole else (*known.values(), *fitting)
    after = replace(before, entries=tuple(row.entry for row in entries), stood=before.stood or turn.stood)
    ranked, contents = tuple(row.ranked for row in shown), tuple(row.ranked.memory.content for row in entries)
    return Said(text, ranked, len(shown) - len(fitting), left_out, after, contents)


def digest_of(memory: Memory) -> bytes:
    """What tells the text of a memory from another."""
    return hashlib.blake2b(memory.content.encode(), digest_size=_DIGEST_BYTES).digest()


def _still_there(entries: Sequence[Entry], homes: Mapping[str, VectorMap]) -> Iterator[_Row]:
    for each in entries:
        home = homes.get(each.root)
        memory = home.find(each.id) if home is not None else None
        if memory is not None and _is_same(each, memory):
            yield _Row(each, Ranked(memory, 0.0, via="heard", root=each.root))


def _is_same(known: Entry, memory: Memory) -> bool:
    """Whether a memory is as it was heard, and what it stands on as well."""
    return digest_of(memory) == known.digest and (known.stale or not memory.stale)


def _new(
    kept: Sequence[_Row], before: HeardList, homes: Mapping[str, VectorMap], turn: Turn
) -> tuple[_Row, ...]:
    """What comes behind `kept`, nothing twice: corrections, what stands, and what was found."""
    rows: dict[Key, _Row] = {}
    there = {_key(row.entry) for row in kept}
    corrections = _corrections(before.entries, there, homes)
    stands = (_Row(_entry(each, standing=True), each) for each in turn.stands)
    found = (row for each in turn.found for row in _with_rivals(each))
    for row in (*corrections, *stands, *found):
        if (key := _key(row.entry)) not in there:
            rows.setdefault(key, row)
    return tuple(rows.values())


def _corrections(entries: Sequence[Entry], there: set[Key], homes: Mapping[str, VectorMap]) -> Iterator[_Row]:
    """Heads of what was heard, where they are others by now, and texts that were changed in place."""
    for each in reversed(entries):  # of two versions that were heard the newer is what is replaced
        home = homes.get(each.root)
        if home is None or (memory := home.find(home.chains.head(each.id))) is None:
            continue
        changed = memory.id == each.id and not _is_same(each, memory)
        if changed or (memory.id != each.id and _key(each) in there):
            ranked = Ranked(memory, 0.0, via="correction", root=each.root)
            yield _Row(_entry(ranked, "replaces" if memory.id != each.id else "", each.id), ranked)


def _with_rivals(ranked: Ranked) -> Iterator[_Row]:
    """A memory, and behind it those that stand beside it: nobody has said which replaces which."""
    yield _Row(_entry(ranked), ranked)
    for rival in ranked.rivals:
        beside = Ranked(rival, ranked.score, via=ranked.via, root=ranked.root)
        yield _Row(_entry(beside, "beside", ranked.memory.id), beside)


def _entry(ranked: Ranked, mark: str = "", of: str = "", *, standing: bool = False) -> Entry:
    memory = ranked.memory
    digest = digest_of(memory)
    of, stale = of if mark else "", bool(memory.stale)
    return Entry(ranked.root, memory.id, memory.version, digest, mark, of, standing, stale)


def _key(each: Entry) -> Key:
    return each.root, each.id


def _cut(kept: tuple[_Row, ...]) -> tuple[_Row, ...]:
    """Without the oldest half of what does not stand, then of what stands."""
    for stands in (False, True):
        of_kind = [row for row in kept if row.entry.standing == stands]
        if of_kind:
            gone = {row.ranked.key for row in of_kind[: -(-len(of_kind) // 2)]}
            return tuple(row for row in kept if row.ranked.key not in gone)
    return kept


def _notes(rows: Sequence[_Row], names: Names) -> list[str]:
    return [entry(_note(row), names) for row in rows]


def _note(row: _Row) -> Note:
    memory = row.ranked.memory
    return Note(memory, row.entry.mark, row.entry.of, outdated(memory) if memory.stale else "")


def _size(token: str, rows: Sequence[_Row]) -> int:
    texts = (opening(token), *_notes(rows, Names()))
    return sum(len(text.encode()) for text in texts) + _TAIL


def _fitting(token: str, kept: Sequence[_Row], new: Sequence[_Row], turn: Turn) -> tuple[_Row, ...]:
    """Of what is new, from the front, what has room."""
    names, shown = Names(), kept if turn.whole else ()
    used = len(opening(token).encode()) + _TAIL
    used += sum(len(text.encode()) for text in _notes(kept, names)[: len(shown)])
    for count, row in enumerate(new):
        # What cannot fit is not even quoted: a file may hold 256 KiB.
        used += len(row.ranked.memory.content)
        if used > turn.limit:
            return tuple(new[:count])
        used += len(_notes((row,), names)[0].encode()) - len(row.ranked.memory.content)
        if used > turn.limit:
            return tuple(new[:count])
    return tuple(new)


def _text(token: str, shown: Sequence[_Row], kept: Sequence[_Row], left_out: int, *, first: bool) -> str:
    names = Names()
    for row in kept:  # they have their names, also where they are not shown again
        names.of(row.ranked.memory.id)
    return "".join([opening(token, first=first), *_notes(shown, names), closing(token, len(shown), left_out)])
