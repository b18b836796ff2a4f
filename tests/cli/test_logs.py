"""`forgectl logs`: the daemon's own file with its cuts, and systemd's journal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forged import log as daemon_log
from forged.cli.log_file import LogFile
from tests.cli.stand_ins import StandIns
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Shell, wait_for_end


@pytest.fixture
def log(home: Path) -> Path:
    """The place of the daemon's log, which is not there yet."""
    file = home / ".local/state/forged/forged.log"
    file.parent.mkdir(parents=True)
    return file


def append(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def cut(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the daemon does when its log is long."""
    monkeypatch.setattr(daemon_log, "MOST_BYTES", 1_000)
    daemon_log.rotate(str(log))
    assert log.stat().st_size == 0


def test_the_last_lines_are_shown_and_those_of_the_old_file_where_there_are_too_few(forgectl, log):
    log.with_name("forged.log.1").write_text("one\ntwo\nthree\n")
    append(log, "four", "five")

    assert forgectl("logs", "-n", "4").out.split() == ["two", "three", "four", "five"]
    assert forgectl("logs", "-n", "1").out.split() == ["five"]
    assert forgectl("logs", "-n", "0").out == ""
    assert forgectl("logs", "--json").json["lines"] == ["one", "two", "three", "four", "five"]


def test_a_log_cannot_move_the_cursor_of_who_reads_it(forgectl, log):
    append(log, "evil \x1b[2J\x1b]0;title\x07")

    assert forgectl("logs").out == "evil ^[[2J^[]0;title^G\n"


def test_without_a_log_it_is_said_where_one_would_be(forgectl, log):
    done = forgectl("logs")

    assert (done.code, done.out) == (1, "")
    assert f"{log}" in done.err


def test_following_misses_nothing_and_repeats_nothing_when_the_log_is_emptied(log, monkeypatch):
    append(log, *1_000 * ["one"], "two")
    followed = LogFile(str(log))
    assert followed.read_last(1) == ["two"]

    append(log, "three")
    assert followed.read_new() == ["three"]
    append(log, "four", "five")
    cut(log, monkeypatch)
    append(log, "six")
    assert followed.read_new() == ["four", "five", "six"]
    append(log, *1_000 * ["six"])
    assert len(followed.read_new()) == 1_000
    cut(log, monkeypatch)
    assert followed.read_new() == []
    append(log, "seven")
    assert followed.read_new() == ["seven"]


def test_a_line_is_shown_when_it_is_whole(log):
    followed = LogFile(str(log))
    assert followed.read_last(9) == []

    with log.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert followed.read_new() == ["one"]
        file.write("o\n")
    assert followed.read_new() == ["two"]


def test_follow_goes_on_until_ctrl_c(home, log, tmp_path):
    append(log, "one", "two")
    shell = Shell(home, f"{tmp_path}/nobody.sock", tmp_path)
    with shell.start("logs", "-f", "-n", "1") as process:
        try:
            assert process.stdout.readline() == "two\n"
            append(log, "three")
            assert process.stdout.readline() == "three\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_follow_and_json_exclude_each_other(forgectl):
    assert forgectl("logs", "-f", "--json").json["error"]["code"] == "usage"


# --- the journal ---------------------------------------------------------------------------------------


@pytest.fixture
def journal(systemd: StandIns) -> StandIns:
    """A systemd that listens at our address, and a journalctl."""
    systemd.answer("forged.service", "LoadState=loaded\nActiveState=inactive\n")
    systemd.add("journalctl")
    systemd.answer("journalctl", "Nov 23 forged[7]: serving\nNov 23 forged[7]: \x1b[2Jstopping\n")
    return systemd


def test_where_systemd_starts_the_daemon_its_journal_is_shown(forgectl, journal, log):
    append(log, "of a daemon that ran by itself once")

    shown = forgectl("logs", "-n", "7", programs=journal.programs)

    assert shown.out == "Nov 23 forged[7]: serving\nNov 23 forged[7]: ^[[2Jstopping\n"
    assert journal.received("journalctl") == ["--user-unit=forged.service --lines=7 --no-pager --quiet"]
    forgectl("logs", "-f", programs=journal.programs)
    assert journal.received("journalctl")[1].endswith(" --follow")


def test_a_journal_that_cannot_be_read_is_no_empty_log(forgectl, journal):
    journal.answer("journalctl-code", "1")

    done = forgectl("logs", programs=journal.programs)

    assert done.code == 69
    assert "journalctl ended with exit code 1" in done.err


_WITH_PROGRAMS = """
import os, sys
import msgspec
from forged.cli import call, commands
given = msgspec.structs.replace(call.of_process("/", os.environ), programs={programs!r})
sys.exit(commands.run(["logs", "-f"], given))
"""


def test_following_the_journal_leaves_no_process_behind(journal):
    """Ctrl-C for forgectl alone, as a script may send it: its journalctl ends too."""
    pid = journal.folder / "pid"
    journal.add("journalctl", f"#!/bin/sh\necho $$ > {pid}\necho begun\nexec sleep 300\n")
    command = [sys.executable, "-c", _WITH_PROGRAMS.format(programs=journal.programs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            wait_for_end(int(pid.read_text()))
        finally:
            process.kill()
