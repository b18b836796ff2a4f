"""The wire contract, whole: every request and every reply, as frozen tagged structs.

A frame is a 4-byte big-endian length and one msgpack map. The map's `type` names the struct and `id` ties
a reply to its request; replies may come out of order. The first request of a connection is `hello`. Each
request names the type of its reply; instead of that reply `failed` may come, also for an unknown verb.
Unknown fields are ignored, so either side may be newer.

Families of messages are in `contract`, and every one of them may be imported from here.

Every reply carries `status` (ok, empty, not_ready, disabled, timeout, error, or unavailable when the
client could not reach the daemon) and a `reason`: an agent goes on without memories, a person can see why.
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

# Error codes of `Failed`; the message beside it is a sentence for a person.
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
    """The request was not carried out; `code` is one of CODES."""

    code: str = "internal"
    message: str = ""


class Welcome(Reply, frozen=True, tag="welcome"):
    """`build` tells the daemon's code from another of the same version, "" if that is not known."""

    protocol: int = PROTOCOL_VERSION
    version: str = ""
    pid: int = 0
    epoch: str = ""
    build: str = ""


class Hello(Request[Welcome], frozen=True, tag="hello"):
    """A greeting that names no version speaks the first, whatever the daemon's is."""

    effect = "read"
    at_once = True

    protocol_min: int = 1
    protocol_max: int = 1
    client: str = ""
    version: str = ""
    pid: int = 0


class Pong(Reply, frozen=True, tag="pong"):
    pass


class Ping(Request[Pong], frozen=True, tag="ping"):
    """Ask whether the daemon answers."""

    effect = "read"
    at_once = True


class HandedOver(Reply, frozen=True, tag="handed_over"):
    """The place of the daemon `pid` is the successor's: with this frame come descriptors.

    First the lock, then the listening socket, then any number of parcels of vectors. The successor answers
    READY once it has them, and the old daemon YOURS; then it ends. Without YOURS it goes on, and all of them
    are to be closed.
    """

    pid: int = 0


class HandOver(Request[HandedOver], frozen=True, tag="hand_over"):
    """A daemon that is ready to serve wants the place of the one that does; `pid` and `version` are its own.

    The old daemon answers what was begun, closes all that it has open, and then replies. No agent asks this.
    """

    effect = "write"
    repeatable = False

    pid: int = 0
    version: str = ""


READY, YOURS = b"r", b"y"


def _leaves(base: type[M]) -> Iterator[type[M]]:
    """All messages of a kind: a class that others are made from, such as the options of a verb, is none."""
    for each in base.__subclasses__():
        yield from _leaves(each) if each.__subclasses__() else (each,)


REQUESTS = tuple(_leaves(Request))
REPLIES = tuple(_leaves(Reply))
