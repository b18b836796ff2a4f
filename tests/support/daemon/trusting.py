"""Client of a person who trusts every repository they work in.

A test that writes memories into a repository by hand plays that person: before the first request from a
workspace, its repository is trusted by the usual verb. Tests of trust itself use a plain client.
"""

from __future__ import annotations

import threading

from forged_client import Client
from forged_client.address import is_bypassed
from forged_client.protocol import R, Request, Review, Trust

_LOCK = threading.Lock()


class TrustingClient(Client):
    """`trusted` are the trusted workspaces, shared by all clients of a daemon."""

    trusted: set[str]

    def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        workspace = getattr(request, "workspace", "")
        if workspace and not is_bypassed() and not isinstance(request, Trust | Review):
            with _LOCK:
                self._trust(workspace)
        return super().ask(request, timeout_s=timeout_s)

    def _trust(self, workspace: str) -> None:
        if workspace in self.trusted:
            return
        with Client(self._address, timeout_s=self._timeout_s) as person:
            if person.trust(workspace, action="trust").status != "unavailable":
                self.trusted.add(workspace)


def trusting(address: str, trusted: set[str], **options: object) -> TrustingClient:
    client = TrustingClient(address, **options)  # type: ignore[arg-type]
    client.trusted = trusted
    return client
