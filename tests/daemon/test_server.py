"""Frames in, replies out, and what a peer may cost; over real sockets, with a scripted service."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import resource
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.counters import Metrics
from forged.daemon import listening
from forged.daemon.connection import FRAME_TIMEOUT_S, MAX_CONNECTIONS, READER_TIMEOUT_S, Server
from forged.errors import StoreError
from forged_client import protocol as wire
from forged_client.framing import FrameCutter, decode_request, encode
from tests.daemon.served import ScriptedService, serving
from tests.faults.amount import times
from tests.support.clock import PATIENCE_S, run, turns, until
from tests.support.daemon import cut

BUFFER = 1 << 16
IN_FLIGHT = 64
BIG = wire.Found(reason="x" * 3_000_000)


def search(number, query=None):
    return wire.Search(id=number, workspace="/", query=query or f"q{number}")


def sized(size, number=2):
    """A search whose frame, header included, has exactly `size` bytes."""
    bare = len(encode(wire.Search(id=number, workspace="/", query="x" * 70_000)))
    frame = encode(wire.Search(id=number, workspace="/", query="x" * (70_000 + size - bare)))
    if len(frame) != size:  # a shorter text has a shorter length field
        frame = encode(
            wire.Search(id=number, workspace="/", query="x" * (70_000 + 2 * size - bare - len(frame)))
        )
    assert len(frame) == size
    return bytes(frame)


def only(served):
    (connection,) = served.server.connections
    return connection


@contextlib.asynccontextmanager
async def connected():
    """A server at work, and one peer of it."""
    async with serving() as served:
        yield served, await served.connect()


@contextlib.asynccontextmanager
async def unread():
    """A peer that does not read the large reply which it asked for."""
    async with connected() as (served, peer):
        served.service.replies["big"] = BIG
        peer.writer.transport.pause_reading()
        peer.send(search(2, "big"))
        await until(lambda: served.service.searches == 1)
        yield served, peer, only(served)


# --- requests and replies -----------------------------------------------------------------------------


async def test_the_sixty_fifth_request_waits_until_one_is_answered():
    async with connected() as (served, peer):
        peer.send(*(search(number) for number in range(2, 102)))
        await until(lambda: served.service.searches >= IN_FLIGHT)
        await turns()
        taken = [served.service.searches]
        served.service.release("q2")
        await peer.reply()
        await until(lambda: served.service.searches > IN_FLIGHT)
        await turns()
        taken.append(served.service.searches)
        for number in range(3, 102):
            served.service.release(f"q{number}")
        ids = [(await peer.reply()).id for _ in range(99)]
        assert taken == [IN_FLIGHT, IN_FLIGHT + 1]
        assert sorted(ids) == list(range(3, 102))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("reply", "code", "reported"),
    [
        (ZeroDivisionError("secret of the user"), "internal", ""),
        # A lone surrogate, as a file name that is no UTF-8 or an escape in a hand-written file gives it.
        (wire.Found(reason="\udcff"), "internal", ""),
        (wire.Found(reason="x" * wire.MAX_REPLY_BYTES), "invalid", "4 MiB"),
        (StoreError("the disk is full"), "storage_error", "the disk is full"),
    ],
    ids=["breaks", "cannot be encoded", "too large", "a refusal"],
)
async def test_a_reply_that_cannot_be_sent_is_a_typed_error_and_the_connection_lives(
    caplog, late, reply, code, reported
):
    async with connected() as (served, peer):
        (served.service.late if late else served.service.replies)["q"] = reply
        served.service.release("q")
        peer.send(search(2, "q"))
        failed = await peer.reply()
        peer.send(wire.Ping(id=3))
        assert isinstance(await peer.reply(), wire.Pong)

    assert (failed.id, failed.status, failed.code) == (2, "error", code)
    assert reported in failed.message
    assert "secret" not in failed.message
    assert served.metrics.internal_errors == (code == "internal")
    assert ("ZeroDivisionError" in caplog.text) == isinstance(reply, ZeroDivisionError)


async def test_the_service_learns_which_replies_were_written_whole():
    """A session has heard no other: not one that is an error instead, nor one that nobody has read."""
    async with connected() as (served, peer):
        served.service.replies = {
            "read": wire.Retrieved(text="x" * 1_000),
            "refused": StoreError("the disk is full"),
            "broken": wire.Retrieved(reason="\udcff"),
            "too large": wire.Retrieved(text="x" * wire.MAX_REPLY_BYTES),
            "unread": wire.Retrieved(text="x" * (3 << 20)),
        }
        for number, turn in enumerate(served.service.replies, 2):
            peer.send(wire.Retrieve(id=number, workspace="/", session_id="s", turn_id=turn))
            if turn != "unread":
                await peer.reply()
        await until(lambda: len(served.service.whole) == 5)

    assert [turn for turn, whole in served.service.whole.items() if whole] == ["read"]


async def test_a_peer_that_half_closes_gets_the_replies_to_what_it_asked():
    async with connected() as (served, peer):
        peer.send(search(2), search(3), wire.Ping(id=4))
        await until(lambda: served.service.searches == 2)
        peer.half_close()
        await turns()
        served.service.release("q2")
        served.service.release("q3")
        ids = sorted(reply.id for reply in await peer.rest())
        await until(lambda: not served.server.connections)
        assert ids == [2, 3, 4]


# --- frames -------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 200) | st.integers(BUFFER - 60, BUFFER) | st.just(200_000), max_size=4),
    st.lists(st.sampled_from([1, 2, 3, 5, 700, BUFFER - 1, BUFFER]), min_size=1, max_size=40),
)
@settings(max_examples=times(60, 15), deadline=None)
def test_a_connection_hears_what_the_cutter_cuts_under_any_chunking(sizes, chunks):
    """As the loop drives it: `get_buffer`, bytes into it, `buffer_updated`; a cutter beside it."""
    requests = [wire.Search(id=number, workspace="/", query="x" * n) for number, n in enumerate(sizes, 2)]
    stream = memoryview(b"".join(encode(request) for request in [wire.Hello(id=1), *requests]))

    async def body():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server = Server(service := ScriptedService(), Metrics())
            service.replies.update({request.query: wire.Found() for request in requests})
            connection, cutter = server.connection(), FrameCutter(wire.MAX_CAPTURE_BYTES)
            connection.connection_made(Deaf(ours))
            at, sized = 0, itertools.cycle(chunks)
            while at < len(stream):
                room = connection.get_buffer(-1)
                data = stream[at : at + min(next(sized), len(room))]
                room[: len(data)] = data
                connection.buffer_updated(len(data))
                fresh = [decode_request(body) for body in cut(cutter, data)]
                expected.extend(fresh)
                await turns(2 * len(fresh))  # one request is begun in each
                assert service.requests == expected
                at += len(data)

    expected: list[wire.Request] = []
    run(body())

    assert expected[1:] == requests


class Deaf(asyncio.Transport):
    """A transport that drops what is written to it."""

    def __init__(self, sock):
        super().__init__({"socket": sock})

    def is_closing(self):
        return False

    def write(self, data):
        pass


async def test_a_large_frame_does_not_leave_a_large_buffer_behind():
    async with serving() as served:
        served.service.replies.update({"x": wire.Found()})
        peer = await served.connect()
        peer.writer.write(sized(1_000_000))
        peer.send(wire.Ping(id=3))
        await peer.reply()
        peer.send(wire.Ping(id=4))
        await peer.reply()
        assert len(only(served).get_buffer(-1)) == BUFFER


# --- slow peers ---------------------------------------------------------------------------------------


async def test_an_idle_connection_is_never_slow():
    async with connected() as (served, peer):
        only(served).drop_if_slow(only(served).last_active + 86_400)
        peer.send(wire.Ping(id=2))
        assert (await peer.reply()).id == 2


async def test_a_frame_that_we_do_not_read_on_is_not_held_against_its_sender():
    """With 64 requests in flight the server stops reading; the peer cannot finish its frame."""
    async with connected() as (served, peer):
        peer.send(*(search(number) for number in range(2, 2 + IN_FLIGHT)))
        await peer.send_bytes(bytes(encode(wire.Ping(id=99)))[:6])
        await until(lambda: served.service.searches == IN_FLIGHT)
        connection = only(served)
        connection.drop_if_slow(connection.last_active + 10 * FRAME_TIMEOUT_S)
        await turns()
        for number in range(2, 2 + IN_FLIGHT):
            served.service.release(f"q{number}")
        for _ in range(IN_FLIGHT):
            await peer.reply()
        await peer.send_bytes(bytes(encode(wire.Ping(id=99)))[6:])
        assert (await peer.reply()).id, served.metrics.slow_senders_closed == (99, 0)


async def test_a_reader_that_takes_nothing_for_five_seconds_is_dropped():
    async with unread() as (served, _, connection):
        now = connection.last_active
        connection.drop_if_slow(now + READER_TIMEOUT_S - 0.5)
        await turns()
        assert len(served.server.connections) == 1
        connection.drop_if_slow(now + READER_TIMEOUT_S + 1)
        await until(lambda: not served.server.connections)
        assert served.metrics.slow_readers_closed == 1


# --- who may come in ----------------------------------------------------------------------------------


async def test_a_peer_of_another_user_is_closed_before_a_byte_is_read():
    async with serving(uid=os.geteuid() + 1) as served:
        peer = await served.connect(hello=False)
        peer.send(wire.Hello(id=1))
        assert await peer.rest() == []
        assert served.service.requests == []
        assert served.metrics.foreign_peers_refused == 1


async def test_at_capacity_the_quietest_is_closed_with_the_reason():
    async with serving() as served:
        peers = [await served.connect() for _ in range(MAX_CONNECTIONS)]
        peers[0].send(wire.Ping(id=2))
        await peers[0].reply()
        late = await served.connect()
        (reported,) = await peers[1].rest()
        peers[0].send(wire.Ping(id=3))
        late.send(wire.Ping(id=3))
        assert reported.code == "busy"
        assert (await peers[0].reply()).id == 3
        assert (await late.reply()).id == 3
        assert served.metrics.connections_evicted == 1


async def test_at_capacity_one_that_never_said_hello_goes_first():
    async with serving() as served:
        peers = [await served.connect() for _ in range(MAX_CONNECTIONS - 1)]
        silent = await served.connect(hello=False)
        await until(lambda: len(served.server.connections) == MAX_CONNECTIONS)
        await served.connect()
        peers[0].send(wire.Ping(id=3))
        assert ([reply.code for reply in await silent.rest()], (await peers[0].reply()).id) == (["busy"], 3)


async def test_a_busy_connection_is_not_evicted_however_quiet():
    async with serving() as served:
        busy = await served.connect()
        busy.send(search(2))
        await until(lambda: served.service.searches == 1)
        others = [await served.connect() for _ in range(MAX_CONNECTIONS - 1)]
        await served.connect()
        served.service.release("q2")
        assert (await busy.reply()).id, [reply.code for reply in await others[0].rest()] == (2, ["busy"])


async def test_when_all_are_busy_the_newcomer_gets_that_answer():
    async with serving() as served:
        for number in range(MAX_CONNECTIONS):
            (await served.connect()).send(search(2, f"q{number}"))
        await until(lambda: served.service.searches == MAX_CONNECTIONS)
        late = await served.connect(hello=False)
        assert [reply.code for reply in await late.rest()] == ["busy"]
        assert served.metrics.connections_refused == 1


async def test_a_refused_peer_that_does_not_read_is_cut():
    async with unread() as (_, _, connection):
        transport = connection._transport
        connection.refuse("busy", "make room")
        await turns()
        assert transport.get_write_buffer_size() > 0
        loop = asyncio.get_running_loop()
        now = loop.time
        loop.time = lambda: now() + READER_TIMEOUT_S + 0.1
        await until(lambda: transport.get_write_buffer_size() == 0)


# --- the listening socket -----------------------------------------------------------------------------


async def test_a_removed_socket_is_bound_again_and_open_connections_stay():
    async with serving() as served:
        old = await served.connect()
        os.unlink(served.path)
        await served.server.replace(listening.bind(served.path))
        new = await served.connect()
        for peer in (old, new):
            peer.send(wire.Ping(id=5))
        assert [(await peer.reply()).id for peer in (old, new)] == [5, 5]


async def test_stopping_answers_what_was_begun_and_accepts_no_more():
    async with connected() as (served, peer):
        peer.send(search(2))
        await until(lambda: served.service.searches == 1)
        stopping = asyncio.create_task(served.server.stop())
        await turns()
        served.service.release("q2")
        left = await peer.rest()
        await stopping
        with pytest.raises(OSError, match=r"refused|No such file"):
            await served.connect()
        assert ([reply.id for reply in left], served.server.connections) == ([2], set())


async def test_stopping_waits_a_moment_and_not_for_streams():
    async with serving() as served:
        streaming, stuck = await served.connect(), await served.connect()
        streaming.send(wire.Events(id=2))
        await until(lambda: any(each.in_flight for each in served.server.connections))
        await asyncio.wait_for(served.server.stop(), PATIENCE_S)
        assert (await streaming.rest(), await stuck.rest()) == ([], [])


async def test_accepting_without_a_descriptor_left_neither_spins_nor_floods_and_goes_on_later(caplog):
    async with serving() as served:
        peers = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open("/dev/null", os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            for peer in peers:
                peer.setblocking(False)
                peer.connect(served.path)
            await until(lambda: "out of system resource" in caplog.text)
            await asyncio.sleep(0.3)  # that it does not go on: the pause has a second
            assert caplog.text.count("out of system resource") <= 16
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: len(served.server.connections) == len(peers))
        for peer in peers:
            peer.close()
