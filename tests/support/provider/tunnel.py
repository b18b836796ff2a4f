"""CONNECT proxy on loopback, and a provider behind TLS; the proxy records all bytes."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.support.clock import PATIENCE_S
from tests.support.provider.server import ScriptedProvider


class TunnelProxy:
    """Tunnels any CONNECT to one server, whatever host it names; anything else is answered 501.

    `heads` are the received requests, `seen` all bytes of clients, in tunnels too.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.heads: list[bytes] = []
        self.seen = bytearray()
        self._target = target
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._socket.settimeout(0.02)
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in list(self._threads):
            thread.join(PATIENCE_S)
        self._socket.close()

    def _begin(self, work, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                self._begin(self._serve, self._socket.accept()[0])

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (data := client.recv(65536)):
                head += data
            self.heads.append(head)
            self.seen += head
            if not head.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(self._target) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._carry(client, server)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        while not self._over.is_set():
            for ready in select.select([client, server], [], [], 0.02)[0]:
                data = ready.recv(65536)
                if not data:
                    return
                if ready is client:
                    self.seen += data
                (server if ready is client else client).sendall(data)


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Make a self-signed certificate and its key by the openssl program."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return cert, key


def behind_tls(provider: ScriptedProvider, cert: Path, key: Path) -> tuple[str, int]:
    """Start a provider with TLS; return its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    provider.server.socket = context.wrap_socket(provider.server.socket, server_side=True)
    return provider.server.server_address[:2]
