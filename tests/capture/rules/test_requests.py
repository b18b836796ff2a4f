"""Every wording of requests.toml by its own two examples, and all of them over sentences that people type."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from forged.capture.rules.requests import asks, wordings
from tests.training import data

WORDINGS = [pytest.param(each, id=f"{each.kind} {each.language}: {each.name}") for each in wordings()]


@pytest.mark.parametrize("wording", WORDINGS)
def test_wording_takes_its_example_and_not_its_near_miss(wording):
    pattern = re.compile(wording.pattern, re.IGNORECASE)
    assert pattern.search(wording.yes)
    assert not pattern.search(wording.no)
    assert asks(wording.yes) is (wording.kind == "asks")


def test_every_language_has_wordings_of_both_kinds():
    found = {(each.kind, each.language) for each in wordings()}
    assert {(kind, language) for kind in ("asks", "not") for language in LANGUAGES} <= found


LANGUAGES = ("de", "en", "es", "fr", "ja", "pt", "zh")


def test_requests_are_told_from_what_only_reads_like_one():
    """Of the sentences to learn from, in seven languages: four of five requests, and 2 % of the others."""
    counts = Counter[tuple[bool | None, bool]]()
    for each in data.sentences():
        counts[each.explicit, asks(each.text)] += 1
    asked, others = counts[True, True] + counts[True, False], counts[False, True] + counts[False, False]
    assert counts[True, True] / asked >= 0.78
    assert counts[False, True] / others <= 0.02


def test_a_request_is_seen_at_both_ends_of_a_long_message():
    middle = "und dann ging es weiter. " * 100
    assert asks(f"merk dir: Beträge sind Cent. {middle}")
    assert asks(f"{middle}merk dir: Beträge sind Cent.")
