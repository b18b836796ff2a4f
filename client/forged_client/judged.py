"""Messages about what capture has kept and refused: a family of the contract, see protocol.py."""

from __future__ import annotations

import msgspec

from forged_client.envelope import Reply, Request


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said and kept, as the memory `memory_id`, or refused for a `reason`.

    `text` is how it begins, as a person may read it: never a secret; empty where it was forgotten since, and
    of what was refused after 7 days. `why` it was taken up: request (somebody asked for it), rule, head,
    model; `classifier` is who judged it. `agent` and `kind` (turn, compaction, explicit, session_end) are of
    the capture that it came with. `is_there` says whether the memory's file still is.
    """

    at: str
    text: str = ""
    memory_id: str = ""
    reason: str = ""
    session_id: str = ""
    agent: str = ""
    kind: str = ""
    why: str = ""
    classifier: str = ""
    scope: str = ""
    category: str = ""
    root: str = ""
    supersedes: str = ""
    is_there: bool = False


class JudgedPage(Reply, frozen=True, tag="judged_page"):
    """Newest first; `total` is how many there are of them in all."""

    judged: tuple[Judged, ...] = ()
    total: int = 0


class ListJudged(Request[JudgedPage], frozen=True, tag="list_judged"):
    """What capture has kept and refused: of the workspace's roots, or of all roots there are.

    `since` is a time (RFC 3339), `session_id` how a session's id begins; "" is any.
    """

    workspace: str = ""
    since: str = ""
    session_id: str = ""
    all_repos: bool = False
    limit: int = 100
    offset: int = 0
