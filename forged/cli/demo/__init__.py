"""`forgectl demo`: the whole of forged in a scratch HOME, with the real daemon, no key and no network.

It says what it does step by step and checks every step; the first that does not come out as promised ends
the demo with an error. Nothing outside its scratch directory is read or written. If FORGED_LLM__MODEL names
a model, that one decides what is kept of the turns, instead of the built-in rules.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Self

import click
import msgspec

from forged.cli.call import Invocation
from forged.cli.demo.agent import TURNS, Finished, Read, Written
from forged.cli.status import status_lines
from forged.cli.terminal import Painter, escape
from forged.evaluation.scratch import NotStarted, daemon
from forged_client import Client
from forged_client.protocol import MemoryRecord

_VISIBLE_S = 5.0
_CAPTURED_S = 90.0  # a model of the user's own may take its time
# A model for the demo to use, if the user has named one.
_MODEL_VARIABLES = (
    *("FORGED_LLM__MODEL", "FORGED_LLM__BASE_URL", "FORGED_LLM__API_KEY"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL"),
)
_BRANCH_MEMORY = """\
---
category: patterns
---
Feature flags are named after the ticket that removes them.
"""


class DemoFailed(click.ClickException):
    """A step did not come out as promised."""

    exit_code = os.EX_SOFTWARE


@click.command("demo")
@click.pass_obj
def demo_command(call: Invocation) -> None:
    """Show in a scratch directory what forged does, with a real daemon."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="forged-demo-") as scratch, _Stage(Path(scratch), call) as stage:
        _play(stage)
    _say(f"\nDone in {time.perf_counter() - began:.1f} s; the scratch directory is gone again.")


def _play(stage: _Stage) -> None:
    _head(1, "A daemon for this user, with the built-in lexical model")
    _say(f"  pid {stage.pid}, answers on a Unix socket; HOME and repository are empty scratch directories")

    _head(2, "An agent process remembers four things, through the client library")
    told = msgspec.json.decode(stage.agent("write", str(stage.repo)), type=Written)
    for name, took in zip(told.ids, told.milliseconds, strict=True):
        _say(f"  {told.ids[name]}  {took:6.1f} ms, on disk before the answer")

    _head(3, "A person edits one of the files in place; the watcher notices")
    file = stage.home / ".forge/memory" / f"{told.ids['logging']}.md"
    edited = file.with_suffix(".new")
    edited.write_text(file.read_text() + " Every line carries the request id.\n")
    edited.replace(file)
    _visible(stage, "log lines with request id", told.ids["logging"], "request id")

    _head(4, "A decision changes: a new version supersedes the old one, which stays on disk")
    newer = stage.client.remember(
        str(stage.repo),
        "Database migrations run with atlas since May; goose is gone.",
        category="project-conventions",
        supersedes=told.ids["migrations"],
    )
    _say(f"  {newer.memory_id} is version {newer.version} of {told.ids['migrations']}")
    stage.client.search(str(stage.repo), "migrations", min_generation=newer.generation)
    for version in stage.client.history(str(stage.repo), told.ids["migrations"]).memories:
        _say(f"    v{version.version}  {escape(version.content.strip())}")

    _head(5, "A branch brings a memory; git checkout makes it appear and go")
    _branch_comes_and_goes(stage)

    _head(6, "Another agent process asks: what matters for this turn?")
    asked = _ask(stage, "How do we run database migrations?")
    _expect(newer.memory_id in asked.ids, "the newest version is found")
    _expect(told.ids["migrations"] not in asked.ids, "the superseded one only shows as its history")

    _head(7, "One step along an edge: what was not asked for, but belongs to it")
    asked = _ask(stage, "Why are prepared statements off?")
    _expect(asked.ids[0] == told.ids["prepared"], "the answer is found by its words")
    _expect(
        dict(zip(asked.ids, asked.vias, strict=True)).get(told.ids["pool"]) == "hop",
        "pgbouncer, which shares no word with the question, is reached by a hop",
    )

    _head(8, "An agent process finishes three turns; a worker decides what to keep")
    _turns_become_memories(stage)

    _head(9, "forgectl status")
    for line in status_lines(stage.client.status(str(stage.repo)), Painter()):
        _say(f"  {line}")

    _head(10, "SIGTERM")
    _say(f"  exit code {stage.stop():d} after {stage.stopped_ms:.0f} ms; no process and no socket is left")


def _turns_become_memories(stage: _Stage) -> None:
    before = {record.id for record in _all(stage)}
    done = msgspec.json.decode(stage.agent("turns", str(stage.repo)), type=Finished)
    for (question, _), took in zip(TURNS, done.milliseconds, strict=True):
        _say(f"  user: {question}\n    {took:.2f} ms in the agent")
    _expect(done.delivered, f"the daemon has the turns: {_counted(done.outcomes)}")
    began = time.perf_counter()
    classifier = stage.client.status().capture.classifier
    wanted = {"errors.As", "make it"}
    _wait_until(
        lambda: _is_idle(stage) and _found(stage, wanted) == wanted,
        lambda: f"{classifier} did not keep both statements; the daemon's log:\n{stage.log()}",
        _CAPTURED_S,
    )
    _say(f"  {classifier} kept, {(time.perf_counter() - began) * 1000:.0f} ms later:")
    kept = [record for record in _all(stage) if record.id not in before]
    for record in kept:
        _say(f"    {record.id}  {record.scope}/{record.category}  {escape(record.content.strip())}")
    _expect(not any("night" in record.content for record in kept), "small talk is not kept")
    asked = _ask(stage, "How do I check this Go error?")
    _expect("errors.As" in asked.text, "a different agent process gets it in its next retrieve")


def _all(stage: _Stage) -> tuple[MemoryRecord, ...]:
    return stage.client.list(str(stage.repo)).memories


def _found(stage: _Stage, words: Collection[str]) -> set[str]:
    """Those of the words that some memory holds."""
    return {word for word in words if any(word in record.content for record in _all(stage))}


def _is_idle(stage: _Stage) -> bool:
    return stage.client.status().capture.state == "idle"


def _counted(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(outcomes.items()))


def _branch_comes_and_goes(stage: _Stage) -> None:
    if shutil.which("git") is None:
        _say("  skipped: there is no git here")
        return
    git = stage.git
    git("add", ".")
    git("commit", "-q", "-m", "memories")
    git("checkout", "-q", "-b", "flags")
    (stage.repo / ".forge/memory/mem_flags.md").write_text(_BRANCH_MEMORY)
    git("add", ".")
    git("commit", "-q", "-m", "a memory of this branch")
    git("checkout", "-q", "-")
    _visible(stage, "feature flags named after the ticket", "mem_flags", None)
    git("checkout", "-q", "flags")
    _visible(stage, "feature flags named after the ticket", "mem_flags", "ticket")


def _visible(stage: _Stage, query: str, memory_id: str, text: str | None) -> None:
    """Wait until a search shows the memory with `text` in it, or (None) no longer shows it."""
    began = time.perf_counter()

    def as_promised() -> bool:
        hits = stage.client.search(str(stage.repo), query).memories
        found = next((hit.content for hit in hits if hit.id == memory_id), None)
        return found is None if text is None else found is not None and text in found

    _wait_until(as_promised, lambda: f"{memory_id} does not follow the disk")
    state = "gone" if text is None else "found"
    _say(f"  {memory_id}: {state} {(time.perf_counter() - began) * 1000:.0f} ms after the file changed")


def _wait_until(
    check: Callable[[], bool], complaint: Callable[[], str], within_s: float = _VISIBLE_S
) -> None:
    deadline = time.monotonic() + within_s
    while not check():
        if time.monotonic() > deadline:
            raise DemoFailed(complaint())
        time.sleep(0.002)


def _ask(stage: _Stage, message: str) -> Read:
    asked = msgspec.json.decode(stage.agent("read", str(stage.repo), message), type=Read)
    _say(f"  user: {message}\n")
    for line in asked.text.splitlines():
        _say(f"    {escape(line)}")
    how = f"strategy {asked.strategy}, legs {', '.join(asked.legs)}"
    _say(f"\n  {asked.milliseconds:.2f} ms in the agent, {how}")
    _expect(asked.status == "ok", "the reply's status is ok" + (asked.reason and f" ({asked.reason})"))
    _expect(asked.cached, "the sub-turn of the same message came from the turn cache")
    return asked


class _Stage:
    """Scratch HOME, repository, daemon and a client; everything ends with the `with` block."""

    def __init__(self, scratch: Path, call: Invocation) -> None:
        self.home = scratch / "home"
        self.repo = scratch / "repo"
        self.stopped_ms = 0.0
        self._socket = str(scratch / "run" / "forged.sock")
        self._log = scratch / "daemon.log"
        self._ends = contextlib.ExitStack()
        self._env = {
            "HOME": str(self.home),
            "PATH": call.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "FORGED_SOCKET": self._socket,
            "GIT_CONFIG_NOSYSTEM": "1",
            # The same everywhere: a model would find by meaning what step 7 wants reached by a hop.
            "FORGED_MEMORY__EMBEDDING_MODEL": "builtin:lexical",
            **{name: call.environ[name] for name in _MODEL_VARIABLES if name in call.environ},
        }

    def __enter__(self) -> Self:
        self.home.mkdir()
        self.repo.mkdir()
        if shutil.which("git") is not None:
            self.git("init", "-q")
        try:
            self._daemon = self._ends.enter_context(daemon(self._env, self._log))
        except NotStarted as error:
            raise DemoFailed(str(error)) from error
        self.client = self._ends.enter_context(Client(self._socket, timeout_s=_VISIBLE_S))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def agent(self, *arguments: str) -> bytes:
        """Run an agent process to its end; returns what it printed."""
        done = self._run([sys.executable, "-m", "forged.cli.demo.agent", *arguments], {})
        if done.returncode:
            raise DemoFailed(f"the agent process failed:\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    def git(self, *arguments: str) -> None:
        who = {"GIT_AUTHOR_NAME": "demo", "GIT_AUTHOR_EMAIL": "demo@localhost"}
        who |= {"GIT_COMMITTER_NAME": "demo", "GIT_COMMITTER_EMAIL": "demo@localhost"}
        done = self._run(["git", "-C", str(self.repo), *arguments], who)
        if done.returncode:
            raise DemoFailed(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace')}")

    def _run(self, command: list[str], extra: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command, env={**self._env, **extra}, cwd=self.home, capture_output=True, timeout=60, check=False
        )

    def stop(self) -> int:
        began = time.perf_counter()
        self._daemon.send_signal(signal.SIGTERM)
        code = self._daemon.wait(10)
        self.stopped_ms = (time.perf_counter() - began) * 1000
        _expect(code == 0, "the daemon ended cleanly")
        _expect(not os.path.exists(self._socket), "the socket is gone")
        return code


def _head(number: int, title: str) -> None:
    _say(f"\n{number}. {title}")


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise DemoFailed(f"not as promised: {promise}")
    _say(f"  ok: {promise}")


def _say(text: str) -> None:
    click.echo(text)
