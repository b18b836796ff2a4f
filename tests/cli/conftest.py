"""A scripted daemon, and forgectl run against it in this process."""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from forged.cli import commands
from forged.cli.call import Invocation
from tests.cli.stand_ins import StandIns
from tests.support.daemon import FakeDaemon


class Outcome(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        assert self.out.startswith('{"schema_version":1,')
        return msgspec.json.decode(self.out)


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the clock on the wall is the wire's."""
    with monkeypatch.context() as here:
        here.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    with tempfile.TemporaryDirectory(prefix="fgf") as directory:  # short, as socket paths have to be
        daemon = FakeDaemon(f"{directory}/forged.sock")
        monkeypatch.setenv("FORGED_SOCKET", daemon.path)
        yield daemon
        daemon.stop()


@pytest.fixture
def no_daemon(monkeypatch: pytest.MonkeyPatch, home: Path) -> str:
    """An address where nobody listens; without an executable nothing can be started either."""
    path = f"{home}/nobody-listens/forged.sock"
    monkeypatch.setenv("FORGED_SOCKET", path)
    return path


@pytest.fixture
def forgectl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run forgectl as from a shell in /w without a terminal; keywords change its surroundings."""

    def run(*arguments: str, **surroundings: object) -> Outcome:
        call = Invocation(workspace="/w", environ=dict(os.environ), timeout_s=5.0)
        call = msgspec.structs.replace(call, **surroundings)
        try:
            code = commands.run(arguments, call)
        except SystemExit as ended:
            code = ended.code
        streams = capsys.readouterr()
        return Outcome(int(code or 0), streams.out, streams.err)

    return run


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Have the next verbs read this from stdin, through a stream that decodes it by another encoding."""

    def feed(given: str | bytes) -> None:
        data = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="latin-1"))

    return feed


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("forged.integrations.environment.SERVERS", {})
    return folder


@pytest.fixture
def qwen(path: Path) -> Path:
    """An agent that has settings, and none so far."""
    (path / "qwen").write_text("#!/bin/sh\necho 0.15.10\n")
    (path / "qwen").chmod(0o755)
    return path / "qwen"


@pytest.fixture
def systemd(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """Programs of a systemd that answers and runs nothing of ours; our address is the one of the unit."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return StandIns(tmp_path / "systemd", home)
