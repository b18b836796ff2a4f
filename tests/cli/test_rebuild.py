import io

import pytest

from forged.cli.call import Invocation
from forged.cli.rebuild import RebuildProgress
from forged_client.client import Client
from forged_client.protocol import Events, Progress, Rebuild, Rebuilt
from tests.cli import reports

EVENTS = [
    Progress(event="scanning", root="/w"),
    Progress(event="swapped", root="/w", done=40, total=40),
    *(
        Progress(event="embedding", root="/w", done=done, total=40, rate=2.5, left_s=(40 - done) / 2.5)
        for done in (1, 2, 3, 20, 40)
    ),
    Progress(event="swapped", root="/w", done=40, total=40),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_waiting_ends_with_the_new_map_of_every_root(daemon, forgectl):
    daemon.answers[Events] = Progress(event="embedding", root="/w", done=1, total=2)
    daemon.answers[Rebuild] = Rebuilt(generation="e:5", roots=(reports.root(),))

    shown = forgectl("rebuild", "--wait")

    assert shown.code == 0
    assert shown.out.startswith("all memory files were read\nready  repo  /w\n  2,000 memories")
    assert daemon.asked(Rebuild).wait


@pytest.mark.parametrize(("status", "code"), [("not_ready", 75), ("error", 69)])
def test_waiting_in_vain_is_a_failure(daemon, forgectl, status, code):
    daemon.answers[Rebuild] = Rebuilt(status=status, reason="endpoint unreachable")

    shown = forgectl("rebuild", "--wait", "--json")

    assert shown.code == code
    assert shown.json["error"] == {"code": status, "message": "endpoint unreachable"}


def test_progress_on_a_terminal_is_one_bar_that_is_wiped_at_the_end(monkeypatch):
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    display = RebuildProgress(Invocation(workspace="/w", environ={"TERM": "xterm"}))

    display.draw(EVENTS)
    display.end()
    display.draw(EVENTS)

    assert "\r[##########..........] embedding 20/40, 2.5 texts/s, 8 s left\x1b[K" in stderr.getvalue()
    assert "\n" not in stderr.getvalue()
    assert stderr.getvalue().endswith("\r\x1b[K")


def embedding(done, total, root="/w", **fields):
    return Progress(event="embedding", root=root, done=done, total=total, **fields)


def drawn(monkeypatch, events):
    """What stood on the terminal after each event, without the bar."""
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    RebuildProgress(Invocation(workspace="/w", environ={"TERM": "xterm"})).draw(events)
    return [line.partition("] ")[2].removesuffix("\x1b[K") for line in stderr.getvalue().split("\r")[1:]]


def test_the_progress_of_all_roots_is_one_sum_that_no_look_at_the_disk_and_no_new_map_sets_back(monkeypatch):
    events = [
        Progress(event="swapped", root="/w", done=5000, total=5000),
        Progress(event="scanning", root="/w"),
        embedding(8, 5000),
        Progress(event="scanning", root="/home"),
        embedding(1, 20, root="/home"),
        Progress(event="swapped", root="/w", done=5000, total=5000),
        embedding(16, 5000),
        Progress(event="scanning", root="/home"),
        embedding(20, 20, root="/home"),
    ]

    assert drawn(monkeypatch, events) == [
        "scanning",
        "embedding 8/5,000",
        "embedding 9/5,020",
        "embedding 17/5,020",
        "embedding 36/5,020",
    ]


def test_texts_of_a_build_that_was_followed_by_another_stay_counted(monkeypatch):
    events = [embedding(300, 300), embedding(1, 300), embedding(300, 300), embedding(2, 2)]

    assert drawn(monkeypatch, events) == [
        "embedding 300/300",
        "embedding 301/600",
        "embedding 600/600",
        "embedding 602/602",
    ]


def test_a_wait_has_no_limit_of_its_own(daemon, forgectl, monkeypatch):
    asked = []
    ask = Client.ask

    def noted(client, request, *, timeout_s=None):
        asked.append((type(request), timeout_s))
        return ask(client, request, timeout_s=timeout_s)

    monkeypatch.setattr(Client, "ask", noted)
    daemon.answers[Rebuild] = Rebuilt(generation="e:5")

    assert forgectl("rebuild", "--wait").code == 0
    assert (Rebuild, float("inf")) in asked
