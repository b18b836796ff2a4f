"""Kills between a memory's file and a row of its details or request leave no half."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from forged.files import Root, scan
from forged.memory import Scope
from forged_client import protocol as wire
from forged_client.protocol import Remembered
from tests.faults.orders import Faults
from tests.faults.telling import REPO
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess

# As in the kills of writers; a row without a file is completed by the request that comes again.
_SPOTS = {
    "before the record": ("commit", "INTO attributes", False),
    "recorded": ("commit", "INTO attributes", True),
    "before the link": ("link", r"\.md$", False),
    "linked": ("link", r"\.md$", True),
    "durable": ("fsync", r"agents/claude/memory$", True),
}
_REPORTED = {"scope": "agent", "agent_id": "claude", "memory_type": "learning", "importance": 0.25}
# Of a verb that writes a file under a key: what is asked, and the rows that say so before the file is there.
_VERBS = {
    "remember": (lambda top, _: wire.Remember(workspace=top, content="a new one", key="k"), "requests"),
    "edit": (
        lambda top, ids: wire.Edit(workspace=top, memory_id=ids[0], content="other", key="k"),
        "requests",
    ),
    "move": (lambda top, ids: wire.Move(workspace=top, memory_id=ids[0], to="user", key="k"), "receipts"),
    "restore": (lambda top, ids: wire.Restore(workspace=top, memory_id=ids[1], key="k"), "receipts"),
}
_THERE = {
    "remember": {"repo: one": 1, "repo: a new one": 1},
    "edit": {"repo: one": 1, "repo: other": 1},
    "move": {"user: one": 1},
    "restore": {"repo: one": 1, "repo: another": 1},
}
_BETWEEN = {
    "recorded": ("commit", "INTO {rows}", True),
    "begun": ("commit", "INTO intents", True),
    "a file without a name": ("fsync", r"\.forge/memory/#", True),
    "before the link": ("link", r"\.md$", False),
    "linked": ("link", r"\.md$", True),
    "durable": ("fsync", r"\.forge/memory$", True),
}
_PATHS = [
    (verb, spot) for verb in _VERBS for spot in _BETWEEN if spot != "begun" or verb in ("move", "restore")
]


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
        first = client.remember(workspace, "first", **_REPORTED)
        call, about, after = _SPOTS[spot]
        faults.arm("daemon", call, about, after=after)
        asked = {"supersedes": first.memory_id, "metadata": {"topic": "debug"}, "key": "a-key"} | _REPORTED
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


@pytest.mark.parametrize(("verb", "spot"), _PATHS)
def test_a_keyed_request_that_a_kill_cut_short_is_answered_the_same_and_done_once(killed, place, verb, spot):
    daemon, faults, workspace = killed
    asked, rows = _VERBS[verb]
    (Path(workspace) / ".git").mkdir()
    daemon.start()
    with daemon.client() as client:
        ids = [client.remember(workspace, text).memory_id for text in ("one", "another")]
        client.remember(workspace, "of the user", scope="user")  # the directories are there from now on
        assert client.forget(workspace, ids[1]).status == "ok"
        texts = _texts(place, workspace)
        call, about, after = _BETWEEN[spot]
        faults.arm("daemon", call, about.format(rows=rows), after=after)
        assert client.ask(asked(workspace, ids)).status != "ok"
    assert daemon.process is not None
    daemon.process.wait(PATIENCE_S)
    assert len(faults.fired) == 1

    daemon.start()
    with daemon.client() as client:
        first, again = (client.ask(asked(workspace, ids)) for _ in range(2))
        listed = client.list(workspace, all_versions=True, min_generation=first.generation)
    daemon.stop()
    daemon.start()
    with daemon.client() as client:
        next_day = client.ask(asked(workspace, ids))

    assert first.status == "ok"
    assert _plain(first) == _plain(again) == _plain(next_day)
    wanted = Counter({"user: of the user": 1, **_THERE[verb]})
    assert _texts(place, workspace) == wanted != texts
    assert Counter(f"{each.scope}: {each.content}" for each in listed.memories) == wanted
    held = [path.read_text() for path in (place / ".local/state/forged/trash").rglob("*.md")]
    assert len(held) == (0 if verb == "restore" else 2 if verb == "move" else 1)


def _texts(home: Path, workspace: str) -> Counter[str]:
    """Count how often each text is in the files of a workspace."""
    roots = Root(workspace, Scope.REPO), Root(str(home), Scope.USER)
    return Counter(f"{root.scope}: {each.content.strip()}" for root in roots for each in scan(root).memories)


def _plain(reply: wire.Reply) -> wire.Reply:
    """A reply but for the generation, which counts from the start of a daemon."""
    named = {"generation": ""} if hasattr(reply, "generation") else {}
    return msgspec.structs.replace(reply, id=0, **named)
