"""Checks of the daemon's state directory, its log and the free disk space, for `forgectl doctor`.

It reads sizes and modes of the state's files and the end of the log. The daemon itself warns of problems in
the content of the state.
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
"""Least free space: room for a model build, a log and the events of a day."""

_LINES = 200
_TROUBLE = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL) ")
_LONGEST = 160
_MB = 1 << 20


def machine(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield findings on the daemon's state file, disks of state and home, and the daemon's log."""
    try:
        folder, at_home = state_dir(environ), home(environ)
    except AddressError:
        return  # `checks.address` reports it
    yield state(folder)
    yield from disk(folder, at_home)
    yield log(os.path.join(folder, LOG_NAME))


def state(folder: str) -> Check:
    """Return the finding on the daemon's state file: unusable, open to others, absent, or fine."""
    path, there = os.path.join(folder, STATE_NAME), _nearest_existing(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {there}, or set XDG_STATE_HOME to a writable folder of yours"
        return Check("state", FAIL, f"{there} cannot be written, so nothing can be saved", fix)
    try:
        found = os.lstat(path)
    except OSError:
        return Check("state", OK, f"{path} is created when the daemon starts")
    if not stat.S_ISREG(found.st_mode):
        return Check("state", FAIL, f"{path} is not a file", "move it away, then `forgectl restart`")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        return Check("state", WARN, f"{path} is open to others ({mode})", f"chmod go-rwx {path}")
    return Check("state", OK, f"{path}, {found.st_size / _MB:,.1f} MB")


def disk(*folders: str) -> Iterator[Check]:
    """Yield a finding on each disk that has one of these folders; a warning below 200 MB free."""
    seen = set()
    for folder in folders:
        there = _nearest_existing(folder)
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
            yield Check("disk", WARN, detail, f"free some space: below {LEAST_MB} MB writes may fail")


def log(path: str) -> Check:
    """Return the finding on the log's end: number of warnings and errors, with the latest one."""
    try:
        lines = LogFile(path).read_last(_LINES)
    except OSError as error:
        return Check("log", WARN, f"{path}: {error.strerror}", f"chmod u+rw {path}")
    troubles = [line for line in lines if _TROUBLE.match(line)]
    if not troubles:
        found = f"no warning in its last {counted(len(lines), 'line')}" if lines else "empty"
        return Check("log", OK, f"{path}: {found}")
    newest = troubles[-1] if len(troubles[-1]) <= _LONGEST else f"{troubles[-1][:_LONGEST]}..."
    count = counted(len(troubles), "warning")
    detail = f"{path}: {count} in its last {counted(len(lines), 'line')}, the latest: {newest}"
    return Check("log", WARN, detail, "`forgectl logs` shows them; old ones need no action")


def _nearest_existing(folder: str) -> str:
    """Return the path or, if it does not exist, the nearest existing folder above it."""
    while not os.path.lexists(folder) and folder != "/":
        folder = os.path.dirname(folder)
    return folder
