"""The capture queue from outside: what is promised at once, what comes first, and what outlives a stop.

The scripted provider plays the classifier and hangs where a test needs a line to form.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from forged_client.observer import Observer
from tests.support.daemon import Stage, contents, on_disk, stored
from tests.support.provider import CHAT, proposal

pytestmark = pytest.mark.long

PROMISED_MS = 20.0


def _on_disk(stage: Stage) -> list[str]:
    return stored(stage.daemon.home / ".local/state/forged", "events", "journal")


def _restart(stage: Stage) -> None:
    assert stage.daemon.stop() == 0
    stage.daemon.start()


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


def test_a_compaction_is_processed_however_many_turns_wait(stage, repo):
    """It is durable before the answer, and nothing takes its place."""
    with stage.hanging():
        for session in range(70):
            stage.capture(repo, f"number {session}.", session=f"s{session}")
        answer = stage.capture(repo, "what the summary will lose", session="c", kind="compaction")
        spooled = stage.state.spooled
        for session in range(70, 80):
            stage.capture(repo, f"number {session}.", session=f"s{session}")
    stage.settle()

    assert answer.outcome == "durable"
    assert spooled >= 1
    assert any("what the summary will lose" in prompt for prompt in stage.prompts)
    assert (_on_disk(stage), stage.state.spooled) == ([], 0)


@pytest.mark.long
def test_where_there_is_no_room_a_capture_is_refused_with_a_sentence_and_nothing_is_lost(alone, repo):
    """64 MiB may wait; what is taken is taken whole."""
    page = "many words. " * 140_000
    with alone.hanging():
        alone.capture(repo, "in hand", session="other")
        alone.until(lambda now: now.in_hand)
        taken = 0
        while (
            answer := alone.capture(repo, page, session=f"s{taken}", kind="compaction")
        ).outcome == "durable":
            taken += 1
        turn = alone.capture(repo, page, session="turn")
        full = alone.state

    assert taken == (64 << 20) // len(page)
    for refused in (answer, turn):
        assert refused.outcome == "rejected"
        assert re.fullmatch(
            r"spool_full: \d+ events wait already; `forgectl status` says for what", refused.reason
        )
    assert (full.spooled, full.rejected) == (27 * taken + 1, 2)
    assert alone.daemon.stop() == 0
    assert len([name for name in _on_disk(alone) if name.endswith(".events")]) >= 27 * taken


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


LONG = [f"long {at}: {'words ' * 400}" for at in range(20)]
AFTER = ["Summary: there was much.", "as you say", "the next question"]


def test_both_windows_around_a_summary_reach_the_daemon_through_an_observer(stage, repo):
    with stage.hanging():
        stage.capture(repo, "in hand", session="other")
        stage.until(lambda now: now.in_hand)
        observer = Observer(str(repo), "observed", address=stage.daemon.socket)
        talk = [{"role": "user", "content": text} for text in LONG]
        observer.on_turn_complete(talk)
        observer.on_turn_complete(
            [*talk, *({"role": "user", "content": text} for text in AFTER)], last_summary_index=len(LONG)
        )
        assert observer.close(10)
        assert stage.state.turns == 2
    stage.settle()

    assert observer.counts == {"accepted": 1, "coalesced": 1}
    assert ["long 0:" in prompt for prompt in stage.prompts] == [False, True]
    assert "the next question" in stage.prompts[1]


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


def test_a_stop_during_a_slow_call_is_quick_and_leaves_no_process(alone, repo):
    with alone.hanging():
        alone.capture(repo, "anything", kind="compaction")
        worker = alone.until(lambda now: now.in_hand).worker_pid
        _restart(alone)
    alone.until(lambda now: now.finished == 1)

    assert not Path(f"/proc/{worker}").exists()
    assert any("anything" in prompt for prompt in alone.prompts)
