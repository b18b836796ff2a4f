from __future__ import annotations

import asyncio
import hashlib
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from forged.capture.rules.engine import LONGEST, RuleClassifier
from forged.capture.values import Classified, Proposal
from forged.conversation import Speaker, Utterance
from forged.memory import Category, Memory, Scope
from forged.state import Event

PNPM = "We use pnpm instead of npm here."
MESSAGES = Path(__file__).parents[2] / "data" / "messages.toml"


class Labelled(msgspec.Struct, frozen=True):
    """One message; `keep` is the sentence that should be kept of it, or nothing."""

    text: str
    keep: str = ""
    scope: str = ""
    category: str = ""
    probe: bool = False

    @property
    def is_held_out(self) -> bool:
        return not self.probe and hashlib.sha256(self.text.encode()).digest()[0] % 2 == 1


class Score(msgspec.Struct, frozen=True):
    right: int
    wrong: int
    missed: int
    category: int
    scope: int

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.3f} ({self.wrong} wrong), recall {self.recall:.3f} ({self.right} of "
            f"{self.right + self.missed}), category right {self.category}, scope right {self.scope}"
        )


def labelled() -> list[Labelled]:
    with MESSAGES.open("rb") as file:
        return msgspec.convert(tomllib.load(file)["message"], list[Labelled])


def classified(*texts: str, heads: Sequence[Memory] = (), speaker: Speaker = "user") -> Classified:
    event = Event(window=tuple(Utterance(speaker, text) for text in texts))
    return asyncio.run(RuleClassifier(lambda *_: heads).classify(event, (), deadline=0.0, attempts=0))


def kept(*texts: str) -> list[str]:
    return [proposal.content for proposal in classified(*texts).proposals]


def only(text: str, *heads: Memory) -> Proposal:
    (proposal,) = classified(text, heads=heads).proposals
    return proposal


def head(first_line: str, *, name: str = "mem_1", scope: Scope = Scope.REPO) -> Memory:
    now, category = "2026-05-01T10:00:00Z", Category.PROJECT_CONVENTIONS
    return Memory(name, first_line, now, now, 1, scope, category, "s", "cadence")


def bare(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def scored(messages: Sequence[Labelled]) -> Score:
    right = wrong = missed = category = scope = 0
    for message in messages:
        found = classified(message.text).proposals
        hits = [
            proposal for proposal in found if message.keep and bare(proposal.content) == bare(message.keep)
        ]
        right += len(hits[:1])
        wrong += len(found) - len(hits[:1])
        missed += bool(message.keep) and not hits
        category += any(hit.category == message.category for hit in hits[:1])
        scope += any(hit.scope == message.scope for hit in hits[:1])
    return Score(right, wrong, missed, category, scope)


# --- the labelled messages ----------------------------------------------------------------------------


def test_precision_is_above_nine_tenths_in_both_halves(capsys):
    halves = {
        "development": [message for message in labelled() if not message.is_held_out],
        "held out": [message for message in labelled() if message.is_held_out],
    }
    scores = {name: scored(messages) for name, messages in halves.items()}
    with capsys.disabled():
        print()
        for name, score in scores.items():
            worthy = sum(bool(message.keep) for message in halves[name])
            print(f"builtin:rules, {name}, {worthy} worthy and {len(halves[name]) - worthy} not: {score}")
        for category in Category:
            score = scored([message for message in labelled() if message.category == category])
            print(f"builtin:rules, {category}: {score}")
    for score in scores.values():
        assert score.precision >= 0.9
        assert score.recall >= 0.75
        assert score.scope >= 0.9 * score.right
        assert score.category >= 0.9 * score.right


# --- what is read ---------------------------------------------------------------------------------------


PATHLIB, MOCK = "Always use pathlib.", "We never mock the database."
PASTE = "$ make lint\nerror: always use tabs"
PLAN = "\n\n".join(f"We always use part {number} of the plan." for number in range(300))


HALVES = (
    "In this repo migrations are written by hand, and they are reviewed",
    "by two people, never by one.",
)


def long_sentence(length: int) -> str:
    return f"Always use {'x' * (length - 12)}."


# What is said, message by message, and what is kept of it.
WINDOWS: dict[str, tuple[tuple[str, ...], list[str]]] = (
    {
        "in the order of the window": ((PATHLIB, "thanks", MOCK), [PATHLIB, MOCK]),
        "two of one message": ((f"{PATHLIB} {MOCK}",), [PATHLIB, MOCK]),
        "behind a fence": ((f"look\n```\nWe always use tabs.\n```\n{PATHLIB}",), [PATHLIB]),
        "behind a fence of tildes": ((f"look\n~~~~\nWe always use tabs.\n~~~~\n{PATHLIB}",), [PATHLIB]),
        "behind a named fence": ((f"look\n```python\nWe always use tabs.\n```\n{PATHLIB}",), [PATHLIB]),
        "before a fence that is never closed": ((f"{PATHLIB}\n```\nWe always use tabs.",), [PATHLIB]),
        "own words before a paste": ((f"{PATHLIB}\n\n{PASTE}",), [PATHLIB]),
        "own words after a paste": ((f"{PASTE}\n\n{PATHLIB}",), [PATHLIB]),
        "ends of what nobody typed": ((f"{PATHLIB}\n\n{PLAN}\n\n{MOCK}",), [PATHLIB, MOCK]),
        "a line wrapped by an editor": (("\n".join(HALVES),), [" ".join(HALVES)]),
        "a redacted sentence": (("Always use the key [redacted] for staging.",), []),
        "the longest sentence": ((long_sentence(LONGEST),), [long_sentence(LONGEST)]),
        "one that is too long": ((long_sentence(LONGEST + 1),), []),
        "replaced in the same window": (("We use npm for packages.", "ok", PNPM), [PNPM]),
        "the last message taken back": ((PATHLIB, MOCK, "never mind"), [PATHLIB]),
        "taken back at once": (("We always write tests in this repo. Not.",), []),
        "an order of this moment": (("Every handler in our API must log. Implement that.",), []),
        "taken back between": ((f"{PATHLIB} Scratch that. {MOCK}",), [MOCK]),
        "taken back for the right statement": (
            ("We deploy from main, never from tags.", "no, actually we deploy from tags, never from main"),
            ["We deploy from tags, never from main."],
        ),
    }
    | {
        f"taken back with {words}": ((PATHLIB, words), [])
        for words in (
            *("never mind", "Forget that.", "oh wait, scratch that", "no, actually leave it", "jk", "算了"),
        )
    }
    | {
        f"pasted or quoted {number}": ((pasted,), [])
        for number, pasted in enumerate(
            (
                "> We always use tabs.",
                "    We always use tabs.",
                "+We always use tabs.",
                "# We always use tabs.",
                "$ make lint\nWe always use tabs.",
                "2024-05-01 12:00:01 INFO start\nWe always use tabs.",
                "- We always use tabs.",
                "1. We always use tabs.",
                "WARNING: x\nWe always use tabs.",
                "The README says:\n\nWe always use tabs.",
                'it logs "Bye. We always use tabs. Hello." on exit',
            )
        )
    }
)


@pytest.mark.parametrize(("window", "found"), WINDOWS.values(), ids=WINDOWS.keys())
def test_what_a_person_says_to_last_is_kept_and_nothing_else(window, found):
    assert kept(*window) == found


# --- what is kept of a sentence -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (
            "hey, please remember that we use `git  switch`, never `git checkout`!",
            "We use `git  switch`, never `git checkout`.",
        ),
        ("ok, thanks. btw, always use pathlib please", "Always use pathlib."),
        ("No, we deploy from tags, never from branches...", "We deploy from tags, never from branches."),
        ("always\tuse   pathlib", "Always use pathlib."),
        (
            "we’re using Bun instead of Node in this project",
            "We're using Bun instead of Node in this project.",
        ),
        ("请记住：我们只支持 Python 3.11 以上", "我们只支持 Python 3.11 以上。"),
    ],
)
def test_content_is_the_sentence_without_what_is_only_manner(said, content):
    assert only(said).content == content


@pytest.mark.parametrize(
    "order",
    [
        "Never write to the legacy_orders table.",
        "Always ask Maria before you change the billing module.",
        "Always run make lint before you push.",
        "Always use the internal npm mirror at npm.corp.example.",
        "Always write the currency behind the amount.",
        "Never mock the payment gateway in tests any more.",
        "From now on releases happen on Tuesdays.",
        "Don't use lodash any more, the standard library does all of it.",
        "以后都用 pnpm，不要用 npm。",
    ],
)
def test_an_order_without_a_word_about_the_person_holds_where_it_is_given(order):
    assert only(order).scope == Scope.REPO


@pytest.mark.parametrize(
    "order",
    [
        "Always answer in German.",
        "Never use emojis.",
        "Always ask me before you push.",
        "In all my projects, always use pathlib.",
        "以后回答都用中文。",
    ],
)
def test_an_order_about_the_person_or_all_projects_holds_everywhere(order):
    assert only(order).scope == Scope.USER


# --- superseding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        PNPM,
        "we switched from npm to pnpm",
        "No, we use pnpm here, not npm.",
        "we replaced npm with pnpm",
        "我们用 pnpm 而不是 npm 管理依赖。",
    ],
)
def test_statement_supersedes_what_it_does_away_with(said):
    assert only(said, head("We use `npm` for packages.")).supersedes == "mem_1"


@pytest.mark.parametrize(
    "heads",
    [
        [head("We use npm for packages.", scope=Scope.USER)],
        [head("We never use npm.")],
        [head("We use yarn instead of npm.")],
        [head("We use npm-check in CI.")],
        [head("The npm cache lives on the runner.")],
        [head("We use npm for packages."), head("The site uses npm.", name="mem_2")],
        [],
    ],
    ids=["other scope", "denied", "contrast", "part of a word", "not in use", "a choice", "none"],
)
def test_nothing_is_superseded_without_one_plain_rival(heads):
    assert only(PNPM, *heads).supersedes == ""


def test_addition_supersedes_nothing():
    assert only("We use pnpm for scripts, never npx.", head("We use pnpm for packages.")).supersedes == ""


# --- cost -----------------------------------------------------------------------------------------------


@pytest.mark.speed
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "` ",
            '" ',
            ". ",
            "a\n",
            "no, ",
            "never mind ",
            "always use ",
            "我们用",
            "```\n",
            "we use a and b. ",
        ),
        *("aa, " * 140 + ". ", "all in our " * 50 + ". ", "if you change " * 40 + ". "),
        "we decided " * 50 + ".\n\n",
    ],
    ids=lambda unit: repr(unit[:20]),
)
def test_cost_grows_with_the_length_and_no_faster(unit):
    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        times = []
        for _ in range(2):
            start = time.process_time()
            classified(text)
            times.append(time.process_time() - start)
        return min(times)

    # Four times the length; quadratic would be sixteen times the cost of a text that is not tiny.
    assert seconds(64_000) < 10 * seconds(16_000) + 0.25
