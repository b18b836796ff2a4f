"""Daemons under measurement, and a minimal client for them."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import corpus
from commits import Checkout, Frames
from processes import Broken, Missing, directory, plain_environment, process
from sampling import NOT_DRIVEN

_READY_S = 60.0


class Ended(Broken):
    """The daemon closed a connection; a new connection may reach the next daemon."""


class Daemon:
    """Paths and environment of a daemon: `home` is its HOME, `repo` a workspace in it.

    `settings` are further variables of its environment. `driver` runs in place of its own command.
    """

    def __init__(self, checkout: Checkout, top: Path) -> None:
        self.checkout = checkout
        self.home = top / "home"
        self.repo = self.home / "repo"
        self.memories = self.repo / ".forge/memory"
        self.workspace = str(self.repo)
        self.socket = str(top / "run" / "forged.sock")
        self.pid = 0
        self.is_trusted = False
        self.settings: Mapping[str, str] = {}
        self.driver: Path | None = None
        self._embedded = top / "embedded"

    @property
    def frames(self) -> Frames:
        return self.checkout.frames

    @property
    def ping(self) -> bytes:
        """Return the frame of a ping."""
        return self.frames.encode(self.frames.ping())

    def connect(self, is_alive: Callable[[], bool] = lambda: True) -> Caller:
        return Caller(self.socket, self.frames, is_alive)

    def prepare(self) -> None:
        (self.repo / ".git").mkdir(parents=True)
        (self.repo / ".git/HEAD").write_text("ref: refs/heads/main\n")

    def environment(self) -> dict[str, str]:
        plain = plain_environment(
            HOME=str(self.home),
            FORGED_SOCKET=self.socket,
            BENCH_EMBEDDED=str(self._embedded),
            FORGED_MEMORY__EMBEDDING_MODEL="builtin:lexical",  # independent of installed models
        )
        return {**plain, **self.settings}

    def command(self, *, stub: bool) -> list[str | Path]:
        if self.driver:
            return [self.checkout.python, self.driver]
        if stub:
            return [self.checkout.python, self.checkout.driver("stub_daemon.py")]
        return [self.checkout.python, "-m", "forged", "serve", "--log-level", "warning"]

    def passages_embedded(self) -> int:
        """Return how many texts the stub embedder was given."""
        return int(self._embedded.read_text()) if self._embedded.exists() else 0


@contextlib.contextmanager
def prepared(checkout: Checkout) -> Iterator[Daemon]:
    """Yield a home and a repository for a daemon that is not started yet."""
    with directory() as top:
        daemon = Daemon(checkout, top)
        daemon.prepare()
        yield daemon


@contextlib.contextmanager
def serving(daemon: Daemon, *, stub: bool = False) -> Iterator[Caller]:
    """Run the daemon for the block, and yield a connection; `stub` gives it vectors."""
    with process(daemon.command(stub=stub), daemon.environment(), cwd="/") as child:
        daemon.pid = child.pid

        def is_alive() -> bool:
            if child.poll() == NOT_DRIVEN and not daemon.checkout.is_this:
                raise Missing(f"{daemon.checkout.name} has no driver for it")
            return child.poll() is None

        with contextlib.closing(daemon.connect(is_alive)) as caller:
            yield caller


@contextlib.contextmanager
def running_over(
    checkout: Checkout,
    memories: int,
    *,
    stub: bool = False,
    body_bytes: int = corpus.BODY_BYTES,
    settings: Mapping[str, str] | None = None,
) -> Iterator[tuple[Daemon, Caller]]:
    """Run a daemon that has indexed so many memories, and yield it with a connection."""
    with prepared(checkout) as daemon:
        corpus.write(daemon.repo, memories, body_bytes=body_bytes)
        daemon.settings = settings or {}
        with serving(daemon, stub=stub) as caller:
            caller.rebuild(daemon)
            yield daemon, caller


class Caller:
    """A blocking connection: hello at once, then whole frames out and bodies of replies in.

    Raises Broken if no process listens at the path within a minute, or while the server is dead.
    """

    def __init__(self, path: str, frames: Frames, is_alive: Callable[[], bool] = lambda: True) -> None:
        self._encode, self._decode, self._failed = frames.encode, frames.decode, frames.FAILED
        self._header = frames.HEADER_BYTES
        self._socket = _dialled(path, is_alive)
        self._buffer = bytearray(1 << 20)
        self._view = memoryview(self._buffer)
        self._have = self._used = 0
        self.ask(self._encode(frames.hello("bench", os.getpid())))

    def ask(self, frame: bytes | bytearray) -> memoryview:
        """Send one frame and return the body of the next frame, valid until the next call."""
        self.send(frame)
        return self.next()

    def ping(self, frame: bytes) -> bytes:
        """Send a frame whose reply comes in one piece: the bare round trip."""
        self._socket.sendall(frame)
        return self._socket.recv(4096)

    def send(self, frame: bytes | bytearray) -> None:
        self._socket.sendall(frame)

    def next(self) -> memoryview:
        """Return the body of the next frame."""
        rest = self._have - self._used
        if rest:  # a stream's frames may arrive together
            self._buffer[:rest] = self._buffer[self._used : self._have]
        header, view = self._header, self._view
        have, need = rest, header
        while True:
            if have >= header:
                need = header + int.from_bytes(view[:header], "big")
            if have >= need:
                self._have, self._used = have, need
                return view[header:need]
            got = self._socket.recv_into(view[have:])
            if not got:
                raise Ended("the daemon closed the connection")
            have += got

    def call(self, request: object) -> object:
        """Return the typed reply to a typed request of the daemon's own frames."""
        reply = self._decode(self.ask(self._encode(request)))
        if isinstance(reply, self._failed):
            raise Broken(reply.message)
        return reply

    def trust(self, daemon: Daemon) -> None:
        """Trust the repository once; a daemon without trust uses all memories."""
        if daemon.is_trusted:
            return
        with contextlib.suppress(Missing):
            asked = daemon.frames.trust(daemon.workspace)
            failed = daemon.frames.failure(self._decode(self.ask(self._encode(asked))))
            if failed and failed[0] != "unknown_verb":
                raise Broken(failed[1])
        daemon.is_trusted = True

    def rebuild(self, daemon: Daemon, *, full: bool = False) -> None:
        """Rescan the repository and wait until both indexes are current."""
        self.trust(daemon)
        self.call(daemon.frames.rebuild(daemon.workspace, full=full, wait=True))

    def close(self) -> None:
        self._socket.close()


def _dialled(path: str, is_alive: Callable[[], bool]) -> socket.socket:
    """Connect as soon as a process listens."""
    deadline = time.monotonic() + _READY_S
    while True:
        dialled = socket.socket(socket.AF_UNIX)
        dialled.settimeout(_READY_S)
        try:
            dialled.connect(path)
        except OSError:
            dialled.close()
            if time.monotonic() > deadline or not is_alive():
                raise Broken("the daemon did not start to listen") from None
            time.sleep(0.001)
        else:
            return dialled
