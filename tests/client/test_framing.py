from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged_client.errors import FrameTooLarge, MalformedFrame
from forged_client.framing import HEADER_BYTES, Framer, decode_head, decode_reply, decode_request, encode
from forged_client.protocol import Pong, Search


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "big") + body


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 60), max_size=40))
def test_bodies_come_back_under_any_chunking(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(framed, bodies))
    framer = Framer(limit=64)
    found: list[bytes] = []

    for size in [*sizes, len(stream) or 1]:
        chunk, stream = stream[:size], stream[size:]
        found += [bytes(body) for body in framer.feed(chunk)]

    assert found == bodies


@given(st.integers(0, 200))
def test_a_frame_is_underway_until_its_last_byte(cut: int) -> None:
    stream = framed(b"x" * 100)
    framer = Framer(limit=100)

    bodies = list(framer.feed(stream[:cut]))

    assert framer.midway == (0 < cut < len(stream))
    assert len(bodies) == (cut >= len(stream))


@pytest.mark.parametrize("chunk", [1, 3, 4, 5, 1000])
def test_a_frame_above_the_limit_is_refused_at_its_header(chunk: int) -> None:
    stream = framed(b"x" * 101)
    framer = Framer(limit=100)
    chunks = [stream[at : at + chunk] for at in range(0, len(stream), chunk)]

    with pytest.raises(FrameTooLarge, match="101"):
        [list(framer.feed(data)) for data in chunks]

    assert len(framer._kept) <= HEADER_BYTES


def test_a_whole_frame_is_handed_out_without_a_copy() -> None:
    buffer = bytearray(framed(b"abc"))

    (body,) = Framer(limit=10).feed(memoryview(buffer))
    buffer[HEADER_BYTES] = ord("z")

    assert bytes(body) == b"zbc"


def test_a_request_survives_the_wire() -> None:
    request = Search(id=7, workspace="/w", query="naïve 你好")

    (body,) = Framer(limit=1000).feed(encode(request))

    assert decode_request(body) == request


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
def test_an_unreadable_body_is_malformed_and_nothing_else(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_reply(body)


def test_text_that_is_not_utf8_is_not_repeated_in_the_reason() -> None:
    with pytest.raises(MalformedFrame) as caught:
        decode_reply(b"\x82\xa4type\xa4pong\xa6reason\xa8secret\xff\xfe")

    assert "secret" not in str(caught.value)


def test_unknown_fields_are_ignored() -> None:
    assert decode_reply(b"\x83\xa4type\xa4pong\xa2id\x05\xa5newer\xc3") == Pong(id=5)


def test_the_head_of_an_unknown_verb_is_readable() -> None:
    head = decode_head(b"\x83\xa4type\xa4nope\xa2id\x05\xa1x\x90")

    assert (head.type, head.id) == ("nope", 5)
