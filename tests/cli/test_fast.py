import os
import subprocess
import sys

import msgspec
import pytest

from forged import __version__
from forged.build_id import build_id
from forged.cli import fast
from forged_client.protocol import Hello, Ping, Pong, Retrieve, Retrieved, Status, Welcome
from tests.cli import reports
from tests.support.clock import PATIENCE_S

WHOLE_RUN = "from forged.cli import main; main()"
WITHOUT_CLICK = f"import sys; sys.modules['click'] = None; {WHOLE_RUN}"


def run(code, *arguments, directory):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def served(daemon):
    daemon.answers[Status] = reports.status()
    daemon.answers[Retrieve] = Retrieved(text="<memory>\nwrap errors\n</memory>\n", included=1)
    return daemon


@pytest.mark.parametrize(
    "arguments",
    ["ping", "ping --json", "status", "status --json", "retrieve hi", "retrieve --json hi"],
)
def test_the_fast_path_says_what_click_says_and_without_it(served, tmp_path, arguments):
    fast_run = run(WITHOUT_CLICK, *arguments.split(), directory=tmp_path)
    # An option that the fast path does not know sends the same call through click.
    click_run = run(WHOLE_RUN, *arguments.split(), "--timeout", "5", directory=tmp_path)

    assert fast_run == click_run
    assert fast_run[0] == 0
    assert fast_run[1]


def test_anything_but_a_plain_form_is_left_to_click():
    assert fast.parse([]) is None
    assert fast.parse(["retrieve", ""]) is None
    for arguments in (
        *("--help", "search x", "ping x", "ping --help", "status --watch", "status --jso", "--json ping"),
        *("retrieve", "retrieve -", "retrieve a b", "retrieve -- a"),
    ):
        assert fast.parse(arguments.split()) is None


def test_the_constant_frames_are_those_of_the_protocol():
    hello = msgspec.msgpack.decode(fast.HELLO, type=Hello)

    assert (hello.id, hello.client) == (1, "forgectl")
    assert (
        hello.protocol_max == msgspec.msgpack.decode(msgspec.msgpack.encode(Welcome()), type=Welcome).protocol
    )
    assert msgspec.msgpack.decode(fast.PING, type=Ping) == Ping(id=2)
    assert msgspec.msgpack.encode(Pong(id=2)) == fast.PONG
    assert fast.PROTOCOL in msgspec.msgpack.encode(Welcome())


@pytest.mark.parametrize(
    ("asked", "answer", "code", "reported"),
    [
        (Hello, Welcome(protocol=2), 69, "version 2"),
        (Ping, Pong(status="not_ready", reason="starting"), 75, "starting"),
    ],
    ids=["another protocol", "a pong that says otherwise"],
)
def test_what_is_no_plain_pong_goes_the_long_way(daemon, tmp_path, asked, answer, *, code, reported):
    daemon.answers[asked] = answer

    ended, out, err = run(WHOLE_RUN, "ping", directory=tmp_path)

    assert (ended, out) == (code, "")
    assert reported in err


@pytest.mark.parametrize(
    ("version", "reported"),
    [("0.0.9", "`forgectl restart` starts this version"), ("9.0", "another installation runs it")],
    ids=["older", "newer"],
)
def test_ping_and_status_say_that_the_daemon_is_of_another_version(daemon, tmp_path, version, reported):
    """As after `pip install --upgrade`, while the old one goes on; no second question is asked for it."""
    daemon.answers[Hello] = Welcome(version=version)
    daemon.answers[Status] = reports.status(version=version)

    pinged = run(WITHOUT_CLICK, "ping", directory=tmp_path)
    looked = run(WITHOUT_CLICK, "status", directory=tmp_path)

    sentence = f"the daemon is forged {version}, this forgectl is {__version__}"
    assert pinged[:2] == (0, "pong\n")
    assert sentence in pinged[2]
    assert reported in pinged[2]
    assert sentence in looked[1]
    assert reported in looked[1]
    assert run(WITHOUT_CLICK, "ping", "--json", directory=tmp_path)[2] == ""


def test_ping_status_and_doctor_tell_two_builds_of_one_version_apart(daemon, tmp_path):
    """As after `make install` from a newer checkout, while the old daemon goes on."""
    daemon.answers[Hello] = Welcome(version=__version__, build="0123456789ab")
    daemon.answers[Status] = reports.status(version=__version__, build="0123456789ab")

    sentence = f"another build of forged {__version__} (0123456789ab) than this forgectl ({build_id()})"
    pinged = run(WITHOUT_CLICK, "ping", directory=tmp_path)
    assert pinged[:2] == (0, "pong\n")
    for reported in (pinged[2], run(WITHOUT_CLICK, "status", directory=tmp_path)[1]):
        assert f"{sentence}; `forgectl restart`" in reported
    assert sentence in run(WHOLE_RUN, "doctor", directory=tmp_path)[1]
