"""What one call of forgectl knows about its surroundings.

Read once at the entry (the only place here that may look at the process's directory and environment) and
handed down, so that every verb can be called from a test with surroundings of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

import msgspec


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """`workspace` is absolute; `executable` is what autostart may run; `interactive`: a person can answer.

    `address` None is the address that client and daemon agree on; `timeout_s` covers a whole call.
    """

    workspace: str
    environ: Mapping[str, str]
    executable: str | None = None
    address: str | None = None
    autostart: bool = True
    timeout_s: float = 10.0
    as_json: bool = False
    interactive: bool = False
    watch_period_s: float = 2.0

    def colour(self, stream: TextIO) -> bool:
        """Whether to colour: NO_COLOR, then FORCE_COLOR, then a terminal that is not dumb."""
        if self.environ.get("NO_COLOR"):
            return False
        if self.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
            return True
        return stream.isatty() and self.environ.get("TERM") != "dumb"


def of_process(directory: str, environ: Mapping[str, str]) -> Invocation:
    """The invocation of this process.

    The daemon that belongs to this forgectl is the script beside the interpreter. Where there is none the
    client decides (FORGED_EXECUTABLE, which beats the script too, or the daemon that last ran).
    """
    beside = os.path.join(os.path.dirname(sys.executable), "forged")
    known = not environ.get("FORGED_EXECUTABLE") and os.path.exists(beside)
    return Invocation(
        workspace=directory,
        environ=environ,
        executable=beside if known else None,
        interactive=sys.stdin is not None and sys.stdin.isatty(),
    )
