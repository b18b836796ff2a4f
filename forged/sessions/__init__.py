"""Sessions of agents: their injected sets, their messages, and their ends.

`Sessions` opens a `Session`, a `Session` its `Turn`s. `clean_transcript` is the only form in which the daemon
reads a conversation. `render` makes a block of memories without a session.
"""

from forged.sessions.block import render
from forged.sessions.registry import Sessions
from forged.sessions.session import MODES, Session, Turn, budget_of
from forged.sessions.transcript import clean_hypotheses, clean_query, clean_transcript, count_unreadable

__all__ = [
    "MODES",
    "Session",
    "Sessions",
    "Turn",
    "budget_of",
    "clean_hypotheses",
    "clean_query",
    "clean_transcript",
    "count_unreadable",
    "render",
]
