"""Existing memories that an event's proposals are compared with: by id, by text and by slot.

`existing_memories` collects candidates from the event's maps: similar texts, near vectors, memories of the
session, and those that a proposal names. `ExistingMemories` finds the ones that a proposal repeats, replaces
or contradicts. A proposal takes some milliseconds among ten thousand memories. Raises nothing.
"""

from __future__ import annotations

import asyncio
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice, zip_longest

import msgspec
import numpy as np

from forged.capture.answers import judged_part
from forged.capture.authorship import pieces
from forged.capture.memory_requests import SaidToMemory, request_scorer, subject_words
from forged.capture.rules.corrections import new_version
from forged.capture.rules.pair_model import NO_ROWS, RowsOf
from forged.capture.rules.replacement import (
    Judgement,
    is_evident,
    judge_fragment,
    judged,
    may_replace,
    sentences_in,
)
from forged.capture.rules.requests import words_to_forget
from forged.capture.rules.slots import announces_change, is_about_the_same, slots_of
from forged.capture.text_patterns import is_numbered, opening, plain, words_said
from forged.capture.values import MAX_CONTENT_BYTES, KnownMemory, Proposal
from forged.capture.vectors import VectorsOf
from forged.config import LOCAL
from forged.files import Root
from forged.map import Chains, VectorMap, build_chains, search_maps
from forged.memory import OF_PERSON, Memory, Origin, Scope, time_ns
from forged.models import split_layers
from forged.state import Event
from forged.stores import View
from forged.text.english import TURNING
from forged.text.same_text import TextIndex

# Candidates by text; a text that says the same shares nearly all words, so it ranks among the first.
_NEAREST = 40
_MOST_OF_SESSION, _CREATED = 200, operator.attrgetter("created_at")
_MOST_NAMED = 100
# Without an index of words: how much longer a text that says the same may be, with a lead-in.
_STRETCH, _LEAD_IN = 1.5, 80
# Longest text that can say the same as a proposal, which has half of that at most.
_MOST_ALIKE = 2 * MAX_CONTENT_BYTES
# Seconds for all vectors, and most texts that are compared with one proposal and in all.
_ROWS_S, _MOST_NEAR, _MOST_COMPARED = 10.0, 24, 192
# Share of the words of a request to forget that a memory must have.
_LEAST_SHARE = 0.5
# Share of the best score that another memory needs to be a candidate as well, and most candidates.
_BEHIND, _MOST_MEANT = 0.6, 3
# Least share of a subject's words in the memory that is meant: of a whole fact, and of a thing.
_LEAST_OF_FACT, _LEAST_OF_THING = 0.4, 0.2
# The same for a request that no wording says: what it loses with each nat of its surety, and its least.
_LEAST_OF_SCORED, _OF_SURETY, _LEAST_OF_SURE = 0.5, 0.2, 0.15
# Weights of a word that many requests have, if a memory has it too, and of two ideographs that none has.
_FRAME, _UNKNOWN = 0.3, 0.4
# Origins of programs' texts, and words that one shares with a person's text that says the same.
_OF_AGENTS = frozenset({Origin.AGENT, Origin.MODEL})
_LEAST_SHARED, _SHARED_OF_FEW, _SHARED_OF_MANY = 2, 0.75, 0.6
_WORD = re.compile(r"\w+")
# Least share of a memory's words, if a fact has just one of them; memories that are compared one by one.
_LEAST_COVER, _SMALL_MAP = 0.3, 600
# Characters of a text that its vector covers: the longest statement that is kept, 50 ms of a core.
_MOST_IN_ROW = 600
# Most tentative statements of a root, with a penalty and without, and most roots or sessions.
_MOST_TENTATIVE, _MOST_ROOTS = 40, 64
# Lower bar in nats for tentative statements: a mistake hides no memory.
_SAFE = 0.25


class TentativeStatement(msgspec.Struct, frozen=True):
    """Uncertain statement about a root, not kept so far; `current` is the newest text on its subject."""

    root: Root
    text: str
    penalty: float = 0.0
    current: str = ""


class TentativeStatements:
    """Holds uncertain statements in memory, to find the one that a later statement, then kept, replaces.

    It keeps the newest texts of each root. A text that replaces a tentative one is kept: whoever changes a
    statement means it to last. The new text becomes `current`, in case a third one follows.
    """

    def __init__(self) -> None:
        self._by_root: dict[Root, dict[str, TentativeStatement]] = {}
        self._announced: dict[str, str] = {}

    def announce(self, event: Event) -> None:
        """Hold the newest typed text of an event that announces a change of a decision, if there is one."""
        if not event.session_id:  # no later event is known to be of the same session
            return
        said = (each.text for each in event.window if each.role == "user" and _amends(each.text))
        found = [typed for typed in map(_typed_in, said) if _amends(typed)]
        if found:
            self._announced.pop(event.session_id, None)
            self._announced[event.session_id] = opening(found[-1])
            if len(self._announced) > _MOST_ROOTS:
                del self._announced[next(iter(self._announced))]

    def announced(self, session_id: str) -> str:
        """Return the newest text of a session that announces a change, or ""."""
        return self._announced.get(session_id, "")

    def add(self, root: Root, text: str, *, penalty: float = 0.0) -> None:
        """Hold an uncertain text for a root; the oldest texts and roots beyond the limits are dropped."""
        held = self._by_root[root] = self._by_root.pop(root, {})
        held.setdefault(text, TentativeStatement(root, text, penalty, text))
        alike = [each.text for each in held.values() if bool(each.penalty) == bool(penalty)]
        if len(alike) > _MOST_TENTATIVE:
            del held[alike[0]]
        if len(self._by_root) > _MOST_ROOTS:
            del self._by_root[next(iter(self._by_root))]

    def texts(self, roots: Sequence[Root]) -> list[str]:
        """Return the tentative texts of the given roots."""
        return [text for root in roots for text in self._by_root.get(root, {})]

    def find_replaced(
        self, roots: Sequence[Root], content: str, *, rows: RowsOf = NO_ROWS, penalty: float = 0.0
    ) -> TentativeStatement | None:
        """Return the tentative statement that a text replaces, or None; `penalty` raises the bar."""
        of_all = [each for root in roots for each in self._by_root.get(root, {}).values()]
        older = [each for each in of_all if each.text != content]
        if not older:
            return None
        penalties = [each.penalty for each in older]
        texts, penalty = [each.text for each in older], penalty - _SAFE
        found = judged(content, texts, rows=rows, penalty=penalty, penalties=penalties)
        return older[found.place] if found is not None and found.margin > 0 else None

    def supersede(self, held: TentativeStatement, content: str) -> None:
        """Set `content` as the newest text on the subject of a tentative statement."""
        self._by_root[held.root][held.text] = TentativeStatement(held.root, held.text, current=content)


def _amends(text: str) -> bool:
    """Return True if the beginning of a text announces a change of a decision."""
    return announces_change(opening(text))


def _typed_in(message: str) -> str:
    """Return the typed text of a message, without what was pasted."""
    return "\n".join(piece.text for piece in pieces(message) if piece.author == "typed")


class ExistingMemories:
    """Memories and version chains that the proposals of one event are compared with.

    `by_root` has all versions, `rows` the vectors of all texts and proposals by their openings, if any.
    """

    def __init__(
        self,
        event: Event,
        by_root: Mapping[Root, Sequence[Memory]],
        tentative: TentativeStatements,
        rows: RowsOf = NO_ROWS,
    ) -> None:
        self.roots = event.roots
        self.session_id = event.session_id or "unknown"
        self._by_root = by_root
        self.tentative = tentative
        self.announced = tentative.announced(event.session_id)
        self.rows = rows
        self._decided: dict[Root, list[Memory]] = {}
        self._linked: dict[Root, tuple[list[Memory], Chains, list[Memory]]] = {}

    def add_decided(self, root: Root, memory: Memory) -> None:
        """Let a memory that was just decided count as existing from now on."""
        self._decided.setdefault(root, []).append(memory)
        self._linked.pop(root, None)
        self._texts.add(memory.content)

    @cached_property
    def ids(self) -> dict[Root, frozenset[str]]:
        """Return the ids of memories from before the event, by root, as an id is valid in its root only."""
        return {root: frozenset(memory.id for memory in self._earlier(root)) for root in self.roots}

    def memory_by_id(self, root: Root, memory_id: str) -> Memory:
        """Return the memory of a root that existed before the event, by its id."""
        return next(each for each in self._earlier(root) if each.id == memory_id)

    def head(self, root: Root, memory_id: str) -> Memory:
        """Return the newest version of a memory of a root, which may just have been decided."""
        versions, chains, _ = self.versions(root)
        head = chains.head(memory_id)
        return next(each for each in versions if each.id == head)

    def versions(self, root: Root) -> tuple[list[Memory], Chains, list[Memory]]:
        """Return all known and decided memories of a root, their chains and their heads."""
        if root not in self._linked:
            known = {memory.id: memory for memory in (*self._earlier(root), *self._decided.get(root, ()))}
            memories = list(known.values())
            self._linked[root] = memories, (chains := build_chains(memories)), chains.heads(memories)
        return self._linked[root]

    def _earlier(self, root: Root) -> Sequence[Memory]:
        """Return the memories of a root that existed before the event."""
        return self._by_root.get(root, ())

    def says(self, content: str) -> bool:
        """Return True if a current memory, or a replaced one of this session, says the same as a text.

        A window repeats each turn, so it still has the statement that was replaced.
        """
        return self._texts.has_like(content)

    @cached_property
    def _texts(self) -> TextIndex:
        """Return an index of the texts of current memories, and of all versions from this session."""
        valid = chain.from_iterable(map(self.current, self.roots))
        return TextIndex([each.content for each in valid if len(each.content) <= _MOST_ALIKE])

    def current(self, root: Root) -> Iterator[Memory]:
        """Yield the current memories of a root, and all versions from this session."""
        versions, chains, _ = self.versions(root)
        yield from (m for m in versions if m.session_id == self.session_id or chains.is_head(m.id))

    def written_by_agent(self, root: Root, content: str, since: int) -> Memory | None:
        """Return the memory by which an agent said the same as a person's text, or None.

        `since` is the time of the person's turn in nanoseconds.
        """
        _, _, heads = self.versions(root)
        written = (each for each in heads if each.origin in _OF_AGENTS and time_ns(each.created_at) >= since)
        return next((each for each in written if _says_the_same(each.content, content)), None)


def _says_the_same(one: str, other: str) -> bool:
    """Return True if two texts share nearly all words of their subject, all numbers and all negations."""
    if TextIndex([one]).has_like(other):
        return True
    words, others = subject_words(one), subject_words(other)
    shared = len(words & others)
    few, many = sorted((len(words), len(others)))
    if shared < max(_LEAST_SHARED, _SHARED_OF_FEW * few, _SHARED_OF_MANY * many):
        return False
    turns, turns_of_other = (
        {word for word in _WORD.findall(each.lower()) if word in TURNING or is_numbered(word)}
        for each in (one, other)
    )
    return turns == turns_of_other


class ReplacementLookup:
    """Finds the memory and the tentative statement that a proposal replaces, once and if needed."""

    def __init__(
        self,
        existing: ExistingMemories,
        root: Root | None,
        proposal: Proposal,
        content: str,
        *,
        by_model: bool,
    ) -> None:
        """`content` is the text as it would be stored; `by_model`: a model wrote it."""
        self._existing, self._root, self._proposal = existing, root, proposal
        self._content, self._by_model, self.penalty = content, by_model, proposal.penalty
        # Secrets are cut from the content alone.
        self._text = content if by_model or proposal.content != content else proposal.judged_text

    def in_root(self, root: Root, *, more: float) -> ReplacementLookup:
        """Return the lookup in another root, for which the bar is `more` nats higher."""
        found = ReplacementLookup(
            self._existing, root, self._proposal, self._content, by_model=self._by_model
        )
        found.penalty += more
        found.tentative = self.tentative
        return found

    @cached_property
    def tentative(self) -> TentativeStatement | None:
        """Return the tentative statement that a typed text replaces, or None; a model's replaces none."""
        if self._by_model:
            return None
        existing = self._existing
        return existing.tentative.find_replaced(
            existing.roots, self._text, rows=existing.rows, penalty=self.penalty
        )

    @cached_property
    def head(self) -> Memory | None:
        """Return the current memory that a proposal names or a typed text replaces; None if in doubt."""
        existing, root, named = self._existing, self._root, self._proposal.supersedes
        if root is None:
            return None
        if named in existing.ids[root]:
            head = existing.head(root, named)
            # The memory that the model saw may have a newer version by now.
            texts = (existing.memory_by_id(root, named).content, head.content)
            is_sure = any(may_replace(self._text, each, rows=existing.rows) for each in texts)
            return head if is_sure or not self._by_model else None
        return None if self._by_model else self._replaced_head(root)

    @property
    def doubted(self) -> Memory | None:
        """Return the current memory that a typed text may replace, for a person to decide, or None."""
        found = self._judgement
        return self._head_at(found) if found is not None and not self.head and found.is_doubtful else None

    @property
    def refined(self) -> Memory | None:
        """Return the current memory on whose subject a typed text says more, or None."""
        found = self._judgement
        return self._head_at(found) if found is not None and not self.head and found.is_near else None

    @property
    def content(self) -> str:
        """Return the text of the new version: the proposal's, with what stays of the head."""
        if self.head is None or self.head.origin not in OF_PERSON:
            return self._content
        return new_version(self._text, self.head.content, self._content)

    @cached_property
    def _judgement(self) -> Judgement | None:
        """Return how a typed text is judged against all versions of its root, or None if nothing shows."""
        root = self._root
        if root is None or self._by_model or not self._content:
            return None
        (versions, links, _), rows = self._existing.versions(root), self._existing.rows
        if not versions:
            return None
        session, texts = self._existing.session_id, [*map(_judged_text, versions)]
        recent = [place for place, each in enumerate(versions) if each.session_id == session]
        chains = [links.head(each.id) for each in versions]
        found = judged(
            self._text,
            texts,
            rows=rows,
            penalty=self.penalty,
            recent=recent,
            chains=chains,
            announced="" if self._proposal.update_only else self._existing.announced,
            is_answer=bool(self._proposal.agreed),
        )
        if (found is not None and found.margin > 0) or self._proposal.agreed:
            return found
        elsewhere = (self._existing.versions(each)[0] for each in self._existing.roots if each != root)
        others = [*map(_judged_text, chain.from_iterable(elsewhere))]
        return judge_fragment(self._text, texts, others, rows) or found

    def _head_at(self, found: Judgement) -> Memory | None:
        """Return the head of the version that is judged, if the text is also about that head."""
        assert self._root is not None
        version = self._existing.versions(self._root)[0][found.place]
        head = self._existing.head(self._root, version.id)
        return head if head.id == version.id or self._is_about_head(head) else None

    def _is_about_head(self, head: Memory) -> bool:
        """Return True if a text that replaces an older version is also about `head`, the newest."""
        is_same = is_about_the_same(self._text, head.content)
        return is_same or slots_of(head.content).is_bare or is_evident(self._text, head.content)

    def _replaced_head(self, root: Root) -> Memory | None:
        """Return the current memory that a typed text replaces, also via a tentative statement, or None."""
        found = self._judgement
        if found is not None and found.margin > 0 and (head := self._head_at(found)) is not None:
            return head
        if self.tentative is None:
            return None
        current = (
            each for each in self._existing.versions(root)[2] if each.content == self.tentative.current
        )
        return next((each for each in current if is_evident(self._text, each.content)), None)


_Unshown = Mapping[Root, Sequence[Memory]]


def existing_memories(
    event: Event,
    proposals: Sequence[Proposal],
    view: View,
    unshown: _Unshown,
    *,
    tentative: TentativeStatements,
    rows: RowsOf = NO_ROWS,
) -> ExistingMemories:
    """Collect the memories to compare an event's proposals with, from the maps of its roots.

    `unshown` has memories of its roots that no map shows yet.
    """
    session, by_root = event.session_id or "unknown", dict[Root, tuple[Memory, ...]]()
    for root in event.roots:
        homes = (each for each in view.maps if (each.root, each.scope) == (root.top, root.scope))
        shown = [found for home in homes for found in _candidates(home, session, proposals, rows)]
        by_root[root] = tuple({each.id: each for each in (*unshown[root], *shown)}.values())
    return ExistingMemories(event, by_root, tentative, rows)


async def vectors_of_texts(
    event: Event, proposals: Sequence[Proposal], view: View, others: Sequence[str], vectors: VectorsOf
) -> RowsOf:
    """Return vectors of proposals, near memories and `others` by text; none if one is missing or late."""
    contents = _with_sentences(each.judged_text for each in proposals)
    try:
        async with asyncio.timeout(_ROWS_S):
            rows = await _vectors_by_opening(contents, vectors)
            if len(rows) != len(contents):
                return NO_ROWS
            near = await asyncio.to_thread(_near_texts, event, view, rows)
            texts = _with_sentences((*near, *others))
            found = await _vectors_by_opening(texts, vectors)
            return rows | found if len(found) == len(texts) else NO_ROWS
    except TimeoutError:
        return NO_ROWS


def _with_sentences(texts: Iterable[str]) -> list[str]:
    """Return the openings of texts, and the sentences that are judged by themselves, each once."""
    return list(dict.fromkeys(each for text in texts for each in (opening(text), *sentences_in(text))))


async def _vectors_by_opening(texts: Sequence[str], vectors: VectorsOf) -> dict[str, bytes]:
    """Return vectors of the openings of texts, keyed by text; none if one is missing."""
    found = await vectors([opening(each, _MOST_IN_ROW) for each in texts])
    return dict(zip(texts, found, strict=True)) if len(found) == len(texts) else {}


def _near_texts(event: Event, view: View, rows: RowsOf) -> list[str]:
    """Return the texts of the memories nearest to proposals by words and vectors, up to a limit."""
    most = max(1, min(_MOST_NEAR, _MOST_COMPARED // len(rows)))
    homes = [home for home in view.maps if any(home.root == root.top for root in event.roots)]
    near = [each for home in homes for text, row in rows.items() for each in _nearest(home, text, row, most)]
    return [*map(_judged_text, near)]


def _judged_text(memory: Memory) -> str:
    """Return the text of a memory that is compared: of an answer the person's words."""
    return judged_part(memory.content) if memory.origin == Origin.AGREED else memory.content


def heads_naming(view: View, names: Sequence[str]) -> tuple[KnownMemory, ...]:
    """Return current memories with one of `names` in the first line, at most 100 for each map and name."""
    return tuple(dict.fromkeys(each for home in view.maps for each in _heads_of_map_naming(home, names)))


def _heads_of_map_naming(home: VectorMap, names: Iterable[str]) -> Iterator[KnownMemory]:
    """Yield current memories of one map with one of the names in their first line."""
    lines = [(opening(found.first_line), found) for found in home.chains.heads(home.memories)]
    lowered = [line.lower() for line, _ in lines]
    for name in map(str.lower, names):
        places = (place for place, line in enumerate(lowered) if name in line)
        for line, found in (lines[place] for place in islice(places, _MOST_NAMED)):
            yield KnownMemory(found.id, found.scope, found.category, line)


class MeantMemories(msgspec.Struct, frozen=True):
    """Current memories that a request may mean, best first; `is_clear`: it surely means the first one."""

    found: tuple[tuple[Root, Memory], ...] = ()
    is_clear: bool = False


def memories_meant(view: View, said: SaidToMemory) -> MeantMemories:
    """Return the memories that share the words of a request's subject, of a question else its sentence."""
    found = _memories_about(view, said, said.topic)
    if found.found or said.verb == "forget":
        return found
    return _memories_about(view, said, plain(said.sentence))


def _memories_about(view: View, said: SaidToMemory, topic: str) -> MeantMemories:
    """Return the memories that share the words of a request's subject; rare words count most."""
    wanted = subject_words(topic)
    heads = [(home, each) for home in view.maps for each in _heads_near(home, topic)] if wanted else []
    words = [subject_words(each.content) for _, each in heads]
    held, count = Counter(chain.from_iterable(words)), sum(len(home.memories) for home in view.maps)
    frame = request_scorer().frame

    def weight_of(word: str) -> float:
        share = 1.0 if word.isascii() else _UNKNOWN
        if held[word]:
            share = _FRAME if word in frame else 1.0
        elif word in frame:
            share = 0.0
        return share * math.log((count + 1) / (held[word] + 0.5))

    def weight(some: Iterable[str]) -> float:
        return sum(map(weight_of, some))

    if not (whole := weight(wanted)):  # it has no words of its own
        return MeantMemories()
    scored = [
        (weight(wanted & has) / whole, each.created_at, Root(home.root, Scope(home.scope)), each, has)
        for (home, each), has in zip(heads, words, strict=True)
    ]
    scored = sorted((each for each in scored if each[0] > 0), key=lambda each: each[:2], reverse=True)
    if not scored:
        return MeantMemories()
    share, _, _, _, has = scored[0]
    near = tuple((root, each) for part, _, root, each, _ in scored if part >= _BEHIND * share)
    shared = wanted & has
    is_sure = share >= _least_share(said)
    if said.is_fact and len(shared) == 1:  # one word in common may be chance
        is_sure = is_sure and weight(shared) >= _LEAST_COVER * weight(has)
    return MeantMemories(near[:_MOST_MEANT], is_sure and len(near) == 1)


def _least_share(said: SaidToMemory) -> float:
    """Return the least share of a request's subject that the memory must have which it means."""
    if said.is_fact:
        return _LEAST_OF_FACT
    if said.surety == math.inf:
        return _LEAST_OF_THING
    return max(_LEAST_OF_SURE, _LEAST_OF_SCORED - _OF_SURETY * said.surety)


def _heads_near(home: VectorMap, topic: str) -> Iterator[Memory]:
    """Yield the current memories of a map that may share words with a subject; of a small map all."""
    if len(home.memories) <= _SMALL_MAP or not home.has_words:
        yield from home.chains.heads(home.memories)
    else:
        yield from (each for each in _near_by_words(home, topic) if home.chains.is_head(each.id))


def memory_to_forget(view: View, text: str) -> tuple[Root, Memory] | None:
    """Return root and current memory with most, at least half, of a forget request's words, or None."""
    wanted = words_to_forget(text)
    found = (
        (len(wanted & words_said((each.content,))), each.created_at, Root(home.root, Scope(home.scope)), each)
        for home in view.maps
        for each in _nearest(home, text, b"", _MOST_NEAR)
        if home.chains.is_head(each.id)
    )
    best = max(found, key=lambda each: each[:2], default=None)
    return best[2:] if best is not None and wanted and best[0] >= _LEAST_SHARE * len(wanted) else None


def _candidates(
    home: VectorMap, session_id: str, proposals: Sequence[Proposal], rows: RowsOf
) -> list[Memory]:
    """Return a map's memories of the session, and all versions of those like or named by proposals."""
    if not home.memories:
        return []
    own = sorted((each for each in home.memories if each.session_id == session_id), key=_CREATED)
    found = {each.id: each for each in own[-_MOST_OF_SESSION:]}
    like_text = _near_by_words if home.has_words else _of_like_length
    for proposal in proposals:
        row = rows.get(opening(proposal.content.strip()), b"")
        similar = (*like_text(home, proposal.content), *_near_by_vector(home, row))
        named = (*(each.id for each in similar), proposal.supersedes, *(edge.id for edge in proposal.related))
        found |= {each.id: each for each in _chain_versions(home, named)}
    return list(found.values())


def _nearest(home: VectorMap, content: str, row: bytes, most: int) -> list[Memory]:
    """Return the memories nearest to a text by words and vector, with their versions, at most `most`."""
    by_words = _near_by_words(home, content) if home.has_words else ()
    turns = chain.from_iterable(zip_longest(by_words, _near_by_vector(home, row)))
    ids = dict.fromkeys(each.id for each in turns if each is not None)
    found = {each.id: each for each in _chain_versions(home, islice(ids, most))}
    return list(found.values())[:most]


def _chain_versions(home: VectorMap, ids: Iterable[str]) -> Iterator[Memory]:
    """Yield all versions in the chains of memories with these ids."""
    versions = dict.fromkeys(version for each in ids for version in home.chains.chain(each))
    return filter(None, map(home.find, versions))


def _near_by_vector(home: VectorMap, row: bytes) -> Iterator[Memory]:
    """Yield a map's memories near a vector, at most 40, if it has vectors of the local model."""
    indexes = home.dense if row else ()
    key = next((index.key for index in indexes if index.key.startswith(f"{LOCAL}\n")), None)
    if key is None:
        return
    _, vectors = split_layers(np.frombuffer(row, np.float32)[None])
    found = search_maps((home,), texts=(), vectors=vectors, lexical_weight=0.0, key=key)
    yield from (home.at(candidate.row) for candidate in found.best(_NEAREST))


def _near_by_words(home: VectorMap, content: str) -> Iterator[Memory]:
    """Yield the memories of a map, at most 40, that best match the words of a text."""
    found = search_maps((home,), texts=(content,), vectors=None, lexical_weight=1.0)
    return (home.at(candidate.row) for candidate in found.best(_NEAREST))


def _of_like_length(home: VectorMap, content: str) -> Iterator[Memory]:
    """Yield memories of similar length, for a map that is not indexed by words."""
    size = len(content)
    least, most = (size - _LEAD_IN) / _STRETCH, size * _STRETCH + _LEAD_IN
    return (found for found in home.memories if least <= len(found.content) <= most)
