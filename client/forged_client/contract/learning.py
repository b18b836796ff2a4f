"""Messages about learning from past sessions of agents."""

from __future__ import annotations

import msgspec

from forged_client.contract.capture import MAX_CAPTURE_BYTES
from forged_client.contract.retrieval import Message
from forged_client.envelope import Reply, Request


class Learned(Reply, frozen=True, tag="learned"):
    """Reply to Learn: progress in classifying a past session, and the number of proposals to review.

    `outcome` is classified (all that was sent), waiting (not all yet; `waits_for` may say why), or rejected
    with a `reason`. `to_review` counts proposals from past sessions of all roots that wait for the person.
    """

    outcome: str = "rejected"
    waits_for: str = ""
    to_review: int = 0


class Learn(Request[Learned], frozen=True, tag="learn"):
    """Request to learn from a past session or its next part; all proposals from it wait for review.

    `said_at` has the Unix time of each message, 0 if unknown. `mark` identifies the state of the whole
    session and comes with the last part; a session with an unchanged mark has nothing new. Without messages
    the request only asks for progress. In a `headless` session, run by a script, only explicit requests are
    proposed.
    """

    effect = "write"
    needs = ("workspace", "memory")
    limit_bytes = MAX_CAPTURE_BYTES
    bypassable = True

    workspace: str
    session_id: str
    agent: str = ""
    messages: tuple[Message, ...] = ()
    said_at: tuple[float, ...] = ()
    mark: str = ""
    headless: bool = False

    @property
    def only_shows(self) -> bool:
        """Return True for a request that only asks for progress."""
        return not self.messages


class PastSessions(Reply, frozen=True, tag="past_sessions"):
    """Reply to ListPast: past sessions that were learned from, and the cost of another one.

    `marks` has the mark of each session by agent and id. `classifier` is a model's name, or "" if no model is
    asked. One call takes at most `call_characters` of a session and about `call_tokens` more. Today
    `tokens_left` of `token_limit` remain (0: no limit). `to_review` proposals wait; at `most_to_review` no
    more are accepted.
    """

    marks: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    classifier: str = ""
    call_characters: int = 0
    call_tokens: int = 0
    tokens_left: int = 0
    token_limit: int = 0
    to_review: int = 0
    most_to_review: int = 0


class ListPast(Request[PastSessions], frozen=True, tag="list_past"):
    """Request a list of the past sessions of these agents that were learned from."""

    effect = "read"

    agents: tuple[str, ...] = ()
