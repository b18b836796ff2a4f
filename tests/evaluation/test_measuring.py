"""`make eval` on the small set: the table, the JSON, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from forged.cli.call import Invocation
from forged.cli.terminal import ProgressBar
from forged.memory import Memory
from tests.evaluation.__main__ import Measurement, draw, table
from tests.evaluation.dataset import Item, Query
from tests.evaluation.scores import judge, summary
from tests.evaluation.trial import LEARNING, Failure, OffTopicCount, Outcome
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Shell, processes_with
from tests.support.provider import Answer, ScriptedProvider

SMALL = str(Path(__file__).parents[1] / "data" / "eval_small")
LEXICAL = ("--model", "builtin:lexical")


@pytest.fixture
def shell(home, repo):
    """A person whose temporary files lie in a place of their own, `shell.extra["TMPDIR"]`."""
    with tempfile.TemporaryDirectory(prefix="fe") as scratch:
        extra = {"TMPDIR": scratch, "PYTHONPATH": str(Path(__file__).parents[2])}
        program = (sys.executable, "-m", "tests.evaluation")
        yield Shell(home, "/tmp/forged-nobody/forged.sock", repo, extra, program)


def test_a_measurement_is_a_row_and_below_it_stand_its_bounds_and_kinds(evaluate):
    shown = evaluate(SMALL, *LEXICAL)

    assert (shown.code, shown.err) == (0, "")
    title, head, total, low, high, *kinds = shown.out.splitlines()
    assert title == "eval_small, builtin:lexical, direct, lexical"
    assert head.split() == [
        *("asked", "R@5", "R@10", "R@20", "nDCG", "MRR", "+hops", "mem@10", "beside"),
    ]
    assert total.split() == [
        *("all", "6", "0.833", "0.833", "0.833", "0.833", "0.833", "0.833", "1.0", "0.167"),
    ]
    assert low.split() == ["95", "%", "from", *["0.500"] * 6, "0.000"]
    assert high.split() == ["to", *["1.000"] * 6, "0.500"]
    kinds = [line.split()[0] for line in kinds]
    assert kinds == ["chinese", "direct", "multi-hop", "paraphrase", "superseded", "task"]
    assert {len(line) for line in shown.out.splitlines()[1:]} == {len(head)}
    assert len(head) <= 80


def test_json_says_how_it_was_measured_and_has_each_querys_scores(evaluate):
    options = ("--split", "dev", "--set", "retrieval_hop_depth=0", "--min-score", "0.9")

    report = evaluate(SMALL, *LEXICAL, *options, "--json").json

    assert (report["split"], report["top_k"]) == ("dev", 20)
    assert report["changes"] == {"retrieval_hop_depth": "0", "retrieval_min_score": "0.9"}
    (measured,) = report["measurements"]
    assert (measured["set"], measured["model"]) == ("eval_small", "builtin:lexical")
    assert measured["store_size"] is None
    outcome = measured["outcome"]
    assert {score["query"] for score in outcome["scores"]} == {"q_mill_1", "q_mill_3", "q_kite_1"}
    low, high = outcome["total"]["recall_at_10_interval"]
    assert low <= outcome["total"]["recall_at_10"] <= high
    assert outcome["off_topic"] == {"messages": 2, "injected": 0, "rate": 0.0, "interval": [0.0, 0.0]}


def test_without_a_terminal_only_a_wait_that_no_one_expects_is_reported_and_once(capsys):
    bar = ProgressBar(Invocation(workspace="/w", environ={}).can_redraw(sys.stderr))

    for step in (("embedding", 1, 2), (LEARNING, 0, 0), (LEARNING, 0, 0), ("asking", 1, 2)):
        draw(bar, "life", *step)

    assert capsys.readouterr().err == f"life: waiting, {LEARNING}\n"


def test_every_set_strategy_and_store_size_is_a_measurement_of_its_own(evaluate):
    sizes = ("--store-size", "1", "--store-size", "5")
    strategies = ("--strategy", "direct", "--strategy", "caller")

    shown = evaluate(SMALL, *LEXICAL, *sizes, *strategies)

    tables = [part.splitlines() for part in shown.out.split("\n\n")]
    assert [
        (title, [row.split("  ")[0] for row in rows if "stores" in row]) for title, _, *rows in tables
    ] == [
        (f"eval_small, builtin:lexical, {strategy}, lexical", [f"stores of {size}"])
        for size in ("1", "5")
        for strategy in ("direct", "caller")
    ]


def test_off_topic_messages_may_come_from_another_file(evaluate, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"text": "Which grain?"}\n')

    report = evaluate(SMALL, *LEXICAL, "--off-topic", "mine.jsonl", "--json", workspace=str(tmp_path))

    (measured,) = report.json["measurements"]
    found = measured["outcome"]["off_topic"]
    assert (found["messages"], found["injected"], found["rate"]) == (2, 1, 0.5)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("nowhere",), 2, "there is no /w/nowhere"),
        (("/",), 2, "holds no memories.jsonl"),
        ((SMALL, "--off-topic", "nowhere"), 2, "cannot be read"),
        ((SMALL, "--set", "retrieval_top_k"), 2, "say KEY=VALUE"),
        ((SMALL, "--set", "retrieval_top_k=0"), 78, "whole number from 1"),
        ((SMALL, "--set", "retrieval_topk=3"), 78, "did you mean retrieval_top_k"),
        ((SMALL, "--store-size", "0"), 2, "--store-size"),
        ((SMALL, "--strategy", "hyde"), 78, "retrieval_model is not set"),
        ((SMALL, "--model", "builtin:magic"), 78, "builtin:magic"),
        ((SMALL, "--model", "text-embedding-3-small"), 78, "OPENAI_API_KEY is not set"),
    ],
    ids=lambda value: " ".join(value).replace(SMALL, "set") if isinstance(value, tuple) else "",
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(evaluate, arguments, code, complaint):
    shown = evaluate(*arguments)

    assert (shown.code, complaint in shown.out + shown.err) == (code, True), shown


def test_a_set_without_recorded_hypotheses_has_no_strategy_caller(evaluate, tmp_path):
    (tmp_path / "memories.jsonl").write_bytes(Path(SMALL, "memories.jsonl").read_bytes())
    query = {"id": "q", "root": "mill", "text": "?", "evidence": ["mem_mill_01"], "kind": "direct"}
    (tmp_path / "queries.jsonl").write_text(json.dumps(query))

    shown = evaluate(str(tmp_path), *LEXICAL, "--strategy", "caller")

    assert (shown.code, "no recorded hypotheses" in shown.err) == (2, True)


def test_on_a_terminal_a_bar_shows_how_far_it_is_and_is_wiped(shell):
    code, text = shell.on_terminal(SMALL, *LEXICAL)

    assert code == 0
    assert "eval_small: asking 12/12\x1b[K" in text
    assert "\r\x1b[Keval_small, builtin:lexical" in text


def test_sigterm_takes_the_daemon_and_its_directory_along(shell):
    with ScriptedProvider() as provider:
        provider.embeddings = Answer(delay_s=30)
        file = shell.home / ".config/forged/config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f'[memory]\nembedding_base_url = "{provider.base_url}"\n')
        scratch = shell.extra["TMPDIR"]

        with shell.start(SMALL, "--model", "slow") as process:
            provider.wait_for(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
            assert process.stderr.read() == ""

        assert os.listdir(scratch) == []
        eventually(lambda: processes_with(scratch) == [])


def test_foreign_text_in_a_set_cannot_reach_the_terminal():
    item = Item(Memory("m", "text", "", "", 1, "repo", "patterns", "s", "explicit"), frozenset("a"))
    query = Query("q", "?", "\x1b[2J", frozenset("a"))
    kind = summary("\x1b[2J", [judge(query, [item], [], [item])])
    outcome = Outcome(
        ("lexical",), 1, msgspec.structs.replace(kind, kind="all"), (kind,),
        OffTopicCount(4, 1, 0.25, (0.0, 1.0)), (Failure("timeout", 3),), (), 0.0, 0.0,
    )  # fmt: skip

    lines = table([Measurement("set\x1b]0;x\x07", "m", "direct", None, False, outcome)])

    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert lines[2].split()[-1] == "0.250"
    assert lines[5].split()[-1] == "-"
