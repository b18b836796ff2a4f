from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged_client import framing
from forged_client.errors import FrameTooLarge, MalformedFrame
from tests.support.daemon import cut


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(framing.HEADER_BYTES, "big") + body


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 60), max_size=40))
def test_bodies_come_back_under_any_chunking(bodies, sizes):
    stream = b"".join(map(framed, bodies))
    cutter = framing.FrameCutter(limit=64)
    found: list[bytes] = []

    for size in [*sizes, len(stream) or 1]:
        chunk, stream = stream[:size], stream[size:]
        found += cut(cutter, chunk)

    assert found == bodies
    assert cutter.held == 0


SIZES = (
    st.integers(0, 10)
    | st.integers(framing.BUFFER_BYTES - 9, framing.BUFFER_BYTES + 9)
    | st.integers(200_000, 300_000)
)


@given(st.lists(SIZES, max_size=6), st.randoms(use_true_random=False))
def test_frames_above_the_buffer_come_back_though_they_are_taken_late(sizes, odds):
    """Whoever has no time for a frame leaves it where it is, receives more, and finds it there."""
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    rest = memoryview(b"".join(map(framed, bodies)))
    cutter = framing.FrameCutter(limit=300_000)
    found: list[bytes] = []

    while rest:
        room = cutter.room()
        assert len(room) > 0
        size = min(len(room), len(rest), odds.choice([1, 3, 4, 5, 60_000, 1 << 20]))
        room[:size] = rest[:size]
        cutter.held += size
        rest = rest[size:]
        while odds.random() < 0.7 and (body := cutter.take()) is not None:
            found.append(bytes(body))
    while (body := cutter.take()) is not None:
        found.append(bytes(body))

    assert found == bodies
    assert (cutter.held, len(cutter.room())) == (0, framing.BUFFER_BYTES)


@pytest.mark.parametrize("chunk", [1, 3, 4, 5, 1000])
def test_a_frame_above_the_limit_is_refused_at_its_header(chunk):
    stream = framed(b"x" * 101)
    cutter = framing.FrameCutter(limit=100)
    chunks = iter([stream[at : at + chunk] for at in range(0, len(stream), chunk)])

    with pytest.raises(FrameTooLarge, match="101"):
        [list(cut(cutter, data)) for data in chunks]

    unheard = sum(map(len, chunks))
    assert len(stream) - unheard < framing.HEADER_BYTES + chunk


def test_a_claimed_length_costs_no_memory_until_its_bytes_come():
    cutter = framing.FrameCutter(limit=2 << 20)
    claim, rest = (2 << 20).to_bytes(framing.HEADER_BYTES, "big"), framing.BUFFER_BYTES - framing.HEADER_BYTES

    assert not list(cut(cutter, claim + bytes(rest - 1)))
    assert len(cutter.room()) == 1
    assert not list(cut(cutter, bytes(1)))
    assert len(cutter.room()) == 3 * framing.BUFFER_BYTES


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x81\xa4type\xa4nope",  # an unknown verb
        b"\x82\xa4type\xa4pong\xa2id\xa1x",  # a wrong type
        b"\x82\xa4type\xa4pong\xa6reason\xa2\xff\xfe",  # not UTF-8
        b"\x82\xa4type\xa4pong\xa1x" + b"\x91" * 100_000,  # nested without end
    ],
)
def test_an_unreadable_body_is_malformed_and_nothing_else(body):
    with pytest.raises(MalformedFrame):
        framing.decode_reply(body)
