"""Rows of the turn cache: a repeated turn against a ping of equal request and reply.

The difference is the daemon's work beyond reading and writing bytes. The short turn has a list of a few
messages, the long one a list of 800 kB that an agent has grown over many calls.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence

import corpus
from commits import Checkout, Frames
from daemons import Caller, Daemon, running_over
from judging import Goal
from processes import Broken, directory, on_one_core, plain_environment, process
from row import Row
from sampling import Probe, median_of

_CALLS = 200
REPLY_BYTES = 16 << 10
_BODY_BYTES = 1_430  # five memories, in the text and in the list, make the reply
_NO_HOPS = {"FORGED_MEMORY__RETRIEVAL_HOP_DEPTH": "0"}  # another default has changed the injected ones
_LONG = 400  # messages of 2,000 characters
_GROWS = 16  # calls in which a list grows, before it restarts


Said = list[tuple[str, str | None]]


def _messages(count: int) -> Said:
    """Return a question about some memories, with messages of assistant and tools after it."""
    added: Said = [("user", None) if number % 2 else ("assistant", "look " * 400) for number in range(count)]
    return [("user", corpus.opening(20)), *added]


def _turn(frames: Frames, workspace: str, *, said: Said = (), turn: str = "") -> object:
    """Return a turn with five hypotheses, each about a memory of its own."""
    hypotheses = tuple(corpus.opening(number) for number in range(0, 100, 20))
    return frames.retrieve(workspace, session="s", turn=turn, mode="plain", said=said, hypotheses=hypotheses)


@contextlib.contextmanager
def cached_turn(checkout: Checkout) -> Iterator[tuple[Daemon, Caller, object]]:
    """Yield a daemon, and a turn that it has answered: the next answer has 16 KiB, from the cache."""
    with _daemon(checkout) as (daemon, caller):
        turn = _turn(daemon.frames, daemon.workspace, turn="t")
        frame = daemon.frames.encode(turn)
        _check(daemon, caller, frame, frame)
        yield daemon, caller, turn


@contextlib.contextmanager
def _again(count: int, checkout: Checkout) -> Iterator[Probe]:
    with _daemon(checkout) as (daemon, caller):
        frames = [_frame(daemon.frames, daemon.workspace, count + 2 * number) for number in range(_GROWS)]
        _check(daemon, caller, *frames[:2])
        yield _on_one_core(daemon.pid, caller, frames)


def _daemon(checkout: Checkout) -> contextlib.AbstractContextManager[tuple[Daemon, Caller]]:
    return running_over(checkout, 100, stub=True, body_bytes=_BODY_BYTES, settings=_NO_HOPS)


def _frame(frames: Frames, workspace: str, count: int) -> bytes:
    return frames.encode(_turn(frames, workspace, said=_messages(count)))


def _check(daemon: Daemon, caller: Caller, first: bytes, second: bytes) -> None:
    """Send both. Raises Broken if the second reply is not from the cache, or not of 16 KiB."""
    caller.ask(first)
    body = bytes(caller.ask(second))
    if not daemon.frames.answer(daemon.frames.decode(body)).is_cached:
        raise Broken("the second answer to a turn is not from the cache")
    if not 0.9 * REPLY_BYTES < len(body) < 1.1 * REPLY_BYTES:
        raise Broken(f"the reply has {len(body)} bytes, wanted about {REPLY_BYTES}")


@contextlib.contextmanager
def _padded(count: int, checkout: Checkout) -> Iterator[Probe]:
    """Measure a ping with as many bytes both ways, through the same server."""
    frames = checkout.frames
    frame = frames.padded_ping(len(_frame(frames, "/tmp/fb1234567/home/repo", count + _GROWS)))
    with directory() as top:
        path = str(top / "p.sock")
        command = [checkout.python, checkout.driver("padded_pings.py"), path, str(REPLY_BYTES)]
        with (
            process(command, plain_environment(), cwd="/") as child,
            contextlib.closing(Caller(path, frames, lambda: child.poll() is None)) as caller,
        ):
            yield _on_one_core(child.pid, caller, [frame])


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
