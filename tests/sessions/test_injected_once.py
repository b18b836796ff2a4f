"""A memory comes once to a session in each set of roots, whatever happens between its prompts.

Several sessions of one agent in two repositories: prompts, ends of turns, ends, starts, resumes, forks,
compactions, lost replies, and `kill -9`. A kill keeps what was on disk: rows of the last five seconds may be
gone, so a memory may come once more then. What a person asked for is kept, whatever is injected.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.config import Config, MemoryConfig
from forged.config.values import CaptureConfig
from forged.sessions import message_buffer, registry
from forged.text.harnesses import HOOKS
from forged_client import protocol as wire
from tests.daemon.handlers.test_hook import Session
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.support.clock import run

NAMES, REPOS = ("a", "b", "c"), ("one", "other")
FACTS = {"one": "The walrus eats clams.", "other": "The walrus eats mussels."}
STEP = st.one_of(
    *[st.tuples(st.sampled_from(["prompt"]), st.sampled_from(NAMES), st.sampled_from(REPOS))] * 3,
    st.tuples(
        st.sampled_from(["stop", "stop elsewhere", "lost", "compaction", "end", "clear", "resume"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(
        st.sampled_from(["fork", "fork that names it", "end of the unnamed", "forget of nothing"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.sampled_from(["kill", "five seconds"])),
)
CONFIG = Config(
    memory=MemoryConfig(embedding_model="builtin:lexical", pinned_token_budget=0),
    capture=CaptureConfig(tell=False),
)


class Life:
    """The daemon from kill to kill, and by each session and repository what has to be in context.

    `has` is that, `unsaved` what changed in the last five seconds, `doubtful` what a kill left open.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.has: set[tuple[str, str]] = set()
        self.unsaved: set[tuple[str, str]] = set()
        self.doubtful: set[tuple[str, str]] = set()
        self.requests: set[str] = set()
        self._ids, self._at = {each: each for each in NAMES}, dict.fromkeys(NAMES, "one")
        self._turns = dict.fromkeys(NAMES, 0)
        self._numbers = itertools.count()
        for name in REPOS:
            (folder / name / ".git").mkdir(parents=True)
            put(folder / name, memory(f"mem_{name}", FACTS[name]))

    async def live(self, steps: list[tuple[str, ...]]) -> None:
        async with contextlib.AsyncExitStack() as self._life:
            await self._start()
            for step in steps:
                await self._does(*step)
            await self.parts.daemon.sessions.hand_over(all_of_them=True)
            waiting = (*self.parts.capture.waiting(), *self._left)
            kept = {said.text for event in waiting for said in event.window}
            assert (self.requests - kept, self.parts.daemon.sessions.buffer.lost) == (set(), 0)

    async def _start(self) -> None:
        self.parts: Parts = await self._life.enter_async_context(assembled(self.home, config=CONFIG))
        self._left = self.parts.state.events.take_restored()
        for name in REPOS:
            await self.parts.loaded(self.folder / name)

    async def _does(self, what: str, name: str = "a", repo: str = "") -> None:
        self._at[name] = repo or self._at[name]
        here = self.folder / self._at[name]
        session = Session(self.parts, here, "claude", self._ids[name])
        turn = f"{self._ids[name]}-{self._turns[name]}"
        match what:
            case "prompt" | "lost":
                await self._prompts(session, name, is_lost=what == "lost")
            case "stop":
                await session.ends("Noted.", turn)
            case "stop elsewhere":
                elsewhere = next(each for each in REPOS if each != self._at[name])
                await session.ends("Noted.", turn, cwd=str(self.folder / elsewhere))
            case "compaction":
                answer = str(await session.hears("SessionStart", source="compact"))
                self._gone(name)
                if FACTS[self._at[name]] in answer:  # what belongs to the newest prompt comes at once
                    self._came(answer, name, self._at[name])
            case "clear":
                await session.hears("SessionEnd", reason="clear")
                self._gone(name)
            case "end":
                await session.hears("SessionEnd", reason="exit")
            case "resume":
                await session.hears("SessionStart", source="resume")
            case "fork" | "fork that names it":
                await self._forks(name, here, names_it=what != "fork")
            case "end of the unnamed":
                ending = {"session_id": self._ids[name], "kind": "session_end"}
                await self.parts.ask(wire.Capture(workspace=str(here), **ending))
            case "forget of nothing":
                await self.parts.state.injected_sets.forget(str(here), ["mem_nobody"])
            case "five seconds":
                await self.parts.state.injected_sets.save()
                self.unsaved.clear()
            case "kill":
                await self._killed()

    async def _prompts(self, session: Session, name: str, *, is_lost: bool) -> None:
        self._turns[name] += 1
        request = f"Remember that rule {next(self._numbers)} of the walrus holds."
        self.requests.add(request)
        turn, key = f"{self._ids[name]}-{self._turns[name]}", (self._ids[name], self._at[name])
        was_in_context = key in self.has
        answer = await session.hears("UserPromptSubmit", prompt=request, prompt_id=turn, whole=not is_lost)
        self._came(str(answer), name, self._at[name])
        if is_lost and not was_in_context:
            self.has.discard(key)

    def _came(self, answer: str, name: str, repo: str) -> None:
        key = self._ids[name], repo
        came = FACTS[repo] in answer
        if key not in self.doubtful:
            assert came == (key not in self.has), (key, came)
        self.doubtful.discard(key)
        if came:
            self.unsaved.add(key)
        self.has.add(key)

    def _gone(self, name: str) -> None:
        for key in [(self._ids[name], repo) for repo in REPOS]:
            self.unsaved.add(key)
            self.has.discard(key)
            self.doubtful.discard(key)

    async def _forks(self, name: str, here: Path, *, names_it: bool) -> None:
        parent, self._ids[name] = self._ids[name], f"{self._ids[name]}-{next(self._numbers)}"
        session = Session(self.parts, here, "claude", self._ids[name])
        await session.hears("SessionStart", source="resume", **({"forked_from": parent} if names_it else {}))
        for repo in REPOS if names_it else ():
            known, own = (parent, repo), (self._ids[name], repo)
            if known in self.has:
                self.has.add(own)
                self.unsaved.add(own)
            if known in self.doubtful:
                self.doubtful.add(own)

    async def _killed(self) -> None:
        """End the daemon a second after its last capture: what is on disk then is what the next one finds."""
        waiting = {text for each in self.parts.daemon.sessions.buffer for text in each.waiting_prompts}
        self.requests -= waiting  # of a turn that did not end: its harness tells of it again, or nobody does
        await self.parts.capture.close()
        on_disk = self.folder / "on disk"
        shutil.rmtree(on_disk, ignore_errors=True)
        shutil.copytree(self.parts.folder, on_disk)
        await self._life.aclose()
        shutil.rmtree(self.parts.folder)
        shutil.copytree(on_disk, self.parts.folder)
        self.doubtful |= self.unsaved
        self.unsaved.clear()
        await self._start()


@example(steps=[("prompt", "a", "one"), ("prompt", "a", "other"), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("end", "a"), ("resume", "a"), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("compaction", "a"), ("stop", "a"), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("end of the unnamed", "a"), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("five seconds",), ("kill",), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("kill",), ("prompt", "a", "one"), ("prompt", "a", "one")])
@example(steps=[("prompt", "a", "one"), ("fork", "a"), ("prompt", "a", "one"), ("fork that names it", "a")])
@example(steps=[("prompt", "a", "one"), ("stop elsewhere", "a"), ("kill",), ("prompt", "b", "one")])
@settings(max_examples=60)
@given(steps=st.lists(STEP, max_size=12))
def test_a_memory_comes_once_and_what_was_asked_for_is_kept(steps, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(HOOKS, "claude", replace(HOOKS["claude"], parent=("forked_from",)))
        patched.setattr(message_buffer, "MOST_BYTES", 160)  # the bounds are reached by a few steps
        patched.setattr(registry, "MOST_SESSIONS", 2)
        run(Life(tmp_path_factory.mktemp("life")).live(steps))
