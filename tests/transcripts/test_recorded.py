"""Every session that a real harness wrote down: what was said is read, and nothing else."""

from __future__ import annotations

import pytest

from forged.transcripts import FORMATS, read, read_tail, sessions
from tests.transcripts.homes import FIXTURES, folder_of, lay

FIRST, SECOND = "We always deploy on Fridays.", "Never push to the branch main."
SAID = [("user", FIRST), ("assistant", "I look into it."), ("assistant", "Done, as you said.")]
SAID += [("user", SECOND), ("assistant", "Done, as you said.")]
AFTER_SUMMARY = {"claude": [("user", "Use tabs in Go files."), ("assistant", "Done, as you said.")]}
BETWEEN = {"claude": [("user", "Go on."), ("assistant", "Done, as you said.")]}


@pytest.fixture(params=FIXTURES, ids=lambda path: f"{path.parent.name} {path.stem}")
def recorded(request, tmp_path):
    """A harness, its version, and a home in which its recorded session lies."""
    fixture = request.param
    agent = fixture.parent.name
    lay(agent, fixture, tmp_path)
    return agent, fixture.stem, str(folder_of(agent, tmp_path))


def test_there_is_one_of_every_harness():
    assert {path.parent.name for path in FIXTURES} == set(FORMATS)


def test_what_was_said_is_read_and_nothing_of_a_tool_or_of_the_harness(recorded):
    agent, version, home = recorded
    (found,) = sessions(agent, home)
    session = read(found, home)
    said = [(each.role, each.text) for each in session.messages]

    assert said == [*SAID, *BETWEEN.get(agent, []), *AFTER_SUMMARY.get(agent, [])]
    assert session.agent == agent
    assert session.session_id
    assert session.workspace == "/home/user/shop"
    assert session.version == ("" if agent == "gemini" else version)
    assert session.skipped == 0
    assert session.is_whole


def test_times_are_those_of_the_messages_in_their_order(recorded):
    agent, _, home = recorded
    session = read(sessions(agent, home)[0], home)

    assert len(session.times) == len(session.messages)
    assert list(session.times) == sorted(session.times)
    assert 1_700_000_000 < session.started_at <= session.times[0] + 1


def test_the_window_begins_behind_the_newest_summary(recorded):
    agent, _, home = recorded
    session = read(sessions(agent, home)[0], home)
    window = [(each.role, each.text) for each in session.messages[session.since_summary :]]

    assert window == AFTER_SUMMARY.get(agent, SAID)


def test_of_a_file_its_end_is_enough(recorded):
    """The first line says whose it is; of a database there is no end."""
    agent, _, home = recorded
    (found,) = sessions(agent, home)
    size = found.bytes - 200 if found.bytes else 0
    session = read_tail(found.path, agent, size, home=home, session_id=found.session_id)

    assert session.messages[-1].text == "Done, as you said."
    assert session.session_id == read(found, home).session_id
    assert session.is_whole == (agent == "opencode")
