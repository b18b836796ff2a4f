"""Hand over a daemon's place and vectors, to another daemon or to systemd.

`take` is the side of who begins, `Successor` the one that ends. Either may die at any moment, and never do
two serve: the successor begins when the place is given and the old one has hung up. A lock belongs to the
open file, so it passes on with the descriptor. `FdStore` has systemd keep descriptors of vectors for a
restart (`FileDescriptorStoreMax=`); what cannot be stored is embedded again. Raises AlreadyRunning.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Self
from weakref import ref

import msgspec

from forged import __version__
from forged.daemon import listening, systemd
from forged.daemon.listening import AlreadyRunning
from forged.maps import MOST_PACKS, Indexer, ModelCache, RootIndex, pack_name
from forged_client import framing
from forged_client.dial import attempt, retry_pauses
from forged_client.errors import DaemonAbsent, DaemonUnavailable
from forged_client.protocol import (
    MAX_REPLY_BYTES,
    PROTOCOL_VERSION,
    READY,
    YOURS,
    Failed,
    HandedOver,
    HandOver,
    Hello,
    Reply,
    Welcome,
)

logger = logging.getLogger(__name__)

PATIENCE_S = 12.0
# The old daemon ends in 5 s in any state.
_ENDING_S = 6.0
# The successor has nothing to do but to take it.
_ANSWER_S = 1.0
_MOST_DESCRIPTORS = 253  # of one message, as Linux has it
# How long a text that was forgotten may live on as a vector, and how much a crash may cost.
STORED_EVERY_S = 60.0
_PREFIX = "vectors-"


class AddressClaim(msgspec.Struct, frozen=True):
    """The place of the daemon: its lock, and `vector_packs`, descriptors of vectors that came along."""

    lock: int
    listening: socket.socket | None = None
    vector_packs: tuple[int, ...] = ()


class Successor:
    """Another daemon that asked for our place."""

    def __init__(self, peer: socket.socket, request: HandOver) -> None:
        self.pid = request.pid
        self._peer = peer
        self._id = request.id

    def give(self, lock: int, listening_socket: socket.socket, vector_packs: Sequence[int]) -> bool:
        """Whether the place is its own now; else we keep it. Waits for it a second at most."""
        given = [lock, listening_socket.fileno(), *vector_packs]
        reply = HandedOver(id=self._id, pid=os.getpid())
        try:
            self._peer.settimeout(_ANSWER_S)
            socket.send_fds(self._peer, [framing.encode(reply)], given)
            if self._peer.recv(len(READY)) != READY:
                return False
            self._peer.sendall(YOURS)
        except OSError as error:
            logger.warning("successor did not take over pid=%d error=%s", self.pid, error)
            return False
        return True

    def refuse(self, code: str, why: str) -> None:
        """Say why it does not get the place; `busy`: not now."""
        failed = Failed(id=self._id, status="error", reason=why, code=code, message=why)
        with contextlib.suppress(OSError):
            self._peer.settimeout(_ANSWER_S)
            self._peer.sendall(framing.encode(failed))
        self.close()

    def close(self) -> None:
        self._peer.close()


def take(path: str, *, replace: bool = False) -> AddressClaim:
    """Take a place that is free or ends; with `replace` one that serves. Raises AlreadyRunning."""
    deadline = time.monotonic() + PATIENCE_S
    for pause in retry_pauses():
        try:
            return AddressClaim(listening.lock(path))
        except AlreadyRunning:
            if time.monotonic() > deadline or not (replace or _is_deserted(path)):
                raise
        if replace and (place := _asked(path)) is not None:
            return place
        time.sleep(pause)
    raise AssertionError  # the pauses never end


def _is_deserted(path: str) -> bool:
    """Whether nobody listens there: whoever has the lock ends, or begins."""
    try:
        opened = attempt(path)
    except DaemonAbsent:
        return True
    except DaemonUnavailable:
        return False
    if opened is not None:
        opened.close()
    return False


def _asked(path: str) -> AddressClaim | None:
    """The place if the daemon there gives it; None if nobody is there now who could say."""
    try:
        opened = attempt(path)
    except DaemonAbsent:
        return None
    except DaemonUnavailable as error:
        raise AlreadyRunning(f"the running daemon cannot be asked to hand over: {error}") from error
    if opened is None:
        return None
    with socket.socket(fileno=opened.detach()) as peer, _Asking(peer) as asking:
        return asking.place()


class _Asking:
    """A connection to the daemon whose place we want, and what descriptors have come over it."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._frames = framing.FrameCutter(MAX_REPLY_BYTES)
        self._descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close what is not used."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def place(self) -> AddressClaim | None:
        try:
            self._peer.settimeout(_ENDING_S)
            hello = Hello(
                id=1,
                protocol_min=PROTOCOL_VERSION,
                protocol_max=PROTOCOL_VERSION,
                client="forged serve",
                version=__version__,
            )
            self._peer.sendall(framing.encode(hello))
            self._peer.sendall(framing.encode(HandOver(id=2, pid=os.getpid(), version=__version__)))
            reply = self._reply()
            return self._taken(reply) if isinstance(reply, HandedOver) else None
        except TimeoutError:
            raise AlreadyRunning("the running daemon did not hand over in time") from None
        except OSError:
            return None  # it has died, or ends

    def _taken(self, reply: HandedOver) -> AddressClaim | None:
        if len(self._descriptors) < 2:
            return None
        self._peer.sendall(READY)
        if self._peer.recv(len(YOURS)) != YOURS:
            return None
        with contextlib.suppress(OSError):  # it is ours, whatever becomes of the other one
            self._peer.recv(1)  # nothing: it has hung up, and does nothing more
        lock, listening_at, *vector_packs = self._descriptors
        self._descriptors = []
        listening.sign(lock)
        logger.info("took over from pid=%d", reply.pid)
        return AddressClaim(lock, socket.socket(fileno=listening_at), tuple(vector_packs))

    def _reply(self) -> Reply | None:
        """The answer, None if the connection ends before it. Raises AlreadyRunning for a refusal."""
        while (received := self._received()) != 0:
            self._frames.held += received
            while (body := self._frames.take()) is not None:
                reply = framing.decode_reply(body)
                if isinstance(reply, Failed) and reply.code != "busy":
                    raise AlreadyRunning(_explained(reply))
                if not isinstance(reply, Welcome):
                    return reply
        return None

    def _received(self) -> int:
        room = self._frames.room()
        data, descriptors, _, _ = socket.recv_fds(self._peer, len(room), _MOST_DESCRIPTORS)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        room[: len(data)] = data
        return len(data)


def _explained(refusal: Failed) -> str:
    if refusal.code == "unknown_verb":
        return "the running daemon is too old to hand over: end it with SIGTERM"
    return refusal.message


class FdStore:
    """Vectors in the hands of systemd, by the names under which it holds them; outlives a configuration.

    What has changed is packed once a minute and at the end; a root that nobody opened keeps what is stored of
    it.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._is_there = systemd.is_service(env, os.getpid()) and "NOTIFY_SOCKET" in env
        found = systemd.stored(env, os.getpid(), _PREFIX)
        self.received = tuple(descriptor for _, descriptor in found)
        self._held: dict[str, object] = {name: None for name, _ in found}  # and what of the root it is

    async def run(self, indexer: Indexer, model_cache: ModelCache) -> None:
        """Store what has changed, once a minute."""
        while self._is_there:
            await asyncio.sleep(STORED_EVERY_S)
            await self.keep(indexer, model_cache)

    async def keep(self, indexer: Indexer, model_cache: ModelCache) -> None:
        """Store what has changed since the last time, and nothing else."""
        if not self._is_there:
            return
        used = sorted(indexer.indexes(), key=lambda index: index.used_at)[-MOST_PACKS:]
        for index in used:
            await self._store(index, indexer)
        wanted = {*(pack_name(index.root) for index in used), *model_cache.vector_packs.roots}
        for name in self._held.keys() - set(map(_named, wanted)):
            self._drop(name)

    async def _store(self, index: RootIndex, indexer: Indexer) -> None:
        name, now = _named(pack_name(index.root)), (ref(index), index.builder.revision)
        if self._held.get(name) == now:
            return
        vector_pack = await indexer.packed(index)
        if name in self._held:
            self._drop(name)
        state = f"FDSTORE=1\nFDNAME={name}"
        if vector_pack is not None and systemd.notify(self._env, state, (vector_pack.descriptor,)):
            self._held[name] = now

    def _drop(self, name: str) -> None:
        systemd.notify(self._env, f"FDSTOREREMOVE=1\nFDNAME={name}")
        del self._held[name]


def _named(root: str) -> str:
    """What systemd calls the vectors of a root: it shows names to whoever asks, and they allow no colon."""
    return _PREFIX + hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:16]
