"""Commit proposals: compare them with existing memories, and write the accepted ones.

`Promotion` drops unimportant proposals and routes the rest to roots. `decide` makes documents and `put`
writes them. `put` may be repeated with the same documents, as existing files are skipped. Proposals for
review go into the state, not into files. Decisions wait until the maps show the last write; own writes that a
map lacks are added.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from forged.attributes import FactsPatch
from forged.capture.decision import decide
from forged.capture.existing import (
    ExistingMemories,
    MeantMemories,
    TentativeStatements,
    existing_memories,
    heads_naming,
    memories_meant,
    memory_to_forget,
    vectors_of_texts,
)
from forged.capture.intake import response_of
from forged.capture.memory_requests import SaidToMemory
from forged.capture.rules.pair_model import NO_ROWS
from forged.capture.values import Classified, KnownMemory, Proposal, Tally
from forged.capture.vectors import VectorsOf
from forged.errors import (
    ForgedError,
    MemoryExists,
    MemoryFormatError,
    MemoryNotFound,
    NoLongerWanted,
    StoreError,
)
from forged.files import AGENT_ID, Root, root_of_agent
from forged.maps import Indexer
from forged.memory import Memory, Scope, time_ns, utc_now
from forged.state import DecidedMemory, Event, State
from forged.stores import FileStore, SessionMemories, View
from forged.trust import is_same, stored_identity
from forged.writing import Writer, WriteRequest, Written

logger = logging.getLogger(__name__)

# Errors of a disk that is full or in trouble; they may pass.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
# Time limits for the maps to show the last write, and for the first build of a root.
_FRESH_S, _FIRST_S = 2.0, 60.0

Decision = tuple[DecidedMemory, ...]
_Result = Written | StoreError


class CommitResult(msgspec.Struct, frozen=True):
    """Result of writing documents: count written, ids failed, ids for review, and why to try again.

    `trouble` explains why some are not written yet. `reason` is the matching word of `TaskFailed`.
    """

    written: int = 0
    failed: tuple[str, ...] = ()
    reason: str = ""
    trouble: str = ""
    waiting: tuple[str, ...] = ()


class Promotion:
    """Drops unimportant proposals, routes those about an agent to its root, and sets their source.

    `home` holds the agents' roots; without it there are none. A proposal about the agent goes to the root of
    the event's agent, or to the repository if the agent is unknown. A proposal below the importance `least`
    is dropped unless the person asked for it.
    """

    def __init__(self, home: str = "", least: float = 0.0, sessions: SessionMemories | None = None) -> None:
        self._home = home
        self._least = least
        self._sessions = sessions

    async def promote(self, event: Event, classified: Classified) -> tuple[Event, Classified]:
        """Drop unimportant proposals, set scope and source of the rest; return the new event and answer."""
        proposals = self._important(event, classified.proposals)
        if any(each.scope == Scope.AGENT for each in proposals):
            if (root := await asyncio.to_thread(self._open_agent_root, event)) is not None:
                event = replace(event, roots=(*event.roots, root))
            else:
                proposals = tuple(
                    replace(each, scope=Scope.REPO) if each.scope == Scope.AGENT else each
                    for each in proposals
                )
        source = self._source_id(event)
        proposals = tuple(replace(each, source=source) for each in proposals)
        return event, replace(classified, proposals=proposals)

    def _important(self, event: Event, proposals: tuple[Proposal, ...]) -> tuple[Proposal, ...]:
        """Return the proposals that are important enough; of an explicit request all, without a score."""
        if event.kind == "explicit":
            return tuple(replace(each, importance=None) for each in proposals)
        kept = tuple(each for each in proposals if each.importance is None or each.importance >= self._least)
        if dropped := len(proposals) - len(kept):
            logger.debug("not promoted event=%s proposals=%d least=%s", event.id, dropped, self._least)
        return kept

    def _source_id(self, event: Event) -> str:
        """Return the id of the session's memory of this event's response, else of the session or event."""
        said = {response_of(each.text) for each in event.window if each.role == "assistant"}
        rows = self._sessions.of(event.session_id) if said and self._sessions is not None else ()
        found = [row.id for row in rows if row.memory.content in said and row.facts.agent_id == event.agent]
        return found[-1] if found else event.session_id or event.id

    def _open_agent_root(self, event: Event) -> Root | None:
        """Return the root of the event's agent, made if missing; None if unknown or if that fails."""
        if not self._home or AGENT_ID.fullmatch(event.agent) is None:
            return None
        try:
            return root_of_agent(self._home, event.agent, make=True)
        except ForgedError as error:
            logger.warning("no root of agent agent=%s error=%s", event.agent, error)
            return None


class Committer:
    """Decides about proposals, and writes the decided memories or stores them for review."""

    def __init__(
        self,
        indexer: Indexer,
        writer: Writer,
        state: State,
        vectors: VectorsOf | None = None,
        *,
        promotion: Promotion | None = None,
    ) -> None:
        """Without `promotion`, all proposals are promoted and agents have no roots."""
        self._indexer = indexer
        self._writer = writer
        self._forgotten = state.forgotten
        self._to_review = state.to_review
        self._vectors = vectors
        self._promotion = promotion or Promotion()
        self._recent: list[tuple[Root, Written]] = []  # written, but not in a map yet
        self._warned: set[str] = set()
        self._tentative = TentativeStatements()

    async def heads(self, event: Event, names: Sequence[str]) -> tuple[KnownMemory, ...]:
        """Return current memories of an event's roots that have one of `names` in the first line."""
        return await asyncio.to_thread(heads_naming, await self._fresh_view(event.roots), names)

    async def memory_to_forget(self, roots: Sequence[Root], text: str) -> tuple[Root, Memory] | None:
        """Return the current memory that a sentence asks to forget, with its root, or None."""
        return await asyncio.to_thread(memory_to_forget, await self._fresh_view(roots), text)

    async def memories_meant(self, roots: Sequence[Root], said: SaidToMemory) -> MeantMemories:
        """Return the current memories that a request to the memory may mean."""
        return await asyncio.to_thread(memories_meant, await self._fresh_view(roots), said)

    async def memories_shown(
        self, roots: Sequence[Root], context: Sequence[tuple[str, str]]
    ) -> tuple[tuple[Root, Memory], ...]:
        """Return the current versions of the memories of a context, each with its root, in their order."""
        maps = {home.root: home for home in (await self._fresh_view(roots)).maps}
        heads = ((maps[top], maps[top].head(memory_id)) for top, memory_id in context if top in maps)
        found = ((Root(home.root, Scope(home.scope)), head) for home, head in heads if head is not None)
        return tuple(dict.fromkeys(found))

    async def decide(self, event: Event, classified: Classified) -> tuple[Decision, Tally]:
        """Filter a classifier's proposals, compare them with memories; return documents and a tally."""
        # Decisions about past sessions must not depend on earlier statements of this run.
        tentative = TentativeStatements() if event.kind == "learned" else self._tentative
        tentative.announce(event)
        if classified.proposals:
            event, classified = await self._promotion.promote(event, classified)
        if not (proposals := classified.proposals):
            return (), Tally(classified.malformed)
        view = await self._fresh_view(event.roots)
        unshown = {root: (*self._just_written(root), *self._from_past(event, root)) for root in event.roots}
        rows = NO_ROWS
        if self._vectors is not None:
            others = tentative.texts(event.roots)
            others += (each.content for memories in unshown.values() for each in memories)
            rows = await vectors_of_texts(event, proposals, view, others, self._vectors)

        def compare_and_decide() -> tuple[Decision, Tally]:
            existing = existing_memories(event, proposals, view, unshown, tentative=tentative, rows=rows)
            return self._decide_with_identities(event, classified, existing)

        return await asyncio.to_thread(compare_and_decide)

    def _is_unwanted(self, root: Root, memory: Memory, tops: Sequence[str]) -> bool:
        """Return True if a memory's text was forgotten after its creation, in its root or `tops`."""
        since = self._forgotten.forgotten_at((*tops, root.top), memory.content)
        return since is not None and since > time_ns(memory.created_at) / 1e9

    async def put(self, documents: Decision, tops: Sequence[str]) -> CommitResult:
        """Write documents to files, and store those that wait for review; one failure stops no other.

        A text that was forgotten meanwhile in one of `tops` is left out.
        """
        results: list[tuple[DecidedMemory, _Result]] = []
        due = [document for document in documents if not document.waits]
        for root in dict.fromkeys(document.root for document in due):
            here = [document for document in due if document.root == root]
            results += await self._write_into(root, here, tops)
        waiting = [
            each for each in documents if each.waits and not self._is_unwanted(each.root, each.memory, tops)
        ]
        put = self._summarise(results)
        try:
            return replace(put, waiting=await self._to_review.add(waiting))
        except StoreError as error:
            return replace(put, reason="storage", trouble=str(error))

    async def _fresh_view(self, roots: Sequence[Root]) -> View:
        """Return a view of roots; wait up to 2 s for the last write, up to 60 s for a first build."""
        store = FileStore(self._indexer, roots)
        view = await store.view(sys.maxsize, time.monotonic() + _FRESH_S)
        return await store.view(0, time.monotonic() + _FIRST_S) if view.waiting else view

    def _decide_with_identities(
        self, event: Event, classified: Classified, existing: ExistingMemories
    ) -> tuple[Decision, Tally]:
        """Decide about proposals; return documents with the identity of their roots, and a tally."""
        documents, tally = decide(event, classified, existing, self._forgotten.forgotten_at, utc_now())
        known = dict(event.stored_roots)
        # The agent's root is not among the roots that the event was accepted with.
        identities = {
            each: known.get(each) or (stored_identity(each) if known else "") for each in event.roots
        }
        return tuple(replace(each, identity=identities[each.root]) for each in documents), tally

    def _from_past(self, event: Event, root: Root) -> list[Memory]:
        """Return a root's proposals of other past sessions in review, if the event is of a past session."""
        if event.kind != "learned":
            return []
        identity = dict(event.stored_roots).get(root, "")
        there = (each for each in self._to_review.of([root]) if is_same(each.identity, identity))
        return [each.memory for each in there if each.learned_at]

    def _just_written(self, root: Root) -> tuple[Memory, ...]:
        """Return memories that this daemon wrote into a root and that its map does not show yet."""
        if all(where != root for where, _ in self._recent):
            return ()
        visible = self._indexer.open(root).generations.visible
        self._recent = [
            (where, done) for where, done in self._recent if where != root or done.generation > visible
        ]
        return tuple(done.memory for where, done in self._recent if where == root)

    async def _write_into(
        self, root: Root, documents: Sequence[DecidedMemory], tops: Sequence[str]
    ) -> list[tuple[DecidedMemory, _Result]]:
        """Write documents into one root; one whose replaced memory is gone is written as a new memory."""
        index = self._indexer.open(root)

        def request_for(memory: Memory, attributes: FactsPatch) -> WriteRequest:
            return WriteRequest(
                memory, unwanted=lambda each: self._is_unwanted(root, each, tops), patch=attributes
            )

        results = await self._writer.add_all(
            index, [request_for(each.memory, each.attributes) for each in documents]
        )
        done = list(zip(documents, results, strict=True))
        for place, (document, result) in enumerate(done):
            if isinstance(result, MemoryNotFound):  # the memory that it replaces is gone
                alone = replace(document.memory, supersedes=None, version=1)
                (again,) = await self._writer.add_all(index, [request_for(alone, document.attributes)])
                done[place] = (document, again)
        self._recent += [(root, result) for _, result in done if isinstance(result, Written)]
        return done

    def _summarise(self, results: Sequence[tuple[DecidedMemory, _Result]]) -> CommitResult:
        """Log failed writes; return the count written, the failed ids, and why to try again, if useful."""
        written = sum(_is_written(document, result) for document, result in results)
        failed = [
            (document, result)
            for document, result in results
            if isinstance(result, StoreError) and not isinstance(result, MemoryExists | NoLongerWanted)
        ]
        for document, error in failed:
            self._warn_once(document.memory.id, error)
        causes = [error.__cause__ for _, error in failed]
        troubles = [str(error) for _, error in failed if not _is_hopeless(error)]
        ids = tuple(document.memory.id for document, _ in failed)
        if not troubles:
            return CommitResult(written, ids)
        if not any(os.path.isdir(document.root.top) for document, _ in results):
            return CommitResult(written, ids, "gone", troubles[-1])
        whole = len(failed) == len(results) or any(map(_is_passing, causes))
        return CommitResult(written, ids, "storage" if whole else "unwritten", troubles[-1])

    def _warn_once(self, memory_id: str, error: StoreError) -> None:
        """Log a failed write, once for each memory."""
        if memory_id not in self._warned:
            logger.warning("memory not written memory=%s error=%s", memory_id, error)
            self._warned.add(memory_id)


def _is_written(document: DecidedMemory, result: _Result) -> bool:
    """Return True if this attempt or an earlier one wrote the document; False if another has its text."""
    if isinstance(result, Written):
        return result.memory.id == document.memory.id
    return isinstance(result, MemoryExists)


def _is_hopeless(error: StoreError) -> bool:
    """Return True if no disk can store the text itself, so that another attempt is useless."""
    return error.__cause__ is None or isinstance(error.__cause__, MemoryFormatError)


def _is_passing(cause: BaseException | None) -> bool:
    """Return True if a write failed for a cause that may pass: a full or broken disk, or the state."""
    return cause is not None and (not isinstance(cause, OSError) or cause.errno in _PASSING)
