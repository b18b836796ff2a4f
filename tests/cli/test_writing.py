import io

import pytest

from forged_client.protocol import Chain, Edge, Failed, Forget, Forgotten, History, Remember, Remembered
from tests.support import reports

WRITTEN = Remembered(memory_id="mem_n", version=2, path="/w/.forge/memory/mem_n.md", generation="e:9")
GONE = Forgotten(
    ids=("mem_1", "mem_2"), trash="/state/trash", unreachable=("git history",), generation="e:10"
)


def test_remember_says_id_version_path_and_generation(daemon, forgectl):
    daemon.answers[Remember] = WRITTEN

    shown = forgectl(
        "remember", "Wrap errors.", "--supersedes", "mem_o", "--related", "mem_b", "--related", "c:refines"
    )

    assert shown.out.splitlines() == [
        "remembered mem_n, version 2",
        "path /w/.forge/memory/mem_n.md",
        "generation e:9",
    ]
    asked = daemon.asked(Remember)
    assert (asked.content, asked.scope, asked.supersedes) == ("Wrap errors.", "repo", "mem_o")
    assert asked.related == (Edge("mem_b", "relates-to"), Edge("c", "refines"))


def test_remember_reads_a_dash_from_stdin(daemon, forgectl, monkeypatch):
    daemon.answers[Remember] = WRITTEN
    monkeypatch.setattr("sys.stdin", io.StringIO("line\nline\n"))

    assert forgectl("remember", "-", "--json").json["memory_id"] == "mem_n"
    assert daemon.asked(Remember).content == "line\nline\n"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("invalid", 2),
        ("not_found", 1),
        ("conflict", 1),
        ("busy", 75),
        ("not_permitted", 77),
        ("storage_error", 69),
    ],
)
def test_a_refusal_has_its_own_exit_code(daemon, forgectl, code, exit_code):
    daemon.answers[Remember] = Failed(status="error", code=code, message="because")

    shown = forgectl("remember", "x")

    assert (shown.code, shown.out, shown.err) == (exit_code, "", "forgectl: because\n")


def test_a_write_that_was_not_done_is_a_failure_even_if_memory_is_disabled(daemon, forgectl):
    daemon.answers[Remember] = Remembered(status="disabled", reason="memory.enabled is false")

    assert forgectl("remember", "x").code == 69


def test_forget_with_yes_prints_the_receipt(daemon, forgectl):
    daemon.answers[Forget] = GONE

    shown = forgectl("forget", "mem_2", "--yes")

    assert shown.out.splitlines() == [
        "forgotten: mem_1, mem_2",
        "in the trash for 7 days: /state/trash",
        "not reached: git history",
        "generation e:10",
    ]
    assert (daemon.asked(Forget).version_only, daemon.asked(Forget).erase_now) == (False, False)


def test_forget_where_nobody_can_answer_needs_yes(daemon, forgectl):
    shown = forgectl("forget", "mem_2")

    assert shown.code == 2
    assert "--yes" in shown.err
    assert daemon.requests == []


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_forget_asks_a_person_and_shows_what_would_go(daemon, forgectl, monkeypatch, answer, done):
    daemon.answers[History] = Chain(memories=(reports.record("mem_1"), reports.record("mem_2")))
    daemon.answers[Forget] = GONE
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    shown = forgectl("forget", "mem_2", "--now", interactive=True)

    assert shown.code == (0 if done else 1)
    assert "2 versions" in shown.err
    assert "erase it for ever" in shown.err
    assert any(isinstance(request, Forget) for request in daemon.requests) is done
