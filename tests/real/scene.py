"""A daemon over real model servers, and a workspace with a few memories."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from forged_client import Client
from forged_client.protocol import CaptureReport, Retrieved
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import DaemonProcess, running

MEMORIES = (
    memory("mem_pool", "Database connections come from a pool of ten, because the server allows twenty."),
    memory("mem_retry", "Uploads are tried three times with growing pauses."),
    memory("mem_tabs", "The user prefers tabs over spaces in Go files."),
)
QUESTION = "How many database connections may I open, and why?"
# A pipeline that takes 15 s is given up and begun again 5 s later; on busy cores that happens.
LATE_S = 120.0


@dataclass
class RealScene:
    """A daemon and a client of it."""

    daemon: DaemonProcess
    client: Client
    _turns: Iterator[int] = field(default_factory=itertools.count)

    def load(self, repo: Path) -> None:
        put(repo, *MEMORIES)
        built = self.client.rebuild(str(repo), wait=True, timeout_s=60)
        assert built.status == "ok", built

    def turn(self) -> str:
        return f"turn {next(self._turns)}"

    def ask(self, repo: Path, turn: str, *said: str, timeout_s: float | None = None) -> Retrieved:
        """Retrieve for a conversation in which the user alone speaks."""
        messages = [{"role": "user", "content": text} for text in said or (QUESTION,)]
        return self.client.retrieve(str(repo), messages, session_id="s", turn_id=turn, timeout_s=timeout_s)

    def from_cache(self, repo: Path, turn: str, *said: str) -> Retrieved:
        """The turn's answer with hypotheses, once it comes from the cache; short sub-turns ask for it."""

        def landed() -> Retrieved | None:
            reply = self.ask(repo, turn, *said, timeout_s=0.2)
            return reply if reply.cached and reply.strategy == "hyde" else None

        return eventually(landed, LATE_S, pause_s=0.2)

    @property
    def capture(self) -> CaptureReport:
        return self.client.status().capture


@contextlib.contextmanager
def real_scene(
    home: Path, chat_url: str, embeddings_url: str = "", **settings: object
) -> Iterator[RealScene]:
    """A daemon that asks the chat server, and the embeddings server if there is one."""
    chosen = {
        "embedding_model": "multilingual-e5-small" if embeddings_url else "builtin:lexical",
        "embedding_base_url": embeddings_url or chat_url,
        **settings,
    }
    lines = [f"{key} = {value!r}" for key, value in chosen.items()]
    config = "\n".join(["[memory]", *lines, "[llm]", f'base_url = "{chat_url}"', ""])
    with running(home, config=config) as daemon, daemon.client() as client:
        yield RealScene(daemon, client)
