"""A bridge without a daemon, one with a scripted daemon, and one with a real daemon that tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.agent import Agent, started
from tests.support.daemon import DaemonProcess, FakeDaemon, running


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    with tempfile.TemporaryDirectory(prefix="fgm") as directory:  # short, as socket paths have to be
        daemon = FakeDaemon(f"{directory}/forged.sock")
        monkeypatch.setenv("FORGED_SOCKET", daemon.path)
        yield daemon
        daemon.stop()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Run a bridge whose daemon does not exist, unless a test has made one."""
    with started(tmp_path) as agent:
        yield agent


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


@pytest.fixture
def at_work(shared: DaemonProcess, repo: Path) -> Iterator[Agent]:
    """An agent at work in a repository that its person trusts, with a real daemon."""
    shared.trust(repo)
    with started(repo, shared.env, "claude") as agent:
        yield agent
