import pytest

from forged.cli.status import capture_lines, root_lines
from forged.cli.terminal import Painter
from forged_client.protocol import EndpointReport, GateReport, Status, WaitsElsewhere
from tests.cli import reports


def test_status_shows_state_roots_and_what_was_counted(daemon, forgectl):
    daemon.answers[Status] = reports.status()

    lines = forgectl("status").out.splitlines()

    del lines[9]  # how long ago something was is a matter of the clock
    assert lines == [
        "ok",
        "  forged 0.1.0, pid 7, up 2 h, 1 connection, /run/forged.sock",
        "  strategy auto, embedding model auto, retrieval model none",
        "",
        "ready  repo  /w",
        "  2,000 memories, indexes lexical+dense, generation e:4, built 1 min ago in 12 ms",
        "  watched by inotify, 1 watch",
        "",
        "idle  capture  builtin:rules",
        "",
        "counted since start: retrieves 3",
    ]


def test_a_number_or_a_warning_is_shown_once_and_under_json_as_it_came(daemon, forgectl):
    counters, warnings = (
        {"retrieves": 3, "secrets_redacted": 6},
        ("the file is damaged", "here: the file is damaged"),
    )
    capture = reports.captured(redacted=6)
    daemon.answers[Status] = reports.status(counters=counters, warnings=warnings, capture=capture)

    shown, whole = forgectl("status").out, forgectl("status", "--json").json

    assert (shown.count("redacted 6"), shown.count("_redacted"), shown.count("damaged")) == (1, 0, 1)
    assert (whole["counters"], tuple(whole["warnings"])) == (counters, warnings)


NOON = 1_777_636_800.0  # 2026-05-01T12:00:00Z


def capture_block(paint=None, **fields):
    return list(capture_lines(reports.captured(**fields), paint or Painter(), NOON))


def test_capture_says_what_waits_what_is_done_and_what_went_wrong():
    waiting = {"turns": 3, "spooled": 1, "spool_bytes": 14336, "in_hand": "ev_9", "in_hand_age_s": 12.5}
    counted = {"coalesced": 5, "rejected": 1, "replaced": 2, "duplicates": 3, "invalid": 4, "redacted": 6}
    gone = {"worker_pid": 0, "worker_restarts": 2, "last_success": "", "last_error": "endpoint unreachable"}
    tokens = {"tokens_today": 1200, "token_limit": 100_000}

    block = capture_block(
        **waiting, **counted, **gone, **tokens,
        state="waiting", classifier="gpt", reason="calls fail", dead=2, paused=("*", "/b"),
    )  # fmt: skip

    assert block == [
        "WAITING  capture  gpt: calls fail",
        "  3 memories from 12 events, no success yet, 1,200 of 100,000 tokens today, no worker, 2 restarts",
        "  in hand: ev_9 for 12 s",
        "  waiting: 3 turns in memory, 1 event on disk (14,336 bytes)",
        "  last error: endpoint unreachable",
        "  dead: 2 events given up; `forgectl dead list` says why",
        "  paused: everywhere, /b",
        "  counted since start: coalesced 5, rejected 1, replaced 2, duplicates 3, invalid 4, redacted 6",
    ]


def test_a_doubt_is_said_once_and_is_no_pause():
    why = "another daemon has it open"
    told = capture_block(state="failing", reason=why, last_error=why, doubt=why)
    assert (told[0].startswith("FAILING"), sum(why in line for line in told)) == (True, 1)
    assert "pause" not in "".join(told).lower()


def test_what_waits_for_its_folder_is_named_with_why_and_the_commands_that_help():
    waits = (
        WaitsElsewhere(root="/w/app", reason="another folder is at this path now", events=2, proposals=1),
        WaitsElsewhere(root="/w/\x1bb", reason="there is no folder at this path now", steps=1),
    )
    first, second = capture_block(elsewhere=waits)[2:]
    assert first.startswith(
        "  waits: 2 events, 1 proposal for /w/app: another folder is at this path now. Start "
    )
    assert "1 interrupted removal or move for /w/" in second
    assert "\x1b" not in second
    assert all(
        "`forgectl dead list`" in line and "`forgectl dead drop ID`" in line for line in (first, second)
    )


def test_what_capture_says_is_escaped():
    evil = "\x1b[2J\n\u202e"
    told = ("state", "reason", "classifier", "in_hand", "last_error", "last_success")

    block = capture_block(paused=(evil,), **dict.fromkeys(told, evil))

    text = "\n".join(block)
    assert not set(text) & {"\x1b", "\u202e"}
    assert len(text.splitlines()) == len(block)


def test_status_names_the_first_ten_problem_files_and_counts_the_rest(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=(reports.root(problems=reports.problems(12)),))

    lines = forgectl("status").out.splitlines()

    assert "  12 problems:" in lines
    assert "    /w/.forge/memory/bad9.md: reason 9" in lines
    assert not any("bad10" in line for line in lines)
    assert "    and 2 more" in lines


@pytest.mark.parametrize(
    ("indexes", "counts", "told"),
    [
        ((), (0, 0), "nothing answers yet"),
        ((), (40, 400), "nothing answers yet, vectors 40 of 400"),
        (("lexical",), (120, 1000), "words answer, vectors 120 of 1,000"),
        (("lexical", "dense"), (1, 3), "words and vectors answer, new vectors 1 of 3"),
        (("lexical", "dense"), (3, 3), "words and vectors answer"),
        (("dense",), (1, 3), "vectors answer, new vectors 1 of 3"),
    ],
)
def test_a_build_that_is_not_done_says_which_indexes_answer_already(daemon, forgectl, indexes, counts, told):
    embedded, to_embed = counts
    building = reports.root(state="building", indexes=indexes, embedded=embedded, to_embed=to_embed)
    daemon.answers[Status] = reports.status(roots=(building,))

    assert f"  {told}" in forgectl("status").out.splitlines()


@pytest.mark.parametrize(
    ("rate", "left_s", "told"),
    [
        (0.0, None, ""),
        (4.41, None, ", 4.4 texts/s"),
        (0.042, 86_400.0, ", 0.042 texts/s, 1 d left"),
        (23.7, 200.0, ", 24 texts/s, 3 min left"),
    ],
)
def test_while_texts_are_embedded_it_says_how_fast_and_how_long_it_takes(
    daemon, forgectl, rate, left_s, told
):
    counts = {"embedded": 120, "to_embed": 1000, "rate": rate, "left_s": left_s}
    building = reports.root(state="building", indexes=("lexical",), **counts)
    daemon.answers[Status] = reports.status(roots=(building,))

    assert f"  words answer, vectors 120 of 1,000{told}" in forgectl("status").out.splitlines()


def test_status_shows_a_build_that_failed_and_that_words_answer_all_the_same(daemon, forgectl):
    went_wrong = {"last_error": "endpoint unreachable", "quarantined": 1}
    failed = reports.root(state="failed", indexes=("lexical",), to_embed=400, **went_wrong)
    daemon.answers[Status] = reports.status(roots=(failed,))

    out = forgectl("status").out

    assert "words answer, vectors 0 of 400" in out
    assert "last error: endpoint unreachable" in out
    assert "quarantined: 1 text that" in out


def test_each_endpoint_has_a_line_with_its_use_its_last_success_and_what_is_wrong(daemon, forgectl):
    failing = EndpointReport(
        host="llm.example:8443",
        model="m",
        uses=("HyDE", "capture"),
        state="failing",
        last_success_s=7300.0,
        failing_s=45.0,
        reason="auth",
        message="it answered 401",
        next_s=0.0,
    )
    ok = EndpointReport(host="here", model="e", uses=("embeddings",), state="ok", last_success_s=3.0)
    untried = EndpointReport(host="here", model="u", uses=("capture",))
    daemon.answers[Status] = reports.status(endpoints=(failing, ok, untried))

    out = forgectl("status").out

    assert (
        "endpoint failing: m at llm.example:8443 (HyDE, capture), last success 2 h ago, failing for 45 s, "
        "next attempt beside the next turn: it answered 401" in out
    )
    assert "endpoint ok: e at here (embeddings), last success 3 s ago\n" in out
    assert "endpoint untried: u at here (capture), not asked yet\n" in out


LEARNING = "gate: words decide what is injected until everyday messages are emb"
FAILING = "everyday messages could not be embedded: auth"


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("learning", LEARNING),
        ("failing", FAILING),
        ("off", "gate: off, all that is found is injected: auth"),
        ("words", ""),
        ("vectors", ""),
        ("", ""),
    ],
)
def test_a_gate_is_mentioned_while_it_does_not_know_the_model(daemon, forgectl, state, told):
    daemon.answers[Status] = reports.status(gate=GateReport(state=state, reason="auth"))

    out = forgectl("status").out

    assert told in out
    assert ("gate" in out) is bool(told)


def test_what_waits_for_a_person_is_counted_with_the_command_that_shows_it():
    assert "  to review: 2 proposals; `forgectl review` shows them" in capture_block(to_review=2)
    assert not any("to review" in line for line in capture_block())


def test_memories_on_files_that_changed_are_counted_with_the_command_that_shows_them():
    told = "  stale: 2 memories stand on files that changed; `forgectl list --stale` shows them"
    assert told in list(root_lines(reports.root(stale=2), Painter()))
    assert not any("stale" in line for line in root_lines(reports.root(), Painter()))
