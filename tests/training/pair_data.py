"""The pairs that replacement is learnt from, and those that judge it.

Of each pair the newer statement takes the place of the older one, or both hold. `MORE` judges: nothing is
learnt from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from forged.capture.authorship import sentences
from forged.capture.rules.engine import presentable

DATA = Path(__file__).parents[1] / "data"
PAIRS, CORRECTIONS, CHANGES = DATA / "pairs", DATA / "corrections", DATA / "changes"
MINDS, MORE = DATA / "minds" / "dev", DATA / "minds" / "more"
STORES = DATA / "stores" / "dev"
# Lines of corrections that are judged together.
_OF_A_SCENARIO = 10
# Letters of a sentence of a chat, and most pairs of a chat with sentences of its own and of others.
_SAYS, _OF_A_CHAT, _OF_OTHERS = 12, 30, 60


class Pair(NamedTuple):
    """Two statements, if the newer one takes the place of the older, and the scenario of several pairs."""

    replaces: bool
    newer: str
    older: str
    language: str
    scenario: str = ""


def learnt_from() -> list[Pair]:
    """All pairs that teach."""
    return as_kept(
        [
            *blind(PAIRS),
            *blind(CORRECTIONS),
            *written(),
            *minds(),
            *minds(CHANGES),
            *shaped(),
            *said_in_a_chat(),
        ]
    )


def as_kept(pairs: Iterable[Pair]) -> list[Pair]:
    """Both statements as they would be kept: with a capital and a full stop they say more than without."""
    return [pair._replace(newer=presentable(pair.newer), older=presentable(pair.older)) for pair in pairs]


def blind(of: Path) -> Iterator[Pair]:
    """The pairs by hands that knew nothing of this: parts of them judge what was trained without these."""
    for file in sorted(of.glob("*/*.tsv" if of == PAIRS else "*.tsv")):
        for place, line in enumerate(file.read_text().splitlines()):
            label, _, older, newer = line.split("\t")
            # The same scenario has about the same line in the files of several languages.
            scenario = f"{place // _OF_A_SCENARIO}" if of == CORRECTIONS else ""
            yield Pair(label == "replaces", newer, older, file.stem, scenario)


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


def shaped() -> Iterator[Pair]:
    """The pairs and the shapes of a correction that were written for whole stores."""
    for each in read("pairs", STORES):
        yield Pair(each["kind"] == "change", each["second"], each["first"], each["language"])
    for each in read("shapes", STORES):
        yield Pair(each["shape"] != "lookalike", each["second"], each["first"], each["language"])


def said_in_a_chat() -> Iterator[Pair]:
    """Sentences of one chat in which nothing settled is changed: all of them hold."""
    for chat in read("chats", STORES):
        said = sentences_of(chat)
        pairs = [Pair(False, newer, older, chat["language"]) for older, newer in combinations(said, 2)]
        yield from _some([] if chat["changes"] else pairs, _OF_A_CHAT)


def of_other_chats() -> list[Pair]:
    """Sentences of chats of one store about other subjects, which have nothing to do with each other."""
    found, before = list[Pair](), dict[str, list[str]]()
    for chat in read("chats", STORES):
        if "disjoint" in chat["store"]:
            said, others = sentences_of(chat), before.setdefault(chat["store"], [])
            pairs = [Pair(False, newer, older, chat["language"]) for newer in said for older in others]
            found += _some(pairs, _OF_OTHERS)
            others += said
    return as_kept(found)


def sentences_of(chat: dict[str, Any]) -> list[str]:
    """What the person says in a chat, sentence by sentence."""
    typed = [each["content"] for each in chat["messages"] if each["role"] == "user"]
    return [one for text in typed for one in sentences(text) if len(one) >= _SAYS]


def _some(pairs: list[Pair], most: int) -> list[Pair]:
    """Some of these pairs, by chance, but always the same."""
    return sorted(pairs, key=lambda pair: crc32(f"{pair.newer}\t{pair.older}".encode()))[:most]


def read(name: str, of: Path = MINDS) -> list[dict[str, Any]]:
    """The lines of a file of a set."""
    return [json.loads(line) for line in (of / f"{name}.jsonl").read_text().splitlines()]


def first_said(messages: list[dict[str, str]]) -> str:
    """What the person says first."""
    return next(each["content"] for each in messages if each["role"] == "user")


def digest() -> str:
    """Return a hash of all that is learnt from."""
    lines = (
        f"{pair.replaces}\t{pair.newer}\t{pair.older}\t{pair.language}\n"
        for pair in (*learnt_from(), *of_other_chats())
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()
