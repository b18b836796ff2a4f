"""git without the configuration of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.clock import PATIENCE_S

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@localhost",
}


def git(top: Path | str, *arguments: str, check: bool = True, given: str = "") -> str:
    settings = (
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "advice.detachedHead=0",
    )
    done = subprocess.run(
        ("git", "-C", str(top), *settings, *arguments),
        env=ENVIRONMENT,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert not check or not done.returncode, done.stderr
    return done.stdout.strip()
