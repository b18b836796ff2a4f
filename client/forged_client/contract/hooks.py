"""Messages from a harness's hooks to the daemon, and the counts of each agent."""

from __future__ import annotations

import msgspec

from forged_client.contract.capture import MAX_CAPTURE_BYTES
from forged_client.envelope import Reply, Request


class Hooked(Reply, frozen=True, tag="hooked"):
    """Reply to `Hook`; `output` is printed by the hook, in the harness's own form, or empty.

    A hook decodes this without msgpack, so all fields are texts, bytes and small numbers.
    """

    output: bytes = b""


class Hook(Request[Hooked], frozen=True, tag="hook"):
    """Request with one event of a harness: `payload` is JSON in its own form, as its hook got it.

    The answer is useful for `within_ms` (0: as long as that of a retrieve). `version` is the hook's own.
    `headless`: a script ran the harness, so at most explicit requests are saved.
    """

    effect = "write"
    injects = True
    limit_bytes = MAX_CAPTURE_BYTES
    bypassable = True

    harness: str
    payload: bytes = b""
    within_ms: int = 0
    version: str = ""
    headless: bool = False


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """Activity of the hooks of one agent. Times are UTC.

    Counts, `turns` too, are of the daemon's local day. `last_failure` is the reason that a hook of this
    agent last failed, at `last_failure_at`. `version` is the agent's, if its payloads have one.
    """

    agent: str
    last_event: str = ""
    last_event_at: str = ""
    version: str = ""
    turns: int = 0
    injected_today: int = 0
    kept_today: int = 0
    failed_today: int = 0
    last_failure: str = ""
    last_failure_at: str = ""
