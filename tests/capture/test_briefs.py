"""Briefs of scripted runs: they say nothing about a person, whoever judges them."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import pytest

from forged.capture.authorship import pieces, statements
from forged.capture.llm import user_prompt
from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier
from forged.capture.values import Classified, Proposal
from forged.conversation import Utterance
from forged.files import Root
from forged.memory import Category, Origin, Scope
from forged.state import Event
from tests.capture.comparing import decide

SAID = tomllib.loads((Path(__file__).parents[1] / "data" / "briefs.toml").read_text())
LAYOUTS = (
    "{brief} {rule}",
    "{brief}\n{rule}",
    "{brief}\n\n{rule}",
    "{brief}\n\n- {rule}\n- {asks}",
    "# A\n{brief}\n\n{rule}",
)
BRIEFS = [(language, brief) for language, rows in SAID.items() for brief in rows["briefs"]]
OTHERS = [(language, other) for language, rows in SAID.items() for other in rows["others"]]
ROOTS = (Root("/r", Scope.REPO), Root("/u", Scope.USER))


def event_of(*texts: str) -> Event:
    return Event(session_id="s", roots=ROOTS, window=tuple(Utterance("user", text) for text in texts))


def kept(event: Event, found: Classified) -> list[str]:
    documents, _ = decide(event, found, {}, lambda *_: None, "2026-01-01T00:00:00Z")
    return [each.memory.content for each in documents]


def by_rules(event: Event) -> list[str]:
    """Return the kept memories and those that wait for a person, without a model."""
    classifier = RuleClassifier(lambda *_: (), LocalClassifier(lambda *_: ()).refine)
    return kept(event, asyncio.run(classifier.classify(event, (), deadline=0.0, attempts=0)))


def by_model(event: Event, *contents: str) -> list[str]:
    """The same where a chat model proposes these texts."""
    proposals = [Proposal(each, Scope.USER, Category.CODING_PREFERENCES) for each in contents]
    return kept(event, Classified(tuple(proposals), author=Origin.MODEL))


@pytest.mark.parametrize(("language", "brief"), BRIEFS)
def test_of_a_brief_and_of_what_follows_it_nothing_is_kept(language, brief):
    rows = SAID[language]
    for layout in LAYOUTS:
        text = layout.format(brief=brief, **rows)
        assert not statements(event_of(text).window), text
    for layout in (LAYOUTS[0], LAYOUTS[-1]):
        event = event_of(text := layout.format(brief=brief, **rows))
        assert by_rules(event) == [], text
        assert by_model(event, rows["rule"], "The user wants pnpm in all projects.", brief) == [], text


@pytest.mark.parametrize("language", SAID)
def test_what_a_person_says_before_a_brief_and_after_its_message_is_kept(language):
    rows = SAID[language]
    brief = f"{rows['briefs'][0]} {rows['rule']}"
    for event in (event_of(f"{rows['asks']}\n\n{brief}"), event_of(brief, rows["asks"])):
        assert [each.text for each in statements(event.window)] == [rows["asks"]]
        assert len(by_rules(event)) == 1


@pytest.mark.parametrize(("language", "other"), OTHERS)
def test_what_reads_a_little_like_a_brief_hides_nothing(language, other):
    rows = SAID[language]
    for layout in ("{} {}", "{}\n{}", "{}\n\n{}"):
        text = layout.format(other, rows["asks"])
        assert all(piece.author != "brief" for piece in pieces(text)), text
    if "```" not in other:
        said = statements([Utterance("user", f"{other} {rows['asks']}")])
        assert any(rows["asks"] in each.text for each in said)


def test_a_model_is_shown_a_brief_as_a_quotation():
    rows = SAID["en"]
    window = [Utterance("user", f"{rows['asks']} {rows['briefs'][0]} {rows['rule']}\n\nNever touch src/b.")]

    shown = user_prompt(window, ())
    assert f"\n> {rows['briefs'][0]} {rows['rule']}" in shown
    assert "\n> Never touch src/b." in shown
    assert f"> {rows['asks']}" not in shown
