"""Nothing is embedded twice because a process ended: a restart, a crash and a reload find their vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.maps.identity import SENTENCES
from forged_client import Client
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import (
    UserManager,
    configuration,
    needs_user_manager,
    user_manager,
)
from tests.support.provider import ScriptedProvider

TEXTS = {f"m{at}": f"The walrus number {at} sleeps in harbor {at} since {2000 + at}." for at in range(8)}
ASKED = "in which harbor does the walrus sleep?"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(dimension=64) as provider:
        yield provider


@pytest.fixture
def filled(home: Path, repo: Path, provider: ScriptedProvider) -> Path:
    """Memories of the user and of a repository, and a model that counts what it is asked."""
    put(home, *(memory(name, text, scope="user") for name, text in TEXTS.items()))
    put(repo, memory("r1", "In this repository the walrus is called Otto."))
    file = home / ".config/forged/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(configuration(provider, retrieval_min_score=0.2))
    return repo


def embedded(provider: ScriptedProvider) -> list[str]:
    """All texts that were asked for, but for the sentences that tell a model and the questions."""
    asked = [text for request in provider.requests() for text in request.inputs]
    return [text for text in asked if text not in {*SENTENCES, ASKED}]


def is_warm(client: Client, repo: Path) -> bool:
    """Whether vectors answer in all roots that a question sees, and the gate goes by them."""
    client.trust(str(repo), action="trust")
    found = client.retrieve(str(repo), [{"role": "user", "content": ASKED}])
    status = client.status(str(repo))
    ready = [root.state for root in status.roots] == ["ready", "ready"]
    return ready and status.gate.state == "vectors" and "dense" in found.legs


@pytest.fixture
def manager(home: Path) -> Iterator[UserManager]:
    with user_manager(home) as manager:
        yield manager


@needs_user_manager
def test_systemd_keeps_the_vectors_over_a_restart_and_then_over_a_crash(manager, provider, filled):
    manager.install()
    before = awaited(manager, filled)
    provider.received.clear()

    manager.systemctl("restart", "forged.service")
    restarted = awaited(manager, filled)
    manager.systemctl("kill", "--signal=KILL", "--kill-who=main", "forged.service")
    crashed = awaited(manager, filled)

    assert len({before, restarted, crashed}) == 3
    assert embedded(provider) == []


def awaited(manager: UserManager, repo: Path) -> int:
    """Process id of the daemon, once it is warm."""
    with manager.client() as client:
        eventually(lambda: is_warm(client, repo))
        return client.status().pid
