"""`forgectl search` in scopes that are named, against a scripted daemon."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from forged.cli.tables import cells
from forged_client.protocol import MemoryRecord, Ranking, Recall, Recalled

METADATA = '{"topic":"debug"}'
FOUND = MemoryRecord(
    id="mem_a",
    scope="session",
    content="\nThe build is red.\nSince noon.",
    category="user-facts",
    version=1,
    found=Ranking(0.75, distance=0.25),
    memory_type="fact",
    importance=0.5,
    access_count=1,
    created_at="2026-05-01T10:00:00Z",
    expires_at="2026-05-01T11:00:00Z",
    metadata={"topic": "debug"},
    source="a.md",
)


def test_each_memory_is_shown_with_its_scope_and_distance_the_nearest_first(daemon, forgectl):
    by_words = MemoryRecord(
        id="mem_b", scope="user", category="", version=1, content="Tea.", created_at="", found=Ranking(0.1)
    )
    daemon.answers[Recall] = Recalled(memories=(FOUND, by_words))

    shown = forgectl(
        *("search", "build", "--session", "s1", "--agent", "claude", "--user", "me"),
        *("--filter", "topic=debug", "--filter", "turn=5", "--filter", "tag=a=b"),
        *("--scope", "session", "--scope", "user"),
    )

    assert shown.out.splitlines() == [
        "1. mem_a  session  distance 0.250",
        "    The build is red. Since noon.",
        f"    fact, importance 0.5, from a.md, {METADATA}, found 1 time before, until 2026-05-01 11:00",
        "2. mem_b  user  by keywords",
        "    Tea.",
    ]
    asked = daemon.asked(Recall)
    assert (asked.workspace, asked.query, asked.session_id) == ("/w", "build", "s1")
    assert (asked.agent_id, asked.user_id, asked.scopes) == ("claude", "me", ("session", "user"))
    assert asked.filters == {"topic": "debug", "turn": 5, "tag": "a=b"}


@pytest.mark.parametrize(
    ("options", "scopes"),
    [
        ("--session s1", ("repo", "user", "agent", "session", "org")),
        ("--agent claude", ("repo", "user", "agent", "session", "org")),
        ("--filter a=b", ("repo", "user", "agent", "session", "org")),
        ("--scope org", ("org",)),
        ("--scope repo --scope session --session s1", ("repo", "session")),
    ],
)
def test_options_decide_which_scopes_are_searched(daemon, forgectl, options, scopes):
    daemon.answers[Recall] = Recalled(status="empty", reason="no memory matches the query; searched: x")

    shown = forgectl("search", "build", *options.split())

    assert daemon.asked(Recall).scopes == scopes
    assert (shown.code, shown.out) == (0, "")
    assert shown.err == "forgectl: no memory matches the query; searched: x\n"


@pytest.mark.parametrize("scope", ["session", "agent"])
def test_a_scope_with_an_owner_needs_its_name(no_daemon, forgectl, scope):
    shown = forgectl("search", "build", "--scope", scope)

    assert (shown.code, shown.out) == (2, "")
    assert f"--scope {scope} needs --{scope}" in shown.err


def test_a_limit_holds_in_scopes_too_and_a_generation_does_not_go_with_them(daemon, forgectl):
    daemon.answers[Recall] = Recalled(memories=(FOUND, FOUND))

    assert len(forgectl("search", "x", "--scope", "user", "--json").json["memories"]) == 2
    assert len(forgectl("search", "x", "--scope", "user", "--limit", "1", "--json").json["memories"]) == 1
    assert forgectl("search", "x", "--scope", "user", "--min-generation", "e:1").code == 2


def test_the_injection_is_printed_and_json_has_everything(daemon, forgectl):
    daemon.answers[Recall] = Recalled(memories=(FOUND,), text="<block>\n\x1b[31mred\n", included=1)

    assert forgectl("search", "build", "--text").out == "<block>\n^[[31mred\n"
    (memory,) = forgectl("search", "build", "--scope", "user", "--json").json["memories"]
    assert (memory["found"]["distance"], memory["metadata"]) == (0.25, {"topic": "debug"})


@pytest.mark.parametrize("wrong", ["topic", "=debug"])
def test_a_filter_that_is_none_is_refused_before_anybody_is_asked(daemon, forgectl, wrong):
    shown = forgectl("search", "build", "--filter", wrong)

    assert shown.code == 2
    assert f"--filter '{wrong}' is not KEY=VALUE" in shown.err


def test_foreign_text_cannot_write_on_the_terminal_and_fits_it(daemon, forgectl):
    evil = replace(FOUND, content="\x1b[2J" + "数据库迁移" * 30, source="\x1b]0;x", id="mem_\x1b")
    daemon.answers[Recall] = Recalled(memories=(evil,))

    out = forgectl("search", "build", "--scope", "user", width=60).out

    assert "\x1b" not in out
    assert max(map(cells, out.splitlines())) <= 60
