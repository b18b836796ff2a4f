"""An agent process that remembers and prints every id that was acknowledged.

python remembering.py SOCKET WORKSPACE COUNT TAG
"""

from __future__ import annotations

import sys

from forged_client import Client


def main(address: str, workspace: str, count: int, tag: str) -> None:
    with Client(address, timeout_s=60) as client:
        for number in range(count):
            reply = client.remember(workspace, f"fact {tag} number {number} of many")
            if reply.status == "ok":
                print(reply.memory_id, f"{tag} number {number} ", sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
