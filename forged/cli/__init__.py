"""The command line: one file per family of verbs, and this entry.

Nothing is imported here until it is known to be needed: a status bar calls `forgectl status` every few
seconds. Only this entry looks at the process's directory and environment; verbs get an `Invocation`.
"""

from __future__ import annotations

import os
import sys

from forged import be_utf8


def main() -> None:
    """Run forgectl on the process's arguments; ends the process with one of the codes in exits.py."""
    be_utf8()
    # A name that this locale cannot print is shown in escapes, not answered with a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(arguments: list[str]) -> int:
    from forged.cli import fast  # noqa: PLC0415 - nothing before it is needed

    directory = _current_directory()
    code = fast.run(arguments, directory, os.environ)
    if code is not None:
        return code
    import signal  # noqa: PLC0415 - it brings enum along, and ping does without

    from forged.cli import call, commands  # noqa: PLC0415 - click only when it is needed

    # As Ctrl-C does, so that a daemon and a directory that a verb has made for itself go too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    return commands.run(arguments, call.of_process(directory, os.environ))


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under our feet; a verb that needs a workspace will say so
        return ""
