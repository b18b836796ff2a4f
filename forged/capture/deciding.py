"""Decide about each proposal: new memory, duplicate, replacement, tentative statement, or withheld.

In: an event, a classifier's answer and the existing memories. Out: documents to write, and a tally of what
was left out. Each proposal is judged alone. Links lead to memories of the same root only, and a version is
based on the head of its chain. What is known or was forgotten is not written again, unless a person said it
since; nor is a version that this session superseded, as windows repeat. What stands on pasted text
(`Provenance`), or comes of a past session, waits for a person. Raises nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from forged.capture.existing import ExistingMemories, Match
from forged.capture.intake import response_of
from forged.capture.statements import Authorship, Provenance
from forged.capture.values import MAX_CONTENT_BYTES, MOST_DOCUMENTS, Classified, Proposal, Refused, Tally
from forged.entities import entity_id, spoken_of
from forged.errors import ForgedError
from forged.files import AGENT_ID, MOST_EVIDENCE, EvidenceError, Root, hashed, root_of_agent
from forged.memory import (
    MOST_CUE_CHARS,
    MOST_CUES,
    Category,
    Entity,
    Evidence,
    Memory,
    Origin,
    Related,
    Relation,
    Relationship,
    Scope,
    Trigger,
    evidence_named,
    new_id,
    time_ns,
    utc,
)
from forged.state import Document, Event
from forged.stores import SessionMemories
from forged.text.forgetting import says_again
from forged.text.private import without_private
from forged.text.redaction import PLACEHOLDER, redact
from forged.text.same_text import content_words

logger = logging.getLogger(__name__)

MOST_RELATED = 8

# When a text was forgotten in one of some roots (their tops), in Unix seconds; None if it was not.
ForgottenSince = Callable[[Sequence[str], str], float | None]

# What a file says about its origin, in the words of the file format.
_TRIGGERS: dict[str, Trigger] = {
    "turn": Trigger.CADENCE,
    "session_end": Trigger.CADENCE,
    "compaction": Trigger.COMPACTION,
    "explicit": Trigger.EXPLICIT,
    "learned": Trigger.CADENCE,
}
_CATEGORIES = frozenset(Category)
_RELATIONSHIPS = frozenset(Relationship)
# "The API token is [redacted]" tells nobody anything.
_LEAST_WORDS = 3
_SECRET_WORDS = frozenset(
    content_words("user user's api access auth login key token password passphrase secret credential")
)


class Promotion:
    """Filters by importance, and routes proposals to roots. One for the daemon.

    `home` has the agents' roots; without it there are none. What a model says of the agent goes to the root
    of the agent that the event is of, and to the repository's where nobody has said which agent that is.
    `least` is the importance below which nothing is promoted, unless a person asked for it.
    """

    def __init__(self, home: str = "", least: float = 0.0, sessions: SessionMemories | None = None) -> None:
        self._home = home
        self._least = least
        self._sessions = sessions

    def promoted(self, event: Event, classified: Classified) -> tuple[Event, Classified]:
        """Return what matters enough with its source, and the event with all roots that it goes to.

        The source is the session's memory that says so, or the session, or the event. May block for the disk.
        """
        proposals = self._worth(event, classified.proposals)
        if any(each.scope == Scope.AGENT for each in proposals):
            if (root := self._root_of(event)) is not None:
                event = replace(event, roots=(*event.roots, root))
            else:
                proposals = tuple(map(_of_repository, proposals))
        source = self._source(event)
        proposals = tuple(replace(each, source=source) for each in proposals)
        return event, replace(classified, proposals=proposals)

    def _worth(self, event: Event, proposals: tuple[Proposal, ...]) -> tuple[Proposal, ...]:
        """What a person asked for in so many words matters, whatever a model says."""
        if event.kind == "explicit":
            return tuple(replace(each, importance=None) for each in proposals)
        kept = tuple(each for each in proposals if _importance(each) >= self._least)
        if dropped := len(proposals) - len(kept):
            logger.debug("not promoted event=%s proposals=%d least=%s", event.id, dropped, self._least)
        return kept

    def _source(self, event: Event) -> str:
        """The newest memory of the session that is a response of this event; else the session."""
        said = {response_of(each.text) for each in event.window if each.role == "assistant"}
        rows = self._sessions.of(event.session_id) if self._sessions is not None else ()
        found = [row.id for row in rows if row.memory.content in said and row.facts.agent_id == event.agent]
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
    return replace(proposal, scope=Scope.REPO) if is_agents else proposal


def decide(
    event: Event,
    classified: Classified,
    existing: ExistingMemories,
    forgotten: ForgottenSince,
    now: str,
) -> tuple[tuple[Document, ...], Tally]:
    """Return what to write, in the order proposed, and what was left out.

    Args:
        event: whence the proposals come; only its roots are written to.
        classified: the answer; its malformed elements are counted as invalid here.
        existing: the memories and tentative statements that the proposals are compared with; grows.
        forgotten: knows the texts that must not come back.
        now: RFC 3339, the time of creation.

    The tally counts each proposal that was left out once, those beyond ten documents as invalid, and all
    secrets that were cut out of proposals, whatever became of these. Raises nothing.
    """
    deciding = _Deciding(event, classified.author, existing, forgotten, now)
    for proposal in classified.proposals:
        deciding.judge(proposal)
    invalid = deciding.invalid + classified.malformed
    tally = Tally(
        invalid, deciding.duplicates, deciding.secrets, deciding.said_again, tuple(deciding.refused)
    )
    return tuple(deciding.documents), tally


class _Deciding:
    """One answer being judged. What has been decided counts as existing for the rest of it."""

    def __init__(
        self,
        event: Event,
        author: Origin,
        existing: ExistingMemories,
        forgotten: ForgottenSince,
        now: str,
    ) -> None:
        self.documents: list[Document] = []
        self.refused: list[Refused] = []
        self.invalid = self.duplicates = self.secrets = self.said_again = 0
        self._event = event
        self._existing = existing
        self._forgotten = forgotten
        self._now = now
        self._author = author
        self._origin = Origin.EXPLICIT if event.kind == "explicit" else author

    def judge(self, proposal: Proposal) -> None:
        root = next((root for root in self._event.roots if root.scope == proposal.scope), None)
        content = self._presentable(proposal.content)
        by_model = self._author == Origin.MODEL
        match = Match(self._existing, root, proposal, content, by_model=by_model)
        if proposal.only_replaces and (root is None or not self._is_another_word(root, content, match)):
            return
        origin = self._authorship(content)
        if objection := self._objection(root, content, proposal, origin):
            self.invalid += 1
            self._refuse(proposal, content, objection)
        elif (is_again := self._is_again(content)) is False or self._existing.says(content):
            self.duplicates += 1
            if is_again is False:
                self._refuse(proposal, "", "it was forgotten, and nobody has said it since", if_asked=True)
            else:
                self._refuse(proposal, content, "it is known already", if_asked=True)
        elif self._is_outdated(content, match):
            self.duplicates += 1
        elif root is None or self._is_full(waits=origin == "mixed" or self._is_past):
            self.invalid += 1
            self._refuse(proposal, content, f"there were {MOST_DOCUMENTS} before it")
        elif origin == "mixed":
            memory = self._memory(root, content, proposal, match.head)
            self.documents.append(self._waiting(root, memory, proposal))
        else:
            memory = self._memory(root, content, proposal, match.head)
            decided = Document(root, memory, self._taken_up(proposal), said=proposal.said)
            self.documents.append(self._learned(decided) if self._is_past else decided)
            if match.before is not None:
                self._existing.tentative.take(match.before, content)
            self._existing.decided(root, memory)
            self.said_again += is_again is not None

    @property
    def _is_past(self) -> bool:
        return self._event.kind == "learned"

    def _is_outdated(self, content: str, match: Match) -> bool:
        if not self._is_past or match.head is None:
            return False
        return time_ns(match.head.created_at) > time_ns(self._said_at(content))

    def _said_at(self, content: str) -> str:
        """Return the time of the turn with the message that shares most words with a proposal.

        By this time `undo` knows the memories of one turn, whatever event it was judged in.
        """
        if not self._event.heard_at and not self._is_past:
            return self._now
        words, shares = set(content_words(content)), dict[float, int]()
        turn = self._event.times[0]
        for each, at in zip(self._event.window, self._event.times, strict=True):
            turn = at if each.role == "user" else turn
            if each.role == "user" or not self._is_past:
                shares[turn] = max(shares.get(turn, 0), len(words & set(content_words(each.text))))
        said_at = max(shares, key=lambda at: (shares[at], at), default=turn)
        return utc(said_at) if said_at else self._now

    def _learned(self, document: Document) -> Document:
        why = document.waits or "it was said in a session before, and nobody has looked at it yet"
        return replace(document, waits=why, agent=self._event.agent, learned_at=time_ns(self._now) / 1e9)

    def _authorship(self, content: str) -> Authorship:
        return self._provenance.of(content, by_model=self._author == Origin.MODEL) if content else "foreign"

    def _is_full(self, *, waits: bool) -> bool:
        return sum(bool(each.waits) == waits for each in self.documents) == MOST_DOCUMENTS

    def _taken_up(self, proposal: Proposal) -> str:
        """What it is proposed for; a model proposes all for one reason and does not say it."""
        return proposal.why or ("model" if self._author == Origin.MODEL else "rule")

    def _waiting(self, root: Root, memory: Memory, proposal: Proposal) -> Document:
        """What counts neither as known nor as a head until a person has seen it."""
        who = "a model proposed it from" if self._author == Origin.MODEL else "it stands beside"
        beside = redact(self._provenance.beside(memory.content)).text
        why = f"{who} text that was pasted, which may have asked for it"
        taken_up, agent = self._taken_up(proposal), self._event.agent
        found = Document(root, memory, taken_up, why, beside, agent, said=proposal.said)
        return self._learned(found) if self._is_past else found

    def _objection(self, root: Root | None, content: str, proposal: Proposal, origin: Authorship) -> str:
        if root is None:
            return "there is no repository here to keep it in"
        if not content:
            too_long = len(proposal.content.encode("utf-8", "replace")) > MAX_CONTENT_BYTES
            return f"it is longer than {MAX_CONTENT_BYTES:,} bytes" if too_long else "it holds a secret"
        if proposal.category not in _CATEGORIES:
            return "its category is none that there is"
        return "it stands on text that was pasted" if origin == "foreign" else ""

    def _refuse(self, proposal: Proposal, text: str, reason: str, *, if_asked: bool = False) -> None:
        """Say that it is not kept; of what no person would miss only `if_asked`.

        A compaction brings requests again that were answered when they were made.
        """
        is_request = proposal.why == "request" and self._event.kind != "compaction"
        asked = is_request or self._event.kind == "explicit"
        if proposal.content.strip() and (asked or not if_asked):
            self.refused.append(Refused(text, reason, asked))

    def _is_again(self, content: str) -> bool | None:
        """Whether the person has said since what was forgotten; None of what never was.

        A message of which nobody knows when it was heard does not count: it may be from before.
        """
        since = self._forgotten(self._event.tops, content)
        if since is None:
            return None
        heard = zip(self._event.window, self._event.heard_at, strict=False)
        said = (each.text for each, at in heard if at > since and each.role == "user")
        return any(says_again(text, content) for text in said)

    def _presentable(self, content: str) -> str:
        content = content.encode("utf-8", "replace").decode().strip()
        if len(content.encode()) > MAX_CONTENT_BYTES:
            return ""
        redacted = redact(without_private(content))
        self.secrets += redacted.count
        content = redacted.text.strip()
        return "" if PLACEHOLDER in content and _says_nothing(content) else content

    @cached_property
    def _provenance(self) -> Provenance:
        """Takes long among thousands of words, and most answers are empty."""
        return Provenance(self._event.window, begun=self._event.begun, goes_on=self._event.goes_on)

    def _memory(self, root: Root, content: str, proposal: Proposal, head: Memory | None) -> Memory:
        said_at = self._said_at(content)
        entities, relations = things_said(proposal.entities, proposal.relations, content, self._line)
        return Memory(
            id=new_id(),
            content=content,
            created_at=said_at,
            updated_at=said_at,
            version=1 if head is None else head.version + 1,
            scope=root.scope,
            category=proposal.category,
            session_id=self._event.session_id or "unknown",
            trigger=_TRIGGERS[self._event.kind],
            supersedes=None if head is None else head.id,
            related=self._edges(root, (*proposal.related, *(() if head else self._doubt(root, content)))),
            origin=self._origin,
            cues=self._cues(proposal.cues),
            evidence=_evidence(root, proposal.evidence),
            entities=entities,
            relations=relations,
        )

    def _is_another_word(self, root: Root, content: str, match: Match) -> bool:
        """Whether what is not sure to be worth keeping changes what is known, or was likely before.

        A compaction brings again what was judged when it was said: the newest word was another since.
        """
        if self._event.kind == "compaction" or not content:
            return False
        if match.head or match.before:
            return True
        self._existing.tentative.add(root, content, doubt=match.doubt)
        return False

    def _doubt(self, root: Root, content: str) -> Iterator[Related]:
        """An edge to the head that typed words may gainsay, although nobody can be sure."""
        head = self._existing.contradicted(root, content) if self._author != Origin.MODEL else None
        if head is not None:
            yield Related(head.id, Relationship.CONTRADICTS)

    def _cues(self, proposed: Sequence[str]) -> tuple[str, ...]:
        lines = map(self._line, proposed)
        short = (line for line in lines if line and len(line) <= MOST_CUE_CHARS)
        return tuple(dict.fromkeys(short))[:MOST_CUES]

    def _line(self, text: str) -> str:
        return " ".join(self._presentable(text).split())

    def _edges(self, root: Root, proposed: Sequence[Related]) -> tuple[Related, ...]:
        there = (edge for edge in proposed if edge.id in self._existing.ids[root])
        good = (edge for edge in there if edge.relationship in _RELATIONSHIPS)
        return tuple(dict.fromkeys(good))[:MOST_RELATED]


def _evidence(root: Root, proposed: Sequence[str]) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for text in dict.fromkeys(proposed if root.has_files else ()):
        with suppress(EvidenceError):
            found.append(hashed(root.top, evidence_named(text)))
    return tuple(found[:MOST_EVIDENCE])


def _says_nothing(content: str) -> bool:
    told = set(content_words(content.replace(PLACEHOLDER, " "))) - _SECRET_WORDS
    return len(told) < _LEAST_WORDS


def things_said(
    entities: Sequence[Entity],
    relations: Sequence[Relation],
    content: str,
    presentable: Callable[[str], str],
) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Return those whose names stand in a memory's text, each once, if `presentable` leaves them as they are.

    A model invents names, and a text that it read may want it to.
    """
    folded, ruled = content.casefold(), {entity_id(each.name) for each in spoken_of(content).entities}

    def is_said(name: str) -> bool:
        return (name.casefold() in folded or entity_id(name) in ruled) and presentable(name) == name

    things, ties = dict[str, Entity](), dict[tuple[str, str, str], Relation]()
    for each in filter(lambda thing: is_said(thing.name), entities):
        kept = Entity(each.name, presentable(each.type), presentable(each.description))
        things.setdefault(entity_id(each.name), kept)
    for tie in relations:
        if is_said(tie.source) and is_said(tie.target) and presentable(tie.relation) == tie.relation:
            ties.setdefault((entity_id(tie.source), tie.relation, entity_id(tie.target)), tie)
    return tuple(things.values()), tuple(ties.values())
