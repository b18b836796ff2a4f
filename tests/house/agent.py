"""Agent with the client library: carries out each line of stdin, and prints one line for each.

A line is `[method, arguments, named arguments]`, of a client or of an observer of one session. The answer is
the reply.
"""

from __future__ import annotations

import sys

import msgspec

from forged_client import Client, Observer


def main(address: str, workspace: str, session: str) -> None:
    client = Client(address, timeout_s=60.0, strict=True)
    observer = Observer(workspace, session, address=address)
    for line in sys.stdin.buffer:
        name, arguments, named = msgspec.json.decode(line)
        method = getattr(client if hasattr(client, name) else observer, name)
        reply = method(*arguments, **named)
        sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
        sys.stdout.buffer.flush()
    observer.close()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
