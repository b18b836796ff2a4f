"""A daemon that is killed while a version is taken out of the middle of its chain leaves that whole."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from forged_client import Client
from forged_client.protocol import Chain
from tests.faults.amount import times
from tests.faults.orders import Faults
from tests.faults.telling import REPO
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess

_KILLS = times(100, 8)
_MEMORY, _TRASH = r"\.forge/memory/mem_[^/]*\.md$", r"/trash/.*\.md$"
# Where a kill strikes: call, what it is about, before or after it; and whether the version is erased at once.
_SPOTS = (
    ("commit", "INTO intents", True, False),
    ("rename", _MEMORY, False, False),
    ("rename", _MEMORY, True, False),
    ("rename", _TRASH, False, False),
    ("rename", _TRASH, True, False),
    ("unlink", _MEMORY, False, True),
    ("unlink", _MEMORY, True, True),
)


def a_chain(client: Client, top: Path, name: str) -> list[str]:
    ids = [""]
    for number in (1, 2, 3):
        reported = client.remember(str(top), f"Version {number} of {name}.", supersedes=ids[-1])
        assert reported.status == "ok", reported
        ids.append(reported.memory_id)
    return ids[1:]


def links(chain: Chain) -> list[tuple[str, str | None]]:
    return [(each.id, each.supersedes) for each in chain.memories]


@pytest.mark.long
def test_a_hundred_kills_around_the_link_leave_every_chain_whole(place, promised):
    top = place / "repo"
    (top / ".git").mkdir(parents=True)
    faults = Faults(place / "faults")
    daemon = DaemonProcess(
        place,
        env={"PYTHONPATH": str(REPO), **faults.env},
        config='[memory]\nembedding_model = "builtin:lexical"\n',
        command=(sys.executable, "-m", "tests.faults.faulty"),
    )
    expected: dict[str, tuple[int, str]] = {}
    try:
        daemon.start()
        for kill, (call, about, after, erase) in zip(range(_KILLS), itertools.cycle(_SPOTS), strict=False):
            with daemon.client(trusts=False, timeout_s=PATIENCE_S) as client:
                one, two, three = a_chain(client, top, f"chain {kill}")
                expected |= dict.fromkeys((one, three) if erase else (one, two, three), (kill, call))
                faults.arm("daemon", call, about, after=after)
                assert client.forget(str(top), two, version_only=True, erase_now=erase).status != "ok"
            assert daemon.process is not None
            daemon.process.wait(PATIENCE_S)
            daemon.start()
            with daemon.client(trusts=False, timeout_s=PATIENCE_S) as client:
                assert (two in trashed_once_resumed(client, top)) is not erase
                client.rebuild(str(top), wait=True)
                chain = client.history(str(top), three)
                assert (links(chain), chain.flags) == ([(one, None), (three, one)], ()), (kill, call, after)
                assert {each.origin for each in chain.memories} == {"agent"}
                if not erase:
                    assert client.restore(str(top), two).status == "ok"
                    assert links(client.history(str(top), three)) == [(one, None), (two, one), (three, two)]
        kept = {path.stem for path in (top / ".forge/memory").glob("*.md")}
        assert daemon.stop() == 0
    finally:
        daemon.close()
    lost = {each: spot for each, spot in expected.items() if each not in kept}
    assert (lost, kept - expected.keys()) == ({}, set())
    promised("killed around the link of a middle version: the chain is whole", _KILLS, f"{len(kept)} files")


def trashed_once_resumed(client: Client, top: Path) -> set[str]:
    """Ids in the trash, once the daemon has finished the removal that a kill had interrupted.

    That stores an intent, too: a fault that is armed earlier strikes there, and not in the next removal.
    """
    settled = ("ok", "empty")
    listed = eventually(lambda: found if (found := client.restore(str(top))).status in settled else None)
    return {each for group in listed.restorable for each in group.ids}
