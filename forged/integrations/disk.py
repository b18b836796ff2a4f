"""Files of a person and of agents: read whole, written whole or not at all, never half and never elsewhere.

A link is followed to the file that it stands for, which keeps its place and its mode: many people have their
settings in a folder of their own and link to them. Raised is IntegrationError, with a sentence that says what
is in the way and what to do.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from forged.errors import ForgedError

MOST_BYTES = 1 << 20


class IntegrationError(ForgedError):
    """An agent could not be connected or disconnected; the message says why and what to do next."""

    code = "unavailable"


def read(path: str) -> str | None:
    """The text of a file; None where there is none."""
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
    """Write a file that held `before` (None: that was not there); returns the folders that were made for it.

    Nothing is written when it holds something else by now.
    """
    target = os.path.realpath(path)
    try:
        made = make_folders(os.path.dirname(target))
        if read(target) != before:
            raise IntegrationError(f"{path} was changed meanwhile and is left as it is: run this again")
        mode = stat.S_IMODE(os.stat(target).st_mode) if before is not None else 0o600
        _exchange(target, text.encode(), mode)
    except OSError as error:
        raise IntegrationError(f"{path} cannot be written: {error.strerror}") from error
    return made


def make_folders(folder: str) -> list[str]:
    """Make a folder and those above it; returns the ones that were not there, from the top."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        os.mkdir(each, 0o700)
    return missing[::-1]


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    except OSError as error:
        raise IntegrationError(f"{path} cannot be removed: {error.strerror}") from error


def remove_empty(folder: str) -> bool:
    """Take a folder away if nothing is in it; whether it is gone."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.lexists(folder)


def _exchange(target: str, data: bytes, mode: int) -> None:
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
