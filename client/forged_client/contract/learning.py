"""Messages about learning from past sessions of agents."""

from __future__ import annotations

import msgspec

from forged_client.contract.capture import MAX_CAPTURE_BYTES
from forged_client.contract.retrieval import Message
from forged_client.envelope import Reply, Request


class Learned(Reply, frozen=True, tag="learned"):
    """How far a past session is judged.

    `outcome`: classified (all that was sent), waiting (not all of it yet; `waits_for` says what keeps it, if
    anything does), rejected (then `reason` says why). `to_review` is how many proposals of past sessions
    wait for a person, of every root.
    """

    outcome: str = "rejected"
    waits_for: str = ""
    to_review: int = 0


class Learn(Request[Learned], frozen=True, tag="learn"):
    """A past session, or the next part of one: what is new of it is judged, and all that it comes to waits.

    `said_at` is when each of the messages was said (Unix seconds, 0: nobody knows). `mark` is the sender's
    word for the whole session and comes with its last part; a session with its old mark has nothing new.
    Without messages nothing is handed over, and the reply tells how far it is. Of a `headless` one, which a
    script said, at most explicit requests are proposed.
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
        return not self.messages


class PastSessions(Reply, frozen=True, tag="past_sessions"):
    """What is known of past sessions: the mark of each, by agent and id; and what judging another costs.

    The `classifier` is a model's name, or "" where none is asked. A call takes at most `call_characters` of a
    session and costs about `call_tokens` beside them; today `tokens_left` may be used, of `token_limit` a day
    (0: no limit). `to_review` proposals wait, and at `most_to_review` no more are taken.
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
    """List the past sessions of these agents that were learned from."""

    effect = "read"

    agents: tuple[str, ...] = ()
