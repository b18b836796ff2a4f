"""Rows of the turn cache: a turn that is answered again, against a ping whose request and reply are as large.

What they differ in is what the daemon does beyond reading and writing bytes. The short turn has a list of a
few messages, the long one a list of 800 kB that an agent has grown over many calls.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence

import corpus
import msgspec
from commits import Checkout
from daemons import Caller, standing
from judging import Goal
from processes import Broken, directory, on_one_core, plain_environment, process
from row import Row
from sampling import Probe, median_of

from forged_client import framing, protocol

_CALLS = 200
_BODY_BYTES = 1_480  # eight memories make a reply of 16 KiB
_NO_HOPS = {"FORGED_MEMORY__RETRIEVAL_HOP_DEPTH": "0"}
_REPLY_BYTES = 16 << 10
_LONG = 400  # messages of 2,000 characters
_GROWS = 16  # calls in which a list grows, before it begins anew


def _messages(count: int) -> tuple[protocol.Message, ...]:
    """A question about some of the memories, and what assistant and tools added since."""
    question = protocol.Message("user", corpus.opening(20))
    result = (protocol.Part("tool_result"),)
    added = (
        protocol.Message("user", result) if number % 2 else protocol.Message("assistant", "look " * 400)
        for number in range(count)
    )
    return (question, *added)


def _turn(workspace: str, count: int) -> bytes:
    hypotheses = tuple(corpus.opening(number) for number in range(0, 100, 20))
    return framing.encode(
        protocol.Retrieve(
            id=3,
            workspace=workspace,
            session_id="s",
            mode="plain",
            messages=_messages(count),
            hypotheses=hypotheses,
        )
    )


@contextlib.contextmanager
def _again(count: int, checkout: Checkout) -> Iterator[Probe]:
    with standing(checkout, 100, stub=True, body_bytes=_BODY_BYTES, settings=_NO_HOPS) as (daemon, caller):
        frames = [_turn(daemon.workspace, count + 2 * number) for number in range(_GROWS)]
        caller.ask(frames[0])
        body = bytes(caller.ask(frames[1]))
        reply = framing.decode_reply(body)
        if not isinstance(reply, protocol.Retrieved) or not reply.cached:
            raise Broken("the second answer to a turn is not from the cache")
        if not 0.9 * _REPLY_BYTES < len(body) < 1.1 * _REPLY_BYTES:
            raise Broken(f"the reply has {len(body)} bytes, wanted about {_REPLY_BYTES}")
        yield _on_one_core(daemon.pid, caller, frames)


@contextlib.contextmanager
def _padded(count: int, checkout: Checkout) -> Iterator[Probe]:
    """A ping with as many bytes there and back, through the same server."""
    frame = _ping(len(_turn("/tmp/fb1234567/home/repo", count + _GROWS)))
    with directory() as top:
        path = str(top / "p.sock")
        command = [checkout.python, checkout.driver("padded_pings.py"), path, str(_REPLY_BYTES)]
        with (
            process(command, plain_environment(), cwd="/") as child,
            contextlib.closing(Caller(path, lambda: child.poll() is None)) as caller,
        ):
            yield _on_one_core(child.pid, caller, [frame])


def _ping(size: int) -> bytes:
    """A ping of so many bytes: a field that nobody knows is passed over."""
    bare = len(msgspec.msgpack.encode({"type": "ping", "id": 2, "padding": bytes(1 << 10)})) - (1 << 10)
    body = msgspec.msgpack.encode({"type": "ping", "id": 2, "padding": bytes(max(size - bare, 0))})
    return len(body).to_bytes(framing.HEADER_BYTES, "big") + body


def _on_one_core(pid: int, caller: Caller, frames: Sequence[bytes]) -> Probe:
    calls = itertools.cycle(frames)

    def round_() -> float:
        with on_one_core(pid):
            return median_of(lambda: caller.ask(next(calls)), _CALLS)

    return round_


ROWS = (
    Row(
        "turn-ping",
        "sub-turn out of the cache, 16 KiB, p50 / a ping of equal bytes, one core",
        Goal(12.0, "one path of replies: a sub-turn takes 0.3 ms more than a ping"),
        functools.partial(_again, 8),
        functools.partial(_padded, 8),
    ),
    Row(
        "long-turn-ping",
        "the same with a list of 800 kB / a ping of equal bytes, one core",
        Goal(5.0, "one path of replies: a sub-turn takes 0.3 ms more than a ping"),
        functools.partial(_again, 2 * _LONG),
        functools.partial(_padded, 2 * _LONG),
    ),
)
