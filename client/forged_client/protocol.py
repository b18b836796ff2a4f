"""The wire contract: every request and every reply, as frozen tagged structs.

A frame is a 4-byte big-endian length and one msgpack map. The map's `type` names the struct and `id` ties a
reply to its request; replies may come out of order. The first request of a connection is `hello`. Each
request has one type of reply. Instead of it `failed` may come, also for an unknown verb. Unknown fields are
ignored, so either side may be newer.

The messages are grouped by topic in `contract`; all of them can be imported from here.

Every reply has a `status` (ok, empty, not_ready, disabled, timeout, error, or unavailable when the client
could not reach the daemon) and a `reason`. So an agent goes on without memories, and you can see the cause.
"""

# ruff: noqa: F403, PLC0414 - names to be imported from here

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from forged_client.contract.capture import *
from forged_client.contract.health import *
from forged_client.contract.hooks import *
from forged_client.contract.importing import *
from forged_client.contract.knowledge import *
from forged_client.contract.learning import *
from forged_client.contract.memories import *
from forged_client.contract.recall import *
from forged_client.contract.retrieval import *
from forged_client.contract.trust import *
from forged_client.envelope import MAX_REQUEST_BYTES as MAX_REQUEST_BYTES
from forged_client.envelope import Effect as Effect
from forged_client.envelope import Need as Need
from forged_client.envelope import R as R
from forged_client.envelope import Reply as Reply
from forged_client.envelope import Request as Request

M = TypeVar("M", Request[Any], Reply)

PROTOCOL_VERSION = 1

MAX_REPLY_BYTES = 4 << 20

# Error codes of `Failed`; its message is a sentence for a person.
CODES = (
    "invalid",
    "unknown_verb",
    "hello_required",
    "protocol_mismatch",
    "frame_too_large",
    "busy",
    "configuration",
    "not_found",
    "conflict",
    "not_permitted",
    "storage_error",
    "internal",
    "secret",
    "forgotten",
)


class Failed(Reply, frozen=True, tag="failed"):
    """Reply to a request that was not carried out; `code` is one of CODES."""

    code: str = "internal"
    message: str = ""


class Welcome(Reply, frozen=True, tag="welcome"):
    """Reply to `Hello`: the daemon's protocol, version, pid, epoch, and `build`, which names its code."""

    protocol: int = PROTOCOL_VERSION
    version: str = ""
    pid: int = 0
    epoch: str = ""
    build: str = ""


class Hello(Request[Welcome], frozen=True, tag="hello"):
    """First request of a connection: the client's name and protocol versions (1 if left out)."""

    effect = "read"
    at_once = True

    protocol_min: int = 1
    protocol_max: int = 1
    client: str = ""
    version: str = ""
    pid: int = 0


class Pong(Reply, frozen=True, tag="pong"):
    """Reply to `Ping`."""


class Ping(Request[Pong], frozen=True, tag="ping"):
    """Request a reply, to check that the daemon answers."""

    effect = "read"
    at_once = True


class HandedOver(Reply, frozen=True, tag="handed_over"):
    """Reply to `HandOver`: the daemon `pid` hands over its place, with descriptors in this frame.

    First the lock, then the listening socket, then any number of vector packs. The successor answers READY
    once it has them, and the old daemon YOURS; then it ends. Without YOURS the old daemon goes on, and the
    successor closes all of them.
    """

    pid: int = 0


class HandOver(Request[HandedOver], frozen=True, tag="hand_over"):
    """Request the place and sockets of the running daemon, for a new one with `pid` and `version`.

    The old daemon answers the requests in progress, closes all its files, and then replies. No agent sends
    this.
    """

    effect = "write"
    repeatable = False

    pid: int = 0
    version: str = ""


READY, YOURS = b"r", b"y"


def _leaf_classes(base: type[M]) -> Iterator[type[M]]:
    """Yield the message classes below `base` that have no subclasses (options of verbs have)."""
    for each in base.__subclasses__():
        yield from _leaf_classes(each) if each.__subclasses__() else (each,)


REQUESTS = tuple(_leaf_classes(Request))
REPLIES = tuple(_leaf_classes(Reply))
