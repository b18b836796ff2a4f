"""The part of `forgectl doctor` that looks at what the daemon leaves on this machine: state, log, disk.

It reads only: the sizes and modes of the state's files, the end of the log, and how much room is left where
memories and state are written. The content of the state is the daemon's; what is wrong with it comes with
the daemon's own warnings.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping

from forged.cli.doctor.checks import FAIL, OK, WARN, Check
from forged.cli.log_file import LogFile
from forged.cli.terminal import counted
from forged_client.address import home, state_dir
from forged_client.autostart import LOG_NAME
from forged_client.errors import AddressError

STATE_NAME = "state.db"
LEAST_MB = 200
"""With less room than this a build of a model, a log and a day's events no longer fit beside each other."""

_LINES = 200
_TROUBLE = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL) ")
_LONGEST = 160
_MB = 1 << 20


def machine(environ: Mapping[str, str]) -> Iterator[Check]:
    """The state directory, room on its disk and on that of the memories, and the end of the log."""
    try:
        folder, at_home = state_dir(environ), home(environ)
    except AddressError:
        return  # `checks.address` has said so
    yield state(folder)
    yield from disk(folder, at_home)
    yield log(os.path.join(folder, LOG_NAME))


def state(folder: str) -> Check:
    """Whether the daemon can keep what must outlive it, and whether it is ours alone."""
    path, there = os.path.join(folder, STATE_NAME), _nearest(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {there}, or set XDG_STATE_HOME to a folder of yours that can be written"
        return Check("state", FAIL, f"{there} cannot be written, so nothing is kept", fix)
    try:
        found = os.lstat(path)
    except OSError:
        return Check("state", OK, f"{path} is made when the daemon starts")
    if not stat.S_ISREG(found.st_mode):
        return Check("state", FAIL, f"{path} is no file", "move it away, then `forgectl restart`")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        return Check("state", WARN, f"{path} is open to others ({mode})", f"chmod go-rwx {path}")
    return Check("state", OK, f"{path}, {found.st_size / _MB:,.1f} MB")


def disk(*folders: str) -> Iterator[Check]:
    """How much room is left, once for each disk."""
    seen = set()
    for folder in folders:
        there = _nearest(folder)
        try:
            room, device = os.statvfs(there), os.stat(there).st_dev
        except OSError as error:
            yield Check("disk", WARN, f"{there}: {error.strerror}", "make it a directory that you can read")
            continue
        if device in seen:
            continue
        seen.add(device)
        free = room.f_bavail * room.f_frsize // _MB
        detail = f"{free:,} MB left at {there}"
        if free >= LEAST_MB:
            yield Check("disk", OK, detail)
        else:
            yield Check("disk", WARN, detail, f"make room: below {LEAST_MB} MB writes begin to fail")


def log(path: str) -> Check:
    """How many of the last lines tell of trouble, and the newest of them."""
    try:
        lines = LogFile(path).last(_LINES)
    except OSError as error:
        return Check("log", WARN, f"{path}: {error.strerror}", f"chmod u+rw {path}")
    troubles = [line for line in lines if _TROUBLE.match(line)]
    if not troubles:
        told = f"nothing wrong in its last {counted(len(lines), 'line')}" if lines else "nothing in it yet"
        return Check("log", OK, f"{path}: {told}")
    newest = troubles[-1] if len(troubles[-1]) <= _LONGEST else f"{troubles[-1][:_LONGEST]}..."
    count = counted(len(troubles), "warning")
    detail = f"{path}: {count} in its last {counted(len(lines), 'line')}, the newest: {newest}"
    return Check("log", WARN, detail, "`forgectl logs` shows them; what has passed needs nothing")


def _nearest(folder: str) -> str:
    """The folder itself, or the one that it would be made in."""
    while not os.path.lexists(folder) and folder != "/":
        folder = os.path.dirname(folder)
    return folder
