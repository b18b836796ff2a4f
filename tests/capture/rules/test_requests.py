"""Every wording of requests.toml: its own two examples, and all of them over typed sentences."""

from __future__ import annotations

from collections import Counter

import pytest

from forged.capture.rules.requests import asks, behind_request, wordings
from tests.training import data

WORDINGS = [pytest.param(each, id=f"{each.kind} {each.language}: {each.name}") for each in wordings()]


@pytest.mark.parametrize("wording", WORDINGS)
def test_wording_takes_its_example_and_not_its_near_miss(wording):
    assert wording.is_in(wording.yes)
    assert not wording.is_in(wording.no)
    assert asks(wording.yes) is (wording.kind in {"asks", "polite"})


def test_requests_are_distinguished_from_similar_sentences():
    """Of every fourth sentence in seven languages: nine of ten requests, and 1 % of the others."""
    counts = Counter[tuple[bool | None, bool]]()
    for each in data.sentences()[::4]:
        counts[each.kind == "explicit", asks(each.text)] += 1
    asked, others = counts[True, True] + counts[True, False], counts[False, True] + counts[False, False]
    assert counts[True, True] / asked >= 0.92
    assert counts[False, True] / others <= 0.01


def test_accents_make_no_difference():
    assert asks("ajoute a ta memoire : pnpm partout")
    assert asks("coloca na tua memoria que uso fish")


RECOLLECTIONS = [
    *(f"I {adverb}remember {{}}" for adverb in ("", "vaguely ", "still ", "do ", "also ", "distinctly ")),
    *(
        "We remember {}",
        "Ich erinnere mich noch: {}",
        "Ich merke gerade: {}",
        "Recuerdo que {}",
        "Me acuerdo: {}",
    ),
    *("Je me souviens que {}", "Je me rappelle : {}", "Eu lembro que {}", "我记得 {}", "我还记得 {}"),
    *("覚えています、{}", "それは覚えている。{}"),
]


@pytest.mark.parametrize("said", RECOLLECTIONS)
def test_who_remembers_something_asks_for_nothing(said):
    assert not asks(said.format("the port was 8080."))
    assert asks(f"{said.format('the port was 8080.')} Remember: it is 9090.")


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("Merk dir bitte: Deploys laufen nur dienstags.", "Deploys laufen nur dienstags."),
        ("请记住：部署只在周二进行。", "部署只在周二进行。"),
        ("Retiens ceci : on déploie le mardi", "on déploie le mardi"),
        ("fix this: the deploy fails on tuesdays", "fix this: the deploy fails on tuesdays"),
        ("note this: ok", "note this: ok"),
        ("remember that port 80 is free: nobody uses it", "remember that port 80 is free: nobody uses it"),
    ],
)
def test_the_content_of_a_request_is_behind_its_colon(said, reported):
    assert behind_request(said) == reported
