"""Poolers between a client and a scratch server: a small one, and pgbouncer where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.support.clock import eventually
from tests.support.postgres import Database

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
_PORT = 6432
_SSL_REQUEST, _CANCEL_REQUEST = 80877103, 80877102
_PARAMETERS = {"server_version": "15.0", "client_encoding": "UTF8", "integer_datetimes": "on"}
_INI = """[databases]
{name} = host={folder} port={port} dbname={name}
[pgbouncer]
listen_addr =
unix_socket_dir = {way}
listen_port = {own_port}
auth_type = trust
auth_file = {way}/users
pool_mode = {mode}
default_pool_size = {size}
logfile = {way}/log
pidfile = {way}/pid
"""


@contextlib.contextmanager
def pgbouncer(database: Database, mode: str, size: int = 20) -> Iterator[str]:
    """Run pgbouncer before a database and yield the URL through it."""
    assert PGBOUNCER is not None
    with _folder() as way:
        server = database.server
        (way / "users").write_text('"postgres" ""\n')
        (way / "ini").write_text(
            _INI.format(
                name=database.name, folder=server.folder, port=server.port or 5432, way=way, own_port=_PORT,
                mode=mode, size=size,
            )
        )  # fmt: skip
        as_user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        process = subprocess.Popen([PGBOUNCER, "--quiet", str(way / "ini")], **as_user)
        try:
            eventually((way / f".s.PGSQL.{_PORT}").exists)
            yield _url(database, way)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def own_pooler(database: Database, mode: str, size: int = 20) -> Iterator[str]:
    """Run `SmallPooler` before a database and yield the URL through it."""
    with _folder() as way:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        pooler = SmallPooler(database, mode, size)
        try:
            asyncio.run_coroutine_threadsafe(pooler.listen(way), loop).result()
            yield _url(database, way)
        finally:
            asyncio.run_coroutine_threadsafe(pooler.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class SmallPooler:
    """Lends connections of a server for a session or a transaction, the last returned one first."""

    def __init__(self, database: Database, mode: str, size: int) -> None:
        self._database, self._mode = database, mode
        self._places = asyncio.Semaphore(size)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._clients: set[asyncio.Task[None]] = set()

    async def listen(self, way: Path) -> None:
        self._listener = await asyncio.start_unix_server(self._serve, way / f".s.PGSQL.{_PORT}")

    async def close(self) -> None:
        self._listener.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            if await self._greet(reader, writer):
                await self._lend(reader, writer)
        self._clients.discard(task)
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a client's first message as a pooler does, with a process id of its own."""
        while True:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            (code,) = struct.unpack_from("!i", body)
            if code == _CANCEL_REQUEST:
                return False
            if code != _SSL_REQUEST:
                break
            writer.write(b"N")
        greeting = _message(b"R", struct.pack("!i", 0))
        for name, value in _PARAMETERS.items():
            greeting += _message(b"S", f"{name}\0{value}\0".encode())
        writer.write(greeting + _message(b"K", os.urandom(8)) + _message(b"Z", b"I"))
        return True

    async def _lend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a client's messages to a connection of the server, and its answers back."""
        while True:
            kind, message = await _read(reader)
            async with self._places:
                server = self._idle.pop() if self._idle else await self._connect()
                try:
                    await self._pass_on(kind, message, reader, writer, server)
                finally:
                    self._idle.append(server)

    async def _pass_on(self, kind, message, reader, writer, server) -> None:
        """Pass messages on until the server is ready for another transaction, or until the client leaves."""
        answers, requests = server
        while True:
            if kind == b"X":
                raise ConnectionResetError
            requests.write(message)
            state = b""
            while kind in b"QS" and not state:  # a query, or the end of an extended one
                answered, answer = await _read(answers)
                writer.write(answer)
                state = answer[5:6] if answered == b"Z" else b""
            if state == b"I" and self._mode == "transaction":
                return
            kind, message = await _read(reader)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        server = self._database.server
        reader, writer = await asyncio.open_unix_connection(server.folder / f".s.PGSQL.{server.port or 5432}")
        self._writers.append(writer)
        login = f"user\0postgres\0database\0{self._database.name}\0\0".encode()
        writer.write(struct.pack("!ii", len(login) + 8, 196608) + login)
        while (await _read(reader))[0] != b"Z":
            pass
        return reader, writer


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read one message; return its kind and its bytes."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    way = Path(tempfile.mkdtemp(prefix="fgb", dir="/tmp"))
    way.chmod(0o777)  # pgbouncer refuses to run as root
    try:
        yield way
    finally:
        shutil.rmtree(way)


def _url(database: Database, way: Path) -> str:
    return f"postgresql://postgres@/{database.name}?host={way}&port={_PORT}"
