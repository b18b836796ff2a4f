"""Rows of starting: a daemon until its first right answer, and the short processes of a harness."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import corpus
from commits import Checkout
from daemons import Caller, Daemon, prepared, running_over, serving
from judging import Goal
from processes import HERE, Broken, directory, need_package, plain_environment, process
from row import Row, Side
from sampling import Probe, median_of, timed

_FILES = 1_000
_STARTS = 15
_IMPORTED = re.compile(r"^import time: .*\| +([\w.]+)$", re.MULTILINE)
_MESSAGE = corpus.opening(_FILES // 2)


@contextlib.contextmanager
def _first_answer(checkout: Checkout) -> Iterator[Probe]:
    """Measure from the start of a daemon to its first right retrieve."""
    with prepared(checkout) as daemon:
        corpus.write(daemon.repo, _FILES)
        with serving(daemon) as caller:
            caller.trust(daemon)

        def round_() -> float:
            began = time.perf_counter()
            with serving(daemon) as caller:
                _answered(daemon, caller)
                return time.perf_counter() - began

        yield round_


def _answered(daemon: Daemon, caller: Caller) -> None:
    frames = daemon.frames
    answer = frames.answer(caller.call(frames.retrieve(daemon.workspace, said=[("user", _MESSAGE)])))
    if corpus.name(_FILES // 2) not in {hit.id for hit in answer.hits}:
        raise Broken(f"the first retrieve answered {answer.status} {answer.reason}")


@contextlib.contextmanager
def _memsearch(_: Checkout) -> Iterator[Probe]:
    """Measure from the start of a process to memsearch's first right answer, with its index on disk."""
    need_package("memsearch", "memsearch")
    with directory() as top:
        environment = plain_environment(HOME=str(top))
        command = [sys.executable, HERE / "memsearch_peer.py"]
        _run([*command, "index", top, str(_FILES)], environment)

        def round_() -> float:
            began = time.perf_counter()
            asking = [*command, "ask", top, str(_FILES // 2)]
            with process(asking, environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                assert child.stdout is not None
                said = child.stdout.readline().decode()
                took = time.perf_counter() - began
                child.wait(30)
            if corpus.name(_FILES // 2) not in said.split():
                raise Broken(f"memsearch answered {said[:200]!r}")
            return took

        yield round_


@contextlib.contextmanager
def _bare_import(checkout: Checkout) -> Iterator[Probe]:
    """Import only the modules of a daemon that has answered a retrieve."""
    with prepared(checkout) as daemon:
        corpus.write(daemon.repo, _FILES)
        with serving(daemon) as caller:
            caller.trust(daemon)
        packages = ", ".join(_imported_by(daemon))
    yield lambda: timed(lambda: _run([checkout.python, "-c", f"import {packages}"], plain_environment()))


def _imported_by(daemon: Daemon) -> list[str]:
    """Return imported packages and modules that are not forged's, with those of the standard library."""
    log = daemon.home / "imports"
    python, *words = daemon.command(stub=False)
    command = [python, "-X", "importtime", *words]
    with open(log, "wb") as errors, process(command, daemon.environment(), cwd="/", stderr=errors):
        caller = daemon.connect()
        _answered(daemon, caller)
        caller.close()
    tops = {name.partition(".")[0] for name in _IMPORTED.findall(log.read_text())}
    ours = {"forged", "forged_client", "sitecustomize", "usercustomize"}
    return sorted(top for top in tops - ours if top[0] != "_" and find_spec(top))


def _process(*words: str, wanted: str) -> Side:
    """Run one of forged's short processes next to a running daemon, fifteen times."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, _FILES) as (daemon, _):
            command = [checkout.script(words[0]), *words[1:]]
            said = _run(command, daemon.environment(), daemon.repo)
            if wanted not in said:
                raise Broken(f"{' '.join(words[:2])} said {said[:200]!r}")
            yield lambda: median_of(lambda: _run(command, daemon.environment(), daemon.repo), _STARTS)

    return side


def _interpreter(*options: str) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        command = [checkout.python, "-I", *options]
        yield lambda: median_of(lambda: _run(command, plain_environment()), _STARTS)

    return side


_BARE_PYTHON = _interpreter("-S", "-c", "pass")


def _prompt(daemon: Daemon, number: int) -> bytes:
    """Return Claude Code's hook payload for a prompt, each of a new session, so that all get memories."""
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": f"s{number}", "prompt_id": f"p{number}"}
    return json.dumps({**payload, "cwd": daemon.workspace, "prompt": _MESSAGE}).encode()


@contextlib.contextmanager
def _hook(checkout: Checkout) -> Iterator[Probe]:
    """Measure a prompt's hook as a plug-in runs it."""
    where = "from forged_client import hook; print(hook.__file__)"
    file = _run([checkout.python, "-c", where], plain_environment()).strip()
    with running_over(checkout, _FILES) as (daemon, _):
        numbers = itertools.count()
        command = [checkout.python, "-I", "-S", file, "claude"]

        def call() -> None:
            if "additionalContext" not in _run(
                command, daemon.environment(), given=_prompt(daemon, next(numbers))
            ):
                raise Broken("a prompt got nothing")

        yield lambda: median_of(call, _STARTS)


@contextlib.contextmanager
def _bare_python_and_the_daemon(checkout: Checkout) -> Iterator[Probe]:
    """Measure an idle interpreter plus the same question over an open connection."""
    with running_over(checkout, _FILES) as (daemon, caller):
        numbers = itertools.count()
        command: list[str | Path] = [checkout.python, "-I", "-S", "-c", "pass"]

        def call() -> None:
            asked = daemon.frames.hook("claude", _prompt(daemon, next(numbers)))
            _run(command, daemon.environment())
            caller.call(asked)

        yield lambda: median_of(call, _STARTS)


def _run(
    command: list[str | Path], env: Mapping[str, str], directory: Path | None = None, given: bytes = b""
) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, env=env, cwd=directory, input=given, capture_output=True)
    if done.returncode:
        raise Broken(f"{command[0]}: exit code {done.returncode}: {done.stderr.decode()[-200:]}")
    return done.stdout.decode()


ROWS = (
    Row(
        "start",
        "daemon start to first right retrieve, 1,000 files / bare import of what it imports",
        Goal(1.6, "P14: up before a peer has imported; the parts of a prototype added up to 1.1"),
        _first_answer,
        _bare_import,
    ),
    Row(
        "start-memsearch",
        "daemon start to first right retrieve, 1,000 files / memsearch, its index on disk",
        Goal(0.2, "P14: up before a peer has imported"),
        _first_answer,
        _memsearch,
        slow=True,
    ),
    Row(
        "hook-ping",
        "forgectl ping / python -I -S -c pass",
        Goal(1.2, "P13: a hook without a noticeable delay; a bare socket and hand-made frame were 1.08"),
        _process("forgectl", "ping", wanted="pong"),
        _BARE_PYTHON,
    ),
    Row(
        "hook-retrieve",
        "forgectl retrieve MESSAGE / python -I -S -c pass",
        Goal(1.2, "P13"),
        _process("forgectl", "retrieve", _MESSAGE, wanted=_MESSAGE),
        _BARE_PYTHON,
    ),
    Row(
        "hook-prompt",
        "a prompt's hook, as a plug-in runs it / python -I -S -c pass and the daemon's answer",
        Goal(1.4, "a hook without a noticeable delay"),
        _hook,
        _bare_python_and_the_daemon,
    ),
    Row(
        "import-client",
        "from forged_client import Client / python -I -S -c pass",
        Goal(5.5, "msgspec alone is 4.7"),
        _interpreter("-c", "from forged_client import Client"),
        _BARE_PYTHON,
    ),
)
