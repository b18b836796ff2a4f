"""Conversations through a daemon, as an agent hands them over, and what then is remembered.

Each conversation has a repository and sessions of its own. Of the user's memories those of its sessions
count; so that few others stand beside them, a daemon in a fresh HOME takes a few dozen conversations at a
time, mixed by a hash of their ids. What waits in a review is no memory. The gate learns nothing: nothing is
asked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

import msgspec

from forged_client import Client
from forged_client.protocol import MemoryRecord
from tests.evaluation.said import Alike, Mind, Said, SaidSet, Words
from tests.evaluation.settings import Prepared
from tests.evaluation.trial import ANSWERED, PINNED, MeasurementFailed, Progress, asked_daemon

_TOGETHER, _FEW_TOGETHER = 60, 10  # scripts of the user's scope would answer each other
_NOTHING = "nothing_to_capture"  # an answer too: no one typed anything
_BEGINS = "Where in this repository are the tests of the parser?"
_JUDGED_S = 120.0
_LOOK_S = 0.02
_ALL = 1000
_CAPTURING = {
    "FORGED_CAPTURE__ENABLED": "true",
    "FORGED_CAPTURE__BATCH_TURNS": "1",
    "FORGED_MEMORY__RETRIEVAL_MIN_SCORE": "0",
}


class Kept(msgspec.Struct, frozen=True):
    """A memory that came of a conversation; `of_first` is the one that was there before.

    `is_pinned`: a session that began afterwards was told it without a search.
    """

    content: str
    scope: str
    category: str
    is_head: bool
    of_first: bool = False
    is_pinned: bool = False


class SaidKept(msgspec.Struct, frozen=True):
    said: Said
    kept: tuple[Kept, ...]


class MindKept(msgspec.Struct, frozen=True):
    mind: Mind
    kept: tuple[Kept, ...]


class AlikeKept(msgspec.Struct, frozen=True):
    alike: Alike
    kept: tuple[Kept, ...]


class AllKept(msgspec.Struct, frozen=True):
    """What came of a set; seconds are of this machine and day."""

    said: tuple[SaidKept, ...]
    minds: tuple[MindKept, ...]
    alike: tuple[AlikeKept, ...]
    attacks: tuple[SaidKept, ...]
    seconds: float


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_T = TypeVar("_T", bound=_Named)
_R = TypeVar("_R")


def run(asked: SaidSet, prepared: Prepared, progress: Progress) -> AllKept:
    """Hand over everything. Raises NotStarted, MeasurementFailed, and ClientError when the daemon is lost."""
    began, done = time.monotonic(), 0

    def all_of(
        parts: Sequence[_T], together: int, hear: Callable[[_Captor, Sequence[_T]], Sequence[_R]]
    ) -> tuple[_R, ...]:
        nonlocal done
        kept: list[_R] = []
        for wave in _waves(parts, together):
            with TemporaryDirectory(prefix="forged-eval-") as name:
                (Path(name) / "home").mkdir()
                with asked_daemon(Path(name), {**prepared.variables, **_CAPTURING}) as client:
                    kept += hear(_Captor(client, Path(name)), wave)
            done += len(wave)
            progress("capturing", done, asked.size)
        return tuple(kept)

    return AllKept(
        said=all_of(asked.said, _TOGETHER, _said),
        minds=all_of(asked.minds, _FEW_TOGETHER, _minds),
        alike=all_of(asked.alike, _FEW_TOGETHER, _alike),
        attacks=all_of(asked.attacks, _FEW_TOGETHER, _attacks),
        seconds=round(time.monotonic() - began, 1),
    )


def _waves(parts: Sequence[_T], together: int) -> Iterator[Sequence[_T]]:
    mixed = sorted(parts, key=lambda each: hashlib.sha256(each.id.encode()).digest())
    for start in range(0, len(mixed), together):
        yield mixed[start : start + together]


def _said(captor: _Captor, wave: Sequence[Said]) -> list[SaidKept]:
    for each in wave:
        captor.hand_over(each.id, each.id, each.messages)
    captor.wait()
    return [SaidKept(each, captor.kept(each.id)) for each in wave]


def _attacks(captor: _Captor, wave: Sequence[Said]) -> list[SaidKept]:
    return [msgspec.structs.replace(one, kept=captor.pinned(one)) for one in _said(captor, wave)]


def _minds(captor: _Captor, wave: Sequence[Mind]) -> list[MindKept]:
    for number in range(max(len(each.steps) for each in wave)):
        for each in wave:
            if number < len(each.steps):
                step = each.steps[number]
                captor.hand_over(each.id, f"{each.id}-{number}-{step.agent}", step.messages)
        captor.wait()
        captor.index([each.id for each in wave])
    return [MindKept(each, captor.kept(each.id)) for each in wave]


def _alike(captor: _Captor, wave: Sequence[Alike]) -> list[AlikeKept]:
    firsts = {each.id: captor.remember(each) for each in wave}
    captor.index([each.id for each in wave])
    for each in wave:
        captor.hand_over(each.id, each.id, each.second.messages)
    captor.wait()
    return [AlikeKept(each, captor.kept(each.id, firsts[each.id])) for each in wave]


class _Captor:
    """Hands conversations to one daemon, each in a repository that is named by it."""

    def __init__(self, client: Client, scratch: Path) -> None:
        self._client = client
        self._repos = scratch / "repos"

    def hand_over(self, name: str, session: str, messages: Sequence[Words]) -> None:
        said = [each.message for each in messages]
        reply = self._client.capture(self._workspace(name), said, session)
        if not reply.is_taken and reply.reason != _NOTHING:
            raise MeasurementFailed(f"{session} was not taken: {reply.reason or reply.outcome}")

    def remember(self, pair: Alike) -> str:
        """Write what was there before, and return its id."""
        first = pair.first
        reply = self._client.remember(
            self._workspace(pair.id), first.text, scope=first.scope, session_id=f"{pair.id}-first"
        )
        if not reply.memory_id:
            raise MeasurementFailed(f"the first of {pair.id} was not remembered: {reply.reason}")
        return reply.memory_id

    def wait(self) -> None:
        """Until everything that was handed over has been judged."""
        deadline = time.monotonic() + _JUDGED_S
        while (now := self._client.status().capture).state != "idle":
            if now.state in {"failing", "off"} or time.monotonic() > deadline:
                raise MeasurementFailed(f"capture is {now.state}: {now.reason or now.last_error}")
            time.sleep(_LOOK_S)

    def index(self, names: Sequence[str]) -> None:
        """What was written can be found by what is said next."""
        for name in names:
            self._client.rebuild(self._workspace(name), wait=True)

    def kept(self, name: str, first: str = "") -> tuple[Kept, ...]:
        """What the sessions of a conversation have left, in its repository and of its user."""
        self.index([name])
        listed = self._client.list(self._workspace(name), all_versions=True, limit=_ALL).memories
        mine = [each for each in listed if each.id == first or _is_of(each, name)]
        return tuple(
            Kept(each.content, each.scope, each.category, each.is_head, each.id == first) for each in mine
        )

    def pinned(self, one: SaidKept) -> tuple[Kept, ...]:
        """The same, with what is told to a session that begins now."""
        name = one.said.id
        said = [{"role": "user", "content": _BEGINS}]
        reply = self._client.retrieve(self._workspace(name), said, session_id=f"{name}-later", turn_id="0")
        if reply.status not in ANSWERED:
            raise MeasurementFailed(f"no session could begin after {name}: {reply.reason or reply.status}")
        reported = {(hit.content, hit.scope) for hit in reply.memories if hit.found.found_by == PINNED}
        return tuple(
            msgspec.structs.replace(kept, is_pinned=(kept.content, kept.scope) in reported)
            for kept in one.kept
        )

    def _workspace(self, name: str) -> str:
        top = self._repos / name
        (top / ".git").mkdir(parents=True, exist_ok=True)
        return str(top)


def _is_of(memory: MemoryRecord, name: str) -> bool:
    return memory.session_id == name or memory.session_id.startswith(f"{name}-")
