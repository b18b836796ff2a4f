"""Format memories, search hits and explanations as lines of text; escapes every text of a memory."""

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
_CONFLICT = "{} versions are in conflict; choose the one that replaces the other:"
_REPO, _YOU = "repo", "you"


def gist(content: str, width: int) -> str:
    """Return a memory's first line, cut, if there is a `width`, else all its text as one line; escaped."""
    lines = list(filter(None, map(str.strip, content.split("\n"))))
    return _escaped_and_cut(" ".join(lines[:1] if width else lines), width)


def memory_table(memories: Iterable[MemoryRecord], width: int = 0, *, with_root: bool = False) -> list[str]:
    """Return a table of memories: id, scope/category, version, day, text; `with_root` the repository.

    With `with_root` the line also names the repository.
    """
    known = tuple(memories)
    places = _root_names(known)
    rows = [
        (
            escape_line(memory.id),
            escape_line(f"{memory.scope}/{memory.category}"),
            f"v{memory.version}",
            _local_day(memory.created_at),
            *((places[memory.root] if memory.scope == _REPO else _YOU,) if with_root else ()),
            gist(memory.content, width) + _conflict_note(memory),
        )
        for memory in known
    ]
    return columns(rows, width=width, cuts=True)


def memory_list(
    memories: Iterable[MemoryRecord], width: int = 0, *, with_root: bool = False
) -> Iterator[str]:
    """Yield the long list of memories: each with text, time, origin, session and outdated evidence."""
    known = tuple(memories)
    names = short_ids(memory.id for memory in known) if width else {}
    for memory in known:
        about = f"{escape_line(memory.scope)}/{escape_line(memory.category)}"
        name = escape_line(names.get(memory.id, memory.id))
        yield from folded(f"{name}  {about}  v{memory.version}", width, _INDENT)
        yield from folded(_INDENT + gist(memory.content, width) + _conflict_note(memory), width, _INDENT)
        session = f"session {memory.session_id}" if memory.session_id not in {"", memory.origin} else ""
        facts = (local_time(memory.created_at), escape_line(memory.origin), escape_line(session))
        yield from folded(_INDENT + ", ".join(filter(None, facts)), width, _INDENT * 2)
        if changed := listed(memory.stale):
            yield from folded(f"{_INDENT}may be outdated: {changed} changed", width, _INDENT * 2)
        if with_root and memory.scope == _REPO:
            yield from folded(_INDENT + escape_line(memory.root), width, _INDENT * 2)


def _root_names(memories: Iterable[MemoryRecord]) -> dict[str, str]:
    """Map the memories' roots to names of their folders, or to paths if names are alike; escaped."""
    roots = {memory.root for memory in memories}
    names = Counter(map(project_name, roots))
    return {
        root: escape_line(project_name(root) if names[project_name(root)] == 1 else root) for root in roots
    }


def memory_page(memory: MemoryRecord, paint: Painter, path: str = "") -> Iterator[str]:
    """Yield a whole memory: its attributes, each once, an empty line, and its text."""
    yield paint("strong", escape_line(memory.id)) + ("" if memory.is_head else "  (superseded)")
    if memory.concurrent_heads:
        yield f"in conflict with {listed(memory.concurrent_heads)}: neither version replaces the other"
    yield f"{escape_line(memory.scope)}/{escape_line(memory.category)}, version {memory.version}"
    yield from shown_fields(
        {
            "path": path,
            "folder": "" if path else memory.root,
            "created": local_time(memory.created_at),
            "updated": local_time(memory.updated_at) if memory.updated_at != memory.created_at else "",
            "supersedes": memory.supersedes or "",
        }
    )
    yield from shown_fields(_origin_fields(memory))
    for edge in memory.related:
        yield f"{escape_line(edge.relationship)} {escape_line(edge.id)}"
    yield from _attribute_lines(memory)
    yield from (f"cue: {escape_line(cue)}" for cue in memory.cues)
    for evidence in memory.evidence:
        is_stale = any(evidence == path or evidence.startswith(f"{path}:") for path in memory.stale)
        yield f"evidence {escape_line(evidence)}" + (", changed since then" if is_stale else "")
    if memory.entities:
        yield f"mentions {listed(memory.entities)}"
    yield from (escape_line(f"{each.source} {each.relation} {each.target}") for each in memory.relations)
    if memory.redacted:
        yield f"left out of the text below: what looks like a secret ({listed(memory.redacted)})"
    yield ""
    yield escape(memory.content.rstrip("\n"))


def _origin_fields(memory: MemoryRecord) -> dict[str, str]:
    """Return a memory's origin, trigger and session by field name; a repeated value is left out."""
    found: dict[str, str] = {}
    for name in ("origin", "trigger", "session"):
        value = getattr(memory, "session_id" if name == "session" else name)
        if value not in found.values():
            found[name] = value
    return found


def _attribute_lines(memory: MemoryRecord) -> Iterator[str]:
    about = {
        "type": memory.memory_type,
        "agent": memory.agent_id,
        "importance": "" if memory.importance == 1.0 else f"{memory.importance:g}",
        "metadata": json_text(memory.metadata) if memory.metadata else "",
    }
    yield from shown_fields(about)
    if memory.access_count:
        yield f"found {counted(memory.access_count, 'time')}, last {local_time(memory.last_accessed)}"


def json_text(value: object) -> str:
    """Encode a value as JSON text."""
    return msgspec.json.encode(value).decode()


def trash_table(restorable: Iterable[Trashed], width: int = 0) -> list[str]:
    """Return a table of removals in the trash: id, scope, files, reason, times, and first line."""
    rows = [
        (
            escape_line(each.id),
            escape_line(each.scope),
            counted(len(each.ids), "file"),
            f"{escape_line(each.why)} {local_time(each.taken_at)}",
            f"until {_local_day(each.until)}",
            _escaped_and_cut(each.first_line, width),
        )
        for each in restorable
    ]
    return columns(rows, width=width, cuts=True)


def chain_table(chain: Chain, width: int = 0) -> Iterator[str]:
    """Yield a memory's versions, oldest first, `*` at current ones, and the way out of a conflict."""
    rows = [
        (
            "*" if memory.is_head else " ",
            f"v{memory.version}",
            escape_line(memory.id),
            local_time(memory.created_at),
            escape_line(", ".join(dict.fromkeys(filter(None, (memory.trigger, memory.origin))))),
            gist(memory.content, width),
        )
        for memory in chain.memories
    ]
    yield from columns(rows, width=width, cuts=True)
    if chain.flags:
        yield from folded(f"problems of these versions: {listed(chain.flags)}", width, _INDENT)
    heads = [memory for memory in chain.memories if memory.is_head]
    if len(heads) > 1:
        yield from folded(_CONFLICT.format(len(heads)), width, _INDENT)
        names = short_ids(memory.id for memory in chain.memories) if width else {}
        one, other = (escape_line(names.get(memory.id, memory.id)) for memory in heads[-2:])
        ways = (f"forgectl edit {other} --relate {one}:supersedes", f"forgectl forget --this-version {one}")
        whole = f"  {'   or   '.join(ways)}"
        yield from (whole,) if not width or cells(whole) <= width else ways


_REASONS = {
    "strong": "strong match",
    "near": "close to the best match",
    "weak": "weak match, but nothing matched better",
    "search": "found by search",
    "link": "linked to an injected memory",
    "pinned": "pinned: included at the start of the session",
    "injected": "the session has it already",
    "correction": "replaces a memory that the session has",
}
_REJECTED = {
    "faint": "match too weak",
    "far": "much weaker than the best match",
    "full": "enough better matches",
    "given": "matches, but the session has it already",
}
_RATED = {"strong": "good", "near": "strong", "weak": "warn"}


def hit_lines(
    hits: Iterable[MemoryRecord], paint: Painter, width: int = 0, *, figures: bool = False
) -> Iterator[str]:
    """Yield lines for each search hit: rating, attributes, text, and older or conflicting versions."""
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
            _local_day(hit.created_at),
            *(_score_texts(found) if figures else ()),
            f"may be outdated: {listed(hit.stale)} changed" if hit.stale else "",
        )
        head, *more = folded("  ".join(filter(None, facts)), width, _BELOW)
        yield paint(_RATED.get(word, "strong"), word) + head.removeprefix(word)
        yield from more
        yield from folded(_BELOW + gist(hit.content, width), width, _BELOW)
        for rival in found.concurrent_heads:
            yield from folded(f"{_BELOW}in conflict: {_version_text(rival, names, width)}", width, _BELOW)
        for older in found.older:
            yield from folded(f"{_BELOW}older: {_version_text(older, names, width)}", width, _BELOW)


def _score_texts(found: Ranking) -> tuple[str, ...]:
    """Return score, cosine and lexical score of a search hit as texts, as far as known."""
    return (
        f"score {found.score:.3f}",
        "" if found.cosine is None else f"cosine {found.cosine:.3f}",
        "" if found.lexical is None else f"lexical {found.lexical:.3f}",
    )


def _version_text(version: Version, names: Mapping[str, str], width: int) -> str:
    name = escape_line(names.get(version.id, version.id))
    day, line = _local_day(version.created_at), _escaped_and_cut(version.first_line, width)
    return f"v{version.version} {day} {name}  {line}"


_INDEXES = {"lexical": "keywords", "dense": "embeddings"}


def explanation(found: Explained, query: str, paint: Painter, width: int = 0) -> Iterator[str]:
    """Yield lines that explain an injection, or what a query finds now: search, hits, and rejections.

    They are the strategy, the indexes, hypotheses, and for each memory why it was included or left out.
    """
    total = found.included + len(found.omitted_ids)
    fitted = f"{found.included} of {counted(total, 'memory', 'memories')} included" if total else "no memory"
    yield f"{_explanation_headline(found, query)}: {fitted}"
    searched = " + ".join(_INDEXES.get(each, escape_line(each)) for each in found.indexes) or "none"
    took = f", {found.elapsed_ms:,.1f} ms" if found.elapsed_ms else ""
    yield f"strategy: {escape_line(found.strategy) or 'none'}, search: {searched}{took}"
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
        yield from _found_table(found, width)
    if found.rejected:
        yield ""
        yield from _rejected_table(found, width)


def _explanation_headline(found: Explained, query: str) -> str:
    """Name what is explained: a query asked now, or an injection's session, turn and time."""
    if query:
        return f"asked now for {escape_line(query)!r}"
    session = f"session {escape_line(found.session_id)}" if found.session_id else "no session"
    turn = f", turn {escape_line(found.turn_id)}" if found.turn_id else ""
    return f"{session}{turn}, injected {local_time(found.at)}"


def _found_table(found: Explained, width: int) -> list[str]:
    """Return a table of the memories that a search found: why, and if the token budget had room."""
    rows = [("memory", "budget", "reason", "")]
    for place, hit in enumerate(found.memories):
        came = hit.found.admitted_as or hit.found.found_by if hit.found is not None else ""
        budget = "fits" if place < found.included else "cut"
        rows.append(
            (escape_line(hit.id), budget, _REASONS.get(came, escape_line(came)), gist(hit.content, width))
        )
    return [line.rstrip() for line in columns(rows, width=width, cuts=True)]


def _rejected_table(found: Explained, width: int) -> list[str]:
    """Return a table of memories that matched but were left out of an injection, with the reason."""
    rows = [("memory", "left out because", "")]
    for each in found.rejected:
        why = _REJECTED.get(each.why, escape_line(each.why))
        rows.append((escape_line(each.id), why, _escaped_and_cut(each.first_line, width)))
    return [line.rstrip() for line in columns(rows, width=width, cuts=True)]


def _conflict_note(memory: MemoryRecord) -> str:
    return f"  (in conflict with {listed(memory.concurrent_heads)})" if memory.concurrent_heads else ""


def _local_day(time: str) -> str:
    return local_time(time)[:10]


def _escaped_and_cut(line: str, width: int) -> str:
    return cut(escape_line(line), _CELLS) if width else escape_line(line)
