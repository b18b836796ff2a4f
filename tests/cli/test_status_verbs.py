import pytest

from forged.cli.status import capture_lines, root_lines
from forged.cli.status_summary import status_lines
from forged.cli.terminal import Painter
from forged.integrations import AgentState
from forged_client.protocol import EndpointReport, GateReport, Status, WaitsElsewhere
from tests.cli import reports


def test_status_says_if_memory_is_on_how_much_there_is_and_what_waits(daemon, forgectl):
    yours = reports.root(root="/home/u", scope="user", memories=12)
    here, other = reports.root(trust="own"), reports.root(root="/other", memories=7)
    daemon.answers[Status] = reports.status(roots=(here, other, yours), here=("/w", "/home/u"))

    lines = forgectl("status").out.splitlines()

    assert lines[4].startswith("  capture: on, judged by the built-in classifier; 3 memories saved since")
    del lines[4]  # how long ago something was is a matter of the clock
    assert lines == [
        "on in /w; no problems",
        "  memories: 2,000 here, 12 of yours for all repositories",
        "  trust: own: no memories were here before forged",
        "  search: keywords + embeddings",
        "  agents: none is connected; `forgectl setup` connects them",
        "  waiting for you: nothing",
    ]


def test_all_adds_the_process_each_repository_and_what_was_counted(daemon, forgectl):
    daemon.answers[Status] = reports.status()

    short, lines = forgectl("status").out, forgectl("status", "--all").out.splitlines()

    assert lines[: len(short.splitlines())] == short.splitlines()
    details = lines[len(short.splitlines()) + 1 :]
    del details[8]  # how long ago something was is a matter of the clock
    assert details == [
        "forged 0.1.0, pid 7, up 2 h, 1 connection, /run/forged.sock",
        "strategy auto, embedding model auto, retrieval model none",
        "",
        "ready  repo  /w",
        "  2,000 memories, search: keywords + embeddings, indexed 1 min ago in 12 ms",
        "  file changes: inotify, 1 watch",
        "",
        "idle  capture  builtin:rules",
        "",
        "counted since start: retrieves 3",
    ]


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"state": "disabled", "reason": "memory.enabled is false"}, "OFF: memory.enabled is false"),
        ({"here": ()}, "OFF here: this repository's .forge/config.toml switches memory off here"),
        (
            {"capture": reports.captured(paused=("*",))},
            "PAUSED everywhere: nothing is saved or injected; `forgectl resume --all` ends it",
        ),
        (
            {"capture": reports.captured(paused=("/w",))},
            "PAUSED in /w: nothing is saved or injected; `forgectl resume` ends it",
        ),
        ({"capture": reports.captured(paused=("/other",))}, "on in /w; no problems"),
        ({"warnings": ("the file is damaged",)}, "on in /w; 1 problem (see below)"),
    ],
)
def test_the_first_line_says_if_memory_is_on_here(daemon, forgectl, fields, first):
    daemon.answers[Status] = reports.status(**fields)

    assert forgectl("status").out.splitlines()[0] == first


def test_a_pause_is_said_once_and_is_no_problem(daemon, forgectl):
    paused = reports.captured(paused=("/w",), state="paused")
    daemon.answers[Status] = reports.status(
        capture=paused, warnings=("here: paused; `forgectl resume` ends it",)
    )

    out = forgectl("status").out

    assert (out.count("forgectl resume"), out.count("problem")) == (1, 0)


def test_decisions_of_the_person_are_named_with_their_commands(daemon, forgectl):
    notice = "2 memory files in /w are not used yet: `forgectl trust /w` shows them and asks"
    here, other = reports.root(notice=notice, withheld=2), reports.root(root="/other", withheld=3)
    capture = reports.captured(to_review=2)
    daemon.answers[Status] = reports.status(roots=(here, other), capture=capture)

    out = forgectl("status").out

    assert "  waiting for you: 2 proposals; `forgectl review` shows them\n" in out
    assert f"  waiting for you: {notice}\n" in out
    assert (
        "  waiting for you: 3 memory files in 1 other repository not used yet; `forgectl trust --list`" in out
    )


def test_problems_of_other_repositories_are_counted_and_all_shows_them(daemon, forgectl):
    other = reports.root(root="/other", problems=reports.problems(1), last_error="disk full")
    daemon.answers[Status] = reports.status(roots=(reports.root(), other))

    short, whole = forgectl("status").out, forgectl("status", "--all").out

    assert "  1 other repository has problems; `forgectl status --all` shows them\n" in short
    assert "disk full" not in short
    assert "disk full" in whole


def test_agents_are_named_with_what_they_lack(daemon, forgectl):
    connected = AgentState(agent="claude", title="Claude Code", program="/bin/claude", connection="connected")
    damaged = AgentState(
        agent="qwen",
        title="Qwen Code",
        connection="damaged",
        detail="its file is gone",
        remedy="`forgectl setup`",
    )
    other = AgentState(agent="gemini", title="Gemini CLI", program="/bin/gemini")
    untrusted = AgentState(agent="codex", title="Codex", connection="connected", trust="missing")

    lines = list(status_lines(reports.status(), agents=(connected, damaged, other, untrusted)))

    assert "  agents: Claude Code, Codex; not connected: Gemini CLI (`forgectl setup` connects them)" in lines
    assert "  Qwen Code: its file is gone; `forgectl setup`" in lines
    assert any(
        line.startswith("  Codex: connected, but it runs no hooks before you trust them") for line in lines
    )


def test_a_healthy_status_has_at_most_twelve_lines(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=tuple(reports.root(root=f"/r{i}") for i in range(30)))

    assert len(forgectl("status").out.splitlines()) <= 12


def test_a_number_or_a_warning_is_shown_once_and_under_json_as_it_came(daemon, forgectl):
    counters, warnings = (
        {"retrieves": 3, "secrets_redacted": 6},
        ("the file is damaged", "here: the file is damaged"),
    )
    capture = reports.captured(redacted=6)
    daemon.answers[Status] = reports.status(counters=counters, warnings=warnings, capture=capture)

    shown, whole = forgectl("status", "--all").out, forgectl("status", "--json").json

    assert "damaged" in forgectl("status").out
    assert (shown.count("redacted 6"), shown.count("_redacted"), shown.count("damaged")) == (1, 0, 2)
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
        "  working on: ev_9 for 12 s",
        "  waiting: 3 turns in memory, 1 event on disk (14,336 bytes)",
        "  last error: endpoint unreachable",
        "  dead: 2 capture events given up; `forgectl dead list` shows why",
        "  paused: everywhere, /b",
        "  counted since start: coalesced 5, rejected 1, replaced 2, duplicates 3, invalid 4, redacted 6",
    ]


def test_a_doubt_is_said_once_and_is_no_pause():
    why = "another daemon has it open"
    reported = capture_block(state="failing", reason=why, last_error=why, doubt=why)
    assert (reported[0].startswith("FAILING"), sum(why in line for line in reported)) == (True, 1)
    assert "pause" not in "".join(reported).lower()


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
    reported = ("state", "reason", "classifier", "in_hand", "last_error", "last_success")

    block = capture_block(paused=(evil,), **dict.fromkeys(reported, evil))

    text = "\n".join(block)
    assert not set(text) & {"\x1b", "\u202e"}
    assert len(text.splitlines()) == len(block)


def test_status_names_the_first_ten_problem_files_and_counts_the_rest(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=(reports.root(problems=reports.problems(12)),))

    short, lines = forgectl("status").out, forgectl("status", "--all").out.splitlines()

    assert "  /w/.forge/memory/bad2.md: reason 2\n" in short
    assert "/w: 9 more files with problems; `forgectl list --problems` lists all\n" in short
    assert "  12 problems:" in lines
    assert "    /w/.forge/memory/bad9.md: reason 9" in lines
    assert not any("bad10" in line for line in lines)
    assert "    and 2 more; `forgectl list --problems` lists all" in lines


@pytest.mark.parametrize(
    ("indexes", "counts", "state"),
    [
        ((), (0, 0), "search: not ready yet, files are being read"),
        ((), (40, 400), "search: not ready yet; embedding 40 of 400"),
        (("lexical",), (120, 1000), "keyword search ready; embedding 120 of 1,000"),
        (("lexical", "dense"), (1, 3), "keyword search ready; embedding 1 of 3"),
        (("lexical", "dense"), (3, 3), "search: keywords + embeddings"),
    ],
)
def test_a_build_that_is_not_done_says_which_indexes_answer_already(daemon, forgectl, indexes, counts, state):
    embedded, to_embed = counts
    building = reports.root(state="building", indexes=indexes, embedded=embedded, to_embed=to_embed)
    daemon.answers[Status] = reports.status(roots=(building,))

    assert f"  {state}" in forgectl("status").out.splitlines()


@pytest.mark.parametrize(
    ("rate", "left_s", "speed"),
    [
        (0.0, None, ""),
        (4.41, None, ", 4.4 texts/s"),
        (0.042, 86_400.0, ", 0.042 texts/s, 1 d left"),
        (23.7, 200.0, ", 24 texts/s, 3 min left"),
    ],
)
def test_while_texts_are_embedded_it_says_how_fast_and_how_long_it_takes(
    daemon, forgectl, rate, left_s, speed
):
    counts = {"embedded": 120, "to_embed": 1000, "rate": rate, "left_s": left_s}
    building = reports.root(state="building", indexes=("lexical",), **counts)
    daemon.answers[Status] = reports.status(roots=(building,))

    assert f"  keyword search ready; embedding 120 of 1,000{speed}" in forgectl("status").out.splitlines()


def test_status_shows_a_build_that_failed_and_that_keywords_work_all_the_same(daemon, forgectl):
    went_wrong = {"last_error": "endpoint unreachable", "quarantined": 1}
    failed = reports.root(state="failed", indexes=("lexical",), to_embed=400, **went_wrong)
    daemon.answers[Status] = reports.status(roots=(failed,))

    out = forgectl("status").out

    assert "  keyword search ready; embedding 0 of 400\n" in out
    assert "/w: endpoint unreachable\n" in out
    assert "/w: 1 text was refused by the embedding model and can only be found by keywords\n" in out


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

    short, out = forgectl("status").out, forgectl("status", "--all").out

    assert "  m at llm.example:8443: failing, last success 2 h ago" in short
    assert "untried" not in short
    assert (
        "endpoint failing: m at llm.example:8443 (HyDE, capture), last success 2 h ago, failing for 45 s, "
        "next attempt with the next turn: it answered 401" in out
    )
    assert "endpoint ok: e at here (embeddings), last success 3 s ago\n" in out
    assert "endpoint untried: u at here (capture), not asked yet\n" in out


@pytest.mark.parametrize(
    ("state", "short", "whole"),
    [
        ("learning", "warming up: keyword matching only for a few seconds", "until the model is calibrated"),
        ("failing", "keyword matching only: the embedding model could not be calibrated: auth", ": auth"),
        ("off", "", "gate: everything that is found is injected: auth"),
        ("words", "", "gate: keyword scores decide what is injected"),
        ("vectors", "", "gate: embedding and keyword scores decide what is injected"),
    ],
)
def test_a_gate_is_mentioned_while_it_does_not_know_the_model(daemon, forgectl, state, short, whole):
    daemon.answers[Status] = reports.status(gate=GateReport(state=state, reason="auth"))

    out = forgectl("status").out

    assert short in out
    assert ("keyword matching only" in out) is bool(short)
    assert whole in forgectl("status", "--all").out


def test_what_waits_for_a_person_is_counted_with_the_command_that_shows_it():
    assert "  to review: 2 proposals; `forgectl review` shows them" in capture_block(to_review=2)
    assert not any("to review" in line for line in capture_block())


def test_memories_on_files_that_changed_are_counted_with_the_command_that_shows_them():
    line = "  stale: 2 memories depend on files that changed; `forgectl list --stale` lists them"
    assert line in list(root_lines(reports.root(stale=2), Painter()))
    assert not any("stale" in line for line in root_lines(reports.root(), Painter()))
