"""Import notes of basic-memory: a memory for each observation and each other statement of a note.

An observation is `- [category] text #tag (context)`; tags and context stay in the text. A relation is `-
relation [[Target]]`. It becomes a link between the first memories of two imported notes. A relation to a
missing note is named, and so is one that becomes a simpler relationship.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from forged.errors import MemoryFormatError
from forged.files import front_matter
from forged.importing.categories import category_of
from forged.importing.markdown import MarkdownStatement, cut
from forged.importing.values import ImportBatch, ImportItem, ItemLink, SkippedPart
from forged.memory import Relationship, Scope, default_category, one_form, time_ns

KEYS = ("title", "type", "permalink", "tags", "created", "modified", "created_at", "updated_at", "date")
_OBSERVATION = re.compile(r"\[([^\[\]\n]{1,64})\][ \t]+(\S.*)", re.DOTALL)
_RELATION = re.compile(r"([\w][\w -]{0,63}?)[ \t]+\[\[([^\[\]\n]{1,256})\]\][ \t]*(\(.*\))?", re.DOTALL)
_CUSTOMARY = ("Observations", "Relations")
_TASK = frozenset((" ", "x", "X", "-", "/", "!", "?"))
_RELATIONS = {
    **dict.fromkeys(
        ("refines", "extends", "part_of", "implements", "details", "clarifies"), Relationship.REFINES
    ),
    **dict.fromkeys(("contradicts", "conflicts_with", "disagrees_with"), Relationship.CONTRADICTS),
    **dict.fromkeys(("relates_to", "related_to", "links_to", "see_also"), Relationship.RELATES_TO),
}


class _NoteHeader(msgspec.Struct, frozen=True):
    """Title, permalink, type, tags and times from the front matter of a basic-memory note."""

    title: str
    permalink: str
    kind: str
    tags: tuple[str, ...]
    created: str
    updated: str


def is_note(text: str) -> bool:
    """Return True for a basic-memory note, by the keys of its front matter."""
    try:
        values = front_matter(text, KEYS).values
    except MemoryFormatError:
        return False
    return "permalink" in values or ("title" in values and "type" in values)


def batch_of_note(text: str, *, where: str, name: str, scope: str) -> ImportBatch:
    """Return a basic-memory note's items and links, and parts skipped. Raises MemoryFormatError."""
    header = front_matter(text, KEYS)
    about, skipped = _header_of(header.values, name), header.lines
    found = cut(header.body)
    items: list[ImportItem] = []
    links: list[ItemLink] = []
    left = [SkippedPart(f"{where}:{first + skipped}", why) for first, _, why in found.left]
    for statement in found.statements:
        at = f"{where}:{statement.first + skipped}"
        if relation := _RELATION.fullmatch(statement.text):
            links.append(_link_of(relation))
            left += _losses_of_link(relation, at)
        else:
            items.append(_item_of(statement, about, at, scope))
    if about.kind not in {"", "note"}:
        left.append(SkippedPart(where, f"that it is of the type {about.kind[:40]!r}"))
    if header.others:
        left.append(SkippedPart(where, f"keys of its front matter: {', '.join(header.others[:8])}"))
    return _batch_of_parts(items, links, left, about, where)


def _batch_of_parts(
    items: Sequence[ImportItem],
    links: Sequence[ItemLink],
    left: Sequence[SkippedPart],
    about: _NoteHeader,
    where: str,
) -> ImportBatch:
    """Return the batch of a note; its first item gets the note's links, and its title as a link target."""
    if not items:
        lost = [SkippedPart(where, "a note that says nothing but its title and relations")]
        return ImportBatch((), (*left, *lost))
    names = dict.fromkeys(filter(None, map(_link_key, (about.title, about.permalink))))
    head = msgspec.structs.replace(items[0], keys=tuple(names), links=tuple(links))
    return ImportBatch((head, *items[1:]), tuple(left))


def _item_of(statement: MarkdownStatement, about: _NoteHeader, where: str, scope: str) -> ImportItem:
    """Return an observation or other statement as item: after the note's title, with tags that it lacks."""
    observation = _OBSERVATION.fullmatch(statement.text)
    telling = tuple(each for each in statement.headings if each not in {about.title, *_CUSTOMARY})
    kind, text = "", msgspec.structs.replace(statement, headings=telling).said
    if observation is not None and observation[1] not in _TASK:
        kind, text = observation[1], observation[2]
        if not category_of(kind):
            text = f"{kind}: {text}"
    missing = [f"#{tag}" for tag in about.tags if f"#{tag}".casefold() not in text.casefold()]
    tail = f" {' '.join(missing)}" if missing else ""
    category = category_of(*statement.headings, kind) or default_category(scope or Scope.REPO).value
    return ImportItem(
        text=f"{about.title}: {text}{tail}",
        where=where,
        scope=scope,
        category=category,
        created_at=about.created,
        updated_at=about.updated,
    )


def _link_key(title: str) -> str:
    """Return the form of a title or permalink by which links find a note."""
    return one_form(title.casefold())


def _link_of(relation: re.Match[str]) -> ItemLink:
    """Return the link of a relation; an unknown kind becomes relates-to."""
    name = relation[1].strip().lower().replace(" ", "_").replace("-", "_")
    target = relation[2].partition("|")[0].partition("#")[0].strip()
    return ItemLink(_link_key(target), _RELATIONS.get(name, Relationship.RELATES_TO).value)


def _losses_of_link(relation: re.Match[str], where: str) -> list[SkippedPart]:
    """Return skipped parts for data that a link lacks: a relation's unknown kind or context."""
    name = relation[1].strip().lower().replace(" ", "_").replace("-", "_")
    lost = (
        []
        if name in _RELATIONS
        else [SkippedPart(where, f"that the relation is {name!r}: it becomes relates-to")]
    )
    return [*lost, SkippedPart(where, "the context of a relation")] if relation[3] else lost


def _header_of(values: Mapping[str, object], name: str) -> _NoteHeader:
    """Return the header with these front matter values; a note without a title is called `name`."""
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    tags = values.get("tags")
    listed = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, tuple) else ()
    created = next(
        (texts[key] for key in ("created", "created_at", "date") if time_ns(texts.get(key, ""))), ""
    )
    updated = next((texts[key] for key in ("modified", "updated_at") if time_ns(texts.get(key, ""))), "")
    return _NoteHeader(
        title=texts.get("title", "").strip() or name,
        permalink=texts.get("permalink", ""),
        kind=texts.get("type", ""),
        tags=tuple(each.strip().lstrip("#") for each in listed if isinstance(each, str) and each.strip()),
        created=created,
        updated=updated or created,
    )
