"""Five real agents whose memory fails: every one finishes its turn, as if forged were not there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import forged_client
from tests.agents.scripted_api import Turn
from tests.agents.stage import AGENTS, World
from tests.agents.walk import marks
from tests.support.daemon import FakeDaemon, Peer, PeerConnection, stopped_server

_HOOK = Path(forged_client.__file__).with_name("hook.py")
_CALLS, _AT_ONCE = 1_000, 50
# What a hook may take, with what a machine full of interpreters that start adds to it.
_DEADLINE_S, _LOADED_S = 2.5, 4.0
_SAID = "All is well."


@pytest.fixture(scope="module")
def world(agents, tmp_path_factory):
    """A machine on which all agents are connected, without a daemon and without any that may be started."""
    made = World(tmp_path_factory.mktemp("world"), agents, lambda _: Turn(_SAID))
    try:
        made.forgectl("setup", "--yes")
        made.trust_codex()
        made.forgectl("stop")
        (made.home / ".local/state/forged/executable").unlink()
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def _absent(_: str) -> Iterator[None]:
    yield


def _stopped(path: str) -> contextlib.AbstractContextManager[None]:
    return stopped_server(path, _AT_ONCE * 2)


@contextlib.contextmanager
def _with(peer: Peer) -> Iterator[None]:
    try:
        yield
    finally:
        peer.stop()


def _slow(path: str) -> contextlib.AbstractContextManager[None]:
    """It welcomes a hook, and then thinks."""

    def script(connection: PeerConnection) -> None:
        connection.greet()
        connection.wait_for_hang_up()

    return _with(Peer(path, script))


def _mad(path: str) -> contextlib.AbstractContextManager[None]:
    """It says all kinds of things, of no kind that there is."""

    def script(connection: PeerConnection) -> None:
        connection.sock.sendall(
            b"\x00\x00\x00\x05HTTP/" + os.urandom(4096) + b'{"additionalContext": "forged-memories"}'
        )
        connection.wait_for_hang_up()

    return _with(Peer(path, script))


def _old(path: str) -> contextlib.AbstractContextManager[None]:
    """It is of a version that has no hooks."""
    return _with(FakeDaemon(path))


STATES = {"absent": _absent, "stopped": _stopped, "slow": _slow, "mad": _mad, "old": _old}


@contextlib.contextmanager
def _during(state: str, world: World) -> Iterator[None]:
    Path(world.socket).unlink(missing_ok=True)  # which one that was killed has left
    with STATES[state](world.socket):
        yield


@pytest.mark.parametrize("state", STATES)
def test_every_agent_finishes_its_turn_with_a_daemon_that_is(state, world):
    prompts = {agent: f"How do we deploy (turn {state}{agent})" for agent in AGENTS}
    with _during(state, world):
        said = world.run_all(prompts)

    for agent, prompt in prompts.items():
        assert _SAID in said[agent], agent
        assert not marks(world.asked(prompt)).opened, agent


@pytest.mark.parametrize("state", STATES)
def test_hooks_say_nothing_and_end_well_and_in_time_with_a_daemon_that_is(state, world):
    """Of 1,000 calls in all every one."""
    calls = _CALLS // len(STATES)
    with _during(state, world), ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = list(pool.map(_called, [world.env] * calls))

    assert {(code, out, err) for code, out, err, _ in ended} == {(0, b"", b"")}
    assert max(took for *_, took in ended) < _DEADLINE_S + _LOADED_S


def _called(env: dict[str, str]) -> tuple[int, bytes, bytes, float]:
    payload = (
        b'{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/","prompt":"How do we deploy?"}'
    )
    begun = time.monotonic()
    command = [sys.executable, "-I", "-S", str(_HOOK), "claude"]
    done = subprocess.run(command, env=env, input=payload, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - begun
