"""Socket path and state directory of the daemon.

The only reader of environment and current directory in this package. In a directory that others can write
to, another user could put a socket first. So the socket is at FORGED_SOCKET, in a runtime directory that
provably belongs to this user, or in this user's state directory.
"""

from __future__ import annotations

import os
import stat
import sys

from forged_client.errors import AddressError

TYPE_CHECKING = False  # `typing` itself costs more than all this; see __init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping


# Bytes of a path in sockaddr_un, without the closing NUL.
MAX_PATH_BYTES = 103 if sys.platform == "darwin" else 107
# For a longer path the directory is opened, and a name below /proc/self/fd points to it.
_DESCRIPTORS = "/proc/self/fd"
_MAX_NAME_BYTES = MAX_PATH_BYTES - len(_DESCRIPTORS) - len("/4294967295/")
_MAX_LONG_BYTES = 4000  # PATH_MAX, less the names of other files in the same directory
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_WITHOUT = ", as there is no /proc/self/fd"
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFREG: "a file",
}


def environment() -> Mapping[str, str]:
    """Return the process's environment, for modules that may not read it themselves."""
    return os.environ


def working_directory() -> str:
    """Return the real path of the current directory; empty when it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def is_bypassed(env: Mapping[str, str] | None = None) -> bool:
    """Return True if FORGED_BYPASS is set, except to 0, false or no: no memory is read or captured."""
    env = environment() if env is None else env
    return env.get("FORGED_BYPASS", "").strip().lower() not in {"", "0", "false", "no"}


def socket_path(env: Mapping[str, str] | None = None, *, run_user: str = "/run/user") -> str:
    """Return the daemon's socket path: FORGED_SOCKET, else in a private runtime folder or `state_dir`.

    FORGED_SOCKET, else `$XDG_RUNTIME_DIR/forged/forged.sock`, else `/run/user/<uid>/forged/forged.sock`.
    Each directory counts only if this user owns it with mode 0700 and it is no symbolic link. Else
    `<state_dir>/run/forged.sock`. Raises AddressError as `checked`.
    """
    env = environment() if env is None else env
    if chosen := env.get("FORGED_SOCKET"):
        return checked(chosen)
    for runtime in (env.get("XDG_RUNTIME_DIR", ""), f"{run_user}/{os.geteuid()}"):
        if _is_private_directory(runtime):
            return checked(f"{runtime.rstrip('/')}/forged/forged.sock")
    return checked(f"{state_dir(env)}/run/forged.sock")


def state_dir(env: Mapping[str, str] | None = None) -> str:
    """Return forged's state directory, `$XDG_STATE_HOME/forged` or the system's default; create nothing."""
    env = environment() if env is None else env
    state = env.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        below_home = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
        state = f"{home(env)}/{below_home}"
    return f"{state.rstrip('/')}/forged"


def home(env: Mapping[str, str]) -> str:
    """Return the home directory from HOME, else the user database. Raises AddressError if both lack it."""
    if (named := env.get("HOME", "")).startswith("/"):
        return named.rstrip("/")
    import pwd  # noqa: PLC0415 - only for a process without HOME

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError as error:
        raise AddressError("there is no home directory: set HOME or FORGED_SOCKET") from error


def checked(path: str) -> str:
    """Return a socket path unchanged if it is absolute and not too long. Raises AddressError.

    A path of more than `MAX_PATH_BYTES` bytes is accepted where `open_short_path` finds a shorter name for
    it, as on Linux.
    """
    size = len(os.fsencode(path))
    if not path.startswith("/") or "\0" in path:
        raise AddressError(f"{path!r} is not a socket path: set FORGED_SOCKET to an absolute path")
    if size > MAX_PATH_BYTES:
        most = _MAX_LONG_BYTES if os.path.isdir(_DESCRIPTORS) else MAX_PATH_BYTES
        if size > most:
            raise AddressError(
                f"the socket path has {size} bytes and may have {most}"
                f"{_WITHOUT if most == MAX_PATH_BYTES else ''}: set FORGED_SOCKET to a shorter one ({path})"
            )
        name = len(os.fsencode(os.path.basename(path)))
        if name > _MAX_NAME_BYTES:
            raise AddressError(
                f"the socket's name has {name} bytes and may have {_MAX_NAME_BYTES} in a path this long: "
                f"set FORGED_SOCKET to one with a shorter name ({path})"
            )
    return path


def open_short_path(path: str) -> tuple[str, int]:
    """Return a name of a socket path, short enough to connect to, and a descriptor to close, or -1.

    A path that fits is its own name. For a longer one the directory is opened; it must be this user's and
    closed to others. The caller closes it. Raises OSError, and AddressError for such a directory.
    """
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        return path, -1
    folder, name = os.path.split(path)
    directory = os.open(folder, _DIRECTORY)
    found = os.fstat(directory)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return f"{_DESCRIPTORS}/{directory}/{name}", directory
    os.close(directory)
    raise AddressError(
        f"{folder} must be a directory of yours that is closed to others: run `chmod 700`, or set "
        "FORGED_SOCKET to another place"
    )


def socket_obstacle(path: str) -> str:
    """Describe a file at a socket's path that no daemon can have left there; empty for none."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return ""
    if stat.S_ISSOCK(found.st_mode) or (stat.S_ISREG(found.st_mode) and not found.st_size):
        return ""
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    return f"{path} is {kind}, not a socket: remove it, or set FORGED_SOCKET to another path"


def _is_private_directory(path: str) -> bool:
    """Return True for a directory of this user with mode 0700 that is no symbolic link."""
    if not path.startswith("/"):
        return False
    try:
        found = os.lstat(path.rstrip("/"))
    except (OSError, ValueError):
        return False
    ours = found.st_uid == os.geteuid()
    return ours and stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
