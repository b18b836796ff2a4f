from __future__ import annotations

import pytest

from forged_client.errors import (
    ConnectionLost,
    DaemonUnavailable,
    DeadlineExceeded,
    FrameTooLarge,
    MalformedFrame,
    ProtocolMismatch,
    ReplyLost,
    RequestFailed,
)
from forged_client.exchange import Exchange, expect_reply, failed_reply, may_repeat
from forged_client.framing import FrameCutter, decode_request, encode
from forged_client.protocol import (
    MAX_REQUEST_BYTES,
    REPLIES,
    Capture,
    Dead,
    Failed,
    Forget,
    Hello,
    Message,
    Ping,
    Pong,
    Remember,
    Reply,
    Request,
    Retrieve,
    Search,
    Status,
    Undo,
    Welcome,
)
from tests.data.examples import EXAMPLES
from tests.support.daemon import cut


def sent(frame: bytes) -> list[Request]:
    return [decode_request(body) for body in cut(FrameCutter(limit=4 << 20), frame)]


def arrived(exchange: Exchange, *replies: Reply) -> list[Reply]:
    data = b"".join(encode(reply) for reply in replies)
    exchange.room()[: len(data)] = data
    return exchange.replies(len(data))


def test_hello_travels_with_the_first_request_only() -> None:
    exchange = Exchange("agent")

    first, second = (sent(exchange.request(Ping())[1]) for _ in range(2))

    assert [type(request) for request in first] == [Hello, Ping]
    assert [type(request) for request in second] == [Ping]


def test_every_request_of_a_connection_has_its_own_id() -> None:
    exchange = Exchange("agent")

    requests = [request for _ in range(3) for request in sent(exchange.request(Ping())[1])]

    assert len({request.id for request in requests}) == 4


def test_the_welcome_is_no_reply() -> None:
    assert arrived(Exchange("agent"), Welcome(id=1), Pong(id=2)) == [Pong(id=2)]


@pytest.mark.parametrize("reply", [Welcome(id=1, protocol=2), Failed(id=1, code="protocol_mismatch")])
def test_another_protocol_version_ends_the_connection(reply: Reply) -> None:
    with pytest.raises(ProtocolMismatch, match="version 1"):
        arrived(Exchange("agent"), reply)


@pytest.mark.parametrize("number", [0, 1])
def test_a_refused_connection_says_why(number: int) -> None:
    with pytest.raises(RequestFailed, match="busy: full"):
        arrived(Exchange("agent"), Failed(id=number, code="busy", message="full"))


def test_a_request_above_its_limit_is_not_sent() -> None:
    with pytest.raises(FrameTooLarge):
        Exchange("agent").request(Search(workspace="/w", query="x" * MAX_REQUEST_BYTES))


def test_a_capture_may_be_larger_than_a_request() -> None:
    messages = (Message("user", "x" * MAX_REQUEST_BYTES),)

    assert Exchange("agent").request(Capture(workspace="/w", session_id="s", messages=messages))
    with pytest.raises(FrameTooLarge):
        Exchange("agent").request(Retrieve(workspace="/w", messages=messages))


@pytest.mark.parametrize("query", [object(), "\ud800", 1 << 70])
def test_what_msgpack_cannot_hold_is_an_invalid_request(query: object) -> None:
    with pytest.raises(RequestFailed, match="invalid"):
        Exchange("agent").request(Search(workspace="/w", query=query))  # type: ignore[arg-type]


def test_a_request_that_was_not_sent_leaves_hello_to_the_next() -> None:
    exchange = Exchange("agent")
    with pytest.raises(RequestFailed):
        exchange.request(Search(workspace="/w", query=object()))  # type: ignore[arg-type]

    assert [type(request) for request in sent(exchange.request(Ping())[1])] == [Hello, Ping]


def test_a_refusal_is_raised_and_another_type_is_malformed() -> None:
    search = Search(workspace="/w", query="q")

    assert expect_reply(Ping(), Pong()) == Pong()
    with pytest.raises(RequestFailed, match="conflict: twice"):
        expect_reply(search, Failed(code="conflict", message="twice"))
    with pytest.raises(MalformedFrame, match="Found"):
        expect_reply(search, Pong())


REQUESTS = [example for example in EXAMPLES if isinstance(example, Request)]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_verb_has_a_reply_for_a_failed_call(request_: Request) -> None:
    reply = failed_reply(request_, DeadlineExceeded("late"))

    assert isinstance(reply, REPLIES)
    assert (type(reply), reply.status, reply.reason) == (request_.reply_type(), "timeout", "late")


def test_replies_belong_to_the_requests_that_are_named_after_them() -> None:
    """The example of a reply carries the id of the request that it answers."""
    asked = {request.id: request for request in REQUESTS}
    answers = [
        example for example in EXAMPLES if isinstance(example, Reply) and not isinstance(example, Failed)
    ]

    assert len(answers) == len(asked) - 1  # `get` and `list` are answered alike
    for reply in answers:
        assert type(reply) is asked[reply.id].reply_type()


def test_the_health_of_an_unreachable_daemon_is_not_ok() -> None:
    report = failed_reply(Status(), DaemonUnavailable("gone"))

    assert report.state == "unavailable"


@pytest.mark.parametrize(
    "request_",
    [
        Remember(workspace="/w", content="c"),
        Forget(workspace="/w", memory_id="m"),
        Undo(workspace="/w"),
        Dead(action="retry"),
    ],
)
def test_a_write_that_may_have_happened_is_not_repeated(request_: Request) -> None:
    assert may_repeat(request_, ConnectionLost())
    assert not may_repeat(request_, ReplyLost())
    assert may_repeat(Ping(), ReplyLost())
    assert may_repeat(Capture(workspace="/w", session_id="s"), ReplyLost())
