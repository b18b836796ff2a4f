"""Import JSON exports of mem0 and claude-mem.

Each entry of mem0 is a memory. Of claude-mem each observation is one, and so are the lessons of a session
summary; requests, investigations and results are counted, not imported. The content is foreign: an entry of
another form is named and skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from forged import memory
from forged.errors import MemoryFormatError
from forged.importing.categories import category_of
from forged.importing.values import MOST_CHARS, ImportBatch, ImportItem, SkippedPart
from forged.memory import Category, Scope, time_ns

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Entry: TypeAlias = "dict[str, Json]"

# Fields of a mem0 export that are used; fields without a place in a memory are named.
_MEM0_USED = {"id", "memory", "text", "data", "created_at", "updated_at", "categories", "hash", "score"}
_MEM0_LISTS = ("results", "memories")
_TYPES = {
    "decision": Category.ARCHITECTURAL_DECISIONS,
    "bugfix": Category.CORRECTIONS,
    "feature": Category.ARCHITECTURAL_DECISIONS,
    "refactor": Category.ARCHITECTURAL_DECISIONS,
    "discovery": Category.PATTERNS,
    "change": Category.PROJECT_CONVENTIONS,
}
_UNUSED_OF_SUMMARY = ("request", "investigated", "completed", "next_steps", "notes")
_EARLIEST_MS = 946_684_800_000  # a smaller epoch is in seconds


def decoded(data: bytes) -> Json:
    """Decode a JSON file, with or without a byte order mark. Raises MemoryFormatError."""
    try:
        found: Json = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MemoryFormatError(f"not readable as JSON: {str(error)[:120]}") from error
    return found


def is_mem0(found: Json) -> bool:
    """Return True for decoded JSON in the form of an export of mem0."""
    entries = _mem0_entries(found)
    return any(isinstance(each, dict) and "id" in each and "memory" in each for each in entries[:20])


def is_claude_mem(found: Json) -> bool:
    """Return True for decoded JSON in the form of an export of claude-mem."""
    return isinstance(found, dict) and isinstance(found.get("observations"), list)


# --- mem0 ----------------------------------------------------------------------------------------------


def batch_of_mem0(found: Json, *, where: str, scope: str) -> ImportBatch:
    """Return a mem0 export's items, of the user unless `scope` says otherwise, and parts skipped."""
    items: list[ImportItem] = []
    left: list[SkippedPart] = []
    if isinstance(found, dict) and found.get("relations"):
        left.append(SkippedPart(where, "the relations of its graph"))
    entries = _mem0_entries(found)
    if not entries:
        left.append(SkippedPart(where, "it contains no list of memories"))
    for number, entry in enumerate(entries, 1):
        at = f"{where}#{number}"
        text = _first_text(entry, "memory", "text", "data")
        if not isinstance(entry, dict) or not text or len(text) > MOST_CHARS:
            left.append(SkippedPart(at, "an entry without a text that could be a memory"))
            continue
        left += _unused_fields(entry, at)
        items.append(_mem0_item(entry, text, at, scope or Scope.USER.value))
    return ImportBatch(tuple(items), tuple(left))


def _mem0_entries(found: Json) -> list[Json]:
    """Return the entries of a mem0 export: the list itself, or the one under a usual name."""
    if isinstance(found, dict):
        lists = (found.get(name) for name in _MEM0_LISTS)
        return next((each for each in lists if isinstance(each, list)), [])
    return found if isinstance(found, list) else []


def _mem0_item(entry: Entry, text: str, where: str, scope: str) -> ImportItem:
    """Return a mem0 entry as item: this text, category by its categories or scope, and its times."""
    kinds = [each for each in _as_list(entry.get("categories")) if isinstance(each, str)]
    created = _as_time(entry.get("created_at"))
    category = category_of(*kinds) or memory.default_category(scope).value
    updated = _as_time(entry.get("updated_at")) or created
    return ImportItem(
        text=text, where=where, scope=scope, category=category, created_at=created, updated_at=updated
    )


def _unused_fields(entry: Entry, where: str) -> Iterator[SkippedPart]:
    """Yield a skipped part that names the filled fields of a mem0 entry that memories do not have."""
    names = [
        name for name, value in entry.items() if name not in _MEM0_USED and value not in (None, "", [], {})
    ]
    if names:
        shown = ", ".join(sorted(name[:40] for name in names)[:8])
        yield SkippedPart(where, f"fields that memories do not have: {shown}")


# --- claude-mem ----------------------------------------------------------------------------------------


def batch_of_claude_mem(found: Json, *, where: str, scope: str) -> ImportBatch:
    """Return a claude-mem export's observations and lessons as items of their projects, and parts skipped."""
    assert isinstance(found, dict)
    items: list[ImportItem] = []
    left: list[SkippedPart] = []
    for number, entry in enumerate(_as_list(found.get("observations")), 1):
        at = f"{where}#observation-{number}"
        item = _observation_item(entry, at, scope) if isinstance(entry, dict) else None
        if item is None or len(item.text) > MOST_CHARS:
            left.append(SkippedPart(at, "an entry without a text that could be a memory"))
        else:
            items.append(item)
    for number, entry in enumerate(_as_list(found.get("summaries")), 1):
        at = f"{where}#summary-{number}"
        learned = _first_text(entry, "learned")
        if isinstance(entry, dict) and learned and len(learned) <= MOST_CHARS:
            items.append(_claude_mem_item(entry, learned, Category.PATTERNS.value, at, scope))
        if unused := [name for name in _UNUSED_OF_SUMMARY if _first_text(entry, name)]:
            left.append(SkippedPart(at, f"records of sessions are not imported: {', '.join(unused)}"))
    prompts = len(_as_list(found.get("prompts")))
    if prompts:
        left.append(SkippedPart(where, f"{prompts:,} prompts, as they were typed"))
    return ImportBatch(tuple(items), tuple(left))


def _observation_item(entry: Entry, where: str, scope: str) -> ImportItem | None:
    """Return a claude-mem observation as item of title, story and facts; None without any text."""
    title, story = (
        _first_text(entry, "title"),
        _first_text(entry, "narrative") or _first_text(entry, "text", "subtitle"),
    )
    facts = [f"- {each}" for each in _as_texts(entry.get("facts"))]
    first = ": ".join(filter(None, (title, story)))
    text = "\n".join(filter(None, (first, *facts)))
    if not text:
        return None
    kind = _first_text(entry, "type").lower()
    category = _TYPES.get(kind, Category.PROJECT_CONVENTIONS).value
    return _claude_mem_item(entry, text, category, where, scope)


def _claude_mem_item(entry: Entry, text: str, category: str, where: str, scope: str) -> ImportItem:
    """Return an item with this text and category, and the time and repository of a claude-mem entry."""
    created = _as_time(entry.get("created_at_epoch")) or _as_time(entry.get("created_at"))
    project = _first_text(entry, "project")
    return ImportItem(
        text=text,
        where=where,
        scope=scope or Scope.REPO.value,
        category=category,
        created_at=created,
        updated_at=created,
        repo=project.replace("\\", "/").rstrip("/").rpartition("/")[2],
    )


# --- values that may be anything -----------------------------------------------------------------------


def _first_text(entry: Json, *names: str) -> str:
    """Return the first text in these fields of an entry that is not blank, or ""."""
    if not isinstance(entry, Mapping):
        return ""
    found = (entry.get(name) for name in names)
    return next((each.strip() for each in found if isinstance(each, str) and each.strip()), "")


def _as_list(value: Json) -> Sequence[Json]:
    """Return a list unchanged, [] for any other value."""
    return value if isinstance(value, list) else []


def _as_texts(value: Json) -> list[str]:
    """Return the texts of a list, of a list in a JSON text, or of a single text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = decoded(value.encode("utf-8", "replace"))
        except MemoryFormatError:
            return [value.strip()] if isinstance(value, str) else []
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    return [" ".join(each.split()) for each in _as_list(value) if isinstance(each, str) and each.strip()]


def _as_time(value: Json) -> str:
    """Return a time as text from text, Unix seconds or milliseconds; "" if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if isinstance(value, str):
        return value if time_ns(value) else ""
    try:
        return memory.utc(value / 1000 if value >= _EARLIEST_MS else value)
    except (ValueError, OverflowError, OSError):
        return ""
