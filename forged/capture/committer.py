"""Commit proposals: compare them with existing memories, and write by the one writer.

`Promotion` drops what matters too little and routes the rest to roots. `decide` makes documents, `put` writes
them and may be tried again with the same ones: an existing file is done. What waits for a person goes into
the state and no file. Maps are waited for until they show the last write; ours that lack there count too.
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
    TentativeStatements,
    existing_memories,
    heads_naming,
    memory_to_forget,
    rows_of,
)
from forged.capture.intake import response_of
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

# Of a disk: full, or in trouble.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
# For the maps to show what was written last, and for the very first build of a root.
_FRESH_S, _FIRST_S = 2.0, 60.0

Decision = tuple[DecidedMemory, ...]
_Result = Written | StoreError


class CommitResult(msgspec.Struct, frozen=True):
    """How many documents were written, which no disk would take, and which wait for a person since now.

    `trouble` is why some are not in place yet, `reason` a word for it, of those of `Failed`.
    """

    written: int = 0
    failed: tuple[str, ...] = ()
    reason: str = ""
    trouble: str = ""
    waiting: tuple[str, ...] = ()


class Promotion:
    """Filters by importance, and routes proposals to roots. One for the daemon.

    `home` has the agents' roots; without it there are none. A proposal about the agent goes to the root of
    the event's agent, or to the repository's if that is unknown. Below `least` it goes, unless asked for.
    """

    def __init__(self, home: str = "", least: float = 0.0, sessions: SessionMemories | None = None) -> None:
        self._home = home
        self._least = least
        self._sessions = sessions

    async def promoted(self, event: Event, classified: Classified) -> tuple[Event, Classified]:
        """Return what matters enough with its source, and the event with all roots that it goes to."""
        proposals = self._worth(event, classified.proposals)
        if any(each.scope == Scope.AGENT for each in proposals):
            if (root := await asyncio.to_thread(self._root_of, event)) is not None:
                event = replace(event, roots=(*event.roots, root))
            else:
                proposals = tuple(
                    replace(each, scope=Scope.REPO) if each.scope == Scope.AGENT else each
                    for each in proposals
                )
        source = self._source(event)
        proposals = tuple(replace(each, source=source) for each in proposals)
        return event, replace(classified, proposals=proposals)

    def _worth(self, event: Event, proposals: tuple[Proposal, ...]) -> tuple[Proposal, ...]:
        """What a person asked for in so many words matters, whatever a model says."""
        if event.kind == "explicit":
            return tuple(replace(each, importance=None) for each in proposals)
        kept = tuple(each for each in proposals if each.importance is None or each.importance >= self._least)
        if dropped := len(proposals) - len(kept):
            logger.debug("not promoted event=%s proposals=%d least=%s", event.id, dropped, self._least)
        return kept

    def _source(self, event: Event) -> str:
        """The newest memory of the session that is a response of this event; else the session."""
        said = {response_of(each.text) for each in event.window if each.role == "assistant"}
        rows = self._sessions.of(event.session_id) if said and self._sessions is not None else ()
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


class Committer:
    """One for the daemon."""

    def __init__(
        self,
        indexer: Indexer,
        writer: Writer,
        state: State,
        vectors: VectorsOf | None = None,
        *,
        promotion: Promotion | None = None,
    ) -> None:
        """Without `promotion` all proposals are promoted, and the agents have no roots."""
        self._indexer = indexer
        self._writer = writer
        self._forgotten = state.forgotten
        self._to_review = state.to_review
        self._vectors = vectors
        self._promotion = promotion or Promotion()
        self._recent: list[tuple[Root, Written]] = []  # not in a map yet
        self._warned: set[str] = set()
        self._tentative = TentativeStatements()

    async def heads(self, event: Event, names: Sequence[str]) -> tuple[KnownMemory, ...]:
        """Return the newest versions of memories that an event can see and that name something."""
        return await asyncio.to_thread(heads_naming, await self._see(event.roots), names)

    async def memory_to_forget(self, roots: Sequence[Root], text: str) -> tuple[Root, Memory] | None:
        """Return the memory that a sentence asks to forget, None if none has half of its words."""
        return await asyncio.to_thread(memory_to_forget, await self._see(roots), text)

    async def decide(self, event: Event, classified: Classified) -> tuple[Decision, Tally]:
        """What to write of a classifier's proposals, and what was left out."""
        if classified.proposals:
            event, classified = await self._promotion.promoted(event, classified)
        if not (proposals := classified.proposals):
            return (), Tally(classified.malformed)
        view = await self._see(event.roots)
        unshown = {root: (*self._just_written(root), *self._learned(event, root)) for root in event.roots}
        # What past sessions come to must not depend on what this daemon was told since it started.
        tentative = TentativeStatements() if event.kind == "learned" else self._tentative
        rows = NO_ROWS
        if self._vectors is not None:
            others = tentative.texts(event.roots)
            others += (each.content for memories in unshown.values() for each in memories)
            rows = await rows_of(event, proposals, view, others, self._vectors)

        def decided() -> tuple[Decision, Tally]:
            existing = existing_memories(event, proposals, view, unshown, tentative=tentative, rows=rows)
            return self._decided(event, classified, existing)

        return await asyncio.to_thread(decided)

    def _is_unwanted(self, root: Root, memory: Memory, tops: Sequence[str]) -> bool:
        """Whether a text was forgotten, in its root or one of `tops`, since it was decided upon."""
        since = self._forgotten.since((*tops, root.top), memory.content)
        return since is not None and since > time_ns(memory.created_at) / 1e9

    async def put(self, documents: Decision, tops: Sequence[str]) -> CommitResult:
        """Put documents in place; one that cannot be keeps none of the others from it. Raises nothing.

        `tops` are where a text may have been forgotten meanwhile: then it is left out.
        """
        results: list[tuple[DecidedMemory, _Result]] = []
        due = [document for document in documents if not document.waits]
        for root in dict.fromkeys(document.root for document in due):
            here = [document for document in due if document.root == root]
            results += await self._put_in(root, here, tops)
        waiting = [
            each for each in documents if each.waits and not self._is_unwanted(each.root, each.memory, tops)
        ]
        put = self._summed(results)
        try:
            return replace(put, waiting=await self._to_review.add(waiting))
        except StoreError as error:
            return replace(put, reason="storage", trouble=str(error))

    async def _see(self, roots: Sequence[Root]) -> View:
        store = FileStore(self._indexer, roots)
        view = await store.view(sys.maxsize, time.monotonic() + _FRESH_S)
        return await store.view(0, time.monotonic() + _FIRST_S) if view.waiting else view

    def _decided(
        self, event: Event, classified: Classified, existing: ExistingMemories
    ) -> tuple[Decision, Tally]:
        documents, tally = decide(event, classified, existing, self._forgotten.since, utc_now())
        known = dict(event.stored_roots)
        # The agent's root is not one of those that the event was accepted with.
        identities = {
            each: known.get(each) or (stored_identity(each) if known else "") for each in event.roots
        }
        return tuple(replace(each, identity=identities[each.root]) for each in documents), tally

    def _learned(self, event: Event, root: Root) -> list[Memory]:
        """What was proposed of other past sessions and waits: it counts as known for the next."""
        if event.kind != "learned":
            return []
        identity = dict(event.stored_roots).get(root, "")
        there = (each for each in self._to_review.of([root]) if is_same(each.identity, identity))
        return [each.memory for each in there if each.learned_at]

    def _just_written(self, root: Root) -> tuple[Memory, ...]:
        if all(where != root for where, _ in self._recent):
            return ()
        visible = self._indexer.open(root).generations.visible
        self._recent = [
            (where, done) for where, done in self._recent if where != root or done.generation > visible
        ]
        return tuple(done.memory for where, done in self._recent if where == root)

    async def _put_in(
        self, root: Root, documents: Sequence[DecidedMemory], tops: Sequence[str]
    ) -> list[tuple[DecidedMemory, _Result]]:
        index = self._indexer.open(root)

        def draft(memory: Memory, attributes: FactsPatch) -> WriteRequest:
            return WriteRequest(
                memory, unwanted=lambda each: self._is_unwanted(root, each, tops), said=attributes
            )

        results = await self._writer.add_all(
            index, [draft(each.memory, each.attributes) for each in documents]
        )
        done = list(zip(documents, results, strict=True))
        for place, (document, result) in enumerate(done):
            if isinstance(result, MemoryNotFound):  # what it replaces is gone: it stands alone
                alone = replace(document.memory, supersedes=None, version=1)
                (again,) = await self._writer.add_all(index, [draft(alone, document.attributes)])
                done[place] = (document, again)
        self._recent += [(root, result) for _, result in done if isinstance(result, Written)]
        return done

    def _summed(self, results: Sequence[tuple[DecidedMemory, _Result]]) -> CommitResult:
        """Return the memories written, and the trouble: all but a write that no disk takes is tried again.

        That has no end if the disk is at fault in a way that passes or for all of them.
        """
        written = sum(_is_there(document, result) for document, result in results)
        failed = [
            (document, result)
            for document, result in results
            if isinstance(result, StoreError) and not isinstance(result, MemoryExists | NoLongerWanted)
        ]
        for document, error in failed:
            self._warn(document.memory.id, error)
        causes = [error.__cause__ for _, error in failed]
        troubles = [str(error) for _, error in failed if not _is_hopeless(error)]
        ids = tuple(document.memory.id for document, _ in failed)
        if not troubles:
            return CommitResult(written, ids)
        if not any(os.path.isdir(document.root.top) for document, _ in results):
            return CommitResult(written, ids, "gone", troubles[-1])
        whole = len(failed) == len(results) or any(map(_passes, causes))
        return CommitResult(written, ids, "storage" if whole else "unwritten", troubles[-1])

    def _warn(self, memory_id: str, error: StoreError) -> None:
        if memory_id not in self._warned:
            logger.warning("memory not written memory=%s error=%s", memory_id, error)
            self._warned.add(memory_id)


def _is_there(document: DecidedMemory, result: _Result) -> bool:
    """Whether a document is a file, by this attempt or an earlier one; the same text may be there instead."""
    if isinstance(result, Written):
        return result.memory.id == document.memory.id
    return isinstance(result, MemoryExists)


def _is_hopeless(error: StoreError) -> bool:
    """Whether no disk would take it: nothing failed underneath."""
    return error.__cause__ is None or isinstance(error.__cause__, MemoryFormatError)


def _passes(cause: BaseException | None) -> bool:
    """Whether it is a disk in trouble, or the state; a directory that cannot be written to stays so."""
    return cause is not None and (not isinstance(cause, OSError) or cause.errno in _PASSING)
