"""Command line `forgectl`: its entry point; each module has the commands of one family.

Imports are late, as a status bar calls `forgectl status` every few seconds. Only the entry point reads the
directory and environment of the process; commands get an `Invocation`.
"""

from __future__ import annotations

import os
import sys

from forged import ensure_utf8


def main() -> None:
    """Run forgectl with the arguments of the process; exit with its code (exits.py), 130 after Ctrl-C."""
    ensure_utf8()
    # A character that the locale cannot print is escaped.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(arguments: list[str]) -> int:
    """Run a command line, frequent ones without importing click; return the exit code."""
    from forged.cli import fast  # noqa: PLC0415 - nothing before it is needed

    directory = _current_directory()
    code = fast.run(arguments, directory, os.environ)
    if code is not None:
        return code
    import signal  # noqa: PLC0415 - it imports enum, which ping does not need

    from forged.cli import call, commands  # noqa: PLC0415 - click only when it is needed

    # As for Ctrl-C, so that a scratch daemon and directory are removed, too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    return commands.run(arguments, call.of_process(directory, os.environ))


def _current_directory() -> str:
    """Return the current directory of the process, or "" if it was removed."""
    try:
        return os.getcwd()
    except OSError:  # it was removed; a command that needs a workspace reports it
        return ""
