"""A daemon that is killed between a memory's file and what is known beside it: there is never half of it."""

from __future__ import annotations

import os
import sys

import pytest

from forged_client.protocol import Remembered
from tests.faults.orders import Faults
from tests.faults.telling import REPO
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess

# As in the kills of writers; a row without a file is completed by the request that comes again.
_SPOTS = {
    "before the record": ("commit", "INTO details", False),
    "recorded": ("commit", "INTO details", True),
    "before the link": ("link", r"\.md$", False),
    "linked": ("link", r"\.md$", True),
    "durable": ("fsync", r"agents/claude/memory$", True),
}
_TOLD = {"scope": "agent", "agent_id": "claude", "memory_type": "learning", "importance": 0.25}


@pytest.fixture
def killed(place):
    """A daemon that can be told where to be killed, and a workspace."""
    faults = Faults(place / "faults")
    daemon = DaemonProcess(
        place,
        env={"PYTHONPATH": str(REPO), **faults.env},
        config='[memory]\nembedding_model = "builtin:lexical"\n',
        command=(sys.executable, "-m", "tests.faults.faulty"),
    )
    (place / "work").mkdir()
    try:
        yield daemon, faults, str(place / "work")
    finally:
        daemon.close()


@pytest.mark.parametrize("spot", _SPOTS)
def test_a_memory_that_is_there_has_its_details_wherever_the_kill_came(killed, place, spot):
    daemon, faults, workspace = killed
    daemon.start()
    with daemon.client() as client:  # the directories are there from now on
        first = client.remember(workspace, "first", **_TOLD)
        call, about, after = _SPOTS[spot]
        faults.arm("daemon", call, about, after=after)
        asked = {"supersedes": first.memory_id, "metadata": {"topic": "debug"}, "key": "a-key"} | _TOLD
        lost = client.remember(workspace, "second", **asked)
        assert lost.status != "ok"
    assert daemon.process is not None
    daemon.process.wait(PATIENCE_S)
    assert len(faults.fired) == 1

    daemon.start()
    with daemon.client() as client:
        found = client.list(workspace, scope="agent", agent_id="claude", all_versions=True)
        assert {each.content: each.metadata for each in found.memories}.get("second", {"topic": "debug"}) == {
            "topic": "debug"
        }
        again = client.remember(workspace, "second", **asked)
        assert isinstance(again, Remembered)
        assert (again.status, again.version) == ("ok", 2)
        (known,) = client.get(
            workspace, [again.memory_id], scope="agent", agent_id="claude", min_generation=again.generation
        ).memories
    assert (known.memory_type, known.importance, known.metadata) == ("learning", 0.25, {"topic": "debug"})
    assert len(os.listdir(place / ".forge/agents/claude/memory")) == 2
