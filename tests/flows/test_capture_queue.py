"""The capture queue from outside: acknowledgements, order, restarts and failures.

The scripted provider plays the classifier and hangs where a test needs a line to form.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter

import pytest

from tests.support.daemon import Stage, capturing, contents, on_disk, stored
from tests.support.provider import CHAT, Answer, proposal, reply

pytestmark = pytest.mark.long

PROMISED_MS = 20.0


def _on_disk(stage: Stage) -> list[str]:
    return stored(stage.daemon.home / ".local/state/forged", "events", "journal")


# --- no agent waits -----------------------------------------------------------------------------------


def test_a_hundred_turns_behind_a_hanging_classifier_are_answered_at_once(stage, repo, capsys):
    """Ten sessions, ten turns each: of every session the newest window is classified, and few others."""
    took_ms: list[float] = []
    outcomes: list[str] = []
    texts: dict[int, list[str]] = {session: [] for session in range(10)}
    before = stage.state
    with stage.hanging():
        for turn, session in itertools.product(range(10), range(10)):
            texts[session] += [f"session {session} says {turn}.", f"noted {turn}"]
            started = time.perf_counter()
            outcomes.append(stage.capture(repo, *texts[session], session=f"s{session}").outcome)
            took_ms.append((time.perf_counter() - started) * 1000)
            if len(outcomes) == 1:
                stage.provider.wait_for(1, path=CHAT)
        waiting = stage.state
    stage.settle()

    took_ms.sort()
    with capsys.disabled():
        print(
            f"\n100 captures while the classifier hangs: p50 {took_ms[50]:.2f} ms, p99 {took_ms[98]:.2f} ms, "
            f"max {took_ms[99]:.2f} ms (promised p99 < {PROMISED_MS:g} ms); {len(stage.chats)} model calls"
        )
    assert Counter(outcomes) == {"accepted": 11, "coalesced": 89}
    assert len(stage.chats) == 11
    for session in range(10):
        last = [prompt for prompt in stage.prompts if f"session {session} says" in prompt][-1]
        assert f"session {session} says 9." in last
    assert (waiting.state, waiting.turns, waiting.coalesced - before.coalesced) == ("busy", 11, 89)


# --- one at a time, and in order ----------------------------------------------------------------------


def test_one_call_is_under_way_at_a_time_and_sessions_are_served_in_order(stage, repo):
    with stage.hanging():
        for session in range(8):
            stage.capture(repo, f"session {session}.", session=f"s{session}", kind="compaction")
            stage.capture(repo, f"session {session}.", "more", session=f"t{session}")
    stage.settle()

    order = [int(re.search(r"session (\d+)\.", prompt)[1]) for prompt in stage.prompts]
    assert order == [session for session in range(8) for _ in range(2)]
    assert stage.provider.most_at_once == 1


# --- a stop -------------------------------------------------------------------------------------------


def test_waiting_turns_survive_a_stop_and_are_classified_after_it(alone, repo):
    """SIGTERM in the middle of a call."""
    with alone.hanging(proposal("Builds go through bazel.")):
        for session in range(3):
            assert alone.capture(repo, f"session {session}.", session=f"s{session}").outcome == "accepted"
        alone.until(lambda now: now.in_hand)
        alone.provider.wait_for(1, path=CHAT)
        assert alone.daemon.stop() == 0
        assert len([name for name in _on_disk(alone) if name.endswith(".events")]) == 3
        assert not (repo / ".forge").exists()  # no file, whole or in part
        alone.provider.received.clear()
    alone.daemon.start()
    alone.until(lambda now: now.finished == 3)
    alone.settle()

    assert [re.search(r"session (\d)\.", prompt)[1] for prompt in alone.prompts] == ["0", "1", "2"]
    assert contents(on_disk(repo)) == ["Builds go through bazel."]
    assert _on_disk(alone) == []


# --- what fails ---------------------------------------------------------------------------------------


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


BROKEN_CHILD = """
import os, sys
if "spawn_main" in " ".join(sys.orig_argv) and os.path.exists({flag!r}):
    os._exit(9)
"""


def test_a_worker_that_ends_at_once_shows_in_status_and_is_tried_again(home, repo, tmp_path):
    """The interpreter's own start-up hook ends it, while a file is there. Agents are served all the same."""
    flag, hook = tmp_path / "broken", tmp_path / "hook"
    flag.touch()
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(BROKEN_CHILD.format(flag=str(flag)))
    with capturing(home, classifier_model="m", env={"PYTHONPATH": str(hook)}) as stage:
        assert stage.capture(repo, "a turn that waits").outcome == "accepted"
        failing = stage.until(lambda now: now.state == "failing")
        written = stage.client.remember(str(repo), "Walruses live on ice.")
        found = stage.ask(repo, "walruses on ice", min_generation=written.generation)
        assert "Walruses live on ice." in found.text
        assert stage.capture(repo, "before", session="c", kind="compaction").outcome == "durable"
        assert "cannot run: exit code 9" in failing.reason
        flag.unlink()
        assert stage.settle().finished == 2
