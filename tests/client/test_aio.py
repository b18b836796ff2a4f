from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from forged_client import AsyncClient, AsyncObserver, Client, Observer
from forged_client.protocol import Ping, Pong, Search
from tests.client.conftest import acting_on
from tests.support.clock import PATIENCE_S
from tests.support.daemon import PeerConnection, answering, any_answer, stopped_server

T = TypeVar("T")


def run(path: str, work: Callable[[AsyncClient], Awaitable[T]], **settings: object) -> T:
    async def with_client() -> T:
        async with asyncio.timeout(PATIENCE_S), AsyncClient(path, **settings) as client:
            return await work(client)

    return asyncio.run(with_client())


def test_both_clients_have_the_same_verbs():
    verbs = [name for name in dir(Client) if name[0] != "_" and name not in {"close", "events", "ask"}]
    for name in verbs:
        blocking, awaited = (inspect.signature(getattr(kind(), name)) for kind in (Client, AsyncClient))
        assert blocking == awaited
        assert not {"id", "seen", "self"} & set(blocking.parameters)
    assert len(verbs) == len(set(dir(AsyncClient)) & set(verbs)) > 20


def test_both_observers_are_reported_in_the_same_way():
    names = ("__init__", "on_turn_complete", "on_compaction", "on_session_end")

    for name in names:
        one, other = (inspect.signature(getattr(kind, name)) for kind in (Observer, AsyncObserver))
        assert one == other
    assert inspect.signature(Observer.close).parameters == inspect.signature(AsyncObserver.aclose).parameters


def test_a_slow_request_does_not_hold_up_another(serve, socket_file):
    serve(answering(lambda request: Pong() if isinstance(request, Ping) else None))

    async def ask_both(client: AsyncClient) -> tuple[str, str]:
        slow = asyncio.create_task(client.search("/w", "q"))
        await asyncio.sleep(0)
        ping = await client.ping()
        return ping.status, (await slow).status

    assert run(socket_file, ask_both, timeout_s=2.0) == ("ok", "timeout")


def test_a_request_that_timed_out_does_not_end_the_others(serve, socket_file):
    release = threading.Event()

    @acting_on
    def script(connection, _):
        second = connection.next_request()
        release.wait(PATIENCE_S)
        connection.reply(replace(any_answer(second), id=second.id))

    peer = serve(script)

    async def ask_both(client: AsyncClient) -> tuple[str, str]:
        short = asyncio.create_task(client.retrieve("/w", timeout_s=-0.3))
        await asyncio.sleep(0)
        long = asyncio.create_task(client.search("/w", "q"))
        first = await short
        release.set()
        return first.status, (await long).status

    assert run(socket_file, ask_both) == ("timeout", "ok")
    assert len(peer.connections) == 1


def test_a_connection_no_one_got_an_answer_from_is_dropped(serve, socket_file):
    def script(connection: PeerConnection) -> None:
        if connection.number == 0:
            connection.wait_for_hang_up()
        answering(any_answer)(connection)

    serve(script)

    async def ask_twice(client: AsyncClient) -> list[str]:
        return [(await client.ping()).status for _ in range(2)]

    assert run(socket_file, ask_twice, timeout_s=2.0) == ["timeout", "ok"]


def test_a_cancelled_request_leaves_the_connection_usable(serve, socket_file):
    got = threading.Event()

    def answer(request: object) -> Pong | None:
        got.set()
        return Pong() if isinstance(request, Ping) else None

    peer = serve(answering(answer))

    async def cancel_one(client: AsyncClient) -> str:
        task = asyncio.create_task(client.search("/w", "q"))
        await asyncio.to_thread(got.wait, PATIENCE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return (await client.ping()).status

    assert run(socket_file, cancel_one) == "ok"
    assert (len(peer.connections), len(peer.requests_of(Search))) == (1, 1)


def test_requests_wait_for_a_daemon_that_does_not_read(socket_file):
    async def flood(client: AsyncClient) -> set[str]:
        replies = await asyncio.gather(*(client.search("/w", "x" * 500_000) for _ in range(20)))
        return {reply.status for reply in replies}

    with stopped_server(socket_file, backlog=5):
        assert run(socket_file, flood, timeout_s=0.5) == {"timeout"}


def test_one_client_may_work_in_one_loop_after_another(serve, socket_file):
    serve(answering(any_answer))
    client = AsyncClient(socket_file)

    async def once() -> str:
        reply = await client.ping()
        await client.aclose()
        return reply.status

    assert [asyncio.run(once()) for _ in range(2)] == ["ok", "ok"]


def test_events_are_streamed_during_other_requests(serve, socket_file):
    serve(answering(any_answer))

    async def listen(client: AsyncClient) -> tuple[str, str]:
        events = client.events("/w")
        first = await anext(events)
        ping = await client.ping()
        await events.aclose()
        return first.status, ping.status

    assert run(socket_file, listen) == ("ok", "ok")
