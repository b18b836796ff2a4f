"""Fixtures of the client's tests: short socket paths, scripted peers, and both clients in one form."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forged_client import AsyncClient, Client
from forged_client.protocol import Reply, Request
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Peer, PeerConnection, Script


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory whose path is short enough for sockets, which pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="fg"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def socket_file(folder: Path) -> str:
    return str(folder / "s")


@pytest.fixture
def serve(socket_file: str) -> Iterator[Callable[[Script], Peer]]:
    """Starts a peer at `socket_file`; a second call replaces the first peer, as a restart does."""
    running: list[Peer] = []

    def start(script: Script) -> Peer:
        for peer in running:
            peer.stop()
        running[:] = [Peer(socket_file, script)]
        return running[0]

    yield start
    for peer in running:
        peer.stop()


@pytest.fixture
def client(socket_file: str) -> Iterator[Client]:
    with Client(socket_file) as client:
        yield client


def acting_on(act: Callable[[PeerConnection, Request], None]) -> Script:
    """A peer that greets, has `act` deal with the first request, and waits for the client to go."""

    def script(connection: PeerConnection) -> None:
        connection.greet()
        act(connection, connection.next_request())
        connection.wait_for_hang_up()

    return script


Ask = Callable[..., Reply]


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, socket_file: str) -> Ask:
    """`ask("search", "/w", "query", timeout_s=0.3)` over either client, over in a minute or two."""
    once = _ask_blocking if request.param == "blocking" else _ask_asyncio

    def ended(
        verb: str, *args: object, timeout_s: float = PATIENCE_S, strict: bool = False, **named: object
    ) -> Reply:
        pool = ThreadPoolExecutor(1)
        try:
            call = pool.submit(
                once, socket_file, timeout_s, strict, lambda client: getattr(client, verb)(*args, **named)
            )
            return call.result(2 * PATIENCE_S)
        finally:
            pool.shutdown(wait=False)

    return ended


def _ask_blocking(path: str, timeout_s: float, strict: bool, call: Callable[..., Reply]) -> Reply:
    with Client(path, timeout_s=timeout_s, strict=strict) as client:
        return call(client)


def _ask_asyncio(path: str, timeout_s: float, strict: bool, call: Callable[..., Awaitable[Reply]]) -> Reply:
    async def once() -> Reply:
        async with AsyncClient(path, timeout_s=timeout_s, strict=strict) as client:
            return await call(client)

    return asyncio.run(once())
