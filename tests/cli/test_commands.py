import io
import os
import signal
import subprocess
import sys

import pytest

from forged.cli import commands
from forged.cli.call import Invocation, of_process
from forged.cli.exits import EXPLAINED
from forged_client.protocol import ListMemories, Memories, Pong, Rebuild, Search, Status
from tests.cli import reports

WHOLE_RUN = "from forged.cli import main; main()"


class Stream(io.StringIO):
    def __init__(self, tty):
        super().__init__()
        self._tty = tty

    def isatty(self):
        return self._tty


def start(*arguments, **options):
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [sys.executable, "-c", WHOLE_RUN, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("verb", sorted(set(commands.VERBS)))
def test_every_verb_has_help_and_its_own_name(forgectl, verb):
    shown = forgectl(verb, "--help")

    assert shown.code == 0
    assert shown.out.startswith(f"Usage: forgectl {verb} ")


def test_help_names_every_verb_and_every_exit_code(forgectl):
    out = forgectl("--help").out

    assert all(f"\n  {verb} " in out for verb in commands.VERBS)
    assert all(f"  {code:<4} {meaning}" in out for code, meaning in EXPLAINED)


@pytest.mark.parametrize(
    "arguments", [["serch"], ["search"], ["list", "--limit", "0"], ["show"]], ids=" ".join
)
def test_wrong_usage_is_exit_code_2_on_stderr(forgectl, arguments):
    shown = forgectl(*arguments)

    assert (shown.code, shown.out) == (2, "")
    assert "Error:" in shown.err


def test_a_mistyped_verb_is_answered_with_the_nearest_one(forgectl):
    assert "there is no verb 'serch'; did you mean 'search'?" in forgectl("serch").err
    assert forgectl("nonsense").err.endswith("there is no verb 'nonsense'\n")


def test_not_a_number_is_no_time_limit(forgectl):
    assert forgectl("search", "x", "--timeout", "nan").code == 2


def test_wrong_usage_under_json_is_an_error_object(forgectl):
    assert forgectl("search", "--json").json["error"]["code"] == "usage"


@pytest.mark.parametrize("before", [True, False], ids=["before the verb", "after it"])
def test_the_workspace_may_stand_before_or_after_the_verb(daemon, forgectl, before):
    daemon.answers[ListMemories] = Memories(status="empty")
    place = ["--workspace", "sub"]

    forgectl(*(place if before else []), "list", *([] if before else place))

    assert daemon.asked(ListMemories).workspace == "/w/sub"


@pytest.mark.parametrize("arguments", [("search", "x"), ("list",), ("ping",), ("remember", "x")], ids=str)
def test_without_a_daemon_and_without_autostart_the_exit_code_is_3(no_daemon, forgectl, arguments):
    shown = forgectl(*arguments, "--no-autostart", "--json")

    assert shown.code == 3
    assert shown.json["error"]["code"] == "not_running"


def test_a_verb_starts_the_daemon_that_belongs_to_this_forgectl(no_daemon, forgectl, tmp_path):
    started = tmp_path / "started"
    script = tmp_path / "forged"
    script.write_text(f'#!/bin/sh\necho "$1" > {started}\nexit 1\n')
    script.chmod(0o700)

    shown = forgectl("search", "x", executable=str(script))

    assert shown.code == 69
    assert started.read_text() == "serve\n"


def test_a_socket_path_that_cannot_be_is_a_matter_of_configuration(forgectl, monkeypatch):
    monkeypatch.setenv("FORGED_SOCKET", "relative")

    assert forgectl("ping").code == 78


def test_a_daemon_that_does_not_answer_in_time_is_worth_another_try(daemon, forgectl):
    daemon.answers[Search] = lambda _: daemon.stop_answering()

    assert forgectl("search", "x", "--timeout", "0.1").code == 75


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


def test_colour_is_added_after_escaping(daemon, forgectl):
    daemon.answers[Status] = reports.status(reason="\x1b[2J")

    out = forgectl("status", environ={"FORCE_COLOR": "1"}).out

    assert out.startswith("\x1b[32mok\x1b[0m: ^[[2J\n")


def test_the_daemon_is_the_script_beside_the_interpreter(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    assert of_process("/w", {}).executable is None
    (tmp_path / "forged").touch()
    assert of_process("/w", {}).executable == str(tmp_path / "forged")
    assert of_process("/w", {"FORGED_EXECUTABLE": "/opt/forged"}).executable is None


def test_a_reader_that_leaves_early_ends_the_command_quietly(daemon):
    many = tuple(reports.record(f"mem_{i:04}") for i in range(5000))
    daemon.answers[ListMemories] = Memories(memories=many, total=5000)

    with start("list", "--limit", "1000") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == ""


def test_ctrl_c_detaches_from_a_rebuild(daemon):
    daemon.answers[Rebuild] = lambda _: daemon.stop_answering()

    with start("rebuild", "--wait") as process:
        assert daemon.waits.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "detached" in process.stderr.read()


def test_ctrl_c_elsewhere_is_exit_code_130_without_a_traceback(daemon):
    daemon.answers[Search] = lambda _: daemon.stop_answering()

    with start("search", "x") as process:
        assert daemon.waits.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "Traceback" not in process.stderr.read()


def test_ctrl_c_ends_watching_as_a_success(daemon):
    daemon.answers[Status] = lambda _: daemon.waits.set() or reports.status()

    with start("status", "--watch") as process:
        assert daemon.waits.wait(20)
        assert process.stdout.readline() == "ok\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_ping_says_pong(daemon, forgectl):
    assert forgectl("ping").out == "pong\n"
    assert forgectl("ping", "--json").json == {"schema_version": 1, "status": Pong().status, "reason": ""}


def test_nothing_but_the_entry_imports_click_early():
    code = "import sys, forged.cli.fast, forged.cli.plain_verbs; sys.exit('click' in sys.modules)"
    path = os.pathsep.join(p for p in sys.path if p)

    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}).returncode == 0
    )
