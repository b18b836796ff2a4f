"""Pings of any size: forged's own server, with a service that answers each with so many bytes at once.

    python padded_pings.py SOCKET BYTES

A driver. The difference to a real request with as many bytes, and a reply with as many, is the daemon's
work.
"""

from __future__ import annotations

import asyncio
import sys


def main() -> None:
    try:
        from forged.counters import Metrics
        from forged.daemon import listening
        from forged.daemon.connection import Server
        from forged_client import protocol
    except ImportError as error:
        print(f"cannot import what it runs: {error}", file=sys.stderr)
        sys.exit(64)
    path, size = sys.argv[1], int(sys.argv[2])
    padding = "x" * size

    class Padded:
        def handle(self, request: protocol.Request, _: object) -> protocol.Reply:
            if isinstance(request, protocol.Hello):
                return protocol.Welcome(id=request.id)
            return protocol.Pong(id=request.id, reason=padding)

    async def serve() -> None:
        await Server(Padded(), Metrics()).start(listening.bind(path))
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
