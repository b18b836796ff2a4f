"""Kills of a daemon under its writers: acknowledged writes exist once, and answers stay true.

Every writer repeats a request with its key until it is answered. So in the end each text has been
acknowledged, and there must be one file of it, whatever happened between the record and the link.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from forged.files import Root, scan
from forged.memory import Memory, Scope
from forged_client.protocol import Remember, Remembered
from tests.faults.amount import times
from tests.faults.orders import Faults
from tests.faults.telling import REPO
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess

_KILLS = times(200, 8)
_WRITERS = 6
# Where a kill strikes; None is any moment. Between "recorded" and "linked" there is a key without a file.
_SPOTS = {
    "before the record": ("commit", "INTO requests", False),
    "recorded": ("commit", "INTO requests", True),
    "a file without a name": ("fsync", r"\.forge/memory/#", True),
    "before the link": ("link", r"\.md$", False),
    "linked": ("link", r"\.md$", True),
    "before the sync of the directory": ("fsync", r"\.forge/memory$", False),
    "durable": ("fsync", r"\.forge/memory$", True),
    "any moment": None,
}


@dataclass
class Writing:
    """Agents that write without end; every other text replaces what they all replace."""

    daemon: DaemonProcess
    top: Path
    head: str = ""
    answered: dict[str, Remembered] = field(default_factory=dict)
    repeated: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    serves: threading.Event = field(default_factory=threading.Event)  # clear while no daemon does

    def run(self, writer: int) -> None:
        with self.daemon.client(trusts=False, timeout_s=PATIENCE_S) as client:
            for number in itertools.count():
                if self.ended.is_set():
                    return
                text = f"Text {number} of writer {writer}."
                asked = Remember(
                    workspace=str(self.top),
                    content=text,
                    supersedes=self.head if number % 2 else "",
                    key=f"{writer}-{number}",
                )
                while (reported := client.ask(asked)).status != "ok":
                    assert reported.status in ("error", "unavailable", "timeout"), reported
                    assert "internal" not in reported.reason, reported
                    self.repeated += 1
                    time.sleep(0.02)
                    self.serves.wait(PATIENCE_S)
                self.answered[text] = reported


def struck(daemon: DaemonProcess, faults: Faults, spot: str) -> None:
    """Have the daemon killed in this spot, and wait for its end."""
    where = _SPOTS[spot]
    if where is None:
        daemon.kill()
    else:
        call, about, after = where
        faults.arm("daemon", call, about, at=3, after=after)
    assert daemon.process is not None
    daemon.process.wait(PATIENCE_S)


def test_two_hundred_killed_daemons_lose_and_double_nothing_that_was_written(place, promised):
    top = place / "repo"
    (top / ".git").mkdir(parents=True)
    faults = Faults(place / "faults")
    daemon = DaemonProcess(
        place,
        env={"PYTHONPATH": str(REPO), **faults.env},
        config='[memory]\nembedding_model = "builtin:lexical"\n',
        command=(sys.executable, "-m", "tests.faults.faulty"),
    )
    writing = Writing(daemon, top)
    threads = [threading.Thread(target=writing.run, args=(number,)) for number in range(_WRITERS)]
    try:
        daemon.start()
        daemon.trust(top)
        with daemon.client() as client:
            writing.head = client.remember(str(top), "What everybody replaces.").memory_id
        writing.serves.set()
        for thread in threads:
            thread.start()
        for _, spot in zip(range(_KILLS), itertools.cycle(_SPOTS), strict=False):
            struck(daemon, faults, spot)
            writing.serves.clear()
            daemon.start()
            writing.serves.set()
        writing.ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        with daemon.client() as client:
            client.rebuild(str(top), wait=True)
            visible = client.list(str(top), limit=1000, all_versions=True).total
        assert daemon.stop() == 0
    finally:
        writing.ended.set()
        daemon.close()

    found = scan(Root(str(top), Scope.REPO))
    there = {memory.id: memory for memory in found.memories}
    texts = Counter(memory.content.strip() for memory in found.memories)
    assert set(texts.values()) == {1}, "doubled"
    assert set(writing.answered) <= set(texts), "lost"
    assert set(texts) - set(writing.answered) == {"What everybody replaces."}
    assert visible == len(there)
    assert all(name.endswith(".md") for name in os.listdir(top / ".forge/memory"))
    untrue = [text for text, reported in writing.answered.items() if _is_untrue(reported, there, text)]
    assert not untrue
    links = [memory.supersedes for memory in found.memories if memory.supersedes]
    assert len(set(links)) == len(links), "forked"
    promised(
        f"killed under {_WRITERS} writers: nothing lost, doubled or forked, every reply true",
        _KILLS,
        f"{len(texts)} memories, {writing.repeated} repetitions",
    )


def _is_untrue(reported: Remembered, there: dict[str, Memory], text: str) -> bool:
    memory = there.get(reported.memory_id)
    if memory is None or memory.content.strip() != text:
        return True
    return (memory.supersedes or "", memory.version) != (
        reported.replaced,
        reported.version,
    ) or reported.existed
