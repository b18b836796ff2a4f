"""Show memories, hits and explanations as lines of text; all text of a memory is escaped here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from forged.cli.tables import cells, columns, cut, folded, short_ids
from forged.cli.terminal import (
    Painter,
    counted,
    escape,
    escape_line,
    listed,
    local_time,
    project_name,
    shown_fields,
)
from forged_client.protocol import Chain, Explained, MemoryRecord, Ranking, Trashed, Version

_CELLS = 80
_INDENT, _BELOW = "    ", " " * 8
_FORKED = "{} versions stand beside each other, until one replaces the other:"
_REPO, _YOU = "repo", "you"


def memory_table(memories: Iterable[MemoryRecord], width: int = 0, *, with_root: bool = False) -> list[str]:
    """One line a memory: id, scope/category, version, day, its repository if that is wanted, first line."""
    known = tuple(memories)
    places = _places(known)
    rows = [
        (
            escape_line(memory.id),
            escape_line(f"{memory.scope}/{memory.category}"),
            f"v{memory.version}",
            _day(memory.created_at),
            *((places[memory.root] if memory.scope == _REPO else _YOU,) if with_root else ()),
            _gist(memory.content) + _beside(memory),
        )
        for memory in known
    ]
    return columns(rows, width=width, cuts=True)


def memory_list(
    memories: Iterable[MemoryRecord], width: int = 0, *, with_root: bool = False
) -> Iterator[str]:
    """Some lines a memory: also when it was made, its session and its origin."""
    known = tuple(memories)
    names = short_ids(memory.id for memory in known) if width else {}
    for memory in known:
        about = f"{escape_line(memory.scope)}/{escape_line(memory.category)}"
        name = escape_line(names.get(memory.id, memory.id))
        yield from folded(f"{name}  {about}  v{memory.version}", width, _INDENT)
        yield from folded(_INDENT + _gist(memory.content) + _beside(memory), width, _INDENT)
        session = f"session {escape_line(memory.session_id)}"
        made = f"{local_time(memory.created_at)}, {escape_line(memory.origin)}, {session}"
        yield from folded(_INDENT + made, width, _INDENT * 2)
        if changed := listed(memory.stale):
            yield from folded(f"{_INDENT}may be outdated: {changed} changed", width, _INDENT * 2)
        if with_root and memory.scope == _REPO:
            yield from folded(_INDENT + escape_line(memory.root), width, _INDENT * 2)


def _places(memories: Iterable[MemoryRecord]) -> dict[str, str]:
    """Roots by their last name, or whole where two have the same."""
    roots = {memory.root for memory in memories}
    names = Counter(map(project_name, roots))
    return {
        root: escape_line(project_name(root) if names[project_name(root)] == 1 else root) for root in roots
    }


def memory_page(memory: MemoryRecord, paint: Painter) -> Iterator[str]:
    """A memory whole: its fields, an empty line, its text."""
    yield paint("strong", escape_line(memory.id)) + ("" if memory.is_head else "  (superseded)")
    if memory.concurrent_heads:
        yield f"beside it stands {listed(memory.concurrent_heads)}: neither replaces the other"
    yield f"{escape_line(memory.scope)}/{escape_line(memory.category)}, version {memory.version}"
    fields = {
        "created": local_time(memory.created_at),
        "updated": local_time(memory.updated_at),
        "session": memory.session_id,
        "trigger": memory.trigger,
        "origin": memory.origin,
        "root": memory.root,
        "supersedes": memory.supersedes or "",
    }
    yield from shown_fields(fields)
    for edge in memory.related:
        yield f"{escape_line(edge.relationship)} {escape_line(edge.id)}"
    yield from _details(memory)
    yield from (f"cue: {escape_line(cue)}" for cue in memory.cues)
    for evidence in memory.evidence:
        is_stale = any(evidence == path or evidence.startswith(f"{path}:") for path in memory.stale)
        yield f"stands on {escape_line(evidence)}" + (", which changed since" if is_stale else "")
    if memory.entities:
        yield f"speaks of {listed(memory.entities)}"
    yield from (escape_line(f"{each.source} {each.relation} {each.target}") for each in memory.relations)
    if memory.redacted:
        yield f"its file holds what looks like a secret ({listed(memory.redacted)}), and is shown without it"
    yield ""
    yield escape(memory.content.rstrip("\n"))


def _details(memory: MemoryRecord) -> Iterator[str]:
    about = {
        "type": memory.memory_type,
        "agent": memory.agent_id,
        "importance": "" if memory.importance == 1.0 else f"{memory.importance:g}",
        "metadata": json(memory.metadata) if memory.metadata else "",
    }
    yield from shown_fields(about)
    if memory.access_count:
        yield f"found {counted(memory.access_count, 'time')}, last {local_time(memory.last_accessed)}"


def json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def trash_table(restorable: Iterable[Trashed], width: int = 0) -> list[str]:
    """One line for what went together: id, scope, how many versions, when and why it went, first line."""
    rows = [
        (
            escape_line(each.id),
            escape_line(each.scope),
            counted(len(each.ids), "file"),
            f"{escape_line(each.why)} {local_time(each.taken_at)}",
            f"until {_day(each.until)}",
            _shortened(escape_line(each.first_line)),
        )
        for each in restorable
    ]
    return columns(rows, width=width, cuts=True)


def chain_table(chain: Chain, width: int = 0) -> Iterator[str]:
    """The versions of a memory, oldest first; `*` marks the newest, or those that stand beside each other."""
    rows = [
        (
            "*" if memory.is_head else " ",
            f"v{memory.version}",
            escape_line(memory.id),
            local_time(memory.created_at),
            escape_line(", ".join(filter(None, (memory.trigger, memory.origin)))),
            _gist(memory.content),
        )
        for memory in chain.memories
    ]
    yield from columns(rows, width=width, cuts=True)
    if chain.flags:
        yield from folded(f"odd about this chain: {listed(chain.flags)}", width, _INDENT)
    heads = [memory for memory in chain.memories if memory.is_head]
    if len(heads) > 1:
        yield from folded(_FORKED.format(len(heads)), width, _INDENT)
        names = short_ids(memory.id for memory in chain.memories) if width else {}
        one, other = (escape_line(names.get(memory.id, memory.id)) for memory in heads[-2:])
        ways = (f"forgectl edit {other} --relate {one}:supersedes", f"forgectl forget --version {one}")
        whole = f"  {'   or   '.join(ways)}"
        yield from (whole,) if not width or cells(whole) <= width else ways


_REASONS = {
    "strong": "much speaks for it",
    "near": "near the best",
    "weak": "little speaks for it, and for others less",
    "search": "it was found, and nothing is held back",
    "link": "one that came is linked to it",
    "pinned": "it stands in every session",
    "injected": "the session has heard it",
    "correction": "it corrects what the session has heard",
}
_REJECTED = {
    "faint": "too little speaks for it",
    "far": "too little speaks for it beside the best",
    "full": "enough came before it",
    "given": "it fits, and the session has it already",
}
_RATED = {"strong": "good", "near": "strong", "weak": "warn"}


def hit_lines(
    hits: Iterable[MemoryRecord], paint: Painter, width: int = 0, *, figures: bool = False
) -> Iterator[str]:
    """Each hit: what speaks for it in a word, and its id; below it what it says and its older versions."""
    rows = [(hit, hit.found or Ranking(0.0)) for hit in hits]
    others = (version.id for _, found in rows for version in (*found.concurrent_heads, *found.older))
    names = short_ids((*(hit.id for hit, _ in rows), *others)) if width else {}
    for hit, found in rows:
        word = (
            found.admitted_as
            if found.admitted_as in _RATED
            else "linked"
            if found.found_by == "link"
            else "found"
        )
        facts = (
            f"{word:<6}",
            escape_line(names.get(hit.id, hit.id)),
            escape_line(f"{hit.scope}/{hit.category}"),
            f"v{hit.version}",
            _day(hit.created_at),
            *(_figures(found) if figures else ()),
            f"may be outdated: {listed(hit.stale)} changed" if hit.stale else "",
        )
        head, *more = folded("  ".join(filter(None, facts)), width, _BELOW)
        yield paint(_RATED.get(word, "strong"), word) + head.removeprefix(word)
        yield from more
        yield from folded(_BELOW + _gist(hit.content), width, _BELOW)
        for beside in found.concurrent_heads:
            yield from folded(f"{_BELOW}beside it: {_version(beside, names)}", width, _BELOW)
        for older in found.older:
            yield from folded(f"{_BELOW}older: {_version(older, names)}", width, _BELOW)


def _figures(found: Ranking) -> tuple[str, ...]:
    return (
        f"score {found.score:.3f}",
        "" if found.cosine is None else f"cosine {found.cosine:.3f}",
        "" if found.lexical is None else f"lexical {found.lexical:.3f}",
    )


def _version(version: Version, names: Mapping[str, str]) -> str:
    name = escape_line(names.get(version.id, version.id))
    return (
        f"v{version.version} {_day(version.created_at)} {name}  {_shortened(escape_line(version.first_line))}"
    )


def explanation(found: Explained, query: str, paint: Painter, width: int = 0) -> Iterator[str]:
    """Why these memories: what was asked for, scores by index, hops, and what the budget cut.

    With `query` it is about that query, asked now; else about an injection that has been made.
    """
    total = found.included + len(found.omitted_ids)
    fitted = f"{found.included} of {counted(total, 'memory', 'memories')} fit" if total else "no memory"
    yield f"{_occasion(found, query)}: {fitted}"
    indexes = "+".join(found.indexes) or "none"
    took = f", {found.elapsed_ms:,.1f} ms" if found.elapsed_ms else ""
    yield f"strategy {escape_line(found.strategy) or 'none'}, indexes {escape_line(indexes)}{took}"
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
        yield from _ranking(found, width)
    if found.rejected:
        yield ""
        yield from _left_out(found, width)


def _occasion(found: Explained, query: str) -> str:
    if query:
        return f"asked now for {escape_line(query)!r}"
    session = f"session {escape_line(found.session_id)}" if found.session_id else "no session"
    turn = f", turn {escape_line(found.turn_id)}" if found.turn_id else ""
    return f"{session}{turn}, injected {local_time(found.at)}"


def _ranking(found: Explained, width: int) -> list[str]:
    """A line for each memory: in words why it came, and what it says; the figures are in `--json`."""
    rows = [("memory", "budget", "why it came", "")]
    for place, hit in enumerate(found.memories):
        came = hit.found.admitted_as or hit.found.found_by if hit.found is not None else ""
        why = _REASONS.get(came, escape_line(came))
        budget = "fits" if place < found.included else "cut"
        rows.append((escape_line(hit.id), budget, why, _gist(hit.content)))
    return [line.rstrip() for line in columns(rows, width=width, cuts=True)]


def _left_out(found: Explained, width: int) -> list[str]:
    rows = [("memory", "why it stayed out", "")]
    for each in found.rejected:
        why = _REJECTED.get(each.why, escape_line(each.why))
        rows.append((escape_line(each.id), why, _shortened(escape_line(each.first_line))))
    return [line.rstrip() for line in columns(rows, width=width, cuts=True)]


def _beside(memory: MemoryRecord) -> str:
    return f"  (fork: {listed(memory.concurrent_heads)} stands, too)" if memory.concurrent_heads else ""


def _day(time: str) -> str:
    return local_time(time)[:10]


def _gist(content: str) -> str:
    return _shortened(escape_line(content.strip().split("\n", 1)[0].strip()))


def _shortened(line: str) -> str:
    return cut(line, _CELLS)
