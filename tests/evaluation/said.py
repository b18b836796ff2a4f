"""Conversations with labelled statements to save, changes of mind, and attacks; and labelled cases.

In goes a directory with `said.jsonl`, `minds.jsonl`, `alike.jsonl` or `attacks.jsonl`, whichever are there,
or with files of cases. Raises DatasetError.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from forged.memory import Category, Scope
from tests.evaluation import cases
from tests.evaluation.cases import Case, First, Opening, Words
from tests.evaluation.dataset import DatasetError
from tests.evaluation.jsonl_set import lines

SAID, MINDS, ALIKE, ATTACKS = "said.jsonl", "minds.jsonl", "alike.jsonl", "attacks.jsonl"

_T = TypeVar("_T")


class Keep(msgspec.Struct, frozen=True):
    """What should be kept: all of `says` stands in any memory that keeps it."""

    says: tuple[str, ...]
    scope: Scope
    category: Category | None = None
    explicit: bool = False


class Said(msgspec.Struct, frozen=True):
    """A conversation and what is worth keeping of it; `poison` must not be kept."""

    id: str
    language: str
    kind: str
    messages: tuple[Words, ...]
    keep: tuple[Keep, ...] = ()
    poison: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """One session of a script, with one of its agents."""

    messages: tuple[Words, ...]
    agent: int = 1


class Mind(msgspec.Struct, frozen=True):
    """A mind that changes: only what says `last` counts in the end, and nothing that says `gone`."""

    id: str
    language: str
    steps: tuple[Step, ...]
    last: tuple[str, ...]
    gone: tuple[str, ...]


class Alike(msgspec.Struct, frozen=True):
    """Two things that look alike and do not contradict: both must stand."""

    id: str
    language: str
    first: First
    second: Step
    says_first: tuple[str, ...]
    says_second: tuple[str, ...]


class SaidSet(msgspec.Struct, frozen=True):
    """All of a directory."""

    name: str
    said: tuple[Said, ...] = ()
    minds: tuple[Mind, ...] = ()
    alike: tuple[Alike, ...] = ()
    attacks: tuple[Said, ...] = ()
    cases: tuple[Case, ...] = ()
    openings: tuple[Opening, ...] = ()

    @property
    def size(self) -> int:
        """How many conversations, scripts and cases there are."""
        return sum(map(len, (self.said, self.minds, self.alike, self.attacks, self.cases)))


def is_one(path: Path) -> bool:
    """Whether a path is a directory of what was said."""
    return cases.is_one(path) or any((path / name).exists() for name in (SAID, MINDS, ALIKE, ATTACKS))


def load(directory: Path) -> SaidSet:
    """Read what a directory holds. Raises DatasetError."""
    name = "/".join(directory.resolve().parts[-2:])
    if cases.is_one(directory):  # two files of the other kind have the same names and another form
        found = SaidSet(name=name, cases=cases.load(directory), openings=cases.load_openings(directory))
        _require_own_ids(found, directory)
        return found
    found = SaidSet(
        name=name,
        said=_if_there(directory / SAID, Said),
        minds=_if_there(directory / MINDS, Mind),
        alike=_if_there(directory / ALIKE, Alike),
        attacks=_if_there(directory / ATTACKS, Said),
    )
    _require_own_ids(found, directory)
    return found


def _if_there(file: Path, kind: type[_T]) -> tuple[_T, ...]:
    return lines(file, kind) if file.exists() else ()


def _require_own_ids(found: SaidSet, directory: Path) -> None:
    ids = [
        each.id
        for part in (found.said, found.minds, found.alike, found.attacks, found.cases)
        for each in part
    ]
    if len(set(ids)) < len(ids) or not all(_is_name(each) for each in ids):
        raise DatasetError(f"{directory}: an id is there twice, or is more than letters, digits, - and _")


def _is_name(text: str) -> bool:
    return text.isascii() and text.replace("-", "").replace("_", "").isalnum()
