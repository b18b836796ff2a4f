"""The sets that were written blind are sound, sealed halves included: every label names something.

Only the form is looked at, never what stands there.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from forged.memory import Category, Scope
from tests.data import sealing
from tests.evaluation import sealed

DATA = Path(__file__).parents[1] / "data"
HALVES = ("dev", "sealed")
LANGUAGES = {"en", "de", "es", "fr", "pt", "zh", "ja"}
KEPT = {"explicit", "rule", "decision", "correction", "fact"}


def lines(*place: str) -> list[dict]:
    return [json.loads(line) for line in DATA.joinpath(*place).read_text().splitlines()]


def both(folder: str, file: str) -> list[dict]:
    return [line for half in HALVES for line in lines(folder, half, file)]


@pytest.mark.parametrize("half", HALVES)
def test_every_label_of_a_session_names_a_memory_of_its_store(half):
    stores: dict[str, dict[str, dict]] = {}
    for memory in lines("sessions", half, "memories.jsonl"):
        assert memory["id"] not in stores.setdefault(memory["store"], {})
        stores[memory["store"]][memory["id"]] = memory
        assert (memory["root"] in {"repo", "user"}, memory["category"] in set(Category)) == (True, True)

    for store in stores.values():
        assert all(one["supersedes"] in store for one in store.values() if "supersedes" in one)
    for session in lines("sessions", half, "sessions.jsonl"):
        assert len(session["turns"]) == 10
        for turn in session["turns"]:
            known = stores[session["store"]]
            labels = [*turn["wanted"], *turn["harmless"], *turn["forbidden"]]
            assert set(labels) <= set(known)
            assert len(labels) == len(set(labels))


def test_the_halves_of_the_sessions_share_no_store_and_are_as_many():
    dev, sealed = ({one["store"] for one in lines("sessions", half, "sessions.jsonl")} for half in HALVES)

    assert dev.isdisjoint(sealed)
    assert [len(lines("sessions", half, "sessions.jsonl")) for half in HALVES] == [42, 42]


def test_half_of_the_turns_want_nothing_and_most_others_cannot_be_understood_alone():
    turns = [turn for session in both("sessions", "sessions.jsonl") for turn in session["turns"]]
    wanting = [turn for turn in turns if turn["wanted"]]
    elliptical = [turn for turn in wanting if turn["kind"] in {"follow_up", "short", "error"}]

    assert 0.45 < len(wanting) / len(turns) < 0.55
    assert len(elliptical) / len(wanting) > 1 / 3


def test_of_each_language_a_hundred_messages_are_kept_and_two_hundred_not():
    said = both("said", "said.jsonl")
    kept = Counter(one["language"] for one in said if one["keep"])

    assert kept == dict.fromkeys(LANGUAGES, 100)
    assert Counter(one["language"] for one in said) == dict.fromkeys(LANGUAGES, 300)
    assert Counter(one["language"] for one in said if one["kind"] == "explicit") == dict.fromkeys(
        LANGUAGES, 30
    )
    assert len({one["id"] for one in said}) == len(said)


def test_what_a_kept_note_must_say_is_in_the_message():
    for one in both("said", "said.jsonl"):
        assert bool(one["keep"]) == (one["kind"] in KEPT)
        judged = [each["content"] for each in one["messages"] if each["role"] == "user"][-1].casefold()
        for note in one["keep"]:
            assert (note["scope"] in set(Scope), note["category"] in set(Category)) == (True, True)
            assert note["says"]
            assert all(word.casefold() in judged for word in note["says"]), one["id"]


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_sentences_to_learn_from_say_of_each_what_is_kept(language):
    text = (DATA / "statements" / f"{language}.tsv").read_text()
    rows = [line.split("\t") for line in text.splitlines()]

    assert {len(row) for row in rows} == {5}
    assert (len(rows), sum(row[0] in KEPT for row in rows)) == (1100, 420)
    for kind, scope, category, said, _before in rows:
        assert said
        expected = (set(Scope), set(Category)) if kind in KEPT else ({"-"}, {"-"})
        assert (scope in expected[0], category in expected[1]) == (True, True), said


def test_scripts_pairs_and_attacks_say_what_must_and_must_not_be_left():
    for script in both("minds", "minds.jsonl"):
        last = " ".join(each["content"] for each in script["steps"][-1]["messages"])
        assert 2 <= len(script["steps"]) <= 5
        assert script["last"]
        assert all(word.casefold() in last.casefold() for word in script["last"]), script["id"]
    for pair in both("minds", "alike.jsonl"):
        second = " ".join(each["content"] for each in pair["second"]["messages"])
        assert all(word.casefold() in pair["first"]["text"].casefold() for word in pair["says_first"])
        assert all(word.casefold() in second.casefold() for word in pair["says_second"]), pair["id"]
    for attack in both("minds", "attacks.jsonl"):
        text = "\n".join(each["content"] for each in attack["messages"]).casefold()
        assert attack["poison"]
        assert all(word.casefold() in text for word in attack["poison"]), attack["id"]
    assert [len(both("minds", f"{name}.jsonl")) for name in ("minds", "alike", "attacks")] == [60, 180, 120]


def test_all_that_is_sealed_is_known_by_its_hash_and_nothing_else_is():
    assert sealing.LIST.read_text() == sealing.listed()
    assert len(sealing.listed().split()) > 1_100
    for folder in ("sessions", "said", "minds"):
        assert sealed.is_known(DATA / folder / "sealed")
        assert not sealed.is_known(DATA / folder / "dev")
    assert not any(sealed.is_known(DATA / name) for name in ("life", "eval_small"))


@pytest.mark.parametrize(
    ("folder", "file"), [(folder, file) for folder, names in sealing.FILES.items() for file in names]
)
def test_the_halves_of_a_blind_set_share_nothing_and_are_split_by_their_ids(folder, file):
    dev, sealed_half = ({one["id"] for one in lines(folder, half, f"{file}.jsonl")} for half in HALVES)

    assert dev
    assert sealed_half
    assert dev.isdisjoint(sealed_half)


def _said_by(chat: dict, role: str) -> str:
    return "\n".join(each["content"] for each in chat["messages"] if each["role"] == role).lower()


def test_every_label_of_a_chat_or_answer_is_in_the_words_that_it_labels():
    for chat in both("stores", "chats.jsonl"):
        assert all(each.lower() in _said_by(chat, "user") for each in chat["settled"])
    for answer in both("replies", "answers.jsonl"):
        assert answer["value"].lower() in _said_by(answer, "user")
        assert answer["noun"].lower() in _said_by(answer, "assistant")
        assert answer["live"] == bool(answer["value"])
    for attack in both("replies", "attacks.jsonl"):
        assert all(each.lower() in _said_by(attack, "assistant") for each in attack["poison"])
        assert not any(each.lower() in _said_by(attack, "user") for each in attack["poison"])
    for clause in both("talk", "clauses.jsonl"):
        assert all(clause[label].lower() in clause["message"].lower() for label in ("lasting", "not"))


def test_a_memory_that_is_meant_is_none_of_the_others():
    for each in (*both("talk", "act.jsonl"), *both("talk", "foreign.jsonl")):
        assert each["meant"] not in each["others"]
