"""Which proposals are promoted to memories that last, to whose, and what is known of them beside their text.

A model may say how much a fact matters: what is below the least is not promoted, unless a person asked for
it. What it says of the agent goes to the root of the agent that the event is of, and to the repository's
where nobody has said which agent that is. With each goes where it comes from: the session's
memory that says so, or the session, or the event. `promoted` may block for the disk. Nothing is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

import msgspec

from forged.capture.intake import take_in
from forged.capture.values import Classified, Proposal
from forged.conversation import Utterance
from forged.errors import ForgedError
from forged.files import AGENT_ID, Root, root_of_agent
from forged.memory import Scope
from forged.scopes import SessionMemories
from forged.state import Event
from forged.text.tokens import BYTES_PER_TOKEN

logger = logging.getLogger(__name__)

# Of a response in its session's memory: as many as a piece of a document has.
_MOST_TOKENS = 512


def response_of(text: str) -> str:
    """As much of a response as its session remembers: its beginning, up to whole words."""
    encoded = text.strip().encode("utf-8", "replace")
    if len(encoded) <= (most := _MOST_TOKENS * BYTES_PER_TOKEN):
        return encoded.decode()
    beginning = encoded[:most].decode("utf-8", "ignore")
    whole, _, _ = beginning.rpartition(" ")
    return f"{whole or beginning}…"


def response_in(said: Sequence[Utterance], injected: Collection[str]) -> str:
    """The response that ends a turn, as capture takes it; "" where nothing of it is left."""
    window = take_in(said, injected).window
    return "" if not window or window[0] is None else response_of(window[0].text)


class Promotion:
    """One for the daemon. `home` has the agents' roots; without it there are none."""

    def __init__(self, home: str = "", least: float = 0.0, sessions: SessionMemories | None = None) -> None:
        self._home = home
        self._least = least
        self._sessions = sessions

    def promoted(self, event: Event, classified: Classified) -> tuple[Event, Classified]:
        """What matters enough, with where it comes from, and the event with all roots that it goes to."""
        proposals = self._worth(event, classified.proposals)
        if any(each.scope == Scope.AGENT for each in proposals):
            if (root := self._root_of(event)) is not None:
                event = msgspec.structs.replace(event, roots=(*event.roots, root))
            else:
                proposals = tuple(map(_of_repository, proposals))
        source = self._source(event)
        proposals = tuple(msgspec.structs.replace(each, source=source) for each in proposals)
        return event, msgspec.structs.replace(classified, proposals=proposals)

    def _worth(self, event: Event, proposals: tuple[Proposal, ...]) -> tuple[Proposal, ...]:
        """What a person asked for in so many words matters, whatever a model says."""
        if event.kind == "explicit":
            return tuple(msgspec.structs.replace(each, importance=None) for each in proposals)
        kept = tuple(each for each in proposals if _importance(each) >= self._least)
        if dropped := len(proposals) - len(kept):
            logger.debug("not promoted event=%s proposals=%d least=%s", event.id, dropped, self._least)
        return kept

    def _source(self, event: Event) -> str:
        """The newest memory of the session that is a response of this event; else the session."""
        said = {response_of(each.text) for each in event.window if each.role == "assistant"}
        rows = self._sessions.of(event.session_id) if self._sessions is not None else ()
        found = [row.id for row in rows if row.memory.content in said and row.agent_id == event.agent]
        return found[-1] if found else event.session_id or event.id

    def _root_of(self, event: Event) -> Root | None:
        if not self._home or AGENT_ID.fullmatch(event.agent) is None:
            return None
        try:
            return root_of_agent(self._home, event.agent, make=True)
        except ForgedError as error:
            logger.warning("no root of agent agent=%s error=%s", event.agent, error)
            return None


def _importance(proposal: Proposal) -> float:
    return 1.0 if proposal.importance is None else proposal.importance


def _of_repository(proposal: Proposal) -> Proposal:
    is_agents = proposal.scope == Scope.AGENT
    return msgspec.structs.replace(proposal, scope=Scope.REPO) if is_agents else proposal
