"""Hand over a daemon's socket and vectors, to another daemon or to systemd.

`claim_address` is the side of the new daemon, `Successor` that of the old one. Either may die at any moment,
and never do two serve: the new daemon begins when it got the lock and the old one has hung up. A lock belongs
to the open file, so it is passed on with the descriptor. `FdStore` lets systemd keep descriptors of vectors
for a restart (`FileDescriptorStoreMax=`); lost vectors are computed again. Raises AlreadyRunning.
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
from forged_client.dial import retry_pauses, try_connect
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
# Seconds that the successor has to take the address.
_ANSWER_S = 1.0
_MOST_DESCRIPTORS = 253  # of one message, as Linux has it
# Longest life of the vector of a forgotten text, and the most that a crash may lose.
STORED_EVERY_S = 60.0
_PREFIX = "vectors-"


class AddressClaim(msgspec.Struct, frozen=True):
    """Ownership of the daemon's address: its lock, and socket and packed vectors if handed over."""

    lock: int
    listening: socket.socket | None = None
    vector_packs: tuple[int, ...] = ()


class Successor:
    """Connection to another daemon that asked to replace this one; gives it the address or refuses."""

    def __init__(self, peer: socket.socket, request: HandOver) -> None:
        self.pid = request.pid
        self._peer = peer
        self._id = request.id

    def give(self, lock: int, listening_socket: socket.socket, vector_packs: Sequence[int]) -> bool:
        """Send lock, socket and vectors to the other daemon; return False if it did not take them in 1 s."""
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
        """Send the other daemon the reason for a refusal, and close; `busy` lets it try again."""
        failed = Failed(id=self._id, status="error", reason=why, code=code, message=why)
        with contextlib.suppress(OSError):
            self._peer.settimeout(_ANSWER_S)
            self._peer.sendall(framing.encode(failed))
        self.close()

    def close(self) -> None:
        self._peer.close()


def claim_address(path: str, *, replace: bool = False) -> AddressClaim:
    """Lock the daemon's address; with `replace` take a running daemon's. Raises AlreadyRunning."""
    deadline = time.monotonic() + PATIENCE_S
    for pause in retry_pauses():
        try:
            return AddressClaim(listening.lock(path))
        except AlreadyRunning:
            if time.monotonic() > deadline or not (replace or _is_deserted(path)):
                raise
        if replace and (place := _request_address(path)) is not None:
            return place
        time.sleep(pause)
    raise AssertionError  # the pauses never end


def _is_deserted(path: str) -> bool:
    """Return True if no daemon listens at a path: the owner of its lock is ending, or beginning."""
    try:
        opened = try_connect(path)
    except DaemonAbsent:
        return True
    except DaemonUnavailable:
        return False
    if opened is not None:
        opened.close()
    return False


def _request_address(path: str) -> AddressClaim | None:
    """Ask the daemon at a path to hand over its address; None if it is gone or ending."""
    try:
        opened = try_connect(path)
    except DaemonAbsent:
        return None
    except DaemonUnavailable as error:
        raise AlreadyRunning(f"the running daemon cannot be asked to hand over: {error}") from error
    if opened is None:
        return None
    with socket.socket(fileno=opened.detach()) as peer, _HandoverRequest(peer) as request:
        return request.ask()


class _HandoverRequest:
    """Context of a request to replace a daemon; closes received descriptors not taken over."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._frames = framing.FrameCutter(MAX_REPLY_BYTES)
        self._descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the received descriptors that were not taken over."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def ask(self) -> AddressClaim | None:
        """Ask for the address and take it; return None if the other daemon died or is ending."""
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
            reply = self._read_reply()
            return self._accept_address(reply) if isinstance(reply, HandedOver) else None
        except TimeoutError:
            raise AlreadyRunning("the running daemon did not hand over in time") from None
        except OSError:
            return None  # the other daemon died or is ending

    def _accept_address(self, reply: HandedOver) -> AddressClaim | None:
        """Confirm and take over the received address; None if it is incomplete or not confirmed."""
        if len(self._descriptors) < 2:
            return None
        self._peer.sendall(READY)
        if self._peer.recv(len(YOURS)) != YOURS:
            return None
        with contextlib.suppress(OSError):  # the address is ours in any case
            self._peer.recv(1)  # returns once the other daemon has hung up
        lock, listening_at, *vector_packs = self._descriptors
        self._descriptors = []
        listening.write_pid(lock)
        logger.info("took over from pid=%d", reply.pid)
        return AddressClaim(lock, socket.socket(fileno=listening_at), tuple(vector_packs))

    def _read_reply(self) -> Reply | None:
        """Return the reply after the welcome, None at end; AlreadyRunning on a final refusal."""
        while (received := self._receive()) != 0:
            self._frames.held += received
            while (body := self._frames.take()) is not None:
                reply = framing.decode_reply(body)
                if isinstance(reply, Failed) and reply.code != "busy":
                    raise AlreadyRunning(_refusal_text(reply))
                if not isinstance(reply, Welcome):
                    return reply
        return None

    def _receive(self) -> int:
        """Receive bytes, and keep descriptors sent with them; return the number of bytes, 0 at the end."""
        room = self._frames.room()
        data, descriptors, _, _ = socket.recv_fds(self._peer, len(room), _MOST_DESCRIPTORS)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        room[: len(data)] = data
        return len(data)


def _refusal_text(refusal: Failed) -> str:
    if refusal.code == "unknown_verb":
        return "the running daemon is too old to hand over: end it with SIGTERM"
    return refusal.message


class FdStore:
    """Keeps packed vectors in systemd's descriptor store, so that they survive a restart of the daemon.

    Changed vectors are packed once a minute and at the end. A root that is not in use keeps its stored pack.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._is_there = systemd.is_service(env, os.getpid()) and "NOTIFY_SOCKET" in env
        found = systemd.stored_descriptors(env, os.getpid(), _PREFIX)
        self.received = tuple(descriptor for _, descriptor in found)
        self._held: dict[str, object] = {name: None for name, _ in found}  # with the stored revision

    async def run(self, indexer: Indexer, model_cache: ModelCache) -> None:
        """Store changed vectors once a minute, for ever; without systemd return at once."""
        while self._is_there:
            await asyncio.sleep(STORED_EVERY_S)
            await self.keep(indexer, model_cache)

    async def keep(self, indexer: Indexer, model_cache: ModelCache) -> None:
        """Store changed vectors in systemd; drop those of roots not in use, unless still cached."""
        if not self._is_there:
            return
        used = sorted(indexer.indexes(), key=lambda index: index.used_at)[-MOST_PACKS:]
        for index in used:
            await self._store(index, indexer)
        wanted = {*(pack_name(index.root) for index in used), *model_cache.vector_packs.roots}
        for name in self._held.keys() - set(map(_stored_name, wanted)):
            self._drop(name)

    async def _store(self, index: RootIndex, indexer: Indexer) -> None:
        """Replace a root's packed vectors in systemd's store if they have changed."""
        name, now = _stored_name(pack_name(index.root)), (ref(index), index.builder.revision)
        if self._held.get(name) == now:
            return
        vector_pack = await indexer.pack_root(index)
        if name in self._held:
            self._drop(name)
        state = f"FDSTORE=1\nFDNAME={name}"
        if vector_pack is not None and systemd.notify(self._env, state, (vector_pack.descriptor,)):
            self._held[name] = now

    def _drop(self, name: str) -> None:
        """Remove packed vectors from systemd's store, by their name."""
        systemd.notify(self._env, f"FDSTOREREMOVE=1\nFDNAME={name}")
        del self._held[name]


def _stored_name(root: str) -> str:
    """Return a hashed name for a root's pack: systemd shows names to anyone and allows no colon."""
    return _PREFIX + hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:16]
