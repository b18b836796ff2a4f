"""Writes that were refused because a disk did not take them: counted by reason, and told until one succeeds.

In: each request that writes, with its reply or what it raised. Out: a sentence for status' first line; it is
empty unless the newest write of some verb was refused. While `state.db` is not open that is the cause, which
status says by itself and which ends by itself: what it refuses is counted alone. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Sequence

from forged.counters import Metrics
from forged.errors import StoreError
from forged.files import atomic
from forged.state import State
from forged_client import protocol as wire

# Outcomes of a capture and of a past session, and fates of a draft and of a document, after a write.
_STORED = frozenset({"durable", "waiting", "judged", "new", "replaced", "completed"})
# By words of the sentence, which is all that a rejected capture has.
_FULL = ("no space left", "quota", "database or disk is full")
_FORBIDDEN = ("permission denied", "read-only")
_LONGEST = 300
# Stands for a verb where the daemon itself has tried, and what it writes then.
_TRIAL, _TRIAL_BYTES = "a trial", bytes(4096)


class RefusedWrites:
    """One for the daemon."""

    def __init__(self, metrics: Metrics, state: State) -> None:
        self._metrics = metrics
        self._state = state
        self._newest: dict[str, str] = {}  # by verb, the newest refusal last
        self._since = Counter[str]()  # by reason, since all went well
        self._tried: Sequence[str] = ()  # folders of which one took nothing

    async def try_out(self, folders: Sequence[str]) -> None:
        """Write into each folder and leave nothing: a disk that was full before a start may still be full."""
        refusals = await asyncio.to_thread(lambda: list(filter(None, map(_trial, folders))))
        self._tried = folders if refusals else ()
        if refusals:
            self._refused(_TRIAL, refusals[0])

    async def try_again(self) -> None:
        """End what a trial had found and is over by now."""
        if _TRIAL in self._newest and not await asyncio.to_thread(lambda: any(map(_trial, self._tried))):
            self._succeeded(_TRIAL)

    def failed(self, request: wire.Request[wire.Reply], error: StoreError) -> None:
        if request.is_write and error.code == StoreError.code:
            self._refused(_verb(request), str(error))

    def answered(self, request: wire.Request[wire.Reply], reply: wire.Reply) -> None:
        """Take note of a reply: one that succeeds may still say that the disk refused all or some of it."""
        if not request.is_write:
            return
        if refusals := _refusals(reply):
            for sentence in refusals:
                self._refused(_verb(request), sentence)
        elif reply.status == "ok" and _is_stored(reply):
            self._succeeded(_verb(request))

    def _succeeded(self, verb: str) -> None:
        self._newest.pop(verb, None)
        if not self._newest:
            self._since.clear()

    def _refused(self, verb: str, sentence: str) -> None:
        told = sentence.lower()
        if any(words in told for words in _FULL):
            reason = "for a full disk"
            self._metrics.writes_refused_full += 1
        elif any(words in told for words in _FORBIDDEN):
            reason = "for missing permission"
            self._metrics.writes_refused_forbidden += 1
        else:
            reason = "for another reason"
            self._metrics.writes_refused_otherwise += 1
        if not (self._state.problem and self._state.problem in sentence):
            self._since[reason] += 1
            self._newest.pop(verb, None)
            self._newest[verb] = sentence[:_LONGEST]

    @property
    def sentence(self) -> str:
        """What a person has to know now, or nothing."""
        if not self._newest:
            return ""
        verb, newest = next(reversed(self._newest.items()))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self._since.most_common())
        total = self._since.total()
        writes = "1 write was" if total == 1 else f"{total:,} writes were"
        return f"{writes} refused ({counts}); the last, {verb}: {newest}"


def _trial(folder: str) -> str:
    """Return the error of a trial write to a folder, or nothing; a missing folder is no error."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_TRIAL_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot write into {folder}: {atomic.why(error)}"
    return ""


def _refusals(reply: wire.Reply) -> tuple[str, ...]:
    """Sentences on what of a request the disk did not take: a capture's outcome, or fates of its parts."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        code, _, sentence = reply.reason.partition(": ")
        return (sentence,) if reply.outcome == "rejected" and code == StoreError.code else ()
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return tuple(fate.reason for fate in reply.fates if fate.code == StoreError.code)
    return ()


def _is_stored(reply: wire.Reply) -> bool:
    """True unless nothing went to disk: a capture may wait in memory, and a text may be there already."""
    if isinstance(reply, (wire.Captured, wire.Learned)):
        return reply.outcome in _STORED
    if isinstance(reply, (wire.Imported, wire.Ingested)):
        return any(fate.became in _STORED for fate in reply.fates)
    return not (isinstance(reply, wire.Remembered) and reply.existed)


def _verb(request: object) -> str:
    return type(request).__name__.lower()
