"""A daemon of a scratch directory ends with the program that started it, at any time."""

from __future__ import annotations

import signal
import subprocess

import pytest

from forged.cli.demo import stage
from tests.support.daemon import is_alive


@pytest.fixture
def ends_by_sigterm():
    """SIGTERM ends this program as it ends forgectl: by an exception wherever it stands."""

    def end(number, _frame):
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    yield end
    signal.signal(signal.SIGTERM, before)


def test_a_daemon_ends_though_its_program_is_asked_to_end_while_it_begins(
    tmp_path, monkeypatch, ends_by_sigterm
):
    begun = []

    class Begun(subprocess.Popen):
        """A process that exists already, and is in nobody's hands yet, as the signal comes."""

        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            begun.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(stage.subprocess, "Popen", Begun)
    env = {"HOME": str(tmp_path), "FORGED_SOCKET": f"{tmp_path}/forged.sock"}

    with pytest.raises(SystemExit) as ended, stage.run_daemon(env, tmp_path / "log"):
        pass

    assert ended.value.code == 128 + signal.SIGTERM
    assert not is_alive(begun[0].pid)
    assert signal.getsignal(signal.SIGTERM) is ends_by_sigterm
