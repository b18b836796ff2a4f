"""A program as a chat model: small real ones that play an agent, well and badly."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from forged.capture import WorkerSettings
from forged.config import AGENTS, Config, MemoryConfig, load
from forged.config.values import LlmConfig, Loaded
from forged.counters import EgressRecord
from forged.daemon.models import choose_models
from forged.errors import ConfigError, ProviderError
from forged.models import Completion, EgressGuard, EndpointHealth, Prompt, Purpose
from forged.models.programs.chat import ProgramChat, program_rows
from forged.models.programs.process import ProcessResult
from forged.models.programs.program_replies import completion_of
from forged.program import Program
from tests.data.secrets import ALNUM, Draw
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import is_alive

SECRET = "ghp_" + Draw("a program").of(ALNUM, 36)
SYSTEM, USER = "Answer with JSON.", "We deploy on Fridays."


class Place:
    """A program made of shell lines, what it leaves in `out`, and the folder for its calls."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self.scratch = folder / "state" / "classifier"
        self.path = folder / "bin" / "tool"
        for each in (self.out, self.path.parent):
            each.mkdir()
        self.seen: list[EgressRecord] = []

    def tool(self, *lines: str, row: str = "cmd", arguments: tuple[str, ...] = (), **env: str) -> Program:
        self.path.write_text("\n".join(("#!/bin/sh", f"OUT={self.out}", *lines, "")))
        self.path.chmod(0o755)
        given = {"HOME": str(self.out.parent), "PATH": os.environ["PATH"], **env}
        return Program(f"cli:{row}", row, "small", (str(self.path), *arguments), given)

    def ask(
        self,
        program: Program,
        *,
        within: float = PATIENCE_S,
        user: str = USER,
        tops: tuple[str, ...] = (),
        egress: EgressGuard | None = None,
        health: EndpointHealth | None = None,
    ) -> Completion:
        egress = egress or EgressGuard(record=self.seen.append)
        chat = ProgramChat(program, str(self.scratch), egress=egress, health=health)
        prompt = Prompt(SYSTEM, user, Purpose("capture", tops))
        return asyncio.run(chat.complete(prompt, deadline=time.monotonic() + within))

    def refused(self, program: Program, **how: object) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            self.ask(program, **how)
        return caught.value

    def left(self, name: str) -> str:
        return (self.out / name).read_text()

    @property
    def calls(self) -> list[str]:
        return os.listdir(self.scratch) if self.scratch.exists() else []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# --- one call ---


def test_the_prompt_is_its_input_and_what_it_prints_the_reply(place):
    done = place.ask(place.tool("cat > $OUT/in", "printf '\\033[1;32m[]\\033[0m\\r\\n'"))

    assert (done.text, done.failure) == ("[]", "")
    assert place.left("in") == f"{SYSTEM}\n\n{USER}"
    assert place.seen == [EgressRecord("cli:cmd", "capture", 1, 0, 2, len(SYSTEM) + len(USER))]


def test_it_is_in_an_empty_directory_of_ours_which_is_gone_afterwards(place):
    place.ask(place.tool("pwd > $OUT/pwd", "ls -A . $TMPDIR > $OUT/ls", "touch a $TMPDIR/b", "echo []"))

    work = Path(place.left("pwd").strip())
    assert work.parent.parent == place.scratch
    assert [line for line in place.left("ls").splitlines() if line and not line.endswith(":")] == []
    assert place.calls == []
    assert place.scratch.stat().st_mode & 0o777 == 0o700


def test_of_the_environment_it_sees_what_it_needs_and_leaves_memory_alone(place):
    program = place.tool(
        *("env > $OUT/env", 'echo \'{"is_error":false,"result":"a"}\''),
        row="claude",
        ANTHROPIC_MODEL="m",
        AWS_PROFILE="p",
        OPENAI_API_KEY="theirs",
        LD_PRELOAD="x",
    )
    place.ask(msgspec.structs.replace(program, key="sk-own"))

    seen = dict(line.split("=", 1) for line in place.left("env").splitlines())
    assert (seen["FORGED_BYPASS"], seen["ANTHROPIC_API_KEY"], seen["ANTHROPIC_MODEL"]) == ("1", "sk-own", "m")
    assert {"OPENAI_API_KEY", "LD_PRELOAD"} & seen.keys() == set()
    assert seen["PATH"].startswith(f"{place.path.parent}:")
    assert "sk-own" not in repr(program)


PRINTED = {
    "claude": '{"type":"result","is_error":false,"result":"\\u001b[1m[1]","usage":{"input_tokens":5,'
    '"cache_read_input_tokens":6,"output_tokens":7}}',
    "codex": '{"type":"thread.started"}\n'
    '{"type":"item.completed","item":{"type":"agent_message","text":"[1]"}}\n'
    '{"type":"turn.completed","usage":{"input_tokens":11,"output_tokens":7}}',
    "gemini": '{"response":"[1]","stats":{"models":{"m":{"tokens":{"prompt":11,"candidates":7}}}}}',
    "qwen": "[1]",
    "opencode": '{"type":"text","part":{"text":"[1]"}}\n'
    '{"type":"step_finish","part":{"tokens":{"input":11,"output":7}}}',
}


@pytest.mark.parametrize("row", AGENTS)
def test_each_agent_gets_its_instruction_and_model_and_never_the_conversation(place, row):
    reply = place.out / "reply"
    reply.write_text(f"a notice\n{PRINTED[row]}\n")
    lines = (
        *("cat > $OUT/in", 'printf "%s\\0" "$@" > $OUT/args', "cat ../system.md > $OUT/system"),
        *("env > $OUT/env", f"{'tail -n 1' if row == 'qwen' else 'cat'} {reply}"),
    )
    done = place.ask(place.tool(*lines, row=row, arguments=("--first",)))

    first, *args, _ = place.left("args").split("\0")
    message = f"{args} {place.left('env')}"
    assert (first, done.text, "small" in args) == ("--first", "[1]", True)
    assert (place.left("in"), place.left("system")) == (USER, SYSTEM)
    assert USER not in message
    assert not any(mark in message.replace("{file:", "") for mark in ("{system}", "{model}", "{folder}"))
    assert row == "qwen" or (done.prompt_tokens, done.completion_tokens) == (11, 7)


def test_there_is_a_row_for_every_agent_and_for_a_program_of_ones_own():
    assert program_rows().keys() == {*AGENTS, "cmd"}


def test_secrets_are_cut_before_it_gets_the_text_and_nothing_runs_while_paused(place):
    program = place.tool("cat > $OUT/in", "echo []")
    place.ask(program, user=f"the key is {SECRET}")

    assert place.left("in").endswith("the key is [redacted]")

    async def paused(_: tuple[str, ...]) -> str:
        return "paused here"

    (place.out / "in").unlink()
    egress = EgressGuard()
    egress.configure(paused, lambda _: "", place.seen.append, egress.metrics)
    assert place.refused(program, egress=egress).reason == "held"
    assert (os.listdir(place.out), len(place.seen)) == ([], 1)


# --- failures ---


def test_one_that_does_not_end_is_ended_with_all_that_it_started(place):
    """It takes no TERM, and neither does its child."""
    program = place.tool("trap '' TERM", "sleep 77 &", 'echo "$$ $!" > $OUT/pids', "wait; sleep 77")
    error = place.refused(program, within=1.5)

    assert (error.reason, place.calls) == ("timeout", [])
    eventually(lambda: not any(is_alive(int(pid)) for pid in place.left("pids").split()))
    assert [each.failed for each in place.seen] == [0, 1]


def test_what_it_leaves_running_ends_with_it(place):
    place.ask(place.tool("sleep 77 >/dev/null 2>&1 &", "echo $! > $OUT/pid", "echo []"))

    eventually(lambda: not is_alive(int(place.left("pid"))))


@pytest.mark.parametrize(("end", "reason"), [("echo []", ""), ("sleep 77", "timeout")])
def test_what_it_leaves_in_a_session_of_its_own_is_not_waited_for(place, end, reason):
    """It holds the output in its hands, and no group that is killed has it."""
    (place.out / "hide.py").write_text(
        "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(777)"
    )
    hidden = f"{shlex.quote(sys.executable)} $OUT/hide.py $OUT/pid &"
    program = place.tool(hidden, "until [ -s $OUT/pid ]; do sleep 0.02; done", end)
    try:
        if reason:
            assert place.refused(program, within=2.0).reason == reason
        else:
            assert place.ask(program, within=PATIENCE_S).text == "[]"
        assert place.calls == []
    finally:
        os.kill(int(place.left("pid")), signal.SIGKILL)


def test_it_takes_term_though_its_caller_ignores_it(place):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        error = place.refused(place.tool("kill -TERM $$", "echo survived"))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert (error.reason, str(error)) == ("server", "cli:cmd was ended by SIGTERM")


def test_it_ends_when_its_caller_is_killed_and_its_folder_goes(place):
    """A worker is killed when it takes too long, and can clear nothing away."""
    program = place.tool(
        "trap '' TERM", "echo $$ > $OUT/pid.new; mv $OUT/pid.new $OUT/pid", "sleep 77 & wait; sleep 77"
    )
    caller = (
        "import asyncio, sys, time; import msgspec; from forged.models import EgressGuard, Prompt, Purpose;"
        "from forged.models.programs.chat import ProgramChat; from forged.program import Program;"
        "program, egress = msgspec.json.decode(sys.argv[1], type=Program), EgressGuard();"
        "chat = ProgramChat(program, sys.argv[2], egress=egress);"
        "asyncio.run(chat.complete(Prompt('s', 'u', Purpose('capture')), deadline=time.monotonic() + 60))"
    )
    given = (sys.executable, "-c", caller, msgspec.json.encode(program).decode(), str(place.scratch))
    with subprocess.Popen(given, env={"PYTHONPATH": ":".join(sys.path)}) as process:
        try:
            eventually((place.out / "pid").exists)
        finally:
            process.kill()

    eventually(lambda: not is_alive(int(place.left("pid"))) and not place.calls)


def test_two_at_once_have_a_folder_each_and_one_that_ends_is_not_in_the_others_way(place, monkeypatch):
    """The other call's folder goes while this one looks for what was left behind."""

    def listed_and_gone(folder: str) -> list[os.DirEntry[str]]:
        (other := place.scratch / "call-other").mkdir()
        found = list(scandir(folder))
        other.rmdir()
        return found

    scandir = os.scandir
    monkeypatch.setattr("forged.models.programs.process.os.scandir", listed_and_gone)

    assert place.ask(place.tool("echo []")).text == "[]"


def test_a_call_that_could_not_be_made_ready_leaves_no_folder(place, monkeypatch):
    """A disk that is full."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("forged.models.programs.chat.build_call", full)
    error = place.refused(place.tool("echo []"))

    assert (error.reason, place.calls, place.seen) == ("internal", [], [])
    assert "No space left" in str(error)


def test_one_that_is_gone_says_so_and_nothing_is_counted(place):
    program = place.tool("echo []")
    place.path.unlink()

    assert place.refused(program).reason == "unreachable"
    assert place.seen == []


def test_no_program_of_a_repository_is_run_and_none_that_others_can_change(place):
    """Not by a link either."""
    program = place.tool("echo []")
    link = place.out / "link"
    link.symlink_to(place.path)
    linked = msgspec.structs.replace(program, command=(str(link),))

    assert place.refused(program, tops=(str(place.path.parent),)).reason == "auth"
    assert place.refused(linked, tops=(str(place.path.parent),)).reason == "auth"
    assert place.ask(program, tops=(str(place.out.parent),)).text == "[]", "home is no repository"
    place.path.chmod(0o757)
    assert "others can change" in str(place.refused(program))


@pytest.mark.parametrize(
    ("row", "printed", "complained", "code", "reason"),
    [
        ("claude", '{"is_error":true,"result":"Not logged in · Please run /login"}', "", 1, "auth"),
        ("claude", '{"is_error":true,"result":"API Error: 529","api_error_status":529}', "", 0, "server"),
        ("claude", "", "Claude usage limit reached.", 1, "rate_limited"),
        ("claude", "no JSON at all", "", 0, "server"),
        ("codex", '{"type":"turn.failed","error":{"message":"status: 429 Too"}}', "", 1, "rate_limited"),
        ("codex", '{"type":"turn.failed","error":{"message":"unexpected status 401 Un"}}', "", 0, "auth"),
        ("gemini", "", 'w\n{"error":{"message":"{\\"code\\":500,\\"message\\":\\"x\\"}"}}', 244, "server"),
        ("gemini", '{"response":"a","error":{"message":"INVALID_STREAM"}}', "", 0, "server"),
        ("qwen", "[API Error: 401 invalid api key]", "", 0, "auth"),
        ("qwen", "", "rate limit exceeded", 1, "rate_limited"),
        ("opencode", '{"type":"error","error":{"name":"E","data":{"message":"x 500 y"}}}', "", 0, "server"),
        ("cmd", "", "sh: not found", 127, "unreachable"),
        ("cmd", "half an answer", "", 3, "server"),
        ("cmd", "half an answer", "", -9, "server"),
    ],
)  # fmt: skip
def test_no_failure_passes_for_an_answer(row, printed, complained, code, reason):
    ended = ProcessResult(code, printed.encode(), complained.encode())
    with pytest.raises(ProviderError) as caught:
        completion_of(f"cli:{row}", program_rows()[row].reply, ended, (SYSTEM, USER))

    assert caught.value.reason == reason


def test_too_much_is_no_answer_and_no_error_repeats_what_was_sent(place):
    flood = place.refused(place.tool("head -c 9000000 /dev/zero | tr '\\0' x"))
    echo = place.refused(place.tool("cat >&2", "exit 9"))

    assert (flood.reason, echo.reason) == ("bad_reply", "server")
    assert str(echo) == "cli:cmd: exit code 9"


# --- by configuration ---


def test_a_program_is_the_classifier_by_name_alone_and_nothing_else(tmp_path):
    def named(**keys: str) -> str:
        env = {"HOME": str(tmp_path), **{f"FORGED_{key}": value for key, value in keys.items()}}
        return load(env).config.classifier

    assert named(MEMORY__CLASSIFIER_MODEL="cli:claude/opus") == "cli:claude/opus"
    assert named(LLM__MODEL="cmd:mine") == "cmd:mine"
    assert named(LLM__COMMAND="/usr/bin/claude") == "builtin:rules", "never by itself"
    for key, value, message in (
        ("MEMORY__CLASSIFIER_MODEL", "cli:vim", "claude, codex"),
        ("MEMORY__CLASSIFIER_MODEL", "cli:qwen", "cli:qwen/MODEL"),
        ("MEMORY__RETRIEVAL_MODEL", "cli:claude", "used as classifier only"),
        ("MEMORY__EMBEDDING_MODEL", "cmd:mine", "used as classifier only"),
        ("LLM__COMMAND", "claude", "an absolute path"),
        ("LLM__COMMAND", "/usr/../claude", "an absolute path"),
    ):
        with pytest.raises(ConfigError, match=message):
            named(**{key: value})


def test_the_worker_is_given_the_program_without_our_own_variables(home):
    env = {"HOME": str(home), "FORGED_LLM__API_KEY": "sk-ours", "THEIRS": "sk-own"}

    def chosen(**llm: str) -> tuple[WorkerSettings, str]:
        config = Config(memory=MemoryConfig(classifier_model="cli:claude/opus"), llm=LlmConfig(**llm))
        models = choose_models(Loaded(config, (), ()), env)
        return models.worker, models.no_classifier

    made, why = chosen(command="/usr/bin/claude -x 'a b'", api_key="env:THEIRS")
    given = {"HOME": str(home), "THEIRS": "sk-own"}
    command = ("/usr/bin/claude", "-x", "a b")
    assert (made.program, why) == (Program("cli:claude", "claude", "opus", command, given, "sk-own"), "")
    assert made.scratch.startswith(str(home))
    assert "llm.command is not set" in chosen()[1]
    assert "sk-own" not in repr(made)
    assert json.dumps(repr(made)) == "\"WorkerSettings(classifier='cli:claude/opus')\""
