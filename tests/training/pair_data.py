"""The pairs that replacement is learnt from, and those that judge it.

Of each pair the newer statement takes the place of the older one, or both hold. `MORE` judges: nothing is
learnt from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from forged.capture.rules.engine import presentable

DATA = Path(__file__).parents[1] / "data"
PAIRS, CHANGES = DATA / "pairs", DATA / "changes"
MINDS, MORE = DATA / "minds" / "dev", DATA / "minds" / "more"


class Pair(NamedTuple):
    """Two statements, and whether the newer one takes the place of the older."""

    replaces: bool
    newer: str
    older: str
    language: str


def learnt_from() -> list[Pair]:
    """All pairs that teach."""
    return as_kept([*blind(), *written(), *minds(), *minds(CHANGES)])


def as_kept(pairs: Iterable[Pair]) -> list[Pair]:
    """Both statements as they would be kept: with a capital and a full stop they say more than without."""
    return [pair._replace(newer=presentable(pair.newer), older=presentable(pair.older)) for pair in pairs]


def blind() -> Iterator[Pair]:
    """The pairs by hands that knew nothing of this: parts of them judge what was trained without these."""
    for file in sorted(PAIRS.glob("*/*.tsv")):
        for line in file.read_text().splitlines():
            label, _, older, newer = line.split("\t")
            yield Pair(label == "replaces", newer, older, file.stem)


def written() -> Iterator[Pair]:
    """The first pairs that were written to learn from."""
    for line in (PAIRS / "pairs.tsv").read_text().splitlines():
        replaces, language, older, newer = line.split("\t")
        yield Pair(replaces == "1", newer, older, language)


def minds(of: Path = MINDS) -> Iterator[Pair]:
    """Each step of a script and the one before; of the pairs that look alike those of one scope."""
    for script in read("minds", of):
        said = [first_said(step["messages"]) for step in script["steps"]]
        yield from (Pair(True, newer, older, script["language"]) for older, newer in pairwise(said))
    for pair in read("alike", of):
        if pair["first"]["scope"] == "repo":
            newer = first_said(pair["second"]["messages"])
            yield Pair(False, newer, pair["first"]["text"], pair["language"])


def read(name: str, of: Path = MINDS) -> list[dict[str, Any]]:
    """The lines of a file of a set."""
    return [json.loads(line) for line in (of / f"{name}.jsonl").read_text().splitlines()]


def first_said(messages: list[dict[str, str]]) -> str:
    """What the person says first."""
    return next(each["content"] for each in messages if each["role"] == "user")


def digest() -> str:
    """Return a hash of all that is learnt from."""
    lines = (f"{pair.replaces}\t{pair.newer}\t{pair.older}\t{pair.language}\n" for pair in learnt_from())
    return hashlib.sha256("".join(lines).encode()).hexdigest()
