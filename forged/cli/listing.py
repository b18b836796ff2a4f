"""Memories, hits and explanations as lines of text.

All text of a memory is escaped here, on its way into a line; a table cell never holds a raw newline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.terminal import Painter, columns, counted, escape, escape_line, listed, shown_fields
from forged_client.protocol import Chain, Explained, Hit, MemoryRecord, Trashed

_CELL_CHARS = 80


def memory_table(memories: Iterable[MemoryRecord]) -> list[str]:
    """One line a memory: id, scope/category, version, day, first line."""
    return columns(
        (
            escape_line(memory.id),
            escape_line(f"{memory.scope}/{memory.category}"),
            f"v{memory.version}",
            _day(memory.created_at),
            _gist(memory.content) + _beside(memory),
        )
        for memory in memories
    )


def memory_page(memory: MemoryRecord, paint: Painter) -> Iterator[str]:
    """A memory whole: its fields, an empty line, its text."""
    yield paint("strong", escape_line(memory.id)) + ("" if memory.is_head else "  (superseded)")
    if memory.rivals:
        yield f"beside it stands {listed(memory.rivals)}: neither replaces the other"
    yield f"{escape_line(memory.scope)}/{escape_line(memory.category)}, version {memory.version}"
    fields = {
        "created": memory.created_at,
        "updated": memory.updated_at,
        "session": memory.session_id,
        "trigger": memory.trigger,
        "origin": memory.origin,
        "root": memory.root,
        "supersedes": memory.supersedes or "",
    }
    yield from shown_fields(fields)
    for edge in memory.related:
        yield f"{escape_line(edge.relationship)} {escape_line(edge.id)}"
    yield from (f"cue: {escape_line(cue)}" for cue in memory.cues)
    for evidence in memory.evidence:
        is_stale = any(evidence == path or evidence.startswith(f"{path}:") for path in memory.stale)
        yield f"stands on {escape_line(evidence)}" + (", which changed since" if is_stale else "")
    if memory.redacted:
        yield f"its file holds what looks like a secret ({listed(memory.redacted)}), and is shown without it"
    yield ""
    yield escape(memory.content.rstrip("\n"))


def trash_table(restorable: Iterable[Trashed]) -> list[str]:
    """One line for what went together: id, scope, how many versions, when and why it went, first line."""
    return columns(
        (
            escape_line(each.id),
            escape_line(each.scope),
            counted(len(each.ids), "file"),
            f"{escape_line(each.why)} {escape_line(each.taken_at[:16])}",
            f"until {_day(each.until)}",
            _shortened(escape_line(each.first_line)),
        )
        for each in restorable
    )


def chain_table(chain: Chain) -> Iterator[str]:
    """The versions of a memory, oldest first; `*` marks the newest, or those that stand beside each other."""
    yield from columns(
        (
            "*" if memory.is_head else " ",
            f"v{memory.version}",
            escape_line(memory.id),
            escape_line(memory.created_at[:19]),
            escape_line(", ".join(filter(None, (memory.trigger, memory.origin)))),
            _gist(memory.content),
        )
        for memory in chain.memories
    )
    if chain.flags:
        yield f"odd about this chain: {listed(chain.flags)}"
    heads = [memory for memory in chain.memories if memory.is_head]
    if len(heads) > 1:
        one, other = (escape_line(memory.id) for memory in heads[-2:])
        yield f"{len(heads)} versions stand beside each other, until one replaces the other:"
        yield f"  forgectl relate {other} {one}:supersedes   or   forgectl forget --version {one}"


_CAME = {
    "strong": "much speaks for it",
    "near": "near the best",
    "weak": "little speaks for it, and for others less",
    "search": "it was found, and nothing is held back",
    "hop": "one that came is linked to it",
    "standing": "it stands in every session",
    "heard": "the session has heard it",
    "correction": "it corrects what the session has heard",
}


_STAYED = {
    "faint": "too little speaks for it",
    "far": "too little speaks for it beside the best",
    "full": "enough came before it",
}


def hit_lines(hits: Iterable[Hit], paint: Painter) -> Iterator[str]:
    """Each hit: score, id and scores by leg; below it what it says and its older versions."""
    for hit in hits:
        facts = (
            f"{hit.score:.3f}",
            paint("strong", escape_line(hit.id)),
            escape_line(f"{hit.scope}/{hit.category}"),
            f"v{hit.version}",
            _day(hit.created_at),
            "" if hit.cosine is None else f"cosine {hit.cosine:.3f}",
            "" if hit.lexical is None else f"lexical {hit.lexical:.3f}",
            "" if hit.via == "search" else f"via {escape_line(hit.via)}",
            f"may be outdated: {listed(hit.stale)} changed" if hit.stale else "",
        )
        yield "  ".join(filter(None, facts))
        yield f"       {_gist(hit.content)}"
        for rival in hit.rivals:
            gist = _shortened(escape_line(rival.first_line))
            named = f"v{rival.version} {_day(rival.created_at)} {escape_line(rival.id)}"
            yield f"       beside it: {named}  {gist}"
        for older in hit.older:
            gist = _shortened(escape_line(older.first_line))
            yield f"       older: v{older.version} {_day(older.created_at)} {escape_line(older.id)}  {gist}"


def explanation(found: Explained, query: str, paint: Painter) -> Iterator[str]:
    """Why these memories: what was asked for, scores by leg, hops, and what the budget cut.

    With `query` it is about that query, asked now; else about an injection that has been made.
    """
    yield f"{_occasion(found, query)}: {_fitted(found)}"
    legs = "+".join(found.legs) or "none"
    took = f", {found.elapsed_ms:,.1f} ms" if found.elapsed_ms else ""
    yield f"strategy {escape_line(found.strategy) or 'none'}, legs {escape_line(legs)}{took}"
    if found.reason:
        yield f"{escape_line(found.status)}: {escape_line(found.reason)}"
    if found.hypotheses:
        yield ""
        yield paint("strong", "hypotheses")
        for number, hypothesis in enumerate(found.hypotheses, 1):
            yield f"  {number}. {escape_line(hypothesis)}"
        if found.partial:
            yield escape_line(found.partial)
    if found.memories:
        yield ""
        yield from _ranking(found)
    if found.stayed:
        yield ""
        yield from _left_out(found)


def _occasion(found: Explained, query: str) -> str:
    if query:
        return f"asked now for {escape_line(query)!r}"
    session = f"session {escape_line(found.session_id)}" if found.session_id else "no session"
    turn = f", turn {escape_line(found.turn_id)}" if found.turn_id else ""
    return f"{session}{turn}, injected {escape_line(found.at)}"


def _fitted(found: Explained) -> str:
    total = found.included + len(found.omitted_ids)
    return f"{found.included} of {counted(total, 'memory', 'memories')} fit" if total else "no memory"


def _ranking(found: Explained) -> list[str]:
    """A line for each memory: what it says, and in words why it came; the figures are in `--json`."""
    rows = [("memory", "", "why it came", "budget")]
    for place, hit in enumerate(found.memories):
        why = _CAME.get(hit.came or hit.via, escape_line(hit.came or hit.via))
        budget = "fits" if place < found.included else "cut"
        rows.append((escape_line(hit.id), _gist(hit.content), why, budget))
    return [line.rstrip() for line in columns(rows)]


def _left_out(found: Explained) -> list[str]:
    """The same of what was near the top and stayed out."""
    rows = [("memory", "", "why it stayed out")]
    rows += [
        (
            escape_line(each.id),
            _shortened(escape_line(each.first_line)),
            _STAYED.get(each.why, escape_line(each.why)),
        )
        for each in found.stayed
    ]
    return [line.rstrip() for line in columns(rows)]


def _beside(memory: MemoryRecord) -> str:
    return f"  (fork: {listed(memory.rivals)} stands, too)" if memory.rivals else ""


def _day(time: str) -> str:
    return escape_line(time[:10])


def _gist(content: str) -> str:
    """First line with text in it, shortened."""
    return _shortened(escape_line(content.strip().split("\n", 1)[0].strip()))


def _shortened(line: str) -> str:
    return line if len(line) <= _CELL_CHARS else line[: _CELL_CHARS - 3] + "..."
