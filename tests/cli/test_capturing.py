import io

import pytest

from forged_client.protocol import CaptureReport, Pause, Paused, Status, StatusReport, Undo, Undone
from tests.cli import reports

BATCH = (reports.record("mem_1"), reports.record("mem_2", content="Use \x1b[2J tabs."))
TAKEN = Undone(memories=BATCH, trash="/state/trash/1", generation="e:10")
NOTHING = Undone(status="empty", reason="nothing was captured here")


def undo(request):
    return Undone(memories=BATCH) if request.preview else TAKEN


def asked(daemon):
    return [(request.preview, request.session_id) for request in daemon.requests if isinstance(request, Undo)]


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_undo_shows_a_person_the_batch_and_asks(daemon, forgectl, monkeypatch, answer, done):
    daemon.answers[Undo] = undo
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    shown = forgectl("undo", interactive=True)

    assert shown.code == (0 if done else 1)
    assert "mem_1  repo/patterns  v1  2026-05-01  Wrap errors." in shown.err
    assert "Use ^[[2J tabs." in shown.err
    assert "Undo 2 memories (7 days in the trash)?" in shown.err
    assert asked(daemon) == [(True, ""), (False, "")][: 1 + done]
    assert bool(shown.out) is done


@pytest.mark.parametrize("arguments", [("undo", "--yes"), ("undo",)], ids=" ".join)
def test_nothing_to_take_back_is_said_and_no_failure(daemon, forgectl, arguments):
    daemon.answers[Undo] = NOTHING

    shown = forgectl(*arguments, interactive=True)

    assert (shown.code, shown.out) == (0, "")
    assert shown.err == "nothing was captured here\n"
    assert len(asked(daemon)) == 1


def test_an_undo_that_was_not_done_is_a_failure(daemon, forgectl):
    daemon.answers[Undo] = Undone(status="disabled", reason="why")

    shown = forgectl("undo", "--yes")

    assert (shown.code, shown.err) == (69, "forgectl: memory is disabled: why\n")


@pytest.mark.parametrize(
    ("arguments", "everywhere", "paused"),
    [
        (("pause",), False, True),
        (("pause", "--all"), True, True),
        (("resume",), False, False),
        (("resume", "--all"), True, False),
    ],
)
def test_pause_and_resume_are_about_the_workspace_or_everything(
    daemon, forgectl, arguments, everywhere, paused
):
    daemon.answers |= {Pause: Paused(), Status: StatusReport()}

    assert forgectl(*arguments).code == 0

    request = daemon.asked(Pause)
    assert (request.workspace, request.everywhere, request.paused) == ("/w", everywhere, paused)


@pytest.mark.parametrize(
    ("arguments", "pauses", "said", "reported"),
    [
        ("pause", ((), ("*", "/w/\x1b[2J")), ["paused: everywhere", "paused: /w/^[[2J"], ""),
        ("resume", (("/w",), ()), ["resumed: /w"], ""),
        ("resume", (("*",), ()), ["resumed: everywhere"], ""),
        ("resume", (("/a", "/w/\x1b[2J"), ("/a",)), ["resumed: /w/^[[2J", "still paused: /a"], ""),
        ("resume", (("/a",), ("/a",)), ["nothing was paused", "still paused: /a"], ""),
        ("resume", ((), ()), ["nothing was paused"], ""),
        ("resume", (("*",), ("*",)), None, "`forgectl resume --all` resumes them"),
        ("resume --all", (("/a",), ("/a",)), None, "`forgectl resume --workspace PATH` resumes one"),
    ],
)
def test_it_is_said_which_pause_was_ended_which_hold_and_what_ends_them(
    daemon, forgectl, arguments, pauses, *, said, reported
):
    before, now = pauses
    daemon.answers |= {Status: StatusReport(capture=CaptureReport(paused=before)), Pause: Paused(paused=now)}

    shown = forgectl(*arguments.split())
    as_json = forgectl(*arguments.split(), "--json")

    assert said is None or shown.out.splitlines() == said
    assert reported in shown.err
    assert bool(shown.err) is bool(reported)
    assert (as_json.json["paused"], as_json.err) == (list(now), "")
