import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from forged import __version__, cli
from forged.cli import commands
from forged.cli.call import Invocation, of_process
from forged.cli.exits import EXPLAINED, NOT_WRITTEN, UNAVAILABLE, Stop
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


def pages(command=commands.forgectl, context=None):
    """Each command that can be typed, groups included, with a context of its own."""
    context = context or click.Context(command, info_name="forgectl")
    for name in command.list_commands(context):
        found = click.Context(command.get_command(context, name), info_name=name, parent=context)
        yield found
        if isinstance(found.command, click.Group):
            yield from pages(found.command, found)


PAGES = {page.command_path.removeprefix("forgectl "): page for page in pages()}


def test_help_groups_the_commands_and_explains_the_exit_codes(forgectl):
    people, everything = forgectl("--help").out, forgectl("--help", "--all").out

    assert re.findall(r"^([A-Z].*):$", people, re.MULTILINE) == [
        *commands.GROUPS,
        "Options, before or after a command that takes them",
    ]
    assert all(f"\n  {code:<4} {meaning}" in people.replace("\n    ", "\n  ") for code, meaning in EXPLAINED)
    for name, verb in commands.VERBS.items():
        line = rf"^  {name} +{re.escape(verb.about)}$"
        assert bool(re.search(line, people, re.MULTILINE)) is (name not in {*commands.PLUMBING, "help"})
        assert re.search(line, everything, re.MULTILINE) or name == "help"
    assert forgectl("--all").out == forgectl("help", "--all").out == everything
    assert forgectl("help").out == people


def test_each_error_code_has_its_exit_code():
    """69 is that of the two that mean it, and of no word that the table forgot."""
    sources = (path.read_text() for path in Path(cli.__file__).parent.rglob("*.py"))
    words = {word for text in sources for word in re.findall(r'\bStop\(\s*"(\w+)"', text)}

    assert len(words) > 9
    unavailable = {word for word in words if Stop(word, "").exit_code == UNAVAILABLE}
    assert unavailable <= {"unavailable", "storage_error"}
    assert Stop("not_written", "").exit_code == NOT_WRITTEN


@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_one_example_and_no_option_that_all_have(forgectl, name):
    shown = forgectl(*name.split(), "--help")

    assert shown.code == 0
    assert shown.out.startswith(f"Usage: forgectl {name} ")
    (example,) = re.findall(r"^  Example:\n    forgectl (.+)\n", shown.out, re.MULTILINE)
    assert example.startswith(name.split()[0])
    listed = r"^  --(json|timeout|no-autostart|version)( [A-Z]+)?(  |$)"
    assert re.search(listed, shown.out, re.MULTILINE) is None
    assert forgectl("help", *name.split()).out == shown.out


@pytest.mark.parametrize("name", PAGES)
def test_each_example_is_understood(name):
    epilog = PAGES[name].command.epilog
    words = shlex.split(re.search(r"\n  forgectl (.+)\n", epilog)[1].partition(" <")[0])
    context = click.Context(commands.forgectl, info_name="forgectl")
    while isinstance(context.command, click.Group) and words:
        command = context.command.get_command(context, words[0])
        with command.make_context(words.pop(0), words[:], parent=context) as context:
            words = words if isinstance(command, click.Group) else []


@pytest.mark.parametrize("name", ["", *PAGES])
def test_the_version_is_said_everywhere(forgectl, name):
    assert forgectl(*name.split(), "--version").out == f"forgectl, version {__version__}\n"


def test_yes_is_short_everywhere():
    options = [param for page in PAGES.values() for param in page.command.params if "--yes" in param.opts]

    assert len(options) >= 5
    assert [option for option in options if "-y" not in option.opts] == []


@pytest.mark.parametrize("where", ["before", "after"])
def test_shared_options_go_before_or_after_the_command(daemon, forgectl, where):
    daemon.answers[protocol.Search] = protocol.Found(status="empty")
    own, shared = ("search", "x"), ("--json", "--timeout", "3", "--workspace", "sub", "--no-autostart")

    shown = forgectl(*(shared + own if where == "before" else own + shared))

    assert shown.json["memories"] == []
    assert daemon.asked(protocol.Search).workspace == "/w/sub"


def test_integrations_without_a_command_is_its_status(forgectl, home):
    named, short = forgectl("integrations", "status", "--json"), forgectl("integrations", "--json")

    assert (short.code, short.json.keys()) == (named.code, named.json.keys())
    assert forgectl("integrations", "--help").out.startswith("Usage: forgectl integrations [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("serch", "unknown command 'serch'; did you mean 'search'?"),
        ("nonsense", "unknown command 'nonsense'\n"),
        ("help nonsense", "unknown command 'nonsense'\n"),
        ("help pause now", "forgectl pause has no commands of its own"),
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
    assert "needs confirmation; pass --yes when not on a terminal" in shown.err
    assert daemon.requests == []


def test_a_daemon_that_does_not_know_a_verb_is_older_and_what_replaces_it_is_said(daemon, forgectl):
    unknown = protocol.Failed(status="error", code="unknown_verb", message="this daemon does not know 'x'")
    daemon.answers |= dict.fromkeys((protocol.ListPast, protocol.Undo), unknown)

    for arguments in ("learn --dry-run", "undo --yes"):
        shown = forgectl(*arguments.split())
        assert (shown.code, shown.out) == (69, "")
        assert "this daemon does not know 'x': it is an older version; `forgectl restart`" in shown.err


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
    assert Invocation(workspace="/w", environ=environ).is_coloured(Stream(tty)) is colour


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
