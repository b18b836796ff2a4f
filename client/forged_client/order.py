"""The order of arguments that one verb once had, still taken and warned of."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from warnings import warn

_OURS = __name__.partition(".")[0]


def in_order(messages: Iterable[object], session_id: str) -> tuple[Iterable[object], str]:
    """Messages and session, as they are or the other way round; the warning names the caller's line."""
    if not isinstance(messages, str) or isinstance(session_id, str):
        return messages, session_id
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == _OURS:
        frame, level = frame.f_back, level + 1
    told = "capture(workspace, session_id, messages) is now capture(workspace, messages, session_id)"
    warn(told, DeprecationWarning, stacklevel=level)
    return session_id, messages
