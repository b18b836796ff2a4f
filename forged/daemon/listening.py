"""The daemon's lock and its socket: lock, bind, and the check that the socket is still ours.

flock decides, never a pid file: it dies with its process. The socket is bound under a name of its own with
umask 077 and renamed into place, so it is never half made or open to others (CVE-2023-45145).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat

from forged.errors import ForgedError
from forged_client.address import open_short_path, socket_obstacle
from forged_client.errors import AddressError

BACKLOG = 1024  # a full one makes connect fail at once with EAGAIN
_ASKED_BYTES = 65536


class AlreadyRunning(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised if another daemon holds the lock of this address, or does not hand it over."""


class AddressUnusable(ForgedError):  # noqa: N818
    """Raised if no private socket can be made at the address; the message says what to do."""


def ensure_private_directory(path: str) -> None:
    """Make a directory 0700, or check that it is ours and closed to others. Raises AddressUnusable."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        problem = f"{path} cannot be made: {error.strerror}; set FORGED_SOCKET to another place"
        raise AddressUnusable(problem) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise AddressUnusable(f"{path} is not a directory of yours; set FORGED_SOCKET to another place")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise AddressUnusable(f"{path} is open to others; run: chmod 700 {path}")


def lock(path: str) -> int:
    """Lock the file next to a socket, and write our pid; return its descriptor. Raises AlreadyRunning."""
    ensure_private_directory(os.path.dirname(path))
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        problem = f"{path}.lock cannot be opened: {error.strerror}; set FORGED_SOCKET to another place"
        raise AddressUnusable(problem) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise AlreadyRunning(f"a daemon is already running at {path} (pid {holder or 'unknown'})") from None
    write_pid(descriptor)
    return descriptor


def write_pid(descriptor: int) -> None:
    """Write this process's pid into the lock file, for people and for `stop`; it decides nothing."""
    written = f"{os.getpid()}\n".encode()
    os.pwrite(descriptor, written, 0)
    os.ftruncate(descriptor, len(written))


def bind(path: str) -> socket.socket:
    """Return a socket listening at `path`, over a dead daemon's; the caller must hold the lock."""
    if obstacle := socket_obstacle(path):
        raise AddressUnusable(obstacle)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = f"{path[:-1]}~"  # not longer than the path itself, which may be at the limit
    before, directory = os.umask(0o077), -1
    try:
        name, directory = open_short_path(fresh)
        _unlink(fresh, directory)
        listening.bind(name)
        listening.listen(BACKLOG)
        _rename(fresh, path, directory)
    except AddressError as error:
        listening.close()
        raise AddressUnusable(str(error)) from error
    except OSError as error:
        listening.close()
        problem = f"no socket can be made at {path}: {error.strerror}; set FORGED_SOCKET to another place"
        raise AddressUnusable(problem) from error
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
        if directory >= 0:
            os.close(directory)
    return listening


def _unlink(path: str, directory: int) -> None:
    """Remove a leftover socket if there is one, in the opened and checked directory if it is given."""
    with contextlib.suppress(FileNotFoundError):
        if directory < 0:
            os.unlink(path)
        else:
            os.unlink(os.path.basename(path), dir_fd=directory)


def _rename(fresh: str, path: str, directory: int) -> None:
    """Move the new socket to its path, in the opened and checked directory if it is given."""
    if directory < 0:
        os.rename(fresh, path)
    else:
        names = os.path.basename(fresh), os.path.basename(path)
        os.rename(*names, src_dir_fd=directory, dst_dir_fd=directory)


def turn_away(descriptor: int, frame: bytes) -> None:
    """Send a frame to all connections that wait at a listening socket, and close them; never waits."""
    with adopt(descriptor) as listening, contextlib.suppress(OSError):
        listening.setblocking(False)
        for _ in range(BACKLOG):
            waiting, _ = listening.accept()
            with waiting, contextlib.suppress(OSError):
                waiting.setblocking(False)
                waiting.send(frame)
                waiting.recv(_ASKED_BYTES)  # unread bytes would reset the connection


def adopt(descriptor: int) -> socket.socket:
    """Return a socket for a duplicate of a descriptor, such as systemd's, which itself stays open."""
    return socket.socket(fileno=os.dup(descriptor))


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the socket at `path`, to notice another; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
