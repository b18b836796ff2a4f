"""An agent process of the isolation test: retrieves in one workspace and prints the canaries.

python retrieving.py SOCKET WORKSPACE COUNT
"""

from __future__ import annotations

import re
import sys

from forged_client import Client

CANARY = re.compile(r"canary-[a-z]+")


def main(address: str, workspace: str, count: int) -> None:
    seen: set[str] = set()
    answered = 0
    with Client(address, timeout_s=60, strict=True) as client:
        for turn in range(count):
            reply = client.retrieve(
                workspace,
                [{"role": "user", "content": f"where does the deploy script live, attempt {turn}?"}],
                session_id="shared",
                turn_id=f"t{turn}",
            )
            answered += reply.status == "ok"
            seen.update(CANARY.findall(reply.text))
    print(answered, *sorted(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
