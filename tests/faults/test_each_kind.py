"""Capture under kills and broken disks, one of each kind; `make test-faults` does it by the hundred."""

from __future__ import annotations

import os
import signal

import pytest

from tests.faults.spots import SPOTS
from tests.faults.telling import telling
from tests.support.clock import eventually


@pytest.fixture
def one(home):
    with telling(home) as one:
        yield one


def test_an_event_survives_the_worker_that_is_killed_over_it(one):
    os.kill(one.worker(), signal.SIGKILL)
    one.tell("idle-0")
    one.finished(1)

    one.go.clear()
    one.tell("call-0")
    one.asked("call-0")
    os.kill(one.report().worker_pid, signal.SIGKILL)
    one.go.set()
    one.finished(2)

    one.faults.arm("worker", "link", r"\.md$")
    one.tell("write-0")
    one.finished(3)

    one.faults.arm("worker", "send", "type.done", does="half")
    one.tell("send-0")
    one.finished(4)

    one.drained()
    one.assert_kept_once(["idle-0", "call-0", "write-0", "send-0"])
    assert (one.report().worker_restarts, one.report().dead) == (4, 0)


def test_an_acknowledged_event_survives_a_kill_in_every_phase(home):
    spots = {spot.phase: spot for spot in SPOTS if spot.kills_daemon}.values()
    names = [f"s-{number:02}" for number in range(2 * len(spots))]
    with telling(home, parts=3) as one:
        for number, spot in enumerate(spots):
            ahead, name = names[2 * number : 2 * number + 2]
            pid = one.daemon.pid
            one.steady = spot.is_before_ack
            one.go.clear()
            one.tell(ahead)
            one.asked(ahead)
            if spot.is_before_ack:
                spot.arm(one.faults)
                one.tell_for_sure(name)
            else:
                one.tell(name)
                spot.arm(one.faults)
            one.go.set()
            eventually(lambda fired=number + 1: len(one.faults.fired) == fired)
            if one.daemon.pid == pid:  # else it is back already
                one.back()
            one.drained()
        one.assert_kept_once(names)
        one.assert_in_order()


def test_nothing_is_left_of_a_killed_daemon_but_what_it_promised(one):
    one.go.clear()
    for number in range(4):
        one.tell(f"s-{number}")
    one.asked("s-0")
    assert one.remaining()

    one.kill()

    assert one.remaining() == []
    one.go.set()
    one.daemon.start()
    one.drained()
    one.assert_kept_once(["s-0", "s-1", "s-2", "s-3"])


def test_turns_that_wait_at_a_sigterm_are_done_by_the_next_daemon(one):
    one.go.clear()
    for number in range(4):
        assert one.tell(f"s{number}-0", "turn").outcome == "accepted"
    one.asked("s0-0")
    os.kill(one.report().worker_pid, signal.SIGSTOP)

    assert one.daemon.stop(timeout_s=5.0) == 0

    one.go.set()
    one.daemon.start()
    one.drained()
    one.assert_kept_once([f"s{number}-0" for number in range(4)])


@pytest.mark.parametrize(
    ("call", "about", "at", "after"),
    [("get", "FACT<bad-0>", 1, True), ("link", r"\.md$", 2, False)],
    ids=["over its text", "over its second file"],
)
def test_an_event_that_kills_the_worker_again_and_again_is_set_aside(home, call, about, at, after):
    with telling(home, parts=3) as one:
        one.faults.arm("worker", call, about, at=at, after=after, lasting=True)
        one.tell("bad-0")
        eventually(lambda: one.report().dead)
        tries = len(one.faults.fired)
        assert tries == 3 + (call == "link")  # the first got as far as its first file
        one.faults.disarm()
        one.tell("good-0")
        one.drained()
        (event,) = one.client.dead().events
        assert "the worker died 3 times over it" in event.reason

        assert one.client.dead("retry", [event.id]).events
        one.drained()
        one.assert_kept_once(["good-0", "bad-0"])


def test_a_disk_that_fills_between_two_files_of_an_event_costs_neither(home):
    with telling(home, parts=3) as one:
        one.faults.arm("worker", "link", r"\.md$", at=2, does="ENOSPC", lasting=True)
        one.tell("s-0")
        eventually(lambda: "no space left" in one.report().reason)
        one.faults.disarm()
        one.drained()
        one.assert_kept_once(["s-0"])


def test_what_a_broken_disk_does_not_take_is_rejected(one):
    one.faults.arm("daemon", "commit", "INTO events", does="EIO", lasting=True)
    reply = one.tell("s-0")
    assert reply.outcome == "rejected"
    assert reply.reason.startswith("storage_error: ")
    assert "input/output error" in one.report().last_error

    one.faults.disarm()
    assert one.tell("s-0").outcome == "durable"
    one.drained()
    one.assert_kept_once(["s-0"])


def test_a_finished_event_that_cannot_be_removed_is_removed_later(one):
    one.faults.arm("daemon", "commit", "DELETE FROM events", does="EIO", lasting=True)
    one.tell("s-0")
    one.finished(1)
    eventually(lambda: "input/output error" in one.report().last_error)
    assert one.report().spooled == 1
    one.faults.disarm()
    eventually(lambda: one.report().spooled == 0)
    one.assert_kept_once(["s-0"])
