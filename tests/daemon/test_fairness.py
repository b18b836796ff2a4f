"""Order and admission of requests, over real sockets, with a scripted service."""

from __future__ import annotations

import asyncio
from typing import get_args

from forged_client import protocol as wire
from forged_client.framing import encode
from tests.daemon.served import serving
from tests.data.examples import EXAMPLES
from tests.support.clock import later, turns, until

BIG = wire.Found(reason="x" * 3_000_000)


def search(number, query=None):
    return wire.Search(id=number, workspace="/", query=query or f"q{number}")


def remember(number, content):
    return wire.Remember(id=number, workspace="/", content=content)


def queries(served):
    return [each.query for each in served.service.requests if isinstance(each, wire.Search)]


def written(served):
    return [each.content for each in served.service.requests if isinstance(each, wire.Remember)]


async def test_one_request_of_each_connection_is_begun_in_turn():
    async with serving() as served:
        greedy, modest = await served.connect(), await served.connect()
        greedy.send(*(search(number, "greedy") for number in range(2, 62)))
        modest.send(*(search(number, "modest") for number in range(2, 6)))
        await until(lambda: len(queries(served)) == 64)
        begun = queries(served)
        first = begun.index("modest")
        assert begun[first : first + 7] == ["modest", "greedy"] * 3 + ["modest"]


async def test_a_ping_passes_whatever_waits():
    async with serving() as served:
        greedy, other = await served.connect(), await served.connect()
        greedy.send(*(search(number, "greedy") for number in range(2, 62)))
        other.send(wire.Ping(id=9))
        assert (await other.reply()).id == 9
        assert len(queries(served)) < 60


async def test_thousands_of_pings_in_one_read_do_not_keep_another_waiting():
    async with serving() as served:
        greedy, other = await served.connect(), await served.connect()
        greedy.writer.write(b"".join(encode(wire.Ping(id=7)) for _ in range(4000)))
        other.send(wire.Ping(id=9))
        assert (await other.reply()).id == 9
        assert sum(isinstance(each, wire.Ping) for each in served.service.requests) < 1000


async def test_what_a_peer_only_asked_is_not_begun_when_it_has_left_but_what_it_wrote_is():
    async with serving() as served:
        peer = await served.connect()
        served.service.release("kept")
        peer.send(*(search(number) for number in range(2, 40)), remember(40, "kept"))
        peer.writer.transport.abort()
        await until(lambda: served.service.written == ["kept"])
        await turns()
        assert len(queries(served)) < 20


READS = {
    *(wire.Retrieve, wire.Search, wire.Recall, wire.Why, wire.GetMemories, wire.ListMemories, wire.History),
    *(wire.ListDocuments, wire.ListCaptured, wire.ListInjections, wire.ListPast, wire.Status),
    *(wire.Cost, wire.Egress, wire.Try),
}
NEVER_WAIT = {wire.Hello, wire.Ping, wire.HandOver}


def test_every_verb_says_its_effect():
    effects = {kind: vars(kind).get("effect") for kind in wire.REQUESTS}
    assert set(effects.values()) == set(get_args(wire.Effect))
    assert {kind for kind, effect in effects.items() if effect == "read"} == READS | {wire.Hello, wire.Ping}
    assert {kind for kind, effect in effects.items() if effect == "stream"} == {wire.Events}
    assert {kind for kind in wire.REQUESTS if kind.at_once} == NEVER_WAIT - {wire.HandOver}


async def test_of_every_verb_only_what_writes_is_kept_when_its_peer_has_left():
    asked = [each for each in EXAMPLES if isinstance(each, wire.Request) and type(each) not in NEVER_WAIT]
    shown = (wire.Restore(id=901, workspace="/w"), wire.Undo(id=902, workspace="/w", preview=True))
    async with serving() as served:
        peer = await served.connect()
        (connection,) = served.server.connections
        connection._queue_client.hold()
        peer.send(*asked, *shown)
        await until(lambda: len(connection._waiting) == len(asked) + len(shown))
        begun_before = len(served.service.requests)
        peer.writer.transport.abort()
        dropped = READS | {wire.Events}
        kept = [each for each in asked if not (type(each) in dropped or each.only_shows)]
        await until(lambda: len(served.service.requests) >= begun_before + len(kept))
        await turns()
    assert {type(each) for each in asked} == set(wire.REQUESTS) - NEVER_WAIT
    assert [each.id for each in served.service.requests[begun_before:]] == [each.id for each in kept]


async def test_nothing_is_begun_for_a_peer_that_takes_no_replies_until_it_takes_them():
    async with serving() as served:
        peer, other = await served.connect(), await served.connect()
        served.service.replies["big"] = BIG
        peer.writer.transport.pause_reading()
        peer.send(*(search(number, "big") for number in range(2, 22)))
        await until(lambda: queries(served))
        await turns()
        other.send(wire.Ping(id=9))
        await other.reply()
        assert len(queries(served)) == 1
        peer.writer.transport.resume_reading()
        assert [(await peer.reply()).id for _ in range(20)] == list(range(2, 22))


async def test_requests_that_wait_have_room_for_two_mebibytes_and_one_more():
    async with serving() as served:
        peer = await served.connect()
        (connection,) = served.server.connections
        connection._queue_client.hold()
        asked = [search(number, "x" * 900_000) for number in range(2, 7)]
        peer.send(*asked)
        await until(lambda: not connection._transport.is_reading())
        assert len(connection._waiting) == 3
        connection._queue_client.release()
        await until(lambda: len(queries(served)) == 5)


# --- the end of the daemon ----------------------------------------------------------------------------


async def test_stopping_begins_nothing_that_waits_or_comes():
    async with serving() as served:
        peer = await served.connect()
        peer.send(*(remember(number, f"text {number}") for number in range(2, 42)))
        while not written(served):  # noqa: ASYNC110 - at the very turn of the loop
            await asyncio.sleep(0)
        stopping = asyncio.create_task(served.server.stop())
        await turns()
        begun = len(written(served))
        peer.send(remember(99, "too late"))
        await turns()
        for number in range(2, 42):
            served.service.release(f"text {number}")
        served.service.release("too late")
        replies = await peer.rest()
        await stopping
        assert len(replies) == len(served.service.written) == len(written(served)) == begun < 40


async def test_stopping_reads_no_more_when_there_is_room_again():
    async with serving() as served:
        peer = await served.connect()
        peer.send(*(remember(number, f"text {number}") for number in range(2, 82)))
        await until(lambda: len(written(served)) == 64)
        stopping = asyncio.create_task(served.server.stop())
        await turns()
        for number in range(2, 82):
            served.service.release(f"text {number}")
        replies = await peer.rest()
        await stopping
        assert len(replies) == len(written(served)) == 64


async def test_a_write_that_was_begun_has_longer_to_be_answered_than_a_question():
    async with serving() as served:
        peer = await served.connect()
        peer.send(search(2), remember(3, "text"))
        await until(lambda: written(served))
        stopping = asyncio.create_task(served.server.stop())
        await later(1.1)
        assert not stopping.done()
        served.service.release("text")
        await later(0)
        assert [each.id for each in await peer.rest()] == [3]
        await stopping
