"""The bench judges by medians and goals, names its gaps, and takes its rounds in turn."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cached_daemon
import captured
import commits
import corpus
import daemons
import judging
import loads
import msgspec
import numpy as np
import processes
import pytest
import table
from judging import Goal, Outcome, Rounds, Verdict
from row import Row, earlier, fixed, measured
from sampling import interleaved, p99

from forged.files import Root, scan
from forged.memory import Scope
from tests.support.clock import PATIENCE_S

HERE = commits.this()
OTHER = commits.Checkout("other", HERE.python, HERE.drivers)
RUN = Path(processes.HERE, "run.py")


def rounds(*ours: float, theirs: float = 1.0) -> Rounds:
    return Rounds(ours, (theirs,) * len(ours))


def side(figure: float | Exception):
    """A side whose every round gives the same, or that cannot be opened."""

    @contextlib.contextmanager
    def opened(_checkout):
        if isinstance(figure, Exception):
            raise figure
        yield lambda: figure

    return opened


SOUND = side(1.0)


def a_row(ours=SOUND, theirs=SOUND) -> Row:
    return Row("row", "", Goal(1.0), ours, theirs)


# --- captured turns --------------------------------------------------------------------------------------


def test_a_model_embeds_each_text_once_and_its_rows_outlive_it(tmp_path):
    asked: list[str] = []

    def model():
        class Model:
            def _encode_call(self, texts: list[str], _kind: str) -> object:
                asked.extend(texts)
                return np.array([[len(text), 1.0] for text in texts], np.float32)

        cached_daemon.keep_rows(Model, str(tmp_path / "rows"))
        return Model()

    first = model()._encode_call(["a", "bb"], "layers")
    again = model()._encode_call(["bb", "ccc", "a"], "layers")
    other = model()._encode_call(["a"], "query")

    assert (first.tolist(), again.tolist()) == ([[1, 1], [2, 1]], [[2, 1], [3, 1], [1, 1]])
    assert other.tolist() == [[1, 1]]
    assert asked == ["a", "bb", "ccc", "a"]


def test_captured_turns_are_of_a_store_of_three_hundred_and_many_are_about_its_memories():
    memories, later = zip(*captured._statements(), strict=True)

    assert len(set(memories)) == 300
    assert sum(said in later for said in captured._turns()) == len(captured._turns()) // 2


# --- verdicts ----------------------------------------------------------------------------------------


def test_the_median_of_the_rounds_ratios_decides_and_not_the_best_round():
    missed = judging.against_goal("row", Goal(1.0), rounds(0.5, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2))
    met = judging.against_goal("row", Goal(1.0), rounds(9.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9))
    drifting = Rounds((1, 2, 3, 4, 50, 60, 70), (2, 4, 6, 8, 25, 30, 35))

    assert (missed.verdict, missed.ratio, missed.low, missed.high) == (Verdict.MISSED, 1.2, 0.5, 1.2)
    assert (met.verdict, met.ratio, met.low, met.high) == (Verdict.MET, 0.9, 0.9, 9.0)
    assert judging.against_goal("row", Goal(1.0), drifting).ratio == 0.5


@pytest.mark.parametrize(
    ("goal", "ratio", "verdict"),
    [
        (Goal(1.3), 1.3, Verdict.MET),
        (Goal(1.3), 1.31, Verdict.MISSED),
        (Goal(1.3, at_least=True), 1.3, Verdict.MET),
        (Goal(1.3, at_least=True), 1.29, Verdict.MISSED),
    ],
)
def test_a_goal_is_a_bound_from_above_or_from_below(goal, ratio, verdict):
    assert judging.against_goal("row", goal, rounds(*[ratio] * 7)).verdict is verdict


@pytest.mark.parametrize("judge", [judging.against_goal, judging.against_commit])
def test_six_rounds_give_no_verdict(judge):
    with pytest.raises(ValueError, match="at least 7 rounds"):
        judge("row", Goal(1.0), rounds(*[1.0] * 6))


STEADY, RESTLESS = (1.0,) * 7, (1.0, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2)
NOISY, ONE_WILD = (1.0, 0.6, 1.4, 0.6, 1.4, 0.6, 1.4), (1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (1.0, STEADY, Verdict.NO_WORSE),
        (1.09, STEADY, Verdict.NO_WORSE),
        (1.11, STEADY, Verdict.WORSE),
        (1.3, RESTLESS, Verdict.NO_WORSE),
        (1.5, RESTLESS, Verdict.WORSE),
        (1.05, NOISY, Verdict.NO_WORSE),
        (1.5, NOISY, Verdict.NOISY),
        (1.9, NOISY, Verdict.WORSE),
        (1.2, ONE_WILD, Verdict.WORSE),
    ],
)
def test_a_row_may_be_a_tenth_worse_than_another_commit_or_its_own_spread(ours, theirs, verdict):
    assert judging.against_commit("row", Goal(9.0), Rounds((ours,) * 7, theirs)).verdict is verdict


def test_a_rate_is_worse_when_it_falls():
    fell, rose = (
        judging.against_commit("row", Goal(0.1, at_least=True), rounds(*[rate] * 7)) for rate in (0.85, 2.0)
    )

    assert (fell.verdict, rose.verdict) == (Verdict.WORSE, Verdict.NO_WORSE)
    assert judging.own_spread(RESTLESS) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((), 0),
        ((Verdict.MET, Verdict.NO_WORSE), 0),
        ((Verdict.MET, Verdict.GAP), 1),
        ((Verdict.NO_WORSE, Verdict.NOISY), 2),
        ((Verdict.MET, Verdict.MISSED), 1),
        ((Verdict.WORSE, Verdict.NOISY), 1),
        ((Verdict.BROKEN,), 1),
    ],
)
def test_the_exit_code_tells_a_miss_a_row_without_a_measurement_and_noise_from_a_pass(verdicts, code):
    assert judging.exit_code([Outcome("row", verdict) for verdict in verdicts]) == code


def test_the_summary_names_every_row_and_why_there_is_a_gap():
    gap = Outcome("b", Verdict.GAP, reason="no peer")

    reported = judging.summary([Outcome("a", Verdict.MET), gap, Outcome("c", Verdict.MET)])

    assert reported == ("met 2: a, c", "gap 1: b", "gap in b: no peer")


# --- sampling ----------------------------------------------------------------------------------------


def test_sides_are_sampled_in_turn_and_the_warm_up_does_not_count():
    order: list[str] = []

    def probe(side: str) -> float:
        order.append(side)
        return float(len(order))

    taken = interleaved(lambda: probe("A"), lambda: probe("B"), 3)

    assert "".join(order) == "ABABABAB"
    assert taken == Rounds((3.0, 5.0, 7.0), (4.0, 6.0, 8.0))
    assert interleaved(lambda: probe("A"), lambda: probe("B"), 1, warm_up=False) == Rounds((9.0,), (10.0,))


def test_p99_is_the_largest_of_few_and_the_hundredth_of_many():
    assert p99([3.0, 1.0, 2.0]) == 3.0
    assert p99([float(number) for number in range(1000)]) == 990.0


def test_a_load_counts_the_calls_of_all_clients():
    taken = loads.load(lambda _client: lambda: None, clients=3, calls=50)

    assert taken.per_second > 0
    assert taken.p99_s < 1


def test_a_load_with_a_client_that_fails_is_broken():
    def connected(client: int):
        if client == 1:
            os._exit(3)  # as a client that is killed: without a word
        return lambda: None

    with pytest.raises(processes.Broken):
        loads.load(connected, clients=2, calls=5, patience_s=1)


# --- rows --------------------------------------------------------------------------------------------


def test_a_row_whose_peer_is_missing_is_a_gap_and_nothing_is_built_for_it_and_a_wrong_answer_is_broken():
    missing, wrong = side(processes.Missing("redis is not here")), side(processes.Broken("recall is 0.9"))

    assert measured(a_row(wrong, missing), HERE) == Outcome("row", Verdict.GAP, reason="redis is not here")
    assert measured(a_row(wrong), HERE) == Outcome("row", Verdict.BROKEN, reason="recall is 0.9")


@pytest.mark.parametrize("error", [AssertionError("no answer"), ValueError("what"), KeyError("field")])
def test_a_row_that_fails_in_any_other_way_is_broken_too_and_the_next_one_is_measured(error):
    outcome = measured(a_row(side(error)), HERE)

    assert (outcome.verdict, outcome.reason) == (Verdict.BROKEN, repr(error))


def test_against_a_commit_our_side_is_measured_of_both_and_no_peer_is_needed():
    @contextlib.contextmanager
    def ours(checkout):
        yield lambda: 3.0 if checkout is HERE else 2.0

    outcome = measured(a_row(ours, side(processes.Missing("no peer"))), HERE, OTHER)

    assert (outcome.verdict, outcome.ratio) == (Verdict.WORSE, 1.5)


def test_a_side_of_a_commit_that_is_not_in_the_clone_is_a_gap_and_a_promise_is_what_it_says():
    outcome = measured(a_row(theirs=earlier(SOUND, "0" * 40)), HERE)

    assert outcome.verdict is Verdict.GAP
    assert "is not in this clone" in outcome.reason
    assert measured(a_row(side(3.0), fixed(2.0)), HERE).ratio == 1.5


def test_a_program_and_a_package_that_are_not_here_are_missing():
    with pytest.raises(processes.Missing, match="no-such-server is not installed"):
        processes.need_program("no-such-server", "apt-get install it")
    with pytest.raises(processes.Missing, match="no-such-wheel is not installed"):
        processes.need_package("no_such_module", "no-such-wheel")
    with pytest.raises(processes.Missing, match="cannot be used here"), processes.peer("no-such-case"):
        pass


def test_what_no_driver_knows_is_another_commits_gap_without_a_wait_and_our_own_fault(tmp_path):
    old = commits.Checkout("old", HERE.python, tmp_path)

    with pytest.raises(processes.Broken), HERE.inside("no-such-case"):
        pass
    with pytest.raises(processes.Missing), OTHER.inside("no-such-case"):
        pass
    with pytest.raises(processes.Missing, match="old has no driver"), old.inside("search", 100, 16):
        pass
    (tmp_path / "stub_daemon.py").write_text("import sys; sys.exit(64)")
    with (
        pytest.raises(processes.Missing, match="old has no driver"),
        daemons.prepared(old) as daemon,
        daemons.serving(daemon, stub=True),
    ):
        pass


def test_every_row_has_a_name_of_its_own_enough_rounds_and_a_goal_with_a_source():
    assert len({row.name for row in table.ROWS}) == len(table.ROWS)
    assert all(row.rounds >= judging.LEAST_ROUNDS for row in table.ROWS)
    assert all(row.goal.source and row.what and row.unit in {"s", "MiB", "/s", "share"} for row in table.ROWS)


def test_rows_are_chosen_by_name_all_or_those_that_are_quick():
    assert [row.name for row in table.chosen(("scan", "ping-c"))] == ["ping-c", "scan"]
    assert table.chosen(("all",)) == table.ROWS
    assert table.chosen(()) == tuple(row for row in table.ROWS if not row.slow)
    with pytest.raises(table.UnknownRow, match="pong"):
        table.chosen(("pong",))


# --- frames ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def renamed(tmp_path_factory) -> commits.Checkout:
    """A checkout whose client, and so its daemon, has other names on the wire than this one's."""
    top = tmp_path_factory.mktemp("renamed")
    shutil.copytree(commits.HERE.parents[1] / "client", top / "client")
    contract = top / "client/forged_client/contract/retrieval.py"
    text = contract.read_text()
    assert text.count('tag="retrieve"') == text.count('tag="retrieved"') == 1
    text = text.replace('tag="retrieve"', 'tag="inject", rename={"workspace": "place"}')
    contract.write_text(text.replace('tag="retrieved"', 'tag="injected", rename={"memories": "found"}'))
    python = top / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{top}/client" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return commits.Checkout("renamed", python, HERE.drivers)


def test_another_commits_daemon_is_asked_in_the_words_of_its_own_client(renamed):
    with daemons.running_over(renamed, 20) as (daemon, caller):
        asked = daemon.frames.retrieve(daemon.workspace, said=[("user", corpus.opening(7))])
        answer = daemon.frames.answer(caller.call(asked))

        with contextlib.closing(daemons.Caller(daemon.socket, HERE.frames)) as ours:
            unknown = HERE.frames.retrieve(daemon.workspace, said=[("user", corpus.opening(7))])
            with pytest.raises(processes.Broken, match="retrieve"):
                ours.call(unknown)

    assert corpus.name(7) in [hit.id for hit in answer.hits]


def test_two_clients_in_one_process_keep_their_words_and_their_types(renamed):
    ours, theirs = HERE.frames, renamed.frames

    words = [
        msgspec.msgpack.decode(each.encode(each.retrieve("/w"))[each.HEADER_BYTES :])
        for each in (ours, theirs, ours)
    ]
    their_reply = theirs.decode(msgspec.msgpack.encode({"type": "injected", "found": [], "cached": True}))

    assert [each["type"] for each in words] == ["retrieve", "inject", "retrieve"]
    assert [sorted({"workspace", "place"} & each.keys()) for each in words] == [
        ["workspace"],
        ["place"],
        ["workspace"],
    ]
    assert theirs.answer(their_reply).is_cached
    assert sys.modules["forged_client.protocol"].Retrieve is type(ours.retrieve("/w"))
    with pytest.raises(AssertionError):
        ours.answer(their_reply)


def test_what_another_commit_has_no_frame_for_is_a_gap_and_our_own_fault(tmp_path):
    (tmp_path / "frames.py").write_text(
        "from forged_client import framing, protocol\n"
        "encode, decode = framing.encode, framing.decode_reply\n"
        "def trust(workspace): return protocol.NoSuchRequest(workspace=workspace)\n"
        "def ping(): return protocol.Ping(no_such_field=1)\n"
    )
    old = commits.Checkout("old", HERE.python, tmp_path)

    for ask in (lambda: old.frames.trust("/w"), old.frames.ping, lambda: old.frames.hook):
        with pytest.raises(processes.Missing, match="old has no frame for it"):
            ask()
    with pytest.raises(AttributeError):
        _ = HERE.frames.no_such_request
    with pytest.raises(TypeError):
        HERE.frames.retrieve("/w", no_such_field=1)


def test_a_mode_that_is_asked_for_is_in_the_frame_and_a_padded_ping_is_as_large_as_it_says():
    frames = HERE.frames

    assert frames.encode(frames.retrieve("/w", mode="plain")) != frames.encode(frames.retrieve("/w"))
    assert [len(frames.padded_ping(size)) for size in (2_000, 800_000)] == [2_004, 800_004]


@pytest.mark.parametrize("name", ["reply-redis", "turn-ping", "long-turn-ping"])
def test_the_replies_that_rows_of_the_turn_cache_want_are_those_that_the_daemon_gives(name):
    (row,) = table.chosen((name,))

    with row.ours(HERE):
        pass


# --- what is measured --------------------------------------------------------------------------------


def test_the_files_of_the_corpus_are_memories_without_a_problem(tmp_path):
    corpus.write(tmp_path, 5)

    found = scan(Root(str(tmp_path), Scope.REPO))

    assert not found.problems
    assert {memory.id: memory.content for memory in found.memories} == {
        corpus.name(number): corpus.memory(number).content for number in range(5)
    }
    assert [edge.id for edge in found.memories[2].related] == [corpus.name(1), corpus.name(0)]


def test_the_driver_measures_a_search_whose_answer_it_has_checked():
    with HERE.inside("search", 500, 16) as running:
        assert 0 < running.figure() < 5
        assert 0 < running.figure() < 5


def test_memory_is_that_of_a_process_and_all_below_it():
    with processes.process([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in processes.family(os.getpid())
        assert processes.rss_mib(os.getpid(), child.pid) > processes.rss_mib(os.getpid()) > 1
        assert 0 < processes.pss_mib(os.getpid()) <= processes.rss_mib(os.getpid())
        assert processes.peak_mib(os.getpid()) >= processes.rss_mib(os.getpid())


def test_the_command_ends_with_1_for_a_gap_that_it_names_and_refuses_a_row_that_it_does_not_know(tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)

    gap, unknown = (
        subprocess.run(
            [sys.executable, RUN, row],
            env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        for row in ("ping-c", "pong")
    )

    assert gap.returncode == 1, gap.stderr
    assert "gap in ping-c: cc is not installed (apt-get install gcc)" in gap.stdout
    assert (unknown.returncode, unknown.stderr) == (64, "no row pong; --list shows them\n")
