"""No text is embedded twice after a restart, a crash or a reload of the daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.maps.model_identity import SENTENCES
from forged_client import Client
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import (
    configuration,
    fd_keeper,
    needs_user_manager,
    running,
    user_manager,
)
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.long

needs_sealed_memory = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")
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
    configure(home, provider)
    return repo


def configure(home: Path, provider: ScriptedProvider, model: str = "m", **settings: object) -> None:
    file = home / ".config/forged/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(configuration(provider, embedding_model=model, retrieval_min_score=0.2, **settings))


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
    return ready and status.gate.state == "vectors" and "dense" in found.indexes


def warm(client: Client, repo: Path) -> int:
    """Process id of the daemon, once it is warm."""
    eventually(lambda: is_warm(client, repo))
    return client.status().pid


# --- under a service manager ----------------------------------------------------------------------------


@needs_user_manager
def test_systemd_keeps_the_vectors_over_a_restart_and_then_over_a_crash(home, provider, filled):
    with user_manager(home) as manager:
        manager.install()
        with manager.client() as client:
            pids = {warm(client, filled)}
        provider.received.clear()

        manager.systemctl("restart", "forged.service")
        with manager.client() as client:
            pids.add(warm(client, filled))
        manager.systemctl("kill", "--signal=KILL", "--kill-who=main", "forged.service")
        with manager.client() as client:
            pids.add(warm(client, filled))

        assert len(pids) == 3
        assert embedded(provider) == []


@needs_sealed_memory
def test_what_is_handed_to_a_service_manager_serves_the_next_daemon_and_the_one_after_a_crash(
    home, provider, filled
):
    with fd_keeper(home) as keeper:
        with keeper.client() as client:
            warm(client, filled)
        provider.received.clear()

        for ending in (signal.SIGTERM, signal.SIGKILL):
            keeper.end(ending)
            assert len(keeper.held) == 2
            keeper.start()
            with keeper.client() as client:
                warm(client, filled)

        assert embedded(provider) == []


# --- in one process -------------------------------------------------------------------------------------


@needs_sealed_memory
def test_a_changed_configuration_embeds_nothing_unless_it_names_another_model(home, provider, filled):
    with running(home) as daemon, daemon.client() as client:
        warm(client, filled)
        provider.received.clear()
        configure(home, provider, injection_token_budget=900)
        assert reloads(client, filled)
        warm(client, filled)
        assert embedded(provider) == []

        configure(home, provider, "another model")
        assert reloads(client, filled)
        warm(client, filled)
        assert set(TEXTS.values()) < set(embedded(provider))


def reloads(client: Client, repo: Path) -> bool:
    before = client.status(str(repo)).epoch
    client.rebuild(str(repo))
    return bool(eventually(lambda: client.status(str(repo)).epoch not in {"", before}))
