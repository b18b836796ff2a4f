"""One reply to a session that hears a memory once: what of it stands, and what has been heard by then.

In go the session's list as it was before the turn, the maps, and what was found for the turn; out comes a
`Said`: the text, the memories in it, and the list as it is when the reply was heard. Nothing here keeps
anything, so the same turn in the same maps is the same bytes, however often it is asked.

A `block` has all that was heard, in that order, then corrections of it, then what stands with the session,
then what is new. When it is over its budget the oldest half of what was heard goes at once, but for what
stands, so that many turns go by until the next cut. `append` gives only what is new. A memory that is gone,
or whose text is another one, is left out of what was heard; the new text comes again as a correction. Of one
that stands on files which have changed since, that is said behind it all, and the memory stays in its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile

import msgspec
from msgspec.structs import replace

from forged.map import VectorMap
from forged.memory import Memory
from forged.retrieval.injection import newer_than, outdated
from forged.retrieval.session_form import OUTDATED, Names, Note, closing, entry, opening
from forged.scopes import Ranked
from forged.state import Entry, HeardList

Key = tuple[str, str, bool]
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
    `found`. `limit` is in bytes; `whole`: a block, and not only what is new. `name` is that of the turn.
    """

    stands: tuple[Ranked, ...] = ()
    stood: bool
    found: tuple[Ranked, ...] = ()
    limit: int
    whole: bool
    name: str = ""


class _Row(msgspec.Struct, frozen=True):
    """An entry of the list with its memory."""

    entry: Entry
    ranked: Ranked


def said(before: HeardList, maps: Sequence[VectorMap], turn: Turn) -> Said:
    """Compose the reply of one turn."""
    homes = {home.root: home for home in maps}
    rows = _still_there(before.entries, homes)
    while True:
        new = _new(rows, before, homes, turn)
        kept = tuple(rows.values())
        block = _block(before, kept, new, turn)
        if block.is_whole or not turn.whole or len(fewer := _cut(rows)) == len(rows):
            break
        rows = fewer
    comes = new[: block.count]
    shown = (*kept, *comes) if turn.whole else comes
    fresh = (replace(row.entry, turn=turn.name) for row in comes)
    entries = (*_remaining(before, rows, comes, homes, turn), *fresh)
    return Said(
        text=block.text if shown else "",
        ranked=_memories(shown),
        heard=len(_memories(shown)) - len(_memories(comes)),
        left_out=_memories(new[block.count :]),
        after=replace(before, entries=entries, stood=before.stood or turn.stood),
        contents=tuple(each.memory.content for each in _memories((*kept, *comes))),
    )


def _memories(rows: Sequence[_Row]) -> tuple[Ranked, ...]:
    return tuple(row.ranked for row in rows if row.entry.mark != OUTDATED)


def _remaining(
    before: HeardList,
    kept: Collection[Key],
    comes: Sequence[_Row],
    homes: Mapping[str, VectorMap],
    turn: Turn,
) -> Iterator[Entry]:
    """What stays on the list: what stands, and what nobody can see just now, as it may be there again.

    What was appended is in context whatever has become of it, until its new text comes.
    """
    again = {_key(row.entry) for row in comes}
    for each in before.entries:
        key = _key(each)
        appended = not turn.whole and key not in again
        if key in kept or each.root not in homes or appended:
            yield each


def digest_of(memory: Memory) -> bytes:
    """What tells the text of a memory from another."""
    return hashlib.blake2b(memory.content.encode(), digest_size=_DIGEST_BYTES).digest()


def _still_there(entries: Sequence[Entry], homes: Mapping[str, VectorMap]) -> dict[Key, _Row]:
    """What was heard and is as it was, each once."""
    found: dict[Key, _Row] = {}
    for each in entries:
        home = homes.get(each.root)
        memory = home.find(each.id) if home is not None else None
        if memory is None or (each.mark == OUTDATED and not memory.stale):
            continue
        if digest_of(memory) == each.digest:
            found[_key(each)] = _Row(each, Ranked(memory, 0.0, via="heard", root=each.root))
    return found


def _new(
    kept: Mapping[Key, _Row], before: HeardList, homes: Mapping[str, VectorMap], turn: Turn
) -> tuple[_Row, ...]:
    """What comes behind `kept`, nothing twice: corrections, what stands, and what was found."""
    rows: dict[Key, _Row] = {}
    corrections = _corrections(before.entries, kept, homes)
    stands = (_Row(_entry(each, standing=True), each) for each in turn.stands)
    found = (row for each in turn.found for row in _with_rivals(each))
    for row in (*corrections, *stands, *found):
        if (key := _key(row.entry)) not in kept:
            rows.setdefault(key, row)
    known = {(root, id_): row.ranked.memory for (root, id_, _), row in (*kept.items(), *rows.items())}
    return tuple(_dated(row, known) for row in rows.values())


def _dated(row: _Row, known: Mapping[tuple[str, str], Memory]) -> _Row:
    """With a word that it is newer than one that it may contradict, where nothing else is said of it."""
    other = None if row.entry.mark else newer_than(row.ranked, known)
    return row if other is None else _Row(replace(row.entry, mark="newer than", of=other.id), row.ranked)


def _corrections(
    entries: Sequence[Entry], there: Mapping[Key, _Row], homes: Mapping[str, VectorMap]
) -> Iterator[_Row]:
    """Heads of what was heard, where they are others by now, texts changed in place, and warnings."""
    for each in reversed(entries):  # of two versions that were heard the newer is what is replaced
        home, row = homes.get(each.root), there.get(_key(each))
        if home is None or each.mark == OUTDATED:
            continue
        memory = home.find(head) if (head := home.chains.head(each.id)) != each.id or row is None else None
        if memory is None:  # it stands as it was heard
            if row is not None and row.ranked.memory.stale and not each.stale:
                yield _Row(_entry(row.ranked, OUTDATED), row.ranked)
            continue
        ranked = Ranked(memory, 0.0, via="correction", root=each.root)
        if head == each.id:
            if digest_of(memory) != each.digest:
                yield _Row(_entry(ranked), ranked)
        elif row is not None:
            yield _Row(_entry(ranked, "replaces", each.id), ranked)


def _with_rivals(ranked: Ranked) -> Iterator[_Row]:
    """A memory, and behind it those that stand beside it: nobody has said which replaces which."""
    yield _Row(_entry(ranked), ranked)
    for other in ranked.rivals:
        beside = Ranked(other, ranked.score, via=ranked.via, root=ranked.root)
        yield _Row(_entry(beside, "beside", ranked.memory.id), beside)


def _entry(ranked: Ranked, mark: str = "", of: str = "", *, standing: bool = False) -> Entry:
    memory = ranked.memory
    digest = digest_of(memory)
    of, stale = of if mark else "", bool(memory.stale)
    return Entry(ranked.root, memory.id, memory.version, digest, mark, of, standing, stale)


def _key(each: Entry) -> Key:
    """A memory comes once, and so does the word that it may be outdated."""
    return each.root, each.id, each.mark == OUTDATED


def _cut(kept: dict[Key, _Row]) -> dict[Key, _Row]:
    """Without the oldest half of what does not stand, then of what stands."""
    for stands in (False, True):
        of_kind = [key for key, row in kept.items() if row.entry.standing == stands]
        if of_kind:
            gone = {key[:2] for key in of_kind[: -(-len(of_kind) // 2)]}  # and what is said of them
            return {key: row for key, row in kept.items() if key[:2] not in gone}
    return kept


def _note(row: _Row) -> Note:
    memory = row.ranked.memory
    return Note(
        memory, row.entry.mark, row.entry.of, outdated(memory) if row.entry.stale and memory.stale else ""
    )


class _Block(msgspec.Struct, frozen=True):
    """A text with the first `count` of what is new; `is_whole`: all of it that could have room."""

    text: str
    count: int
    is_whole: bool


def _block(before: HeardList, kept: Sequence[_Row], new: Sequence[_Row], turn: Turn) -> _Block:
    names = Names()
    if new:  # what was said before has its names, also where it is not shown again
        for row in kept:
            names.of(row.ranked.memory.id)
    head = opening(before.token, first=turn.whole or not before.entries)
    notes = [head, *(entry(_note(row), names) for row in kept if turn.whole)]
    room = turn.limit - _TAIL - sum(len(note.encode()) for note in notes)
    fresh = [entry(_note(row), names) for row in _small(new, turn.limit)]
    count = _fitting(fresh, room)
    shown = len(_memories((*(kept if turn.whole else ()), *new[:count])))
    tail = closing(before.token, shown, len(_memories(new[count:])))
    return _Block("".join([*notes, *fresh[:count], tail]), count, count == len(fresh) and room >= 0)


def _small(rows: Sequence[_Row], limit: int) -> Iterator[_Row]:
    """Those, from the front, whose texts could have room: a file may hold 256 KiB, which nobody quotes."""
    sizes = accumulate(len(row.ranked.memory.content) for row in rows)
    return (row for row, size in zip(rows, sizes, strict=True) if size <= limit)


def _fitting(notes: Sequence[str], room: int) -> int:
    """How many of them, from the front, have room."""
    sizes = accumulate(len(note.encode()) for note in notes)
    return sum(1 for _ in takewhile(lambda size: size <= room, sizes))
