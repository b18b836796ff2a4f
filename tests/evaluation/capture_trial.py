"""Conversations through a daemon, as an agent hands them over, and what then is remembered.

Each conversation has a repository and sessions of its own. Of the user's memories those of its sessions
count; so that few others stand beside them, a daemon in a fresh HOME takes a few dozen conversations at a
time, mixed by a hash of their ids. What waits in a review is no memory. The gate learns nothing: nothing is
asked.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

import msgspec

from forged.memory import Scope
from forged_client import Client
from forged_client.protocol import Hook, MemoryRecord
from tests.evaluation import session_trial, sessions
from tests.evaluation.cases import Case, Delivered, First, Kept, Opening, Seen, Words, kept_of
from tests.evaluation.said import Alike, Mind, Said, SaidSet
from tests.evaluation.session_trial import Opened
from tests.evaluation.sessions import Store
from tests.evaluation.settings import Prepared
from tests.evaluation.trial import ANSWERED, PINNED, MeasurementFailed, Progress, asked_daemon
from tests.support.daemon.terminals import shell_of_its_own

_TOGETHER, _FEW_TOGETHER = 60, 10  # scripts of the user's scope would answer each other
_NOTHING = "nothing_to_capture"  # an answer too: no one typed anything
_BEGINS = "Where in this repository are the tests of the parser?"
_JUDGED_S = 120.0
_LOOK_S = 0.02
_ALL = 1000
_PROMPT_MS = 30_000
STORES = Path(__file__).parents[1] / "data/sessions/dev"
_GIT = {"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
_CAPTURING = {
    "FORGED_CAPTURE__ENABLED": "true",
    "FORGED_CAPTURE__BATCH_TURNS": "1",
    "FORGED_MEMORY__RETRIEVAL_MIN_SCORE": "0",
}


class SaidKept(msgspec.Struct, frozen=True):
    said: Said
    kept: tuple[Kept, ...]


class MindKept(msgspec.Struct, frozen=True):
    mind: Mind
    kept: tuple[Kept, ...]


class AlikeKept(msgspec.Struct, frozen=True):
    alike: Alike
    kept: tuple[Kept, ...]


class CaseSeen(msgspec.Struct, frozen=True):
    """A case, and the memories of its store after each of its sessions."""

    case: Case
    seen: tuple[Seen, ...]


class AllKept(msgspec.Struct, frozen=True):
    """What came of a set; seconds are of this machine and day."""

    said: tuple[SaidKept, ...]
    minds: tuple[MindKept, ...]
    alike: tuple[AlikeKept, ...]
    attacks: tuple[SaidKept, ...]
    seconds: float
    cases: tuple[CaseSeen, ...] = ()
    openings: tuple[Opened, ...] = ()


# Runs on a terminal of its own, because the daemon believes that nobody but a person writes from there.
_REMEMBER = """
import json, sys
from forged_client import Client
from forged_client.protocol import Remember
with Client(sys.argv[1], timeout_s=60) as client, open(sys.argv[2], encoding="utf-8") as file:
    for workspace, text, scope in map(json.loads, file):
        asked = Remember(workspace=workspace, content=text, scope=scope, origin="explicit", allow_secret=True)
        reply = client.ask(asked)
        print(reply.memory_id or reply.reason or reply.status)
"""


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_T = TypeVar("_T", bound=_Named)
_R = TypeVar("_R")


def run(asked: SaidSet, prepared: Prepared, progress: Progress, *, together: int = 0) -> AllKept:
    """Hand over everything, `together` of a kind to one daemon, or as many as their user's scope allows.

    Raises NotStarted, MeasurementFailed, and ClientError when the daemon is lost.
    """
    began = time.monotonic()
    with TemporaryDirectory(prefix="forged-eval-") as made:
        # The daemons of all waves share the files that a model makes of its weights.
        variables = {"XDG_CACHE_HOME": made, **prepared.variables}
        waves = _Waves(msgspec.structs.replace(prepared, variables=variables), progress, asked.size, together)
        return AllKept(
            said=waves.all_of(asked.said, _TOGETHER, _said),
            minds=waves.all_of(asked.minds, _FEW_TOGETHER, _minds),
            alike=waves.all_of(asked.alike, _FEW_TOGETHER, _alike),
            attacks=waves.all_of(asked.attacks, _FEW_TOGETHER, _attacks),
            cases=waves.of_cases(asked.cases),
            openings=waves.of_openings(asked.openings),
            seconds=round(time.monotonic() - began, 1),
        )


class _Waves:
    """Delivers parts of a set, a few at a time, each few to a daemon of their own."""

    def __init__(self, prepared: Prepared, progress: Progress, size: int, together: int) -> None:
        self._prepared, self._progress = prepared, progress
        self._size, self._together, self._done = size, together, 0

    def all_of(
        self, parts: Sequence[_T], few: int, hear: Callable[[_Captor, Sequence[_T]], Sequence[_R]]
    ) -> tuple[_R, ...]:
        kept: list[_R] = []
        for wave in _waves(parts, self._together or few):
            with TemporaryDirectory(prefix="forged-eval-") as name:
                (Path(name) / "home").mkdir()
                with asked_daemon(Path(name), {**self._prepared.variables, **_CAPTURING}) as client:
                    kept += hear(_Captor(client, Path(name)), wave)
            self._done += len(wave)
            self._progress("capturing", self._done, self._size)
        return tuple(kept)

    def of_cases(self, parts: Sequence[Case]) -> tuple[CaseSeen, ...]:
        """Deliver cases; the results have their order."""
        groups = itertools.groupby(parts, lambda case: self._together or case.together)
        seen = {one.case.id: one for few, alike in groups for one in self.all_of(tuple(alike), few, _cases)}
        return tuple(seen[each.id] for each in parts)

    def of_openings(self, openings: Sequence[Opening]) -> tuple[Opened, ...]:
        """Begin sessions with unrelated first messages, in each store of the development sessions."""
        messages = [each.message for each in openings]
        return session_trial.opened(messages, stores(), self._prepared, self._progress) if messages else ()


def stores() -> tuple[Store, ...]:
    """Return the stores in which unrelated first messages are asked: those of the development sessions."""
    return sessions.load(STORES).stores


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


def _cases(captor: _Captor, wave: Sequence[Case]) -> list[CaseSeen]:
    firsts = captor.remember_as_person({each.id: each.before for each in wave})
    captor.index([each.id for each in wave])
    seen: dict[str, list[Seen]] = {each.id: [] for each in wave}
    for number in range(max(len(each.sessions) for each in wave)):
        here = [each for each in wave if number < len(each.sessions)]
        answers = {each.id: captor.deliver(each.id, each.sessions[number]) for each in here}
        captor.wait()
        for each in here:
            seen[each.id].append(captor.seen(each, firsts[each.id], answers[each.id]))
    return [CaseSeen(each, tuple(seen[each.id])) for each in wave]


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
        self._scratch = scratch
        self._repos = scratch / "repos"

    def hand_over(self, name: str, session: str, messages: Sequence[Words]) -> None:
        self._hand_over(name, [each.message for each in messages], session)

    def _hand_over(self, name: str, said: Sequence[dict[str, str]], session: str, kind: str = "turn") -> None:
        reply = self._client.capture(self._workspace(name), said, session, kind=kind)
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

    def remember_as_person(self, texts: Mapping[str, Sequence[First]]) -> dict[str, frozenset[str]]:
        """Write memories as a person does, on a terminal with no agent above it; return the ids by case."""
        asked = [(name, first) for name, firsts in texts.items() for first in firsts]
        file = self._scratch / "remember.jsonl"
        wanted = ((self._workspace(name), first.text, first.scope) for name, first in asked)
        file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in wanted))
        command = [sys.executable, "-c", _REMEMBER, str(self._scratch / "run/forged.sock"), str(file)]
        env = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": str(self._scratch / "home")}
        with shell_of_its_own(shlex.join(command), env=env, folder=self._scratch) as written:
            names = list(written)
        if len(names) != len(asked) or not all(each.startswith("mem_") for each in names):
            raise MeasurementFailed(f"memories could not be written: {'; '.join(names)}")
        found: dict[str, set[str]] = {name: set() for name in texts}
        for (name, _), memory in zip(asked, names, strict=True):
            found[name].add(memory)
        return {name: frozenset(each) for name, each in found.items()}

    def deliver(self, name: str, session: Delivered) -> str:
        """Hand over a session as hooks do; return the answer to a prompt."""
        if session.by_prompt:
            return self._prompt(name, session)
        messages = [each.message for each in session.messages]
        if messages[-1]["role"] == "user":
            messages.append({"role": "assistant", "content": "OK."})
        ends = [place for place, message in enumerate(messages, 1) if message["role"] == "assistant"]
        for kind, end in [*(("turn", end) for end in ends), ("session_end", len(messages))]:
            self._hand_over(name, messages[:end], session.session, kind)
        return ""

    def _prompt(self, name: str, session: Delivered) -> str:
        payload = {
            "session_id": session.session,
            "cwd": self._workspace(name),
            "hook_event_name": "UserPromptSubmit",
            "prompt": session.messages[-1].content,
            "prompt_id": "1",
        }
        reply = self._client.ask(
            Hook(
                harness="claude",
                payload=msgspec.json.encode(payload),
                within_ms=_PROMPT_MS,
                headless=session.headless,
            )
        )
        answer = msgspec.json.decode(reply.output) if reply.output else {}
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def seen(self, case: Case, firsts: frozenset[str], answer: str) -> Seen:
        """List the memories of a case: all of its repository, and of the user those of its sessions."""
        self.index([case.id])
        listed = self._client.list(self._workspace(case.id), all_versions=True, limit=_ALL).memories
        own = {each.session for each in case.sessions}
        mine = [
            each for each in listed if each.scope != Scope.USER or each.session_id in own or each.id in firsts
        ]
        return Seen(tuple(kept_of(each, of_first=each.id in firsts) for each in mine), answer)

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
        return tuple(kept_of(each, of_first=each.id == first) for each in mine)

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
        if not top.exists():
            subprocess.run(["git", "init", "-q", str(top)], check=True, env=_GIT, stdin=subprocess.DEVNULL)
        return str(top)


def _is_of(memory: MemoryRecord, name: str) -> bool:
    return memory.session_id == name or memory.session_id.startswith(f"{name}-")
