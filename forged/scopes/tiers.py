"""What speaks for each memory of a list, in a word: for a list of which nothing is held back.

In go what a search found and the answers that it comes to; out come the same answers, each with `came` as the
gate would call it, by its own evidence alone. Where there is nothing to compare with, and of what a link led
to, nothing is said. Raised is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.map import UNGATED, Baseline, Candidate, Found, is_near, weigh
from forged.scopes.source import Ranked


def rated(
    found: Found,
    baseline: Baseline | None,
    candidates: Sequence[Candidate],
    ranked: Sequence[Ranked],
    strong: float,
) -> tuple[Ranked, ...]:
    """Answers with a word; `strong` is the evidence that lets a request pass."""
    reading = weigh(found, baseline)
    if reading.evidence == UNGATED:
        return tuple(ranked)
    words: dict[tuple[str, str], str] = {}
    evidence = reading.evidences([(each.map_index, each.row) for each in candidates])
    for each, own in zip(candidates, evidence, strict=True):
        home = found.maps[each.map_index]
        key = (home.root, home.chains.head(home.at(each.row).id))
        words[key] = word(own, strong)
    return tuple(msgspec.structs.replace(each, came=words.get(each.key, each.came)) for each in ranked)


def word(evidence: float, strong: float) -> str:
    """Evidence as a person is told of it."""
    if evidence >= strong:
        return "strong"
    return "near" if is_near(evidence, strong) else "weak"
