"""Read and write files of the user and of agents, atomically and through links.

A link is followed to its target, which keeps its place and its mode, because many people link their settings
from a folder of their own. Raises IntegrationError with the problem and the remedy.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from forged.errors import ForgedError

MOST_BYTES = 1 << 20


class IntegrationError(ForgedError):
    """Raised if an agent cannot be connected or disconnected; the message has reason and remedy."""

    code = "unavailable"


def read(path: str) -> str | None:
    """Return the text of a file; None if it does not exist. Raises IntegrationError if unfit or not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IntegrationError(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise IntegrationError(f"{path} is not a file: move it away and run this again")
        if found.st_uid != os.geteuid():
            raise IntegrationError(f"{path} belongs to user {found.st_uid} and is left as it is")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise IntegrationError(f"{path} is larger than {MOST_BYTES:,} bytes and is left as it is")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IntegrationError(f"{path} is not UTF-8 and is left as it is") from error


def write(path: str, text: str, before: str | None) -> list[str]:
    """Write a file atomically if its content is still `before` (None: no file); return new folders."""
    target = os.path.realpath(path)
    try:
        made = make_folders(os.path.dirname(target))
        if read(target) != before:
            raise IntegrationError(f"{path} was changed meanwhile and is left as it is: run this again")
        mode = stat.S_IMODE(os.stat(target).st_mode) if before is not None else 0o600
        _replace_file(target, text.encode(), mode)
    except OSError as error:
        raise IntegrationError(f"{path} cannot be written: {error.strerror}") from error
    return made


def make_folders(folder: str) -> list[str]:
    """Make a folder and its missing parents, private to the user; return the new ones, from the top."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        os.mkdir(each, 0o700)
    return missing[::-1]


def remove(path: str) -> None:
    """Remove a file or link; a missing one is no error. Raises IntegrationError."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    except OSError as error:
        raise IntegrationError(f"{path} cannot be removed: {error.strerror}") from error


def remove_empty(folder: str) -> bool:
    """Remove a folder if it is empty; return True if it is gone."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.lexists(folder)


def _replace_file(target: str, data: bytes, mode: int) -> None:
    """Replace a file atomically by new data with this mode: write a temporary file, sync it, move it."""
    fresh = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
