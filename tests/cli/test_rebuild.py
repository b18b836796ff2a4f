import io

import pytest

from forged.cli.call import Invocation
from forged.cli.rebuild import Display
from forged_client.protocol import Events, Progress, Rebuild, Rebuilt
from tests.cli import reports

EVENTS = [
    Progress(event="scanning", root="/w"),
    *(Progress(event="embedding", root="/w", done=done, total=40) for done in (1, 2, 3, 20, 40)),
    Progress(event="swapped", root="/w"),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rebuild_returns_at_once_and_says_how_to_follow_it(daemon, forgectl):
    daemon.answers[Rebuild] = Rebuilt(status="not_ready", generation="e:5")

    shown = forgectl("rebuild", "--full")

    assert shown.code == 0
    assert shown.out.startswith("rebuild started, generation e:5; `forgectl status`")
    assert (daemon.asked(Rebuild).full, daemon.asked(Rebuild).wait) == (True, False)


def test_waiting_ends_with_the_new_map_of_every_root(daemon, forgectl):
    daemon.answers[Events] = Progress(event="embedding", root="/w", done=1, total=2)
    daemon.answers[Rebuild] = Rebuilt(generation="e:5", roots=(reports.root(),))

    shown = forgectl("rebuild", "--wait")

    assert shown.code == 0
    assert shown.out.startswith("up to date with the disk, generation e:5\nready  repo  /w\n  2,000 memories")
    assert daemon.asked(Rebuild).wait


@pytest.mark.parametrize(("status", "code"), [("not_ready", 75), ("error", 69)])
def test_waiting_in_vain_is_a_failure(daemon, forgectl, status, code):
    daemon.answers[Rebuild] = Rebuilt(status=status, reason="endpoint unreachable")

    shown = forgectl("rebuild", "--wait", "--json")

    assert shown.code == code
    assert shown.json["error"] == {"code": status, "message": "endpoint unreachable"}


def test_progress_off_a_terminal_is_a_line_for_each_tenth(monkeypatch):
    monkeypatch.setattr("sys.stderr", stderr := io.StringIO())

    Display(Invocation(workspace="/w", environ={})).draw(EVENTS)

    lines = ["scanning", "embedding 1/40", "embedding 20/40", "embedding 40/40", "swapped"]
    assert stderr.getvalue().splitlines() == [f"{line}  /w" for line in lines]


def test_progress_on_a_terminal_is_one_bar_that_is_wiped_at_the_end(monkeypatch):
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    display = Display(Invocation(workspace="/w", environ={"TERM": "xterm"}))

    display.draw(EVENTS)
    display.end()
    display.draw(EVENTS)

    assert "\r[###############...............] embedding 20/40\x1b[K" in stderr.getvalue()
    assert "\n" not in stderr.getvalue()
    assert stderr.getvalue().endswith("\r\x1b[K")
