"""`forgectl learn` against a scripted daemon: what is sent, what is said, and when it stops."""

from __future__ import annotations

import pytest

from forged_client.protocol import Learn, Learned, ListPast, PastSessions
from tests.support.history import LEAK, rule, written

BEGAN = 1_780_000_000.0
KNOWN = PastSessions(call_characters=64_000, call_tokens=1_500, most_to_review=1_000)
ARGUMENTS = ("learn", "--since", "2020-01-01")


@pytest.fixture
def past(home, daemon, forgectl, monkeypatch):
    """Run `learn` over five sessions, one of each agent, in a workspace that is there."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    workspace = home / "work"
    workspace.mkdir()
    written(home, [workspace], 5, began=BEGAN)
    daemon.answers[ListPast] = KNOWN
    daemon.answers[Learn] = Learned(outcome="classified", to_review=3)

    def run(*arguments: str, **surroundings: object):
        return forgectl(*ARGUMENTS, *arguments, workspace=str(workspace), **surroundings)

    return run


def sent(daemon) -> list[Learn]:
    return [each for each in daemon.requests if isinstance(each, Learn)]


def test_sessions_are_sent_oldest_first_with_times_and_marks_and_nothing_of_a_tool(daemon, past, home):
    done = past("--yes")
    agents = ["claude", "codex", "gemini", "qwen", "opencode"]

    assert (done.code, done.out.splitlines()[0]) == (0, "learned from 5 sessions: 3 proposals to review")
    assert [each.agent for each in sent(daemon)] == agents
    assert [each.session_id for each in sent(daemon)] == [f"{agent}-{at}" for at, agent in enumerate(agents)]
    assert [each.messages[0].content for each in sent(daemon)] == [rule(number) for number in range(5)]
    assert all(each.workspace == str(home / "work") and len(each.mark) == 24 for each in sent(daemon))
    assert [each.said_at[0] for each in sent(daemon)] == [BEGAN + 3600 * number for number in range(5)]
    assert LEAK not in str(sent(daemon))


def test_a_long_session_goes_in_parts_of_which_the_last_has_the_mark(daemon, past, home, monkeypatch):
    monkeypatch.setattr("forged.cli.past_sessions._MOST_CHARACTERS", 60)
    monkeypatch.setattr("forged.cli.past_sessions._MOST_MESSAGE", 40)
    past("--yes", "--from", "codex")
    parts = sent(daemon)
    texts = [message.content for part in parts for message in part.messages]

    assert len(parts) == 2
    assert "".join(texts) == f"{rule(1)}I look into it.Done, as you said."
    assert [bool(part.mark) for part in parts] == [False, True]
    assert all(len(part.said_at) == len(part.messages) for part in parts)


def test_it_waits_until_a_session_is_judged_and_sends_it_once(daemon, past):
    answers = iter(["waiting", "waiting", "classified"] + ["classified"] * 4)
    daemon.answers[Learn] = lambda _: Learned(outcome=next(answers))
    past("--yes")

    assert [bool(each.messages) for each in sent(daemon)] == [True, False, False, True, True, True, True]
    assert {each.session_id for each in sent(daemon)[:3]} == {"claude-0"}


def test_what_keeps_the_daemon_from_judging_for_long_ends_it(daemon, past, monkeypatch):
    monkeypatch.setattr("forged.cli.learning._LONG_S", 0.0)
    daemon.answers[Learn] = Learned(outcome="waiting", waits_for="calls fail")
    done = past("--yes")

    assert done.code == 75
    assert "stopped: calls fail; `forgectl learn` goes on from here" in done.err


def test_where_too_much_waits_it_ends_and_says_what_to_do(daemon, past):
    full = Learned(outcome="rejected", reason="1,000 proposals wait already", to_review=1_000)
    daemon.answers[Learn] = full
    done = past("--yes")

    assert done.code == 75
    assert "1,000 proposals wait already; `forgectl learn` goes on from here" in done.err
    assert len(sent(daemon)) == 1


@pytest.mark.parametrize(
    "refused",
    [Learned(outcome="rejected", reason="paused here"), Learned(status="disabled", reason="paused here")],
)
def test_what_is_not_taken_where_it_was_said_keeps_nothing_else_from_it(daemon, past, refused):
    taken = Learned(outcome="classified", to_review=1)
    daemon.answers[Learn] = lambda asked: refused if asked.agent == "codex" else taken
    done = past("--yes")

    assert done.code == 0
    assert done.out.startswith("learned from 4 sessions: 1 proposal to review")
    assert "1 session not learned from: " in done.err
    assert "paused here" in done.err


def test_a_session_that_cannot_be_read_is_counted(past, home):
    (path,) = (home / ".codex").rglob("rollout-1.jsonl")
    path.chmod(0o600)
    path.write_bytes(b"\xff\n" * 3)
    (home / ".local/share/opencode/opencode.db").write_bytes(b"none")
    found = past("--dry-run", "--json").json

    assert found["sessions"] == {"claude": 1, "gemini": 1, "qwen": 1}
    assert found["left_out"] == {"empty": 1}
