"""The hook as a harness's process: its requests and output, and no failure for the harness."""

from __future__ import annotations

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
from hypothesis import assume, given
from hypothesis import strategies as st

from forged.agent_table import agent_rows
from forged_client import hook, hook_slow_path, protocol
from forged_client.address import socket_path
from forged_client.envelope import identity_of
from forged_client.framing import decode_request, encode
from forged_client.version import __version__
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import (
    answering,
    listener_of_another_user,
    needs_two_users,
    stopped_server,
)

COMMAND = (sys.executable, "-I", "-S", hook.__file__)
PAYLOAD = b'{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"hi"}'
OUTPUT = b'{"hookSpecificOutput":{"additionalContext":"caf\xc3\xa9"}}'


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **more}


def run(env: dict[str, str], *arguments: str, payload: bytes = PAYLOAD, **options: object):
    return subprocess.run(
        [*COMMAND, *(arguments or ("claude",))],
        **{"input": payload, "stdout": subprocess.PIPE, **options},
        stderr=subprocess.PIPE,
        env=env,
        timeout=PATIENCE_S,
    )


def is_silent(done: subprocess.CompletedProcess) -> bool:
    return (done.returncode, done.stdout or b"", done.stderr) == (0, b"", b"")


def hooked(output: bytes = OUTPUT):
    return answering(lambda request: protocol.Hooked(output=output))


@pytest.fixture
def env(home, socket_file) -> dict[str, str]:
    return environment(home, FORGED_SOCKET=socket_file)


# --- what it says and hears -----------------------------------------------------------------------------


def test_the_payload_is_sent_as_it_came_behind_a_greeting(serve, env):
    peer = serve(hooked())
    run(env, "gemini", payload=b"\xff not even text \x00")
    hello, asked = peer.requests

    assert (type(hello), hello.version, hello.protocol_min) == (protocol.Hello, __version__, 1)
    assert (asked.harness, asked.payload, asked.version) == (
        "gemini",
        b"\xff not even text \x00",
        __version__,
    )
    assert 1_000 < asked.within_ms < hook.DEADLINE_S * 1000


SIGNS = [(name, sign) for name, row in agent_rows().items() for sign in row.headless]
# As an agent runs a hook: a shell, and beneath it the hook, which may leave the shell's place to itself.
HARNESS = "import subprocess, sys; subprocess.run(['/bin/sh', '-c', sys.argv[1]], input=b'{}', check=True)"


def run_by_harness(env: dict[str, str], line: str, *words: str) -> None:
    """Run a hook's line as a harness that was called with these words does."""
    subprocess.run([sys.executable, "-c", HARNESS, line, *words], env=env, timeout=PATIENCE_S, check=True)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self"), reason="the words of another process are read from /proc"
)
@pytest.mark.parametrize(("name", "sign"), SIGNS)
@pytest.mark.parametrize("end", ["", " 2>/dev/null || true"])
def test_the_signs_of_each_agent_tell_a_run_of_a_script(serve, env, name, sign, end):
    peer = serve(hooked())
    signs = [f"--headless={each}" for each in agent_rows()[name].headless]
    line = shlex.join([*COMMAND, name, *signs]) + end
    variable, is_variable, value = sign.partition("=")
    given = {variable: value} if is_variable else {}
    asked_for = "Remember that we run `make ship -p exec`."

    run_by_harness({**env, **given}, line, *([] if is_variable else [sign]), asked_for)
    run_by_harness({**env, **dict.fromkeys(given, "cli")}, line, "--model", "m", asked_for)

    found = [each for each in peer.requests if isinstance(each, protocol.Hook)]
    assert [(each.harness, each.headless) for each in found] == [(name, True), (name, False)]


@pytest.mark.parametrize("proc", ["nowhere", "empty", "loops"])
def test_what_cannot_be_read_of_the_harness_is_no_sign(tmp_path, proc):
    folder = tmp_path / "proc"
    if proc != "nowhere":
        (of_parent := folder / str(os.getppid())).mkdir(parents=True)
        (of_parent / "cmdline").write_bytes(b"" if proc == "empty" else b"sh\0-c\0exec\0")
        (of_parent / "stat").write_text(f"1 (a) b) S {os.getppid()} 0")

    assert not hook.is_headless([b"exec"], os.fsencode(folder))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, hook.SENT])
@pytest.mark.parametrize("within_ms", [1, 2_300, 65_000])
def test_the_request_that_is_put_together_by_hand_is_the_protocols(size, within_ms):
    headless = size % 2 == 0
    body = hook.encode_request(b"claude", b"x" * size, within_ms, headless=headless)

    assert decode_request(body) == protocol.Hook(
        id=2,
        harness="claude",
        payload=b"x" * size,
        within_ms=within_ms,
        version=__version__,
        headless=headless,
    )
    assert decode_request(hook.encode_request(b"claude", b"{}", 1)).seen == {}
    assert decode_request(hook.HELLO) == protocol.Hello(
        id=1,
        client="forged-hook",
        version=__version__,
        protocol_min=protocol.PROTOCOL_VERSION,
        protocol_max=protocol.PROTOCOL_VERSION,
    )
    assert len(body) <= protocol.Hook.limit_bytes


FORMS = [{}, {"separators": (",", ":")}, {"separators": (", ", ":" + " " * 20)}, {"indent": 30}]
_NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1, max_size=40)


@given(
    name=_NAMES,
    ascii_only=st.booleans(),
    form=st.sampled_from(FORMS),
    is_there=st.booleans(),
    nested=st.booleans(),
)
def test_it_says_which_folders_and_files_the_paths_of_a_payload_are(
    tmp_path_factory, name, *, ascii_only, form, is_there, nested
):
    top = tmp_path_factory.mktemp("top")
    try:
        (top / name).mkdir()
    except OSError:  # `.`, `..`, or longer than a name may be
        assume(False)
    folder = top / name / "x"
    if is_there:
        folder.mkdir()
        (folder / "t.jsonl").touch()
    fields = {
        "prompt": f'"cwd": "/etc", {name}',
        **({"tool_input": [{"cwd": f"/{number}"} for number in range(20)]} if nested else {}),
        "cwd": str(folder),
        "transcript_path": f"{folder}/t.jsonl",
        "workspace_roots": [str(top)],
    }
    payload = json.dumps(fields, ensure_ascii=ascii_only, **form).encode()

    asked = decode_request(hook.encode_request(b"claude", payload, 1))

    wanted = {str(folder): identity_of(str(folder)), str(top): identity_of(str(top))}
    if is_there:
        wanted[f"{folder}/t.jsonl"] = identity_of(f"{folder}/t.jsonl")
    assert asked.seen == wanted
    assert asked.payload == payload


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b'"cwd"', b'"cwd":', b'"cwd":"', b'"cwd":3', b'"cwd":"relative"', b'"cwd":"/a'),
        b'"cwd":{"x":"/a"}',
        b'"cwd":"/' + b"x" * 9000 + b'"',
        b'"cwd":"\\ud800/"',
        b'"cwd":"/\\u0000"',
        b'"cwd":"\\',
    ],
)
def test_a_payload_that_names_no_path_is_sent_as_it_is(payload):
    asked = decode_request(hook.encode_request(b"claude", payload, 1))
    assert (asked.seen, asked.payload) == ({}, payload)


# --- where the daemon is -------------------------------------------------------------------------------


@pytest.mark.parametrize("socket", ["", "/run/own.sock"])
@pytest.mark.parametrize("runtime", ["", "private", "open", "linked", "gone", "relative", "a file"])
@pytest.mark.parametrize("user", ["private", "gone"])
@pytest.mark.parametrize("state", ["", "/elsewhere/state/", "relative"])
def test_it_looks_where_every_client_looks(tmp_path, socket, runtime, user, state):
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "linked").symlink_to(tmp_path / "private")
    (tmp_path / "a file").write_text("")
    users = tmp_path / "users"
    if user == "private":
        (users / str(os.geteuid())).mkdir(parents=True)
        (users / str(os.geteuid())).chmod(0o700)
    given = {
        "HOME": "/home/person/",
        "FORGED_SOCKET": socket,
        "XDG_RUNTIME_DIR": runtime if runtime in {"", "relative"} else f"{tmp_path / runtime}/",
        "XDG_STATE_HOME": state,
    }
    env = {name: value for name, value in given.items() if value}
    found = hook.address({os.fsencode(name): os.fsencode(value) for name, value in env.items()}, bytes(users))

    assert os.fsdecode(found) == socket_path(env, run_user=str(users))


# --- nothing goes wrong --------------------------------------------------------------------------------


def test_without_a_daemon_and_any_to_start_it_is_silent(env):
    assert is_silent(run(env))


def test_a_daemon_that_is_stopped_costs_the_deadline_and_nothing_else(env, socket_file):
    with stopped_server(socket_file, 64):
        assert is_silent(run(env))


def slow(connection):
    connection.greet()
    connection.next_request()
    connection.sock.recv(1)


def drip(connection):
    connection.greet()
    connection.next_request()
    for byte in encode(protocol.Hooked(id=2, output=OUTPUT)):
        connection.sock.sendall(bytes((byte,)))
        time.sleep(0.2)


def hangs_up(connection):
    connection.next_request()


def raw(data: bytes):
    def script(connection):
        connection.next_request()
        connection.sock.sendall(data)
        connection.wait_for_hang_up()

    return script


_WELCOME = encode(protocol.Welcome(id=1))
GARBAGE = {
    "noise": b"\x00\x00\x00\x05hello" * 50,
    "a huge frame": b"\xff" * 4096,
    "no msgpack": _WELCOME + b"\x00\x00\x00\x04\xc1\xc1\xc1\xc1",
    "another reply": _WELCOME + encode(protocol.Pong(id=2)),
    "a refusal": encode(protocol.Failed(id=1, status="error", code="busy")) * 2,
    "an endless text": _WELCOME + b"\x00\x00\x00\x06\x85\xdb\xff\xff\xff\xff",
    "an empty frame": _WELCOME + b"\x00\x00\x00\x00",
    "http": b"HTTP/1.1 200 OK\r\n\r\n{}",
}


@pytest.mark.parametrize("script", [slow, drip, hangs_up], ids=lambda script: script.__name__)
def test_a_daemon_that_does_not_answer_in_time_or_at_all_is_none(serve, env, script):
    serve(script)

    assert is_silent(run(env))


@pytest.mark.parametrize("name", GARBAGE)
def test_a_daemon_that_answers_garbage_is_none(serve, env, name):
    serve(raw(GARBAGE[name]))

    assert is_silent(run(env))


@needs_two_users
@pytest.mark.parametrize("name", ["s", "long-" * 30])
def test_a_conversation_is_never_sent_to_a_listener_of_another_user(env, folder, name):
    """Also where the path is too long for an address, and another module connects."""
    (folder / name).mkdir()
    path = str(folder / name / "forged.sock")
    with listener_of_another_user(path) as received:
        done = run({**env, "FORGED_SOCKET": path})

        assert received() == b""
    assert is_silent(done)


@pytest.mark.parametrize(
    "arguments", [(), ("",), ("claude", "more"), ("--help",), ("x" * 5_000,), ("\udcff",), ("emacs",)]
)
def test_wrong_arguments_are_no_error_of_the_agent(serve, env, arguments):
    serve(answering(lambda request: protocol.Failed(status="error", code="invalid")))
    done = subprocess.run(
        [*COMMAND, *arguments], input=PAYLOAD, capture_output=True, env=env, timeout=PATIENCE_S, check=False
    )

    assert is_silent(done)


def test_with_bypass_nothing_is_even_sent(serve, env):
    peer = serve(hooked())
    for value in ("1", " Yes "):
        assert is_silent(run({**env, "FORGED_BYPASS": value}))

    assert peer.requests == []
    assert run({**env, "FORGED_BYPASS": "0"}).stdout == OUTPUT


def test_closed_streams_are_no_error(serve, env):
    peer = serve(hooked())
    for closed in ("<&-", ">&-", "<&- >&- 2>&-", "> /dev/full"):
        command = " ".join(f"'{part}'" for part in (*COMMAND, "claude"))
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} {closed}"],
            input=PAYLOAD,
            capture_output=True,
            env=env,
            timeout=PATIENCE_S,
        )
        assert is_silent(done), closed

    assert all(type(request) in (protocol.Hello, protocol.Hook) for request in peer.requests)


def test_a_harness_that_reads_nothing_or_never_ends_its_payload_costs_the_deadline(serve, env):
    serve(hooked(b"x" * 1_000_000))
    to_harness, from_hook = os.pipe()
    never_written, stdin = os.pipe()
    try:
        assert run(env, stdout=from_hook).returncode == 0
        assert is_silent(run(env, input=None, stdin=never_written))
    finally:
        for descriptor in (to_harness, from_hook, never_written, stdin):
            os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_silence(env, socket_file, number):
    with stopped_server(socket_file, 64):
        process = subprocess.Popen(
            [*COMMAND, "claude"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        process.stdin.write(PAYLOAD)
        process.stdin.flush()
        eventually(lambda: _handles(process))
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out, err) == (0, b"", b"")


def _handles(process: subprocess.Popen) -> bool:
    """Return True if the process has its handlers: bit 13 of its caught signals is SIGALRM's."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) & 1 << (signal.SIGALRM - 1))
    return False


def test_it_needs_nothing_but_the_interpreter(serve, env):
    """A module that is no part of it would cost milliseconds at each prompt."""
    reported = "posix._exit = lambda code: print(*sorted(sys.modules), file=sys.stderr)"
    as_program = f"exec(open({hook.__file__!r}).read(), {{'__name__': '__main__'}})"
    serve(hooked())
    isolated = [sys.executable, "-I", "-S", "-c"]
    done = subprocess.run(
        [*isolated, f"import posix, sys; {reported}; {as_program}", "claude"],
        input=PAYLOAD,
        capture_output=True,
        env=env,
        timeout=PATIENCE_S,
    )
    bare = subprocess.run(
        [*isolated, "import sys; print(*sys.modules)"], capture_output=True, timeout=PATIENCE_S
    )

    assert done.stdout == OUTPUT
    assert b"_socket" in done.stderr.split()
    assert set(done.stderr.split()) - set(bare.stdout.split()) <= {b"_socket", b"_signal"}


# --- a payload that is too large -----------------------------------------------------------------------


def test_of_a_payload_that_is_too_large_the_long_texts_end_early(serve, env):
    peer = serve(hooked())
    said = "Always deploy on Fridays. " + "pasted " * 400_000
    payload = {
        "hook_event_name": "Stop",
        "session_id": "s",
        "last_assistant_message": "Noted.",
        "prompt": said,
    }
    assert run(env, payload=json.dumps(payload).encode()).stdout == OUTPUT

    sent = json.loads(peer.requests_of(protocol.Hook)[0].payload)
    assert (sent["session_id"], sent["last_assistant_message"]) == ("s", "Noted.")
    assert said.startswith(sent["prompt"])
    assert len(sent["prompt"]) > 100_000


@pytest.mark.parametrize(
    "texts", [["é" * 3_000_000], ["word " * 500_000] * 40, [["a" * 900_000] * 5], ["x y"] * 250_000]
)
def test_what_is_cut_fits_or_is_left_whole(texts):
    payload = json.dumps(texts).encode()
    cut = hook_slow_path.shortened(payload, hook.SENT)

    assert len(cut) <= hook.SENT or all(len(text) < 10 for text in texts)
    assert type(msgspec.json.decode(cut)) is list


def test_a_cut_goes_through_no_word():
    secret = "sk-" + "s3cr3t" * 1_000
    payload = {"prompt": "word " * 51_000 + secret + " word" * 400_000}
    cut = json.loads(hook_slow_path.shortened(json.dumps(payload).encode(), hook.SENT))

    assert set(cut["prompt"].split()) <= {"word", secret}


def test_more_than_can_be_read_is_not_sent(serve, env):
    peer = serve(hooked())

    assert is_silent(run(env, payload=b" " * (hook.READ + 1)))
    assert peer.requests == []
