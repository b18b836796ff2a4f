"""Decide about each proposal: new memory, duplicate, replacement, tentative statement, or review.

Input: an event, a classifier's answer and the existing memories. Output: documents to write, and a tally of
the rest. Proposals are decided one by one. Links lead only to memories of the same root, and a new version is
based on the head of its chain. A known or forgotten text is not written again, unless the person repeated it
since. The same holds for a version that this session replaced, because windows repeat. Proposals from pasted
text (`Provenance`) or from a past session wait for review. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from forged.attributes import FactsPatch
from forged.capture.authorship import Authorship, Provenance
from forged.capture.existing import ExistingMemories, ReplacementLookup
from forged.capture.model_reply import mentioned_entities
from forged.capture.rules.corrections import is_made_of
from forged.capture.rules.engine import names_all_repositories, names_repository
from forged.capture.text_patterns import opening
from forged.capture.values import MAX_CONTENT_BYTES, MOST_DOCUMENTS, Classified, Proposal, Refused, Tally
from forged.files import MOST_EVIDENCE, EvidenceError, Root, with_hash
from forged.memory import (
    MOST_CUE_CHARS,
    MOST_CUES,
    Category,
    Evidence,
    Memory,
    Origin,
    Related,
    Relationship,
    Scope,
    Trigger,
    evidence_named,
    new_id,
    time_ns,
    utc,
)
from forged.state import DecidedMemory, Event
from forged.text.forgetting import says_again
from forged.text.redaction import PLACEHOLDER, redact
from forged.text.same_text import content_words
from forged_client.private_spans import without_private

MOST_RELATED = 8
# Characters of a memory that a question shows.
_SHOWN = 120

# Return the Unix time when a text was forgotten in one of some roots (by their tops), or None.
ForgottenSince = Callable[[Sequence[str], str], float | None]

# Triggers as written in memory files, by the kind of event.
_TRIGGERS: dict[str, Trigger] = {
    "turn": Trigger.CADENCE,
    "session_end": Trigger.CADENCE,
    "compaction": Trigger.COMPACTION,
    "explicit": Trigger.EXPLICIT,
    "learned": Trigger.CADENCE,
}
_CATEGORIES = frozenset(Category)
_RELATIONSHIPS = frozenset(Relationship)
# Nats by which the bar of a replacement in another scope is higher, for a proposal kept anyway.
_ELSEWHERE = 1.0
# Least number of words beside secrets: "The API token is [redacted]" is useless.
_LEAST_WORDS = 3
_SECRET_WORDS = frozenset(
    content_words("user user's api access auth login key token password passphrase secret credential")
)


def decide(
    event: Event,
    classified: Classified,
    existing: ExistingMemories,
    forgotten: ForgottenSince,
    now: str,
) -> tuple[tuple[DecidedMemory, ...], Tally]:
    """Decide about an answer's proposals; return documents to write or review, and a tally of the rest.

    `existing` grows by the decisions; `now` is RFC 3339. Malformed ones and those past ten are `invalid`.
    """
    decider = _ProposalDecider(event, classified.author, existing, forgotten, now)
    for proposal in classified.proposals:
        decider.decide_one(proposal)
    counts = (decider.duplicates, decider.secrets, decider.said_again, tuple(decider.refused))
    return tuple(decider.documents), Tally(decider.invalid + classified.malformed, *counts)


class _ProposalDecider:
    """Decides about the proposals of an event one by one; each kept one counts as existing for the next."""

    def __init__(
        self,
        event: Event,
        author: Origin,
        existing: ExistingMemories,
        forgotten: ForgottenSince,
        now: str,
    ) -> None:
        self.documents: list[DecidedMemory] = []
        self.refused: list[Refused] = []
        self.invalid = self.duplicates = self.secrets = self.said_again = 0
        self._event = event
        self._existing = existing
        self._forgotten = forgotten
        self._now = now
        self._by_model = author == Origin.MODEL
        self._is_past = event.kind == "learned"
        self._origin = Origin.EXPLICIT if event.kind == "explicit" else author

    def decide_one(self, proposal: Proposal) -> None:
        """Add a proposal's document to `documents`, hold it as tentative, or count and record its refusal."""
        content = self._redact_content(proposal.content)
        root, match = self._match(proposal, content)
        if proposal.update_only and (root is None or not self._hold_unless_update(root, content, match)):
            return
        origin = self._provenance.authorship_of(content, by_model=self._by_model) if content else "foreign"
        if objection := self._objection(root, content, proposal, origin):
            self.invalid += 1
            self._add_refusal(proposal, content, objection)
        elif (twin := self._written_by_agent(root, content)) is not None:
            self._keep_own_words(twin, content, proposal)
        elif (is_said_again := self._is_said_again(content)) is False or self._is_known(content):
            self.duplicates += 1
            if is_said_again is False:
                self._add_refusal(proposal, "", "forgotten earlier, and not said again since", if_asked=True)
            else:
                self._add_refusal(proposal, content, "already known", if_asked=True)
        elif self._is_outdated(content, match):
            self.duplicates += 1
        elif root is None or self._is_full(waits=origin == "mixed" or self._is_past or bool(proposal.waits)):
            self.invalid += 1
            self._add_refusal(proposal, content, f"at most {MOST_DOCUMENTS} memories are saved at once")
        elif proposal.waits:
            memory = self._make_memory(root, content, proposal, None)
            self._add(
                DecidedMemory(
                    root, memory, self._reason(proposal), proposal.waits, proposal.agreed, self._event.agent
                )
            )
        elif origin == "mixed":
            self._add(
                self._review_document(root, self._make_memory(root, content, proposal, match.head), proposal)
            )
        else:
            memory = self._make_memory(root, match.content, proposal, match.head, self._links(match))
            self._add(DecidedMemory(root, memory, self._reason(proposal), attributes=_attributes(proposal)))
            if match.doubted is not None:
                self._add(self._question(root, memory, match.doubted))
            if match.tentative is not None:
                self._existing.tentative.supersede(match.tentative, content)
            self._existing.add_decided(root, memory)
            self.said_again += is_said_again is not None

    def _written_by_agent(self, root: Root | None, content: str) -> tuple[Root, Memory] | None:
        """Return the memory by which an agent said the same in the turn of a person's text, or None."""
        if root is None or self._by_model or self._is_past or not self._event.said_at:
            return None
        twin = self._existing.written_by_agent(root, content, time_ns(self._said_at(content)))
        return None if twin is None else (root, twin)

    def _keep_own_words(self, twin: tuple[Root, Memory], content: str, proposal: Proposal) -> None:
        """Let a person's text replace the one of an agent that says the same, which adds cues."""
        root, written = twin
        memory = self._make_memory(root, content, proposal, written)
        cues = self._cues((*memory.cues, *written.cues, written.content))
        memory = replace(memory, cues=tuple(each for each in cues if each != content))
        self._add(DecidedMemory(root, memory, self._reason(proposal), attributes=_attributes(proposal)))
        self._existing.add_decided(root, memory)

    def _match(self, proposal: Proposal, content: str) -> tuple[Root | None, ReplacementLookup]:
        """Return the root of a proposal and its match; a typed update follows a memory to its root."""
        own: list[Root | None] = [each for each in self._event.roots if each.scope == proposal.scope]
        found = [
            (root, ReplacementLookup(self._existing, root, proposal, content, by_model=self._by_model))
            for root in own or [None]
        ]
        if known := next((each for each in found if each[1].head is not None), None):
            return known
        more = 0.0 if proposal.update_only else _ELSEWHERE
        for root in (each for each in self._event.roots if each not in own and not self._by_model):
            match = found[0][1].in_root(root, more=more)
            if match.head is not None and not _shows_other_scope(proposal, root.scope):
                return root, match
        return found[0]

    def _is_known(self, content: str) -> bool:
        """Return True if a text is in a memory, by itself or with what stayed of an older version."""
        if self._existing.says(content):
            return True
        versions = (each for root in self._existing.roots for each in self._existing.current(root))
        return any(each.supersedes and is_made_of(each.content, content) for each in versions)

    def _is_outdated(self, content: str, match: ReplacementLookup) -> bool:
        """Return True if a past session's proposal would replace a memory newer than itself."""
        if not self._is_past or match.head is None:
            return False
        return time_ns(match.head.created_at) > time_ns(self._said_at(content))

    def _said_at(self, content: str) -> str:
        """Return the time of the turn that shares most words with a proposal, else now; `undo` needs it."""
        if not self._event.said_at and not self._is_past:
            return self._now
        times = self._event.times
        said_at = times[0] if len(set(times)) == 1 else self._turn_time(set(content_words(content)), times)
        return utc(said_at) if said_at else self._now

    def _turn_time(self, words: set[str], times: Sequence[float]) -> float:
        """Return the time of the turn with the message that shares most of `words`; of equals the newest."""
        shares, turn = dict[float, int](), times[0]
        for each, at in zip(self._event.window, times, strict=True):
            turn = at if each.role == "user" else turn
            if each.role == "user" or not self._is_past:
                shares[turn] = max(shares.get(turn, 0), len(words & set(content_words(each.text))))
        return max(shares, key=lambda at: (shares[at], at), default=turn)

    def _add(self, document: DecidedMemory) -> None:
        """Add a document to `documents`; mark one from a past session to wait for review."""
        if self._is_past:
            why = document.waits or "proposal from a past session, not reviewed yet"
            at = time_ns(self._now) / 1e9
            document = replace(document, waits=why, agent=self._event.agent, learned_at=at)
        self.documents.append(document)

    def _is_full(self, *, waits: bool) -> bool:
        """Return True if the event has ten documents already that wait for review (`waits`) or do not."""
        return sum(bool(each.waits) == waits for each in self.documents) == MOST_DOCUMENTS

    def _reason(self, proposal: Proposal) -> str:
        """Return the word for why a memory is kept: the proposal's, else `model` or `rule` by its author."""
        return proposal.why or ("model" if self._by_model else "rule")

    def _review_document(self, root: Root, memory: Memory, proposal: Proposal) -> DecidedMemory:
        """Make a document that waits for review, with the pasted text that may have asked for it."""
        who = "a model proposed it from" if self._by_model else "it was said next to"
        pasted = redact(self._provenance.pasted_text(memory.content)).text
        why = f"{who} pasted text, which may have asked for it"
        attributes = _attributes(proposal)
        return DecidedMemory(
            root, memory, self._reason(proposal), why, pasted, self._event.agent, attributes=attributes
        )

    def _objection(self, root: Root | None, content: str, proposal: Proposal, origin: Authorship) -> str:
        """Return the reason why a proposal cannot be kept (no root, secret, category, pasted), or ""."""
        if root is None:
            return "there is no repository here to save it in"
        if not content:
            too_long = len(proposal.content.encode("utf-8", "replace")) > MAX_CONTENT_BYTES
            return f"it is longer than {MAX_CONTENT_BYTES:,} bytes" if too_long else "it contains a secret"
        if proposal.category not in _CATEGORIES:
            return "its category is unknown"
        return "it only repeats pasted text" if origin == "foreign" else ""

    def _add_refusal(self, proposal: Proposal, text: str, reason: str, *, if_asked: bool = False) -> None:
        """Record a refused proposal with the reason; with `if_asked` only if the person asked for it."""
        is_request = proposal.why == "request" and self._event.kind != "compaction"
        asked = is_request or self._event.kind == "explicit"
        if proposal.content.strip() and (asked or not if_asked):
            self.refused.append(Refused(text, reason, asked))

    def _is_said_again(self, content: str) -> bool | None:
        """Return True if the person repeated a forgotten text since, None if it was never forgotten."""
        since = self._forgotten(self._event.tops, content)
        if since is None:
            return None
        messages = zip(self._event.window, self._event.said_at, strict=False)
        said = (each.text for each, at in messages if at > since and each.role == "user")
        return any(says_again(text, content) for text in said)

    def _redact_content(self, content: str) -> str:
        """Remove secrets (counted) and private spans from a text; return "" if too long or only secrets."""
        content = content.encode("utf-8", "replace").decode().strip()
        if len(content.encode()) > MAX_CONTENT_BYTES:
            return ""
        redacted = redact(without_private(content))
        self.secrets += redacted.count
        content = redacted.text.strip()
        return "" if PLACEHOLDER in content and _says_nothing(content) else content

    @cached_property
    def _provenance(self) -> Provenance:
        """Return the typed and pasted words of the window, read only if needed, as it is slow."""
        event = self._event
        return Provenance(event.window, asked=event.asked, begun=event.begun, goes_on=event.goes_on)

    def _question(self, root: Root, memory: Memory, older: Memory) -> DecidedMemory:
        """Make the document that asks a person if a memory replaces an older one; both count meanwhile."""
        why = f"it may replace {opening(older.first_line, _SHOWN)!r}; until you decide, both count"
        merged = Related(memory.id, Relationship.SUPERSEDES)
        version = replace(
            memory, id=new_id(), supersedes=older.id, version=older.version + 1, related=(merged,)
        )
        return DecidedMemory(root, version, "replaces", why, agent=self._event.agent)

    def _links(self, match: ReplacementLookup) -> tuple[Related, ...]:
        """Return a link to the memory that a typed text may contradict or refines, if there is one."""
        found = ((match.doubted, Relationship.CONTRADICTS), (match.refined, Relationship.REFINES))
        return tuple(Related(head.id, kind) for head, kind in found if head is not None)

    def _make_memory(
        self,
        root: Root,
        content: str,
        proposal: Proposal,
        head: Memory | None,
        links: tuple[Related, ...] = (),
    ) -> Memory:
        """Make the memory of a proposal, as a new version of `head` if there is one."""
        said_at, things = self._said_at(content), (proposal.entities, proposal.relations)
        entities, relations = (
            mentioned_entities(*things, content, self._redacted_line) if any(things) else ((), ())
        )
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
            related=self._edges(root, (*proposal.related, *links)),
            origin=Origin.AGREED if proposal.agreed else self._origin,
            cues=self._cues(proposal.cues),
            evidence=_evidence(root, proposal.evidence),
            entities=entities,
            relations=relations,
        )

    def _hold_unless_update(self, root: Root, content: str, match: ReplacementLookup) -> bool:
        """Return True if an uncertain proposal updates a known statement; else hold it as tentative."""
        if self._event.kind == "compaction" or not content:
            return False
        if match.head or match.tentative or (self._existing.rows and match.doubted):
            return True
        self._existing.tentative.add(root, content, penalty=match.penalty)
        return False

    def _cues(self, proposed: Sequence[str]) -> tuple[str, ...]:
        """Return proposed cues in one line without secrets, if short enough, each once, up to a limit."""
        lines = map(self._redacted_line, proposed)
        short = (line for line in lines if line and len(line) <= MOST_CUE_CHARS)
        return tuple(dict.fromkeys(short))[:MOST_CUES]

    def _redacted_line(self, text: str) -> str:
        """Return a text in one line, without secrets and private spans."""
        return " ".join(self._redact_content(text).split())

    def _edges(self, root: Root, proposed: Sequence[Related]) -> tuple[Related, ...]:
        """Return up to eight proposed links of a known kind to existing memories of the root, each once."""
        there = (edge for edge in proposed if edge.id in self._existing.ids[root])
        good = (edge for edge in there if edge.relationship in _RELATIONSHIPS)
        return tuple(dict.fromkeys(good))[:MOST_RELATED]


def _shows_other_scope(proposal: Proposal, scope: Scope) -> bool:
    """Return True if the words of a proposal tie it to another scope than this one."""
    if scope == Scope.USER:
        return names_repository(proposal.judged_text)
    return not proposal.update_only and names_all_repositories(proposal.judged_text)


def _attributes(proposal: Proposal) -> FactsPatch:
    """Return the attributes of a proposal's memory: its importance, and its source as metadata."""
    source = {"source": proposal.source} if proposal.source else None
    return FactsPatch(importance=proposal.importance, metadata=source)


def _evidence(root: Root, proposed: Sequence[str]) -> tuple[Evidence, ...]:
    """Return evidence with content hashes for the files that a proposal names; skip unusable ones."""
    found: list[Evidence] = []
    for text in dict.fromkeys(proposed if root.has_files else ()):
        with suppress(EvidenceError):
            found.append(with_hash(root.top, evidence_named(text)))
    return tuple(found[:MOST_EVIDENCE])


def _says_nothing(content: str) -> bool:
    """Return True if a redacted text has fewer than three words besides those such as `token` or `key`."""
    words = set(content_words(content.replace(PLACEHOLDER, " "))) - _SECRET_WORDS
    return len(words) < _LEAST_WORDS
