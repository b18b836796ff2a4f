"""A scripted provider, a real daemon that calls it, and workspaces with memories on disk.

`staged` starts both once. Tests that share them use a workspace of their own and script the provider.
`Scene.reset` removes all scripts.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forged.maps.model_identity import SENTENCES
from forged_client import Client
from forged_client.protocol import Rebuilt, Retrieved, RootReport
from tests.support.clock import PATIENCE_S
from tests.support.daemon.process import DaemonProcess, running
from tests.support.provider import CHAT, EMBEDDINGS, Request, ScriptedProvider


def configuration(provider: ScriptedProvider, **settings: object) -> str:
    """Return a config.toml in which every model is at the provider; None leaves a setting out."""
    chosen = {"embedding_model": "m", "embedding_base_url": provider.base_url, **settings}
    lines = [f"{key} = {_toml(value)}" for key, value in chosen.items() if value is not None]
    return "\n".join(["[memory]", *lines, "[llm]", f'base_url = "{provider.base_url}"', ""])


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


@dataclass
class Scene:
    """A daemon, a client of it, and the provider it calls."""

    provider: ScriptedProvider
    daemon: DaemonProcess
    client: Client
    _turns: Iterator[int] = field(default_factory=itertools.count)

    def reset(self) -> None:
        """Remove every script and the log; a rebuild resets the endpoints' health."""
        self.provider.embeddings = self.provider.chat = None
        self.client.rebuild(str(self.daemon.home))
        self.provider.vectors.clear()
        self.provider.chat_lines = ("a hypothesis",)
        self.provider.received.clear()

    def load(self, top: Path) -> Rebuilt:
        """Build the workspace's maps from the files."""
        built = self.client.rebuild(str(top), wait=True, timeout_s=PATIENCE_S)
        assert built.status == "ok", built
        return built

    def ask(self, top: Path, text: str = "what now", turn: str | None = None, **options: object) -> Retrieved:
        """Retrieve in `plain` mode; every call is a turn of its own unless one is named."""
        options.setdefault("mode", "plain")
        turn = f"turn {next(self._turns)}" if turn is None else turn
        return self.client.retrieve(
            str(top),
            [{"role": "user", "content": text}],
            turn_id=turn,
            session_id=str(options.pop("session_id", "s")),
            **options,  # type: ignore[arg-type]
        )

    def report(self, top: Path) -> RootReport:
        return next(r for r in self.client.status(str(top)).roots if r.root == os.path.realpath(top))

    @property
    def chats(self) -> list[Request]:
        return self.provider.requests(CHAT)

    @property
    def embeds(self) -> list[Request]:
        """Return the embedding requests, without those for the model's identity."""
        asked = self.provider.requests(EMBEDDINGS)
        return [request for request in asked if request.inputs != list(SENTENCES)]

    @property
    def looks(self) -> int:
        """Return how often the model's identity was checked."""
        return len(self.provider.requests(EMBEDDINGS)) - len(self.embeds)

    @property
    def embedded(self) -> list[str]:
        """Return all texts that were sent to be embedded."""
        return [text for request in self.embeds for text in request.inputs]


@contextlib.contextmanager
def staged(home: Path, *, dimension: int = 3, clocked: bool = False, **settings: object) -> Iterator[Scene]:
    """Yield a provider and a daemon that uses it; the clock of a `clocked` one can be advanced."""
    with (
        ScriptedProvider(dimension=dimension) as provider,
        running(home, config=configuration(provider, **settings), clocked=clocked) as daemon,
        daemon.client() as client,
    ):
        yield Scene(provider, daemon, client)


def ids(reply: Retrieved) -> list[str]:
    return [hit.id for hit in reply.memories]


def shared_scene(**settings: object):
    """Return a fixture: a scene for all tests of a module."""

    @pytest.fixture(scope="module")
    def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
        with staged(tmp_path_factory.mktemp("home"), **settings) as scene:  # type: ignore[arg-type]
            yield scene

    return scene


def renewed(shared: str):
    """Return a fixture: the shared scene of this name, after a reset."""

    @pytest.fixture
    def scene(request: pytest.FixtureRequest) -> Scene:
        scene: Scene = request.getfixturevalue(shared)
        scene.reset()
        return scene

    return scene
