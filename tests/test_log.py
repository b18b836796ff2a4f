"""The log: few lines of a kind, a file of bounded size, and the interpreter's own output."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forged.log import MOST_BYTES, RateLimiter
from tests.support.clock import PATIENCE_S

# Writes numbered lines, each of a kind of its own, and between them something that no logger knows of.
FLOOD = """
import logging, os, sys
from forged.log import LogSettings, begin
begin(LogSettings(file=sys.argv[1]))
for number in range(int(sys.argv[2])):
    logging.info(f"line {number} " + 1000 * "x")
    if number % 1000 == 0:
        os.write(2, b"written by nobody\\n")
"""
BROKEN = """
import sys, threading, warnings
from forged.log import LogSettings, begin
begin(LogSettings(file=sys.argv[1]))
class Odd:
    def __del__(self): raise ValueError("at the end of it")
    def __repr__(self): raise ValueError("no name")
def fail(): raise ValueError("in a thread")
thread = threading.Thread(target=fail); thread.start(); thread.join()
one = Odd(); del one
warnings.warn("take care")
import logging
logging.info("a value %s", Odd())
for _ in range(30):
    logging.info("again %s", 1)
raise ValueError("in the end")
"""


def run(program: str, log: Path, *arguments: str, stderr: Path | None = None) -> subprocess.Popen[bytes]:
    with open(stderr or log, "ab") as out:
        command = [sys.executable, "-c", program, str(log), *arguments]
        return subprocess.Popen(command, stderr=out, stdout=subprocess.DEVNULL)


def old(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")


def of_kind(sentence: str, *values: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("forged.maps.indexer", level, "", 0, sentence, values, None)


@pytest.mark.parametrize("values", [(1,), ()], ids=["values", "further lines"])
def test_ten_lines_of_a_kind_are_written_in_a_minute_and_then_how_many_more_there_were(values):
    now = 0.0
    few = RateLimiter(lambda: now)

    def line(number: int) -> logging.LogRecord:
        return of_kind("map swapped root=%s", number) if values else of_kind(f"map swapped root=%s\n{number}")

    assert sum(few.passes(line(number)) for number in range(3515)) == 10
    assert few.passes(of_kind("something else"))
    assert few.take_summaries() == []
    now = 60.0
    assert [summary.getMessage() for summary in few.take_summaries()] == [
        "and 3,505 more within a minute: map swapped root=%s"
    ]
    assert few.take_summaries() == []
    assert few.passes(line(1))


@pytest.mark.long
def test_several_writers_leave_one_small_file_and_one_old_one(tmp_path):
    log = tmp_path / "forged.log"
    for process in [run(FLOOD, log, "12000") for _ in range(2)]:
        assert process.wait(PATIENCE_S) == 0

    assert log.stat().st_size <= MOST_BYTES + 10_000
    assert 0 < old(log).stat().st_size <= MOST_BYTES
    assert sorted(os.listdir(tmp_path)) == ["forged.log", "forged.log.1"]
    written = log.read_bytes() + old(log).read_bytes()
    assert b"line 11999 " in written
    assert b"written by nobody" in written


def test_a_log_that_is_too_long_already_is_cut_at_the_start_and_its_end_is_kept(tmp_path):
    log = tmp_path / "forged.log"
    log.write_bytes(3 * MOST_BYTES * b"x" + b"the last line\n")

    assert run(FLOOD, log, "1").wait(PATIENCE_S) == 0
    assert log.stat().st_size < 10_000
    assert old(log).stat().st_size == MOST_BYTES
    assert old(log).read_bytes().endswith(b"the last line\n")


def test_a_file_that_is_not_ours_is_not_cut(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(2 * MOST_BYTES * b"x")

    assert run(FLOOD, tmp_path / "forged.log", "1", stderr=theirs).wait(PATIENCE_S) == 0
    assert theirs.stat().st_size > 2 * MOST_BYTES


def test_an_old_file_that_is_a_link_is_not_followed(tmp_path):
    log, precious = tmp_path / "forged.log", tmp_path / "precious"
    log.write_bytes(2 * MOST_BYTES * b"x")
    precious.write_text("kept")
    old(log).symlink_to(precious)

    assert run(FLOOD, log, "1").wait(PATIENCE_S) == 0
    assert precious.read_text() == "kept"
    assert log.stat().st_size < 10_000


def test_what_the_interpreter_says_is_in_the_log_as_lines_of_it(tmp_path):
    log = tmp_path / "forged.log"
    assert run(BROKEN, log).wait(PATIENCE_S) == 1

    text = log.read_text()
    assert text.count("ERROR forged uncaught ValueError\nTraceback") == 4  # both odd values have an end
    assert "UserWarning: take care" in text
    assert "a line that cannot be written: 'a value %s'" in text
    assert text.count("again 1") == 10
    assert text.endswith("INFO root and 20 more within a minute: again %s\n")  # no line came after them
