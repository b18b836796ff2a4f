"""Capture from outside: turns sent to a real daemon, a scripted classifier, and the resulting files.

`capturing` is `scene.staged` with what a test of capture wants to say: an environment, no indexes that call
anybody, and a stage that knows when all that was handed over has been dealt with.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from forged.files.roots import Root
from forged.files.scan import scan
from forged.memory import Memory, Scope
from forged_client.protocol import Captured, CaptureReport
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon.process import running
from tests.support.daemon.scene import Scene, configuration
from tests.support.provider import CHAT, ScriptedProvider, reply

# No index that calls a model.
_QUIET = {"embedding_model": "builtin:lexical"}
# A classifier's answer without proposals: anything but JSON would be a failure.
NOTHING = ("[]",)
# Every turn goes to the classifier as soon as possible.
FREE = {"FORGED_CAPTURE__BATCH_TURNS": "1"}
# No limit on calls, unless a test sets one.
UNLIMITED = "forged.daemon.build:CALLS_PER_MINUTE=0"


def said(*texts: object) -> list[object]:
    """Return a conversation in which user and assistant take turns; other messages are kept as they are."""
    roles = ("user", "assistant")
    return [
        {"role": roles[at % 2], "content": text} if isinstance(text, str) else text
        for at, text in enumerate(texts)
    ]


class Stage(Scene):
    """A daemon that captures."""

    def reset(self) -> None:
        """Reset as the scene; also complete an earlier test's work, and remove the user's memories."""
        super().reset()
        self.provider.chat_lines = NOTHING
        self.settle()
        if left := list((self.daemon.home / ".forge/memory").glob("*")):
            for path in left:
                path.unlink()
            self.load(self.daemon.home)
        self.provider.received.clear()
        self.provider.most_at_once = 0

    def capture(self, top: Path, *texts: object, session: str = "s", **options: object) -> Captured:
        """Capture a turn, or an event of another `kind`."""
        return self.client.capture(str(top), said(*texts), session, **options)  # type: ignore[arg-type]

    def captured(self, top: Path, *texts: object, **options: object) -> list[Memory]:
        """Return the repo's memories on disk after a captured turn has been processed."""
        taken = self.capture(top, *texts, **options)
        assert taken.outcome != "rejected", taken
        self.settle()
        return on_disk(top)

    @property
    def state(self) -> CaptureReport:
        return self.client.status().capture

    def settle(self, timeout_s: float = PATIENCE_S) -> CaptureReport:
        """Return capture's part of status when no event waits or is being processed."""
        return self.until(lambda now: now.state == "idle", timeout_s)

    def until(self, holds, timeout_s: float = PATIENCE_S) -> CaptureReport:
        """Return capture's part of status once `holds` of it is true."""
        return eventually(lambda: now if holds(now := self.state) else None, timeout_s)

    @property
    def prompts(self) -> list[str]:
        """Return the classifier's prompts, without the common part."""
        return [request.json["messages"][-1]["content"] for request in self.chats]

    @contextlib.contextmanager
    def hanging(self, *proposals: object) -> Iterator[threading.Event]:
        """Have the classifier answer only when the event is set; at the end it is."""
        go = threading.Event()
        self.provider.chat = replace(reply(*proposals), hold=go)
        try:
            yield go
        finally:
            go.set()

    def buried(self, top: Path, *texts: object, **options: object) -> str:
        """Capture an event that kills three workers; return its id among the dead."""
        asked, known = len(self.chats), {event.id for event in self.client.dead().events}
        with self.hanging():
            self.capture(top, *texts, **options)
            for kills in (1, 2, 3):
                self.provider.wait_for(asked + kills, path=CHAT)
                self.kill_worker()
            self.until(lambda now: now.dead > len(known))
        self.provider.received.clear()
        return next(event.id for event in self.client.dead().events if event.id not in known)

    def kill_worker(self) -> int:
        """SIGKILL the worker; return the process id of its successor."""
        old = self.until(lambda now: now.worker_pid).worker_pid
        os.kill(old, signal.SIGKILL)
        return self.until(lambda now: now.worker_pid not in (0, old)).worker_pid


def on_disk(top: Path, scope: str = "repo") -> list[Memory]:
    """Return the memories in the files of a repo or home, oldest first."""
    found = scan(Root(str(top), Scope(scope))).memories
    return sorted(found, key=lambda memory: (memory.created_at, memory.version, memory.id))


def contents(memories: Sequence[Memory]) -> list[str]:
    return sorted(memory.content for memory in memories)


@contextlib.contextmanager
def capturing(
    home: Path,
    *,
    env: Mapping[str, str] | None = None,
    constants: Sequence[str] = (UNLIMITED,),
    **settings: object,
) -> Iterator[Stage]:
    """Run a provider and an altered daemon that uses it; `settings` are those of `[memory]`."""
    with (
        ScriptedProvider(dimension=3) as provider,
        running(
            home,
            config=configuration(provider, **{**_QUIET, **settings}),
            env={**FREE, **(env or {})},
            constants=constants,
        ) as daemon,
        daemon.client() as client,
    ):
        provider.chat_lines = NOTHING
        yield Stage(provider, daemon, client)
