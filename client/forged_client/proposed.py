"""What waits for a person: a memory that a classifier proposed beside pasted text. A value of the wire."""

from __future__ import annotations

import msgspec


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is none yet: in no file, never injected.

    `content` is what would be kept, `why` it waits, `beside` what was pasted next to it, as far as it is
    shown. `agent` and `session_id` say where it was said, `created_at` when. `root` is where it would go.
    """

    id: str
    content: str
    why: str = ""
    beside: str = ""
    scope: str = ""
    category: str = ""
    root: str = ""
    session_id: str = ""
    agent: str = ""
    created_at: str = ""
    supersedes: str = ""
