"""Text that a turn injects: the injected set of a session, with new memories.

`compose` keeps no state: the same turn in the same maps has the same bytes. A `block` is the set in its
order, then corrections, pinned and found memories, by their source. Over its budget the oldest half of the
set goes, pinned memories last. `append` gives only new memories. A changed memory leaves the set; its new
text comes as a correction. A text comes once, also if several memories have it. Nothing is raised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from forged.map import VectorMap
from forged.memory import Memory
from forged.retrieval import Answer
from forged.sessions.block import (
    CONFLICTS,
    OUTDATED,
    REPLACES,
    Entry,
    Injection,
    ShortNames,
    come_once,
    count_fitting,
    entry_texts,
    in_order,
    left_out,
    sources_of,
    with_headings,
)
from forged.sessions.turns import TurnReply
from forged.state import InjectedEntry, InjectedSet
from forged.stores import Ranked
from forged.text.injected_text import TAG

_MOST_ENTRIES = 512  # of one set; the newest count
Key = tuple[str, str, bool]
_Versions = Mapping[tuple[str, str], tuple[Memory | None, Memory | None]]
_DIGEST_BYTES = 6


class TurnContent(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a turn's text: `pinned` and `found` memories; `has_pinned`: pinning is done."""

    pinned: tuple[Ranked, ...] = ()  # after those that the person asks for
    has_pinned: bool
    found: Answer
    limit: int  # bytes
    whole: bool  # a block, and not only new memories
    name: str = ""  # of the turn


class _SetRow(msgspec.Struct, frozen=True):
    """An entry of the injected set, with its memory."""

    entry: InjectedEntry
    ranked: Ranked


def compose(before: InjectedSet, maps: Sequence[VectorMap], turn: TurnContent) -> TurnReply:
    """Return the reply of a turn: its text block, and the injected set after its delivery."""
    versions = _versions_by_key(before.entries, maps)
    rows = _unchanged_rows(before.entries, versions)
    while True:
        new = _new_rows(rows, before, versions, turn)
        kept = tuple(rows.values())
        text, chosen, is_whole = _render_block(before, kept, new, turn)
        if is_whole or not turn.whole or len(fewer := _without_oldest_half(rows)) == len(rows):
            break
        rows = fewer
    comes, rest = _shown_memories(chosen), _shown_memories(new[len(chosen) :])
    had = _shown_memories(kept)
    shown = (*had, *comes) if turn.whole else comes
    if not (chosen or (turn.whole and kept)):
        text = ""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""
    fresh = (replace(row.entry, turn=turn.name) for row in chosen)
    entries = (*_remaining_entries(before, rows, chosen, versions, turn), *fresh)[-_MOST_ENTRIES:]
    has_pinned = before.has_pinned or turn.has_pinned
    return TurnReply(
        turn.found,
        _as_injected(turn.found, (*shown, *rest), has_text=bool(text)),
        Injection(text, digest, len(shown), len(rest)),
        known=len(shown) - len(comes),
        contents=tuple(each.memory.content for each in (*had, *comes)),
        after=replace(before, entries=entries, has_pinned=has_pinned, turns=before.turns + 1),
    )


def _as_injected(answer: Answer, ranked: tuple[Ranked, ...], *, has_text: bool) -> Answer:
    """Return an answer with these memories: ok if it has a text, empty if an ok one has neither."""
    status, reason = answer.status, answer.reason
    if has_text:
        status = "ok"
        if answer.status == "empty":
            reason = f"nothing new: {reason}"
        elif answer.status != "ok":
            reason = f"only pinned and already injected memories: {reason}"
    elif status == "ok" and not ranked:
        status, reason = "empty", "nothing new for this session"
    return replace(answer, status=status, reason=reason, ranked=ranked)


def _shown_memories(rows: Sequence[_SetRow]) -> tuple[Ranked, ...]:
    return tuple(row.ranked for row in rows if row.entry.mark != OUTDATED)


def _remaining_entries(
    before: InjectedSet, kept: Collection[Key], new: Sequence[_SetRow], versions: _Versions, turn: TurnContent
) -> Iterator[InjectedEntry]:
    """Yield the entries that stay in the set: unchanged, unreadable or, in `append`, not yet corrected."""
    again = {_key(row.entry) for row in new}
    for each in before.entries:
        key = _key(each)
        if key in kept or key[:2] not in versions or not (turn.whole or key in again):
            yield each


def digest_of(memory: Memory) -> bytes:
    """Return the digest of a memory's text, by which an entry notices changes."""
    return hashlib.blake2b(memory.content.encode(), digest_size=_DIGEST_BYTES).digest()


def _versions_by_key(entries: Sequence[InjectedEntry], maps: Sequence[VectorMap]) -> _Versions:
    """Return the memory of each entry and the head of its chain, by root and id, if the root is read."""
    found: dict[tuple[str, str], tuple[Memory | None, Memory | None]] = {}
    for home in maps:
        versions = home.with_heads([each.id for each in entries if each.root == home.root])
        found |= {(home.root, memory_id): pair for memory_id, pair in versions.items()}
    return found


def _unchanged_rows(entries: Sequence[InjectedEntry], versions: _Versions) -> dict[Key, _SetRow]:
    """Return the rows of entries with a memory that still exists and has the same text."""
    found: dict[Key, _SetRow] = {}
    for each in entries:
        memory, _ = versions.get((each.root, each.id), (None, None))
        if memory is None or (each.mark == OUTDATED and not memory.stale):
            continue
        if digest_of(memory) == each.digest:
            found[_key(each)] = _SetRow(each, Ranked(memory, 0.0, found_by="injected", root=each.root))
    return found


def _new_rows(
    kept: Mapping[Key, _SetRow], before: InjectedSet, versions: _Versions, turn: TurnContent
) -> tuple[_SetRow, ...]:
    """Return the rows that a turn adds to `kept`, none twice: corrections, pinned and found memories."""
    rows: dict[Key, _SetRow] = {}
    corrections = _corrections(before.entries, kept, versions)
    pinned = (_SetRow(_make_entry(each, pinned=each.found_by == "pinned"), each) for each in turn.pinned)
    found = (row for each in turn.found.ranked for row in _with_concurrent_heads(each))
    for row in (*corrections, *pinned, *found):
        if (key := _key(row.entry)) not in kept:
            rows.setdefault(key, row)
    marked = [row for row in rows.values() if row.entry.mark]
    others = [row for row in rows.values() if not row.entry.mark]
    known = (row.ranked.memory for row in (*kept.values(), *marked))
    once = come_once([row.ranked.memory for row in others], known)
    repeated = {_key(row.entry) for row, comes in zip(others, once, strict=True) if not comes}
    return tuple(row for key, row in rows.items() if key not in repeated)


def _corrections(
    entries: Sequence[InjectedEntry], there: Mapping[Key, _SetRow], versions: _Versions
) -> Iterator[_SetRow]:
    """Yield rows for memories of the set that were changed, replaced or outdated since."""
    for each in reversed(entries):  # of two versions in the set the newer is replaced
        if each.mark == OUTDATED or (found := versions.get((each.root, each.id))) is None:
            continue
        row, head = there.get(_key(each)), found[1]
        if head is None or (row is not None and head.id == each.id):  # unchanged
            if row is not None and row.ranked.memory.stale and not each.stale:
                yield _SetRow(_make_entry(row.ranked, OUTDATED), row.ranked)
            continue
        ranked = Ranked(head, 0.0, found_by="correction", root=each.root)
        if head.id == each.id:
            if digest_of(head) != each.digest:
                yield _SetRow(_make_entry(ranked), ranked)
        elif row is not None:
            yield _SetRow(_make_entry(ranked, REPLACES, each.id), ranked)


def _with_concurrent_heads(ranked: Ranked) -> Iterator[_SetRow]:
    """Yield the row of a memory, and after it those of the other heads of its fork."""
    yield _SetRow(_make_entry(ranked), ranked)
    for other in ranked.concurrent_heads:
        concurrent = Ranked(other, ranked.score, found_by=ranked.found_by, root=ranked.root)
        yield _SetRow(_make_entry(concurrent, CONFLICTS, ranked.memory.id), concurrent)


def _make_entry(ranked: Ranked, mark: str = "", of: str = "", *, pinned: bool = False) -> InjectedEntry:
    memory, digest = ranked.memory, digest_of(ranked.memory)
    return InjectedEntry(ranked.root, memory.id, memory.version, digest, mark, of, pinned, bool(memory.stale))


def _key(each: InjectedEntry) -> Key:
    return each.root, each.id, each.mark == OUTDATED


def _without_oldest_half(kept: dict[Key, _SetRow]) -> dict[Key, _SetRow]:
    """Return rows without the oldest half of those not pinned; of the pinned if all are."""
    for is_pinned in (False, True):
        of_kind = [key for key, row in kept.items() if row.entry.pinned == is_pinned]
        if of_kind:
            gone = {key[:2] for key in of_kind[: -(-len(of_kind) // 2)]}  # and warnings about them
            return {key: row for key, row in kept.items() if key[:2] not in gone}
    return kept


def _render_block(
    before: InjectedSet, kept: Sequence[_SetRow], new: Sequence[_SetRow], turn: TurnContent
) -> tuple[str, list[_SetRow], bool]:
    """Return a block's text, the new rows that fit into it, by source, and True if all of them do."""
    # Memories that cannot fit are not quoted: a file may hold 256 KiB.
    small = list(takewhile(lambda row: len(row.ranked.memory.content) <= turn.limit, new))
    known = [row.ranked.memory.id for row in kept]
    sources = sources_of([row.ranked.memory for row in kept])
    last = sources[-1] if turn.whole and sources else None
    had = with_headings(entry_texts(_as_entries(kept), ShortNames())) if turn.whole else ""

    @cache
    def rendered(count: int) -> tuple[str, list[_SetRow]]:
        rows = [small[place] for place in in_order([row.ranked.memory for row in small[:count]])]
        # An earlier memory keeps its name, also if it is not shown again.
        comes = with_headings(entry_texts(_as_entries(rows), ShortNames(known)), sources, last)
        rest = len(_shown_memories(new[count:]))
        end = left_out(rest) if rest else ""
        return f"<{TAG} {before.token}>\n{had}{comes}{end}</{TAG} {before.token}>\n", rows

    def size(count: int) -> int:
        return len(rendered(count)[0].encode())

    is_whole = size(len(small)) <= turn.limit
    count = len(small) if is_whole else count_fitting(len(small), size, turn.limit)
    return *rendered(count), is_whole


def _as_entries(rows: Sequence[_SetRow]) -> list[Entry]:
    shown = [(row.ranked.memory, row.entry) for row in rows]
    return [Entry(it, entry.mark, entry.of, entry.stale and bool(it.stale)) for it, entry in shown]
