import contextlib
import io
import os
import signal
import subprocess
import sys

import pytest

from forged.cli import commands
from forged.cli.call import Invocation, of_process
from forged.cli.exits import EXPLAINED
from forged_client import protocol
from tests.cli import reports
from tests.support.clock import PATIENCE_S

WHOLE_RUN = "from forged.cli import main; main()"


class Stream(io.StringIO):
    def __init__(self, tty):
        super().__init__()
        self._tty = tty

    def isatty(self):
        return self._tty


@contextlib.contextmanager
def start(*arguments):
    path = os.pathsep.join(p for p in sys.path if p)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", WHOLE_RUN, *arguments]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_help_names_every_verb_and_every_exit_code_and_every_verb_has_its_own(forgectl):
    out = forgectl("--help").out

    assert all(f"\n  {verb} " in out for verb in commands.VERBS)
    assert all(f"  {code:<4} {meaning}" in out for code, meaning in EXPLAINED)
    for verb in commands.VERBS:
        shown = forgectl(verb, "--help")
        assert shown.code == 0
        assert shown.out.startswith(f"Usage: forgectl {verb} ")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("serch", "there is no verb 'serch'; did you mean 'search'?"),
        ("nonsense", "there is no verb 'nonsense'\n"),
        ("search", "QUERY"),
        ("search x --timeout nan", "--timeout"),
        ("search x --limit 101", "--limit"),
        ("list --limit 0", "--limit"),
        ("show", "ID"),
    ],
)
def test_wrong_usage_is_exit_code_2_on_stderr(forgectl, arguments, reported):
    shown = forgectl(*arguments.split())

    assert (shown.code, shown.out) == (2, "")
    assert reported in shown.err


@pytest.mark.parametrize("arguments", ["forget mem_2", "undo", "dead drop --all"])
def test_what_erases_asks_first_and_where_no_one_can_answer_needs_yes(daemon, forgectl, arguments):
    shown = forgectl(*arguments.split())

    assert (shown.code, shown.out) == (2, "")
    assert "asks first; where nobody can answer it needs --yes" in shown.err
    assert daemon.requests == []


def test_a_daemon_that_does_not_know_a_verb_is_older_and_what_replaces_it_is_said(daemon, forgectl):
    unknown = protocol.Failed(status="error", code="unknown_verb", message="this daemon does not know 'x'")
    daemon.answers |= dict.fromkeys((protocol.ListPast, protocol.Undo), unknown)

    for arguments in ("learn --dry-run", "undo --yes"):
        shown = forgectl(*arguments.split())
        assert (shown.code, shown.out) == (69, "")
        assert "this daemon does not know 'x': it is of an older forged, `forgectl restart`" in shown.err


def test_a_verb_starts_the_daemon_that_belongs_to_this_forgectl(no_daemon, forgectl, tmp_path):
    started = tmp_path / "started"
    script = tmp_path / "forged"
    script.write_text(f'#!/bin/sh\necho "$1" > {started}\nexit 1\n')
    script.chmod(0o700)

    shown = forgectl("search", "x", executable=str(script))

    assert shown.code == 69
    assert started.read_text() == "serve\n"


@pytest.mark.parametrize(
    ("environ", "tty", "colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colour_follows_the_conventions(environ, tty, colour):
    assert Invocation(workspace="/w", environ=environ).colour(Stream(tty)) is colour


def test_the_daemon_is_the_script_next_to_the_interpreter(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    assert of_process("/w", {}).executable is None
    (tmp_path / "forged").touch()
    assert of_process("/w", {}).executable == str(tmp_path / "forged")
    assert of_process("/w", {"FORGED_EXECUTABLE": "/opt/forged"}).executable == str(tmp_path / "forged")


def test_a_reader_that_leaves_early_ends_the_command_quietly(daemon):
    many = tuple(reports.record(f"mem_{i:04}") for i in range(5000))
    daemon.answers[protocol.ListMemories] = protocol.Memories(memories=many, total=5000)

    with start("list", "--limit", "1000") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("request_", "arguments", "first", "last"),
    [
        (protocol.Rebuild, ("rebuild", "--wait"), "embedding 1/2\n", "detached"),
        (protocol.Search, ("search", "x"), "", ""),
    ],
)
def test_ctrl_c_is_exit_code_130_without_a_traceback(daemon, request_, arguments, *, first, last):
    daemon.answers[request_] = lambda _: daemon.stop_answering()
    daemon.answers[protocol.Events] = protocol.Progress(
        event="embedding", root="/w", done=1, total=2
    )  # and more might come

    with start(*arguments) as process:
        assert daemon.waits.wait(PATIENCE_S)
        assert not first or process.stderr.readline() == first
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        said = process.stderr.read()

    assert last in said
    assert "Traceback" not in said


def test_nothing_but_the_entry_imports_click_early():
    code = "import sys, forged.cli.fast, forged.cli.plain_verbs; sys.exit('click' in sys.modules)"
    path = os.pathsep.join(p for p in sys.path if p)

    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}).returncode == 0
    )
