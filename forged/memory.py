"""A memory as a value: its text, its scope, its links; and the problem of a file that is none.

A memory is one markdown file with front matter. Times stay the text that was in the file, because nanoseconds
and offsets must survive a round trip. The contract lists what a memory may be;
a file may hold other words.
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

# Begins with what the kernel says; asking it for every id lets go of the interpreter, on the event loop.
_numbers = random.Random()  # noqa: S311 - as `new_id` says
os.register_at_fork(after_in_child=_numbers.seed)

# New ids match this; what is read from old files may hold anything.
ID_PATTERN = re.compile(r"mem_[A-Za-z0-9_-]{1,64}")


# So many cues of a memory count, and so many characters of each.
MOST_CUES, MOST_CUE_CHARS = 5, 200


_DEFAULTS: dict[str, Category] = {
    Scope.USER: Category.USER_FACTS,
    Scope.SESSION: Category.USER_FACTS,
    Scope.AGENT: Category.PATTERNS,
}


def default_category(scope: str) -> Category:
    """What a memory is about if nobody says."""
    return _DEFAULTS.get(scope, Category.PROJECT_CONVENTIONS)


class Trigger(StrEnum):
    """What made a memory be written, in the words of the file format."""

    CADENCE = "cadence"
    COMPACTION = "compaction"
    EXPLICIT = "explicit"


class Related(msgspec.Struct, frozen=True, gc=False):
    """One edge of a memory; neither field is checked on read."""

    id: str
    relationship: str


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What a memory stands on: a file by its path below the top of the repository.

    `lines`, "7" or "7-12", are those of its lines that are meant, empty for all of them; `hash` is of their
    content when the memory was written, empty where only the path is known.
    """

    path: str
    lines: str = ""
    hash: str = ""

    def __str__(self) -> str:
        """As a person writes it."""
        return f"{self.path}:{self.lines}" if self.lines else self.path


class Entity(msgspec.Struct, frozen=True, gc=False):
    """Something that memories speak of, by its name: a person, a project, a technology, a file."""

    name: str
    type: str = ""
    description: str = ""


class Relation(msgspec.Struct, frozen=True, gc=False):
    """How one entity relates to another, both by name: `relation` is a verb such as `depends-on`."""

    source: str
    relation: str
    target: str
    weight: float = 1.0


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Which part of a document a memory is: number `index`, from 0, of `of`. `source` is where it is from."""

    document_id: str
    index: int
    of: int
    source: str = ""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """One memory file. `scope` is decided by the directory it lies in, not by the file.

    `content` is the body as text: bytes that are not UTF-8 became U+FFFD. `extra` is the verbatim front
    matter text of keys that forged does not know, each line ended, so that nothing is lost when rendered.
    `origin` is what the file says; in a map it is what is believed, and empty stands for `file`. `redacted`,
    in a map only, are the shapes of the secrets that `content` is shown without. `cues` are lines that say
    when it should come back. `stale`, in a map only, names the `evidence` that changed or went. `entities`
    and `relations` are what a classifier found in it; `piece` is there if it is a part of a document.
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
    relations: tuple[Relation, ...] = ()
    piece: Piece | None = None

    @property
    def counting_cues(self) -> tuple[str, ...]:
        """The cues by which it is found, each one line."""
        lines = (" ".join(cue[:MOST_CUE_CHARS].split()) for cue in self.cues[:MOST_CUES])
        return tuple(filter(None, lines))

    @property
    def first_line(self) -> str:
        """First line with text in it, or nothing."""
        return self.content.strip().split("\n", 1)[0].strip()

    @property
    def age_key(self) -> tuple[int, int, str]:
        """Orders versions of one chain: the greatest is the head."""
        return (self.version, time_ns(self.created_at), self.id)


_WITH_LINES = re.compile(r"(.+?):([1-9]\d{0,6}(?:-[1-9]\d{0,6})?)", re.ASCII | re.DOTALL)


def evidence_named(text: str) -> Evidence:
    """What a person names as evidence: PATH, PATH:LINE or PATH:FIRST-LAST."""
    match = _WITH_LINES.fullmatch(text)
    return Evidence(text) if match is None else Evidence(match[1], match[2])


_STRETCH = 1024  # memories that are compared at once
_GREATEST = "\U0010ffff"
_ID = operator.attrgetter("id")


class Problem(msgspec.Struct, frozen=True, order=True):
    """A file that was skipped or read with a reservation: a value, never an exception.

    `loses`: text of it can be in no answer, or in fewer of them.
    """

    path: str
    reason: str
    loses: bool = False


def new_id() -> str:
    """An id that no other memory has. Nobody has to be unable to guess it, so the kernel is not asked."""
    return f"mem_{uuid.UUID(int=_numbers.getrandbits(128), version=4)}"


def ids_beginning(memories: Sequence[Memory], text: str) -> tuple[str, ...]:
    """Ids that begin like this, of memories that are sorted by id; `mem_` may be left out."""
    text = one_form(text)
    found: list[str] = []
    for start in dict.fromkeys((text, f"mem_{text}")) if text else ():
        first, end = (bisect_left(memories, each, key=_ID) for each in (start, start + _GREATEST))
        found += [each.id for each in memories[first:end]]
    return tuple(found)


def one_form(name: str) -> str:
    """Return an id or a name in the one Unicode form in which they are compared (NFC).

    macOS and what copies from it write names in another one, which looks the same.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def is_valid_id(text: str) -> bool:
    """Whether forged may create or remove a file of this id."""
    return ID_PATTERN.fullmatch(text) is not None


def utc_now() -> str:
    """Now as RFC 3339 in UTC, microseconds, the form that new memories carry."""
    return utc(time.time())


def utc(seconds: float) -> str:
    """A time since 1970 in that form."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def utc_day(seconds: float, back: int = 0) -> str:
    """The day, as YYYY-MM-DD in UTC, so many days before that of a time since 1970."""
    return (datetime.fromtimestamp(seconds, UTC).date() - timedelta(days=back)).isoformat()


_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9})\d*)?\s*([Zz]|[+-]\d{2}:?\d{2})?)?"
)


def time_ns(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 text or a bare date; UTC if naive; 0 if it is no time."""
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
    """How many memories are the same in both at the front, and how many of the others at the back."""
    most = min(len(old), len(new))
    head = _as_far(lambda start, stop: old[start:stop] == new[start:stop], most)
    ends = len(old), len(new)

    def is_same(start: int, stop: int) -> bool:
        return old[ends[0] - stop : ends[0] - start] == new[ends[1] - stop : ends[1] - start]

    return head, _as_far(is_same, most - head)


def _as_far(is_same: Callable[[int, int], bool], most: int) -> int:
    """How far two sequences are the same: stretch by stretch, which is ten times faster than one by one."""
    at, step = 0, _STRETCH
    while at + step <= most and is_same(at, at + step):
        at += step
    while step := step // 2:
        if at + step <= most and is_same(at, at + step):
            at += step
    return at
