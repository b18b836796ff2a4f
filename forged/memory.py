"""Memory as a value: text, scope, links, evidence; and problems of files that are no memories.

A memory is one markdown file with front matter. Times keep the text of the file, because nanoseconds and
offsets must survive a round trip. The contract lists the allowed words; a file may contain others.
"""

# ruff: noqa: PLC0414 - names to be imported from here

from __future__ import annotations

import operator
import os
import random
import re
import time
import unicodedata
import uuid
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from forged_client.contract.memories import Category as Category
from forged_client.contract.memories import Origin as Origin
from forged_client.contract.memories import Relationship as Relationship
from forged_client.contract.memories import Scope as Scope

# Seeded by the kernel. Asking the kernel for every id would release the interpreter lock on the event loop.
_numbers = random.Random()  # noqa: S311 - as `new_id` says
os.register_at_fork(after_in_child=_numbers.seed)

# New ids match this; ids of old files may not.
ID_PATTERN = re.compile(r"mem_[A-Za-z0-9_-]{1,64}")


# Origins of text that a person gave: it is to be followed, and may be pinned.
OF_PERSON = frozenset({Origin.TYPED, Origin.EXPLICIT})

# Limits of cues: number, and characters of each.
MOST_CUES, MOST_CUE_CHARS = 5, 200


_DEFAULTS: dict[str, Category] = {
    Scope.USER: Category.USER_FACTS,
    Scope.SESSION: Category.USER_FACTS,
    Scope.AGENT: Category.PATTERNS,
}


def default_category(scope: str) -> Category:
    """Return the category of a new memory of a scope if none is given."""
    return _DEFAULTS.get(scope, Category.PROJECT_CONVENTIONS)


class Trigger(StrEnum):
    """Occasion on which capture or a request wrote a memory, in the words of the file format."""

    CADENCE = "cadence"
    COMPACTION = "compaction"
    EXPLICIT = "explicit"


class Related(msgspec.Struct, frozen=True, gc=False):
    """A link of a memory to another one, by id and relationship; neither is checked on read."""

    id: str
    relationship: str


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A file, or lines of it, that a memory depends on, by its path below the top of the repository.

    `lines`, "7" or "7-12", selects lines; empty means all. `hash` is that of their content when the memory
    was written; empty if only the path is known.
    """

    path: str
    lines: str = ""
    hash: str = ""

    def __str__(self) -> str:
        """Return the evidence as a person writes it: PATH, PATH:LINE or PATH:FIRST-LAST."""
        return f"{self.path}:{self.lines}" if self.lines else self.path


class Entity(msgspec.Struct, frozen=True, gc=False):
    """A person, project, technology or file that memories mention, by its name."""

    name: str
    type: str = ""
    description: str = ""


class EntityRelation(msgspec.Struct, frozen=True, gc=False):
    """A relation between two entities, by name: `relation` is a verb such as `depends-on`."""

    source: str
    relation: str
    target: str
    weight: float = 1.0


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Position of a memory in a document: number `index`, from 0, of `of`; `source` names the document."""

    document_id: str
    index: int
    of: int
    source: str = ""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """One memory as in its file or, in maps, as shown: text, front matter, links, folder scope.

    `content` is the body as text; bytes that are not UTF-8 became U+FFFD. `extra` is the verbatim front
    matter of unknown keys, each line ended, and is written back unchanged. `origin` is what the file states;
    in a map it is the trusted value, and empty means `file`.

    In maps only: `redacted` names the kinds of secrets that `content` leaves out, and `stale` the `evidence`
    that changed or disappeared. `cues` are lines that say when the memory is useful. `entities` and
    `relations` were found in it by a classifier. `piece` is set for a part of a document.
    """

    id: str
    content: str
    created_at: str
    updated_at: str
    version: int
    scope: str
    category: str
    session_id: str
    trigger: str
    supersedes: str | None = None
    related: tuple[Related, ...] = ()
    extra: str = ""
    origin: str = ""
    redacted: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    stale: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[EntityRelation, ...] = ()
    piece: Piece | None = None

    @property
    def search_cues(self) -> tuple[str, ...]:
        """Return the cues that are used for search, cut to the limits, each as one line."""
        lines = (" ".join(cue[:MOST_CUE_CHARS].split()) for cue in self.cues[:MOST_CUES])
        return tuple(filter(None, lines))

    @property
    def first_line(self) -> str:
        """Return the first line of the content that is not blank, or ""."""
        return self.content.strip().split("\n", 1)[0].strip()

    @property
    def age_key(self) -> tuple[int, int, str]:
        """Return the sort key by version, creation, id; the greatest of a chain of versions is its head."""
        return (self.version, time_ns(self.created_at), self.id)


_WITH_LINES = re.compile(r"(.+?):([1-9]\d{0,6}(?:-[1-9]\d{0,6})?)", re.ASCII | re.DOTALL)


def evidence_named(text: str) -> Evidence:
    """Parse evidence as a person writes it: PATH, PATH:LINE or PATH:FIRST-LAST."""
    match = _WITH_LINES.fullmatch(text)
    return Evidence(text) if match is None else Evidence(match[1], match[2])


_STRETCH = 1024  # memories compared at once
_GREATEST = "\U0010ffff"
_ID = operator.attrgetter("id")


class Problem(msgspec.Struct, frozen=True, order=True):
    """A file of a root that was skipped or read in part, with the reason: a value, never an exception.

    `loses`: text of it is missing from some or all answers.
    """

    path: str
    reason: str
    loses: bool = False


def new_id() -> str:
    """Return a new unique id. It need not be unguessable, so the kernel is not asked."""
    return f"mem_{uuid.UUID(int=_numbers.getrandbits(128), version=4)}"


def ids_beginning(memories: Sequence[Memory], text: str) -> tuple[str, ...]:
    """Return the ids that begin with `text`, or `mem_` and it, of memories sorted by id."""
    text = one_form(text)
    found: list[str] = []
    for start in dict.fromkeys((text, f"mem_{text}")) if text else ():
        first, end = (bisect_left(memories, each, key=_ID) for each in (start, start + _GREATEST))
        found += [each.id for each in memories[first:end]]
    return tuple(found)


def one_form(name: str) -> str:
    """Return an id or a name in Unicode form NFC, in which they are compared.

    macOS writes names in another form that looks the same.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def is_valid_id(text: str) -> bool:
    """Return True if forged may create or remove a file of this id."""
    return ID_PATTERN.fullmatch(text) is not None


def utc_now() -> str:
    """Return the current time as RFC 3339 in UTC with microseconds, the form in new memories."""
    return utc(time.time())


def utc(seconds: float) -> str:
    """Return a Unix time as RFC 3339 in UTC with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def utc_day(seconds: float, back: int = 0) -> str:
    """Return the UTC day (YYYY-MM-DD) `back` days before that of a Unix time."""
    return (datetime.fromtimestamp(seconds, UTC).date() - timedelta(days=back)).isoformat()


_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9})\d*)?\s*([Zz]|[+-]\d{2}:?\d{2})?)?"
)


def time_ns(text: str) -> int:
    """Return Unix nanoseconds of an RFC 3339 text or a date; UTC if naive, 0 if it is no time."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return 0
    date, clock, fraction, offset = match.groups()
    zone = "+00:00" if offset in (None, "Z", "z") else offset
    try:
        moment = datetime.fromisoformat(f"{date}T{clock or '00:00'}{zone}")
    except ValueError:
        return 0
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86400 + whole.seconds) * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


def unchanged_ends(old: tuple[Memory, ...], new: tuple[Memory, ...]) -> tuple[int, int]:
    """Return how many memories two sequences share at the front, and how many more at the back."""
    most = min(len(old), len(new))
    head = _common_length(lambda start, stop: old[start:stop] == new[start:stop], most)
    ends = len(old), len(new)

    def is_same(start: int, stop: int) -> bool:
        return old[ends[0] - stop : ends[0] - start] == new[ends[1] - stop : ends[1] - start]

    return head, _common_length(is_same, most - head)


def _common_length(is_same: Callable[[int, int], bool], most: int) -> int:
    """Return how long the common part is, up to `most`, by blocks: ten times faster than one by one."""
    at, step = 0, _STRETCH
    while at + step <= most and is_same(at, at + step):
        at += step
    while step := step // 2:
        if at + step <= most and is_same(at, at + step):
            at += step
    return at
