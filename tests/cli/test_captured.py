"""`forgectl captured`, against a scripted daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from forged.cli.since import parse_time
from forged.cli.tables import cells
from forged_client.protocol import CapturedEntry, CapturedPage, ListCaptured, Status
from tests.cli import reports

ID = "mem_6f0e5d1a-1111-4222-8333-444455556666"
KEPT = CapturedEntry(
    at="2026-05-01T12:00:00.000000Z",
    text="Tests run with pytest.",
    memory_id=ID,
    session_id="s-1",
    agent="claude",
    kind="session_end",
    why="rule",
    classifier="builtin:rules",
    scope="repo",
    category="project-conventions",
    root="/w",
    supersedes="mem_0",
    is_there=True,
)
REFUSED = CapturedEntry(
    at="2026-05-01T12:00:00.000000Z",
    text="Remember this.",
    reason="the request does not say what to remember",
    why="request",
    kind="turn",
    classifier="gpt-x",
    root="/w",
)


def test_it_says_what_when_why_from_whom_by_which_classifier_and_how_to_take_it_back(daemon, forgectl):
    daemon.answers[ListCaptured] = CapturedPage(captured=(REFUSED, KEPT), total=5)

    shown = forgectl("captured", "--limit", "2", "--offset", "1")

    assert shown.out.splitlines() == [
        "refused  2026-05-01 12:00",
        "    Remember this.",
        "    not saved: the request does not say what to remember",
        "    judged by: gpt-x",
        "    from: unnamed agent, no session",
        "saved  2026-05-01 12:00  repo/project-conventions",
        "    Tests run with pytest.",
        "    why: a rule matched what you typed; judged by the built-in classifier",
        "    from: claude, session s-1, session end",
        "    replaces: mem_0",
        f"    undo: forgectl forget {ID}",
    ]
    assert shown.err == "and 2 more; --limit and --offset show them\n"


def test_of_another_root_the_way_back_names_it(daemon, forgectl):
    from msgspec.structs import replace

    daemon.answers[ListCaptured] = CapturedPage(captured=(replace(KEPT, root="/w/other repo"),), total=1)

    line = f"    undo: forgectl forget {ID} --workspace '/w/other repo'\n"
    assert line in forgectl("captured", "--all-repos").out


def test_what_is_gone_or_forgotten_is_said(daemon, forgectl):
    from msgspec.structs import replace

    forgotten = replace(KEPT, text="", is_there=False)
    daemon.answers[ListCaptured] = CapturedPage(captured=(forgotten, replace(KEPT, text="")), total=2)

    out = forgectl("captured").out

    assert "    (forgotten)\n" in out
    assert "    no longer there: forgotten, moved, or on another branch\n" in out
    assert f"    (forgotten, and restored: forgectl show {ID})\n" in out


@pytest.mark.parametrize("width", [40, 60, 80])
def test_it_fits_the_terminal_also_with_wide_text_and_keeps_every_word(daemon, forgectl, width):
    from msgspec.structs import replace

    wide = replace(KEPT, text="数据库迁移必须能够回滚，🎉 永远不要删除列。" * 2, agent="c" * 90)
    daemon.answers[ListCaptured] = CapturedPage(captured=(wide, REFUSED), total=2)

    out = forgectl("captured", width=width).out

    assert max(map(cells, out.splitlines())) <= width
    assert "forget" in out
    assert ID not in out
    assert ID[:12] in out
    assert "c" * 90 in out.replace("\n        ", "")


def test_colour_is_on_a_terminal_only_and_no_color_ends_it(daemon, forgectl):
    daemon.answers[ListCaptured] = CapturedPage(captured=(KEPT, REFUSED), total=2)

    coloured = forgectl("captured", environ={"FORCE_COLOR": "1"}, width=60).out
    assert coloured.startswith("\x1b[32msaved\x1b[0m  2026")
    assert "\x1b[33mrefused\x1b[0m  2026" in coloured
    assert "\x1b" not in forgectl("captured", environ={"FORCE_COLOR": "1", "NO_COLOR": "1"}, width=60).out
    assert "\x1b" not in forgectl("captured").out


def test_a_text_cannot_forge_a_line_nor_move_the_cursor(daemon, forgectl):
    from msgspec.structs import replace

    daemon.answers[ListCaptured] = CapturedPage(
        captured=(replace(KEPT, text="a\nsaved  now\x1b[2J"),), total=1
    )

    out = forgectl("captured", width=60).out

    assert out.count("\nsaved") == 0
    assert "\x1b" not in out


def test_today_begins_at_midnight_and_is_no_second_since(daemon, forgectl):
    daemon.answers[ListCaptured] = CapturedPage(status="empty")
    forgectl("captured", "--today")

    assert daemon.asked(ListCaptured).since.endswith("T00:00:00Z")
    twice = forgectl("captured", "--today", "--since", "2h")
    assert (twice.code, twice.err) == (2, "forgectl: give --today or --since, not both\n")


# --- times as people write them --------------------------------------------------------------------------

NOW = datetime(2026, 5, 10, 15, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", datetime(2026, 5, 10, tzinfo=UTC)),
        ("yesterday", datetime(2026, 5, 9, tzinfo=UTC)),
        ("30min", NOW - timedelta(minutes=30)),
        ("2h", NOW - timedelta(hours=2)),
        (" 3 d ", NOW - timedelta(days=3)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-05-01T14:00", datetime(2026, 5, 1, 14, tzinfo=UTC)),
        ("2026-05-01 14:00:05+02:00", datetime(2026, 5, 1, 12, 0, 5, tzinfo=UTC)),
        ("2026-05-01T14:00:00Z", datetime(2026, 5, 1, 14, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_people_write_it(text, expected):
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["tomorrow", "2 fortnights", "3m", "-2h", "99999d", "2026-02-30", "²h"])
@pytest.mark.parametrize("verb", ["captured", "list"])
def test_what_is_no_time_is_refused_with_what_would_be_one(no_daemon, forgectl, verb, text):
    shown = forgectl(verb, f"--since={text}")

    assert shown.code == 2
    assert "is not a time: use today, yesterday, 30min, 2h, 3d, 2w, a day such as 2026-11-20" in shown.err


def test_so_long_ago_is_refused(no_daemon, forgectl):
    assert "is too long ago" in forgectl("list", "--since", "0001-01-01T00:00+14:00").err


@pytest.mark.parametrize(
    "fields", [{"in_hand": "ev_1", "in_hand_age_s": 1.0}, {"turns": 2}, {"spooled": 1, "spool_bytes": 9}]
)
def test_where_there_is_nothing_yet_it_says_that_something_is_on_its_way(daemon, forgectl, fields):
    daemon.answers[ListCaptured] = CapturedPage(status="empty")
    daemon.answers[Status] = reports.status(capture=reports.captured(**fields))

    reported = "the latest turns are not judged yet; `forgectl status` shows how many\n"
    assert forgectl("captured").err.endswith(f"looks everywhere\n{reported}")
