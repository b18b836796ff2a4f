from __future__ import annotations

import pytest

from forged_client import errors, protocol
from forged_client.exchange import Exchange, error_of_both, may_repeat, with_key
from forged_client.framing import FrameCutter, decode_request, encode
from tests.data.examples import EXAMPLES
from tests.support.daemon import cut


def sent(frame: bytes) -> list[protocol.Request]:
    return [decode_request(body) for body in cut(FrameCutter(limit=4 << 20), frame)]


def arrived(exchange: Exchange, *replies: protocol.Reply) -> list[protocol.Reply]:
    data = b"".join(encode(reply) for reply in replies)
    exchange.room()[: len(data)] = data
    return exchange.decode_replies(len(data))


def test_hello_travels_with_the_first_request_only_and_every_request_has_its_own_id():
    exchange = Exchange("agent")

    requests = [request for _ in range(3) for request in sent(exchange.encode_request(protocol.Ping())[1])]

    assert [type(request) for request in requests] == [
        protocol.Hello,
        protocol.Ping,
        protocol.Ping,
        protocol.Ping,
    ]
    assert len({request.id for request in requests}) == 4


@pytest.mark.parametrize(
    "reply", [protocol.Welcome(id=1, protocol=2), protocol.Failed(id=1, code="protocol_mismatch")]
)
def test_another_protocol_version_ends_the_connection(reply):
    with pytest.raises(errors.ProtocolMismatch, match="version 1"):
        arrived(Exchange("agent"), reply)


def test_a_request_above_its_limit_is_not_sent_but_a_capture_may_be_larger():
    messages = (protocol.Message("user", "x" * protocol.MAX_REQUEST_BYTES),)

    assert Exchange("agent").encode_request(
        protocol.Capture(workspace="/w", session_id="s", messages=messages)
    )
    for request in (
        protocol.Search(workspace="/w", query="x" * protocol.MAX_REQUEST_BYTES),
        protocol.Retrieve(workspace="/w", messages=messages),
    ):
        with pytest.raises(errors.FrameTooLarge):
            Exchange("agent").encode_request(request)


@pytest.mark.parametrize("query", [object(), "\ud800", 1 << 70])
def test_what_msgpack_cannot_hold_is_an_invalid_request_and_leaves_hello_to_the_next(query):
    exchange = Exchange("agent")

    with pytest.raises(errors.RequestFailed, match="invalid"):
        exchange.encode_request(protocol.Search(workspace="/w", query=query))  # type: ignore[arg-type]
    assert [type(request) for request in sent(exchange.encode_request(protocol.Ping())[1])] == [
        protocol.Hello,
        protocol.Ping,
    ]


REQUESTS = [example for example in EXAMPLES if isinstance(example, protocol.Request)]


def test_replies_belong_to_the_requests_that_are_named_after_them():
    """The example of a reply carries the id of the request that it answers."""
    asked = {request.id: request for request in REQUESTS}
    answers = [
        example
        for example in EXAMPLES
        if isinstance(example, protocol.Reply) and not isinstance(example, protocol.Failed)
    ]

    # `get` and `list` are answered alike, and so are `remember` and `edit`, and removals of documents.
    assert len(answers) == len(asked) - 3
    for reply in answers:
        assert type(reply) is asked[reply.id].reply_type()


@pytest.mark.parametrize(
    "request_",
    [
        protocol.Remember(workspace="/w", content="c"),
        protocol.Forget(workspace="/w", memory_id="m"),
        protocol.Undo(workspace="/w"),
        protocol.Dead(action="retry"),
    ],
)
def test_a_write_that_may_have_happened_is_not_repeated_without_a_key(request_):
    assert may_repeat(request_, errors.ConnectionLost())
    assert not may_repeat(request_, errors.ReplyLost())
    assert may_repeat(protocol.Ping(), errors.ReplyLost())
    assert may_repeat(protocol.Capture(workspace="/w", session_id="s"), errors.ReplyLost())


def test_a_write_has_a_key_of_its_own_and_the_callers_stays():
    remember = protocol.Remember(workspace="/w", content="c")

    one, other = with_key(remember), with_key(remember)

    assert len(one.key) == 32
    assert one.key != other.key
    assert may_repeat(one, errors.ReplyLost())
    assert with_key(one) == one
    assert with_key(protocol.Ping()) == protocol.Ping()


def test_a_write_that_may_have_happened_is_never_called_unavailable():
    lost, absent, late = (
        errors.ReplyLost("lost"),
        errors.DaemonAbsent("none"),
        errors.DeadlineExceeded("late"),
    )
    write = protocol.Remember(workspace="/w", content="c", key="k")

    assert error_of_both(write, lost, absent) is lost
    assert error_of_both(write, lost, late) is late
    assert error_of_both(write, errors.ConnectionLost("not sent"), absent) is absent
    assert error_of_both(protocol.Ping(), lost, absent) is absent
