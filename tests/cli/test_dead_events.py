import io

import pytest

from forged_client.protocol import Dead, DeadEvents
from tests.cli import reports

EVENTS = (reports.dead_event("ev_1"), reports.dead_event("ev_2", kind="turn", reason="killed \x1b[2J thrice"))
NONE = DeadEvents(status="empty")


def asked(daemon):
    return [(request.action, request.ids) for request in daemon.requests if isinstance(request, Dead)]


def test_dead_events_are_listed_with_the_reason_of_each(daemon, forgectl):
    daemon.answers[Dead] = DeadEvents(events=EVENTS)

    shown = forgectl("dead", "list")

    assert shown.code == 0
    assert shown.out.splitlines() == [
        "ev_1  2026-05-01 10:05  compaction  /w  five calls failed: bad_reply",
        "ev_2  2026-05-01 10:05  turn        /w  killed ^[[2J thrice",
    ]
    assert asked(daemon) == [("list", ())]


def test_no_dead_events_are_said_and_no_failure(daemon, forgectl):
    daemon.answers[Dead] = NONE

    for action in ("list", "retry --all", "drop --all --yes", "drop --all"):
        shown = forgectl("dead", *action.split(), interactive=True)
        assert (shown.code, shown.out, shown.err) == (0, "", "no capture event has failed\n")


def test_a_shown_event_is_printed_whole_and_escaped(daemon, forgectl):
    text = "user: paint it \x1b[31mred\n---\nassistant: \u202edone"
    daemon.answers[Dead] = DeadEvents(events=(reports.dead_event(text=text),))

    shown = forgectl("dead", "show", "ev_1")

    assert shown.out.splitlines() == [
        "ev_1",
        "kind compaction",
        "session s1",
        "repository /w",
        "received 2026-05-01T10:00:00Z",
        "failed 2026-05-01T10:05:00Z",
        "size 2,048 bytes",
        "reason five calls failed: bad_reply",
        "",
        "user: paint it ^[[31mred",
        "---",
        "assistant: <U+202E>done",
    ]
    assert asked(daemon) == [("show", ("ev_1",))]


@pytest.mark.parametrize(
    ("arguments", "reported", "ids"),
    [
        ("retry ev_1 ev_2", "queued again", ("ev_1", "ev_2")),
        ("retry --all", "queued again", ()),
        ("drop ev_1 ev_2 --yes", "dropped", ("ev_1", "ev_2")),
    ],
)
def test_what_was_done_is_named(daemon, forgectl, arguments, reported, ids):
    daemon.answers[Dead] = DeadEvents(events=EVENTS)

    shown = forgectl("dead", *arguments.split())

    assert (shown.code, shown.out) == (0, f"{reported}: ev_1, ev_2\n")
    assert asked(daemon) == [(arguments.split()[0], ids)]


@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_which_events_must_be_said_and_only_once(daemon, forgectl, verb):
    for which in ((), ("ev_1", "--all")):
        shown = forgectl("dead", verb, *which)

        assert (shown.code, shown.out) == (2, "")
        assert "--all" in shown.err
    assert daemon.requests == []


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False)])
def test_drop_asks_a_person_and_erases_only_what_was_shown(daemon, forgectl, monkeypatch, answer, done):
    daemon.answers[Dead] = DeadEvents(events=EVENTS)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    shown = forgectl("dead", "drop", "--all", interactive=True)

    assert shown.code == (0 if done else 1)
    assert "killed ^[[2J thrice" in shown.err
    assert "Erase 2 events for ever?" in shown.err
    assert asked(daemon) == [("list", ()), ("drop", ("ev_1", "ev_2"))][: 1 + done]
