"""Where the real agents are, and that none of them can reach a real home or a network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def agents() -> Path:
    """The folder of their programs, as `make test-agents` installs them."""
    folder = Path(os.environ.get("FORGED_AGENTS", "build/agents")).resolve() / "node_modules" / ".bin"
    if not folder.is_dir():
        pytest.fail(f"there are no agents in {folder}: run `make test-agents`")
    return folder
