"""Attributes of a memory, which its file does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a memory beside its text. Times are RFC 3339, "" where there is none.

    `chunk_index` is the place in the document `document_id`, -1 for what is no part of one.
    """

    memory_type: str = ""
    importance: float = 1.0
    access_count: int = 0
    last_accessed: str = ""
    expires_at: str = ""
    metadata: Mapping[str, Any] = _NOTHING
    agent_id: str = ""
    user_id: str = ""
    source: str = ""
    document_id: str = ""
    chunk_index: int = -1
