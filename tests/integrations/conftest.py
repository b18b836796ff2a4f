"""A machine of a test: a HOME in which everything lies, and agents that are scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forged.integrations import Machine, machine_of


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return the only folder in PATH besides those of the system's shell."""
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(home: Path, repo: Path, programs: Path) -> Machine:
    """Return the machine of a person in a repository."""
    return machine_of({"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin"}, str(repo))


@pytest.fixture
def stand_in(programs: Path) -> Callable[..., Path]:
    """An agent's command that does what a script says; only for what the real ones do not do when asked."""

    def lay(name: str, script: str = "exit 0", folder: Path = programs) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return lay
