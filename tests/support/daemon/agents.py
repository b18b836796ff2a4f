"""Agents that load a daemon from outside while something happens to it, and record the results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from forged_client import Client
from forged_client.errors import ClientError
from forged_client.protocol import Reply
from tests.support.clock import eventually

_AGENTS = 8


class Agents:
    """Eight connected agents: each asks, remembers and captures, over a connection of its own.

    `failures` are the error replies of any of them. `remembered` and `captured` are the texts that the
    daemon has acknowledged, or was about to.
    """

    def __init__(self, connect: Callable[[], Client], repo: Path) -> None:
        self.failures: list[str] = []
        self.remembered: list[str] = []
        self.captured: list[str] = []
        self._connect, self._repo = connect, repo
        self._over = threading.Event()
        self._asked = Counter[int]()

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(_AGENTS)
        self._running = [self._threads.submit(self._live, number) for number in range(_AGENTS)]
        self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._threads.shutdown()
        for agent in self._running:
            agent.result()

    def go_on(self) -> None:
        """Wait until each of them has asked a few times more."""
        before = dict(self._asked)
        eventually(lambda: all(self._asked[each] >= before.get(each, 0) + 3 for each in range(_AGENTS)))

    def _live(self, number: int) -> None:
        with self._connect() as client:
            turn = 0
            while not self._over.is_set():
                turn += 1
                self._ask(client, number, f"{number}-{turn}")
                self._asked[number] += 1
                self._over.wait(0.02)

    def _ask(self, client: Client, number: int, name: str) -> None:
        try:
            done = self._asked_for(client, number, name)
        except ClientError as error:
            self.failures.append(f"{error!r}")
        else:
            if done.status not in {"ok", "empty"}:
                self.failures.append(f"{type(done).__name__}: {done.status} {done.reason}")

    def _asked_for(self, client: Client, number: int, name: str) -> Reply:
        match int(name.partition("-")[2]) % 3:
            case 0:
                self.remembered.append(f"Module {name} has an owner.")
                return client.remember(str(self._repo), self.remembered[-1])
            case 1:
                self.captured.append(f"fact-{name}")
                messages = [{"role": "user", "content": f"Please remember fact-{name} for good."}]
                return client.capture(str(self._repo), messages, f"s{number}", kind="explicit")
            case _:
                return client.search(str(self._repo), "which walrus sings?")
