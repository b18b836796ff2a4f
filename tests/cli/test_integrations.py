"""`forgectl integrations status`, and doctor's line for each agent."""

from __future__ import annotations

import pytest

from forged_client.protocol import AgentReport, Status
from tests.cli import reports

SEEN = AgentReport(
    agent="qwen",
    last_event="Stop",
    last_event_at="2026-11-23T20:00:00Z",
    turns=3,
    injected_today=2,
    kept_today=1,
    failed_today=1,
    last_failure="timeout\x1b[2J",
)


@pytest.fixture
def connected(qwen, forgectl):
    """Its setup says that no daemon can be started here."""
    assert "done  Qwen Code" in forgectl("setup", "--yes", "qwen").out
    return qwen


@pytest.fixture
def status(forgectl):
    return lambda *arguments: forgectl("integrations", "status", *arguments)


def test_an_agent_that_is_connected_is_shown_with_what_it_was_given_today(status, connected, daemon, home):
    daemon.answers[Status] = reports.status(agents=(SEEN,))
    shown = status()

    assert shown.code == 0
    assert shown.out.splitlines() == [
        f"Qwen Code 0.15.10  ({connected})",
        f"    connected: {home}/.qwen/settings.json",
        "    MCP server: yes",
        "    last Stop 2026-11-23 20:00, today 2 memories injected, 1 saved, 1 failed (timeout^[[2J)",
    ]


def test_one_that_is_not_connected_is_shown_with_the_command_that_connects_it(status, qwen, daemon):
    daemon.answers[Status] = reports.status()
    shown = status()

    assert shown.code == 1
    assert "    not connected\n" in shown.out
    assert "    fix: `forgectl setup qwen`\n" in shown.out


def test_where_no_agent_is_it_says_so_and_all_are_shown_when_asked_for(status, path, no_daemon):
    assert "no supported agent was found" in status().out
    assert "Claude Code  (not found)" in status("--all").out


def test_a_shell_with_another_address_makes_no_connection_older_but_setup_in_it_tells_the_agent(
    status, connected, forgectl, home, monkeypatch
):
    monkeypatch.setenv("FORGED_SOCKET", "/elsewhere/forged.sock")
    assert status().code == 0

    forgectl("setup", "--yes", "cursor")
    assert '"FORGED_SOCKET": "/elsewhere/forged.sock"' in (home / ".cursor/mcp.json").read_text()
    assert status().code == 0


# --- doctor --------------------------------------------------------------------------------------------


@pytest.fixture
def lines(forgectl, daemon):
    def found(*seen):
        daemon.answers[Status] = reports.status(agents=seen, roots=())
        reported = forgectl("doctor").out.splitlines()
        return [
            line
            for number, line in enumerate(reported)
            if "agent: " in line or "agent: " in reported[number - 1]
        ]

    return found


def test_doctor_says_of_a_connected_agent_what_came_last(lines, connected):
    assert lines(SEEN)[0] == (
        "ok    agent: Qwen Code: connected, last event Stop, today 2 memories injected and 1 saved"
    )


def test_doctor_names_hooks_that_came_to_nothing_and_where_to_look(lines, connected):
    assert lines(SEEN)[1:3] == [
        "warn  agent: Qwen Code: 1 hook failed today, the last: timeout^[[2J",
        "      fix: `forgectl logs` shows the details",
    ]


def test_doctor_says_when_no_agent_that_is_here_is_connected(lines, qwen):
    assert lines()[:2] == ["warn  agent: none of Qwen Code is connected", "      fix: `forgectl setup`"]


def test_doctor_fails_for_a_connection_whose_hook_is_gone(lines, connected, home, forgectl):
    settings = home / ".qwen/settings.json"
    settings.write_text(settings.read_text().replace("/forged_client/hook.py", "/gone/forged_client/hook.py"))
    failure, fix = lines()[:2]

    assert failure.startswith(f"FAIL  agent: Qwen Code: {settings} runs ")
    assert failure.endswith("/gone/forged_client/hook.py, which is gone")
    assert fix == "      fix: `forgectl setup qwen`"
    assert forgectl("doctor").code == 69
