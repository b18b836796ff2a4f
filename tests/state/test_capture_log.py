"""Stored decisions of capture: their age, size, and removal of forgotten text."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from forged.state import CaptureLogEntry
from forged.state import capture_log as module
from forged.state.capture_log import KEPT_S, MOST, REFUSED_S, CaptureLog, gist
from forged.state.database import Database
from forged.text.redaction import redact
from tests.state.conftest import opened, raw
from tests.support.clock import Clock

DAY = 24 * 3600.0
NOW = 100 * DAY
FAR = 4e9  # beyond any day on which this runs
KEPT = CaptureLogEntry(
    at=NOW, text="Tests run with pytest.", memory_id="mem_a", session_id="s", top="/r", unreported=True
)
REFUSED = CaptureLogEntry(
    at=NOW, text="Remember this.", reason="why", session_id="s", top="/r", unreported=True
)


def made_log(clock: Clock) -> CaptureLog:
    return CaptureLog(Database(""), clock=clock)


def texts(of: CaptureLog) -> list[str]:
    return [each.text for each in of.listed()]


def test_what_was_refused_goes_after_seven_days_and_what_was_kept_after_thirty():
    clock = Clock(NOW)
    one = made_log(clock)
    one.add("mem_a", KEPT)
    one.add("r", REFUSED)

    clock.now = NOW + REFUSED_S - 1
    assert sorted(texts(one)) == ["Remember this.", "Tests run with pytest."]
    clock.now = NOW + REFUSED_S + 60
    assert texts(one) == ["Tests run with pytest."]
    assert [each.text for each in one.unreported("s")] == ["Tests run with pytest."]
    clock.now = NOW + KEPT_S + 60
    assert texts(one) == []


def test_of_too_many_the_newest_are_left():
    one = made_log(Clock(NOW))
    for number in range(MOST + 1):
        one.add(f"mem_{number}", replace(KEPT, at=NOW + number, text=str(number), session_id=""))

    assert len(one.listed()) == MOST
    assert texts(one)[-1] == "1"


def test_a_text_is_its_beginning_in_one_line_and_without_a_secret():
    one, key = made_log(Clock(NOW)), "sk-proj-" + "a1B2c3D4" * 6
    one.add("mem_a", replace(KEPT, text=f"one\ntwo {key} " + "word " * 60))

    (text,) = texts(one)
    assert text.startswith("one two ")
    assert (key in text, "\n" in text, len(text)) == (False, False, 120)


async def test_the_log_outlives_the_daemon_and_reported_entries_stay_reported(directory):
    async with opened(directory) as state:
        state.capture_log.add("mem_a", replace(KEPT, at=FAR))
        state.capture_log.add("r", replace(REFUSED, at=FAR))
        state.capture_log.mark_reported("s", 1)

    async with opened(directory) as state:
        assert len(state.capture_log.listed()) == 2
        assert [each.text for each in state.capture_log.unreported("s")] == ["Remember this."]


async def test_what_is_forgotten_leaves_no_text_here_nor_in_the_file(directory):
    said_too = "Please remember: tests run with pytest. Now!"
    async with opened(directory) as state:
        state.capture_log.add("mem_a", replace(KEPT, at=FAR))
        state.capture_log.add("said", replace(REFUSED, at=FAR, text=said_too))
        state.capture_log.add("other", replace(REFUSED, at=FAR, text="Something else."))
        await state.capture_log.save()
        await state.capture_log.forget(["mem_a"], ["Tests run with pytest."])
        await state.erase_traces()

        assert [each.text for each in state.capture_log.unreported("s")] == ["Something else."]
        assert sorted(texts(state.capture_log)) == ["", "", "Something else."]
        assert b"Something else" in raw(directory)
        assert b"pytest" not in raw(directory)


@pytest.mark.parametrize("before", range(15_600, 16_400, 7))
def test_a_gist_of_a_long_text_reads_its_beginning_and_shows_no_half_of_a_secret(before, monkeypatch):
    """Two long secrets are gone, and what stands behind them would be the beginning, cut within a third."""
    read = list[int]()

    def noting(text):
        read.append(len(text))
        return redact(text)

    monkeypatch.setattr(module, "redact", noting)
    key = f"-----BEGIN PRIVATE KEY-----\n{'MIIEvQ' * (before // 6)}\n-----END PRIVATE KEY-----\n"
    text = f"  {key}{key}\nthe walrus AKIA{'Q7' * 8} {'and the walrus sings ' * 40_000}"

    assert "Q7" not in gist(text)
    assert max(read) <= 32_000
