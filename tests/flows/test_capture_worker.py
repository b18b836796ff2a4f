"""Calls that fail and workers that die: each costs its own event at most, and no agent notices.

The scripted provider plays the classifier.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client.protocol import CaptureReport
from tests.support.clock import eventually
from tests.support.daemon import Stage, capturing, contents, is_alive, on_disk
from tests.support.provider import CHAT, Answer, proposal, reply

pytestmark = pytest.mark.long

# --- calls that fail ----------------------------------------------------------------------------------


def test_a_failed_call_holds_up_its_own_event_only(alone, repo):
    """Two attempts come to nothing, the next session is served meanwhile, the event is tried again."""
    broken = Answer({"error": {"message": "boom"}}, status=500, headers={"Retry-After": "0"})
    alone.provider.chat = [broken, broken, reply(proposal("The second is heard."))]

    first = alone.capture(repo, "the first session", session="s1")
    second = alone.capture(repo, "the second session", session="s2")
    failing = alone.until(lambda now: now.finished == 1)
    asked = alone.client.retrieve(str(repo), [{"role": "user", "content": "hello"}])
    done = alone.settle()

    assert (first.outcome, second.outcome) == ("accepted", "accepted")
    assert (failing.failures, done.finished) == (1, 2)
    assert asked.status in {"ok", "empty"}
    assert contents(on_disk(repo)) == ["The second is heard."]
    assert sum("the first session" in prompt for prompt in alone.prompts) == 3


def test_a_call_that_never_ends_is_given_up_and_the_next_event_is_served(home, repo):
    """The time limit here is a second."""
    limit = ("forged.daemon.models:CLASSIFIER_TIMEOUT_S=1",)
    with capturing(home, constants=limit, classifier_model="m") as stage:
        never = threading.Event()
        stage.provider.chat = [Answer(hold=never), reply(proposal("The second is heard."))]
        try:
            stage.capture(repo, "the first session", session="s1")
            stage.capture(repo, "the second session", session="s2")
            failing = stage.until(lambda now: now.finished == 1)
        finally:
            never.set()

        assert failing.failures == 1
        assert contents(on_disk(repo)) == ["The second is heard."]


def test_an_event_whose_calls_fail_five_times_is_set_aside_with_its_reason(home, repo):
    """And the endpoint is left alone: after two failures in a row calls wait."""
    with capturing(home, classifier_model="m") as alone:
        alone.provider.chat = Answer(body=b"<html>", status=500, headers={"retry-after-ms": "20"})
        alone.capture(repo, "never understood", kind="compaction")
        dead = eventually(lambda: _or_a_minute_later(alone, alone.state))
        found = alone.client.dead("show").events
        alone.provider.received.clear()
        alone.capture(repo, "the next one")
        waiting = alone.until(lambda now: "next attempt in" in now.reason)

        assert (dead.spooled, dead.failures) == (0, 5)
        assert "5 calls failed" in found[0].reason
        assert "never understood" in found[0].text
        assert (waiting.state, waiting.turns) == ("waiting", 1)
        assert alone.provider.received == []


def _or_a_minute_later(stage: Stage, now: CaptureReport) -> CaptureReport | None:
    """The report if something is dead; else time goes by where all wait."""
    if not now.dead and now.state == "waiting":
        stage.daemon.pass_a_minute()
    return now if now.dead else None


# --- a worker that dies -------------------------------------------------------------------------------


def test_a_killed_worker_is_replaced_and_its_event_is_done_by_the_next(stage, repo):
    with stage.hanging(proposal("Kills change nothing.")):
        stage.capture(repo, "hello")
        stage.provider.wait_for(1, path=CHAT)
        stage.kill_worker()
    stage.settle()

    assert contents(on_disk(repo)) == ["Kills change nothing."]
    assert len(stage.chats) == 2


def test_an_event_that_three_workers_die_of_is_set_aside(stage, repo):
    """And an agent's retrieve is answered all the while."""
    with stage.hanging():
        stage.capture(repo, "poison", session="p")
        for calls in (1, 2, 3):
            stage.provider.wait_for(calls, path=CHAT)
            stage.kill_worker()
            assert stage.ask(repo, "hello").status in {"ok", "empty"}
        stage.until(lambda now: (now.dead, now.turns, now.spooled) == (1, 0, 0))
        assert stage.client.dead("show").events[0].text.strip().endswith("poison")
    assert stage.client.dead("drop").events


BROKEN_CHILD = """
import os, signal, sys
if "spawn_main" in " ".join(sys.orig_argv) and os.path.exists({flag!r}):
    {does}
"""


@contextlib.contextmanager
def _spoiled(home: Path, tmp_path: Path, does: str) -> Iterator[tuple[Stage, Path]]:
    """A daemon whose spawned child does this instead of working, as long as a file is there.

    The interpreter's own start-up hook does it: nothing of the product is changed.
    """
    flag, hook = tmp_path / "broken", tmp_path / "hook"
    flag.touch()
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(BROKEN_CHILD.format(flag=str(flag), does=does))
    with capturing(home, classifier_model="m", env={"PYTHONPATH": str(hook)}) as stage:
        yield stage, flag


def _failing(stage: Stage, repo: Path) -> str:
    """Why no worker runs; agents are served all the same."""
    assert stage.capture(repo, "a turn that waits").outcome == "accepted"
    failing = stage.until(lambda now: now.state == "failing")
    written = stage.client.remember(str(repo), "Walruses live on ice.")
    found = stage.ask(repo, "walruses on ice", min_generation=written.generation)
    assert "Walruses live on ice." in found.text
    assert stage.capture(repo, "before", session="c", kind="compaction").outcome == "durable"
    return failing.reason


def test_a_worker_that_ends_at_once_shows_in_status_and_is_tried_again(home, repo, tmp_path):
    with _spoiled(home, tmp_path, "os._exit(9)") as (stage, flag):
        assert "cannot run: exit code 9" in _failing(stage, repo)
        flag.unlink()
        assert stage.settle().finished == 2


def test_a_signal_to_all_processes_does_not_end_the_worker(stage, repo):
    """A service manager signals everybody; only the daemon decides about its worker."""
    worker = stage.until(lambda now: now.worker_pid).worker_pid
    os.kill(worker, signal.SIGTERM)
    stage.captured(repo, "hello")

    assert (stage.state.worker_pid, is_alive(worker)) == (worker, True)
