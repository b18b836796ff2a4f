"""Environment of a daemon that a client starts: nearly empty, because the daemon serves every agent.

A client's environment may come from a workspace (a harness's settings, direnv, a devcontainer). So only
HOME, LANG, TZ, PATH and XDG_* are passed on, and their folders only where no workspace can have made them.
Such a folder is absolute, the user's own, and outside of every git working tree. No other user owns or can
change anything on the way to it. The same holds for the socket and, except that root may own it, for the
program. PATH and other lists are checked entry by entry. An entry that fails is left out, and the daemon
uses its default. A home or a socket that fails is an error, because there must be no second home.
"""

from __future__ import annotations

import os
import stat

from forged_client.address import home, working_directory
from forged_client.errors import AddressError, DaemonUnavailable

TYPE_CHECKING = False  # `typing` itself costs more than all this; see __init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_LINKS = 40
_LOCALE_SIGNS = frozenset("_.@-")
_ZONE_SIGNS = frozenset("_+-/,.:<>")
# Lists of folders that root may own as well.
_SHARED = ("PATH", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS")

_PathStep = tuple[str, os.stat_result]


def daemon_environment(env: Mapping[str, str], address: str) -> dict[str, str]:
    """Return the environment of a daemon at `address`: HOME, LANG, TZ, trusted folders of PATH and XDG_*.

    Raises DaemonUnavailable with the remedy if it would have another home or socket than its client.
    """
    ours = env.get("HOME") or home(env)
    if why := folder_problem(ours):
        raise _make_refusal("HOME", ours, why, "set HOME to your own home directory")
    if why := folder_problem(os.path.dirname(address)):
        raise _make_refusal(
            "the folder of the socket",
            os.path.dirname(address),
            why,
            ("set FORGED_SOCKET to a path in a folder of yours"),
        )
    kept = {"HOME": ours}
    if (language := env.get("LANG")) and all(sign.isalnum() or sign in _LOCALE_SIGNS for sign in language):
        kept["LANG"] = language  # a locale's name; the C library would read a file at a path
    if (zone := env.get("TZ")) and _is_zone(zone):
        kept["TZ"] = zone  # the time zone of the dates in a block
    for name, value in env.items():
        if name == "PATH" or name.startswith("XDG_"):
            folders = [part for part in value.split(":") if not folder_problem(part, shared=name in _SHARED)]
            if folders:
                kept[name] = ":".join(folders)
    return kept


def _is_zone(text: str) -> bool:
    """Return True if a TZ text is a zone's name or rule, and not a path, which the C library would read."""
    is_relative = text[0] not in "/:." and ".." not in text
    return is_relative and all(sign.isalnum() or sign in _ZONE_SIGNS for sign in text)


def check_program(path: str) -> None:
    """Raise DaemonUnavailable if others can change a program, or it lies in the current work tree."""
    tree = _outermost_work_tree(working_directory())
    if tree and f"{path}/".startswith(f"{tree}/"):
        raise DaemonUnavailable(
            f"cannot start the daemon: {path} lies in {tree}, where this program was started; "
            "install forged elsewhere, or run `forged serve` yourself"
        )
    try:
        found = os.stat(path)
        way = list(_path_steps(os.path.dirname(path)))
    except (OSError, ValueError) as error:
        raise DaemonUnavailable(f"cannot start the daemon: {path} cannot be read") from error
    if not stat.S_ISREG(found.st_mode) or not is_only_ours(found):
        raise DaemonUnavailable(
            f"cannot start the daemon: {path} must belong to you or root and not be writable by others"
        )
    for folder, there in way:
        if why := _problem_on_the_path(folder, there):
            raise DaemonUnavailable(
                f"cannot start the daemon: {path} must belong to you or root alone: {why}"
            )


def folder_problem(path: str, *, shared: bool = False) -> str:
    """Return the reason not to trust a folder (not this user's alone, in a git work tree); else empty.

    A folder that does not exist yet is judged by the folder that would hold it. `shared`: it must exist, and
    root may own it.
    """
    if not path.startswith("/") or "/../" in f"{path}/":
        return "it is not a plain absolute path"
    way: list[_PathStep] = []
    try:
        way.extend(_path_steps(path))
    except FileNotFoundError:
        if shared:
            return "it does not exist"
    except (OSError, ValueError):
        return "it cannot be read"
    for place in way:
        if why := _problem_on_the_path(*place):
            return why
    last, there = way[-1]
    if not stat.S_ISDIR(there.st_mode) or not is_only_ours(there):
        return f"others can write to {last}"
    if there.st_uid != os.geteuid() and not shared:
        return f"{last} belongs to another user"
    tree = next((tree for place in _link_folders(way) for tree in _work_trees(place)), "")
    return f"it is in the git work tree {tree}" if tree else ""


def is_only_ours(found: os.stat_result) -> bool:
    """Return True if only this user and root can write to the file or folder with this status."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _path_steps(path: str) -> Iterator[_PathStep]:
    """Yield each folder and link on the way to an absolute path, then its target. Raises OSError."""
    at, links = "/", 0
    yield at, os.lstat(at)
    ahead = path.split("/")[::-1]
    while ahead:
        name = ahead.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = f"{at.rstrip('/')}/{name}"
        found = os.lstat(here)
        yield here, found
        if not stat.S_ISLNK(found.st_mode):
            at = here
            continue
        target = os.readlink(here)
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"too many links on the way to {path}")
        at = "/" if target.startswith("/") else at
        ahead += target.split("/")[::-1]
    yield at, os.lstat(at)


def _problem_on_the_path(path: str, found: os.stat_result) -> str:
    """Return the reason that another user could change this folder or link; empty if none could."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user"
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode):
        return f"others can write to {path}"
    return ""


def _link_folders(way: list[_PathStep]) -> Iterator[str]:
    """Yield the target of a path, and the folders that hold a link on the way."""
    yield way[-1][0]
    for place, found in way:
        if stat.S_ISLNK(found.st_mode):
            yield os.path.dirname(place)


def _outermost_work_tree(directory: str) -> str:
    """Return a directory's outermost git work tree, else the directory; "" if that holds the home."""
    if not directory:
        return ""
    outermost = [*_work_trees(directory)][-1:] or [directory]
    return "" if f"{_home_of_user()}/".startswith(f"{outermost[0].rstrip('/')}/") else outermost[0]


def _work_trees(folder: str) -> Iterator[str]:
    """Yield the git working trees around a folder, innermost first, except one that is the home."""
    own = _home_of_user()
    while True:
        if folder != own and os.path.lexists(f"{folder.rstrip('/')}/.git"):
            yield folder
        if folder == "/":
            return
        folder = os.path.dirname(folder)


def _home_of_user() -> str:
    """Return the real path of the home in the user database, or / if it has none."""
    try:
        return os.path.realpath(home({}))
    except (AddressError, OSError, ValueError):
        return "/"


def _make_refusal(what: str, path: str, why: str, remedy: str) -> DaemonUnavailable:
    """Return the error for an untrusted home or socket folder, with the reason and the remedy."""
    return DaemonUnavailable(
        f"cannot start the daemon: {what} ({path}) must be a folder that only you can write to, outside of "
        f"git work trees: {why}; {remedy}, or run `forged serve` yourself"
    )
