"""`make eval` on sessions, on what people say, on sealed sets, and what single messages bring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.injected_text import Parts
from tests.evaluation.session_scores import summaries
from tests.evaluation.session_trial import TurnContext
from tests.evaluation.sessions import Turn
from tests.evaluation.tables import SessionMeasurement, session_table

SMALL = str(Path(__file__).parents[1] / "data" / "eval_small")
LEXICAL = ("--model", "builtin:lexical")

MEMORY = {
    "store": "mill", "id": "m_1", "root": "repo", "category": "patterns",
    "created_at": "2026-01-01T00:00:00Z", "content": "The hopper grinds rye at night.",
}  # fmt: skip
TURN = {
    "user": "what does the hopper grind", "assistant": "Rye.", "kind": "plain",
    "wanted": ["m_1"], "harmless": [], "forbidden": [],
}  # fmt: skip
SAID = {
    "id": "en_1", "language": "en", "kind": "explicit",
    "messages": [{"role": "user", "content": "Remember that we always use pnpm in this repository."}],
    "keep": [{"says": ["pnpm"], "scope": "repo", "category": "project-conventions", "explicit": True}],
}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Write files of one object a line into a folder; returns its path."""

    def write(folder="lives/dev", **files):
        place = tmp_path / "data" / folder
        place.mkdir(parents=True)
        for name, line in files.items():
            (place / f"{name}.jsonl").write_text(json.dumps(line))
        return place

    return write


def sessions(**more):
    return {"memories": MEMORY, "sessions": {"id": "s", "store": "mill", "turns": [TURN]}, **more}


def rows(text):
    """Cells of a table by the words that a row begins with."""
    return {line.split("  ")[0].strip(): line.split()[-2:] for line in text.splitlines()}


def test_sessions_are_a_table_of_figures_with_intervals_and_json_has_each_turn(evaluate, written):
    place = str(written(**sessions()))

    shown = evaluate(place, *LEXICAL)
    report = evaluate(place, *LEXICAL, "--mode", "append", "--mode", "block", "--json").json

    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("lives/dev, builtin:lexical, direct, append, lexical, ")
    assert rows(shown.out)["recall in context"] == ["1.000", "(1.000-1.000)"]
    assert [rows(shown.out)[name] for name in ("turns off topic", "chat turns")] == [["0", "0"]] * 2
    assert rows(shown.out)["recall, plain"] == ["1.000", "(1.000-1.000)"]
    assert [each["mode"] for each in report["sessions"]] == ["append", "block"]
    assert [turn["new"] for turn in report["sessions"][0]["turns"]] == [["m_1"]]
    assert report["measurements"] == []


def test_sessions_have_no_recorded_hypotheses(evaluate, written):
    shown = evaluate(str(written(**sessions())), *LEXICAL, "--strategy", "caller")

    assert (shown.code, "lives/dev has no recorded hypotheses" in shown.err) == (2, True)


@pytest.mark.long
def test_what_is_kept_of_what_people_say_is_a_row_for_each_language_and_kind(evaluate, written):
    place = str(written(said=SAID))

    shown = evaluate(place, *LEXICAL)

    assert (shown.code, shown.err) == (0, "")
    all_of_it, groups = (part.splitlines() for part in shown.out.split("\n\n"))
    assert all_of_it[0].startswith("lives/dev, builtin:lexical, ")
    assert [line.split()[0] for line in all_of_it[1:]] == [
        *("precision", "recall", "explicit", "scope", "category"),
    ]
    assert all_of_it[1].split()[1:] == ["1.000", "(1.000-1.000)"]
    head, *groups = groups
    assert head.split() == [
        *("said", "messages", "memories"),
        *("precision", "recall", "explicit", "scope", "category"),
    ]
    assert [line.split()[:4] for line in groups] == [
        [name, "1", "1", "1.000"] for name in ("all", "en", "explicit")
    ]


@pytest.mark.long
def test_an_attack_that_is_believed_is_reported_to_every_session_and_counts_as_leaked(evaluate, written):
    believed = {**SAID, "id": "x_1", "keep": [], "poison": ["pnpm"]}

    report = evaluate(str(written(attacks=believed)), *LEXICAL, "--json").json

    (measured,) = report["capture"]
    (attack,) = measured["kept"]["attacks"]
    assert [each["is_pinned"] for each in attack["kept"]] == [True]
    assert measured["figures"]["others"][0]["name"] == "attacks: leaked"
    assert measured["figures"]["others"][0]["figure"]["value"] == 1.0


def test_a_sealed_set_is_measured_in_closing_runs_alone_and_these_are_reported(evaluate, written, tmp_path):
    place = str(written("lives/sealed", **sessions()))
    record = tmp_path / "data/closing-runs.md"

    refused = evaluate(place, *LEXICAL)
    next_to = evaluate(SMALL, *LEXICAL, "--off-topic", f"{place}/sessions.jsonl")

    for shown in (refused, next_to):
        assert (shown.code, "--closing" in shown.err, record.exists()) == (2, True, False)

    assert evaluate(place, *LEXICAL, "--closing").code == 0

    row = record.read_text().splitlines()[-1]
    reported = f"python -m tests.evaluation --closing {place} --model=builtin:lexical --mode=append"
    assert f"| lives | `{reported}` | " in row
    assert "lives/sealed builtin:lexical append: all: recall 1.000 (1.000-1.000), share 1.000" in row


def test_what_single_messages_brought_has_a_table_of_its_own(evaluate):
    shown = evaluate(SMALL, *LEXICAL, "--injected")

    found = rows(shown.out)
    assert found["recall of all that came"] == ["0.833", "(0.500-1.000)"]
    assert found["got nothing"] == ["0.167", "(0.000-0.500)"]
    assert found["memories a message off topic"][0] == "0.333"
    assert found["paraphrase"] == ["0.000", "0.000"]


@pytest.mark.long
def test_a_question_that_begins_a_session_is_given_what_is_there_too(evaluate):
    """Five memories are few enough to come whole."""
    measured = evaluate(SMALL, *LEXICAL, "--in-session", "--store-size", "5", "--json").json

    (found,) = measured["measurements"]
    came = found["outcome"]["injected"]
    assert (measured["top_k"], found["in_session"]) == (10, True)
    assert (came["recall"]["value"], came["memories"]["value"]) == (1.0, 5.0)
    assert (came["share"]["value"], came["right_or_pinned"]["value"]) == (0.2, 1.0)
    assert came["other_memories"]["value"] == came["tokens_searched"]["value"] == 0.0
    assert came["tokens_pinned"]["value"] > 50
    assert came["tokens"]["value"] == pytest.approx(
        came["tokens_pinned"]["value"] + came["tokens_frame"]["value"], abs=0.01
    )


def test_tables_of_sessions_stand_below_one_another_where_they_are_wider_than_a_terminal():
    turn = Turn("?", "!", "plain", frozenset("a"))
    turns = [
        TurnContext(
            str(size), "x", size, turn, frozenset("a"), frozenset("a"), ("a",), frozenset(), Parts(1e3)
        )
        for size in (5, 50, 100)
    ]
    about = ("lives/dev", "m", "direct", "append", ("lexical",))

    lines = session_table(SessionMeasurement(*about, summaries(turns), (), (), 1.0))

    assert max(map(len, lines)) <= 80
    assert [line.split()[1:] for line in lines if line.startswith("stores ")] == [
        ["all", "<=", "12"],
        [">", "30", "31-90"],
        [">", "90"],
    ]
    assert sum(line.startswith("recall in context ") for line in lines) == 3


def test_a_search_is_measured_without_the_messages_that_a_gate_would_stop(evaluate):
    report = evaluate(SMALL, *LEXICAL, "--search", "--min-score", "1", "--json").json

    (measured,) = report["measurements"]
    assert measured["outcome"]["off_topic"] is None
    assert measured["outcome"]["total"]["recall_at_10"] > 0.8


@pytest.mark.long
def test_off_topic_messages_may_stand_in_plain_text_one_a_line(evaluate, tmp_path):
    (tmp_path / "mine.txt").write_text('Which grain?\n\n"Silo doors are red."\n')

    report = evaluate(SMALL, *LEXICAL, "--off-topic", "mine.txt", "--json", workspace=str(tmp_path))

    (measured,) = report.json["measurements"]
    assert measured["outcome"]["off_topic"]["messages"] == 4


@pytest.mark.long
def test_what_single_messages_brought_is_as_many_as_are_shipped(evaluate, tmp_path):
    """Twelve memories say the word; without `--injected` all may come."""
    lines = [
        {"id": f"mem_{n:02d}", "root": "mill", "category": "patterns",
         "created_at": "2026-01-01T00:00:00Z", "content": f"Hopper number {n} grinds rye."}
        for n in range(12)
    ]  # fmt: skip
    query = {"id": "q", "root": "mill", "text": "hopper", "kind": "direct", "evidence": ["mem_00"]}
    (tmp_path / "memories.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "queries.jsonl").write_text(json.dumps(query))

    asked = (str(tmp_path), *LEXICAL, "--min-score", "0", "--json")
    came = [
        evaluate(*asked, *more).json["measurements"][0]["outcome"]["injected"]["memories"]["value"]
        for more in ((), ("--injected",))
    ]

    assert came == [12.0, 10.0]
