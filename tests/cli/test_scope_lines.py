"""Location of each scope in status and doctor."""

from __future__ import annotations

from forged.cli.scope_lines import scope_facts, scope_status
from forged.cli.status_summary import status_lines
from forged_client.protocol import ScopeReport
from tests.cli import reports

SESSION = ScopeReport(scope="session", engine="memory", owners=2, memories=3, lasts_s=3600.0, dropped=1)
AGENT = ScopeReport(
    scope="agent", engine="files", place="/h/.forge/agents", owners=1, memories=1, retrieved=True
)
ORG = ScopeReport(scope="org", engine="files", place="/h/.forge/org")


def test_status_has_a_line_for_what_holds_anything():
    assert list(scope_status((SESSION, AGENT, ORG))) == [
        "  scope session: 3 memories of 2 sessions in the daemon's memory",
        "  scope agent: 1 memory of 1 agent in files in /h/.forge/agents",
    ]
    assert "  scope session:" in "\n".join(status_lines(reports.status(scopes=(SESSION,)), details=True))


def test_doctor_tells_of_each_scope_where_it_is_what_is_lost_and_what_has_to_be_wanted():
    facts = dict(scope_facts((SESSION, AGENT, ORG)))

    assert list(facts) == ["repo", "user", "session", "agent", "org"]
    assert facts["session"] == (
        "3 memories of 2 sessions in the daemon's memory; private to each session; "
        "for 1 h or until the session or the daemon ends; 1 dropped to make room; "
        "found by `forgectl search --scope` only ([scopes].retrieve adds it to injections)"
    )
    assert facts["agent"].endswith("private to each agent; saved until they are removed; used for injections")
    assert facts["org"].startswith("0 memories in files in /h/.forge/org; read by all agents")


def test_no_path_reaches_the_terminal_as_it_is():
    (line,) = scope_status((ScopeReport(scope="agent", engine="files", place="/h/\x1b[2J", memories=1),))
    assert "\x1b" not in line
