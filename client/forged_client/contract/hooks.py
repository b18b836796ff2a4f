"""Messages by which a harness's hooks reach the daemon, and what is counted of each agent."""

from __future__ import annotations

import msgspec

from forged_client.contract.capture import MAX_CAPTURE_BYTES
from forged_client.envelope import Reply, Request


class Hooked(Reply, frozen=True, tag="hooked"):
    """`output` is what the hook prints: bytes in the harness's own form, or nothing.

    A hook reads this without msgpack, so all its fields are texts, bytes and small numbers.
    """

    output: bytes = b""


class Hook(Request[Hooked], frozen=True, tag="hook"):
    """An event of a harness, as it told its hook: `payload` is JSON in the harness's own form.

    The answer is of use for `within_ms` (0: as long as a retrieve is). `version` is the hook's own.
    `headless`: the harness was run by a script, so at most explicit requests are kept.
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

    Counts, `turns` too, are of the daemon's local day.

    `last_failure` says why a hook of this agent last came to nothing, at `last_failure_at`. `version` is the
    agent's, where its payloads have one.
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
