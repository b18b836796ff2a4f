"""The scopes of agents and sessions on the command line."""

from __future__ import annotations

import pytest

from forged_client.protocol import (
    Chain,
    Edit,
    Forget,
    Forgotten,
    GetMemories,
    History,
    ListMemories,
    Memories,
    Move,
    Moved,
    Remember,
    Remembered,
    Restore,
    Restored,
)
from tests.cli import reports

WRITTEN = Remembered(memory_id="mem_n", version=1)


def test_remember_says_whose_it_is_and_what_is_known_of_it(daemon, forgectl):
    daemon.answers[Remember] = WRITTEN
    reported = ["--scope", "agent", "--agent", "claude", "--type", "learning", "--importance", "0.5"]

    forgectl("remember", "x", *reported, "--meta", "topic=a b", "--meta", "n=3", "--meta", 'l=["x"]')

    asked = daemon.asked(Remember)
    assert (asked.scope, asked.agent_id, asked.memory_type) == ("agent", "claude", "learning")
    assert (asked.importance, asked.metadata) == (0.5, {"topic": "a b", "n": 3, "l": ["x"]})


def test_what_a_session_is_given_has_no_path_and_says_when_it_goes(daemon, forgectl):
    daemon.answers[Remember] = Remembered(
        memory_id="mem_n", version=1, scope="session", category="patterns", reason="until 9"
    )

    shown = forgectl("remember", "x", "--scope", "session", "--session", "s", "--agent", "claude")

    assert shown.out.splitlines() == ["remembered mem_n, version 1, session/patterns", "note: until 9"]
    assert daemon.asked(Remember).session_id == "s"


def test_what_is_no_pair_is_a_usage_error(daemon, forgectl):
    shown = forgectl("remember", "x", "--meta", "topic")
    assert (shown.code, "--meta 'topic' is not KEY=VALUE" in shown.err) == (2, True)


@pytest.mark.parametrize(
    ("line", "request_type", "answer"),
    [
        ("list", ListMemories, Memories()),
        ("show mem_a", GetMemories, Memories(memories=(reports.record(),))),
        ("show mem_a", History, Chain(memories=(reports.record(scope="agent"),))),
        ("forget mem_a --yes", Forget, Forgotten(ids=("mem_a",))),
        ("edit mem_a text", Edit, WRITTEN),
        ("move mem_a user", Move, Moved(memory_id="mem_n")),
        ("restore mem_a", Restore, Restored(memories=(reports.record(),))),
    ],
)
def test_every_verb_of_a_memory_can_name_an_agent(daemon, forgectl, line, request_type, answer):
    of_claude = Memories(memories=(reports.record(scope="agent"),))
    daemon.answers |= {GetMemories: of_claude, History: Chain(), request_type: answer}

    assert forgectl(*line.split(), "--scope", "agent", "--agent", "claude").code == 0

    asked = daemon.asked(request_type)
    assert (asked.scope, asked.agent_id) == ("agent", "claude")


def test_a_page_shows_the_attributes_that_are_not_in_the_file(daemon, forgectl):
    known = reports.record(
        memory_type="learning",
        agent_id="cl\x1baude",
        importance=0.5,
        metadata={"topic": "a\x1b[2J"},
        access_count=2,
        last_accessed="2026-05-01T10:00:00Z",
    )
    daemon.answers |= {GetMemories: Memories(memories=(known,)), History: Chain(memories=(known,))}

    out = forgectl("show", "mem_a").out

    assert "\ntype learning\nagent cl^[aude\nimportance 0.5\nmetadata " in out
    assert "\nfound 2 times, last 2026-05-01 10:00\n" in out
    assert "\x1b" not in out


def test_an_agents_memories_are_exported_as_json_with_what_is_known_of_them(daemon, forgectl):
    known = reports.record(scope="agent", agent_id="claude", metadata={"topic": "x"})
    daemon.answers[ListMemories] = Memories(memories=(known,), total=1)
    scope = ["--scope", "agent", "--agent", "claude"]

    shown = forgectl("export", "--format", "json", *scope)
    folder = forgectl("export", *scope)

    assert shown.json["memories"][0]["metadata"] == {"topic": "x"}
    assert (daemon.asked(ListMemories).scope, daemon.asked(ListMemories).agent_id) == ("agent", "claude")
    assert (folder.code, "--format json" in folder.err) == (2, True)
