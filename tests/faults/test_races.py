"""A person, an agent and a capture at the same memory at the same moment: no change is lost.
person has forgotten stays so."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.files import Root
from forged.files.scan import scan
from forged.memory import Memory, Scope
from forged_client.protocol import Remembered
from tests.faults.amount import times
from tests.support.clock import eventually
from tests.support.daemon import ALTERED, UNLIMITED, DaemonProcess, configuration
from tests.support.provider import Answer, Request, ScriptedProvider, proposal, reply

_VERSIONS = times(100, 8)
_FORGETS = times(200, 12)


class Racing:
    """A daemon, a repository, and what lies there."""

    def __init__(self, home: Path, daemon: DaemonProcess) -> None:
        self.top = home / "repo"
        (self.top / ".git").mkdir(parents=True)
        self.daemon = daemon
        self.client = daemon.client()

    def remember(self, text: str, **fields: object) -> Remembered:
        with self.daemon.client(strict=True) as client:
            return client.remember(str(self.top), text, category="patterns", **fields)

    def tell(self, text: str, session: str) -> None:
        """Capture something that is sure to be judged."""
        said = [{"role": "user", "content": text}]
        assert self.client.capture(str(self.top), said, session, kind="explicit").outcome == "durable"

    def judged(self) -> None:
        """Wait until nothing waits any more."""
        eventually(lambda: self.client.status().capture.state == "idle")

    def memories(self) -> tuple[Memory, ...]:
        return scan(Root(str(self.top), Scope.REPO)).memories


@contextlib.contextmanager
def racing(home: Path, config: str = "") -> Iterator[Racing]:
    daemon = DaemonProcess(home, config=config, command=(*ALTERED, UNLIMITED))
    with contextlib.closing(daemon):
        daemon.start()
        one = Racing(home, daemon)
        with contextlib.closing(one.client):
            yield one


def test_a_hundred_times_a_remembered_and_a_captured_version_replace_the_same_memory(place, promised):
    chance = random.Random(11)
    replies: list[Remembered] = []
    firsts: dict[str, str] = {}

    def judge(_: ScriptedProvider, request: Request) -> Answer:
        (number,) = re.findall(r"Please note about way (\d+):", request.json["messages"][-1]["content"])
        new = f"Way {number} leads through the tunnel now."
        return reply(proposal(new, category="patterns", supersedes=firsts[number]))

    with ScriptedProvider() as provider:
        provider.chat = judge
        config = configuration(provider, embedding_model="builtin:lexical", classifier_model="m")
        with racing(place, config) as one:
            for number in range(_VERSIONS):
                first = one.remember(f"Way {number} leads over the bridge.").memory_id
                firsts[str(number)] = first
                one.tell(f"Please note about way {number}: it leads through the tunnel.", f"s{number}")
                time.sleep(chance.random() * 0.2)
                replies.append(one.remember(f"Way {number} is closed.", supersedes=first))
            one.judged()
            found = {each.id: each for each in one.memories()}

    links = [each.supersedes for each in found.values() if each.supersedes]
    assert len(links) == len(set(links)), "a fork"
    assert len(links) == 2 * _VERSIONS
    assert len(found) == 3 * _VERSIONS
    for reported in replies:
        there = found[reported.memory_id]
        assert (there.supersedes, there.version) == (reported.replaced, reported.version)
    moved = sum(reported.base_moved for reported in replies)
    assert all(reported.base_moved == (reported.version == 3) for reported in replies)
    promised("remember and capture replace one memory: no fork, none lost", _VERSIONS, f"{moved} moved")


@pytest.mark.long
def test_two_hundred_times_something_is_forgotten_that_a_capture_is_about_to_write(place, promised):
    """Of every event one sentence is forgotten; the other one is kept, whenever that happens."""
    chance = random.Random(12)
    cut = 0
    with racing(place) as one:
        for number in range(_FORGETS):
            known = one.remember(f"We always deploy service{number} on Tuesdays.").memory_id
            one.tell(
                f"We never release module{number} on Fridays. We always deploy, service{number} on Tuesdays!",
                f"s{number}",
            )
            time.sleep(chance.random() * 0.05)
            cut += one.client.forget(str(one.top), known).cut_sentences
        one.judged()
        contents = sorted(each.content.strip() for each in one.memories())
        state = b"".join(path.read_bytes() for path in (place / ".local/state/forged").glob("state.db*"))

    assert contents == sorted(f"We never release module{number} on Fridays." for number in range(_FORGETS))
    assert b"Tuesdays" not in state
    promised("something is forgotten while it is captured: gone, the rest kept", _FORGETS, f"{cut} cut")
