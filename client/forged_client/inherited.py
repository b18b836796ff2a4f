"""What a daemon inherits from the client that starts it: nearly nothing, because it then serves every agent.

A client's environment may come from a workspace (a harness's settings, direnv, a devcontainer), so of it only
HOME, LANG, TZ, PATH and XDG_* are handed on, their folders only where a workspace cannot have made them:
absolute, the user's own, outside of every git work tree, with nothing on the way to them that another user
owns or can change. The same holds for the socket and, but for its owner, which may be root, for the program.
PATH and other lists are looked at entry by entry. What does not hold is left out, and the daemon takes its
default; but a home or a socket that does not hold is refused, for there must be no second home.
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
# Lists of folders that may be root's as well.
_SHARED = ("PATH", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS")

_Place = tuple[str, os.stat_result]


def inherited(env: Mapping[str, str], address: str) -> dict[str, str]:
    """The environment of a daemon that is to listen at `address`.

    Raises DaemonUnavailable, saying what to do, when it would have another home or socket than its client.
    """
    ours = env.get("HOME") or home(env)
    if why := objection(ours):
        raise _refused("HOME", ours, why, "set HOME to your own home directory")
    if why := objection(os.path.dirname(address)):
        raise _refused(
            "the folder of the socket",
            os.path.dirname(address),
            why,
            ("set FORGED_SOCKET to a path in a folder of yours"),
        )
    kept = {"HOME": ours}
    if (language := env.get("LANG")) and all(sign.isalnum() or sign in _LOCALE_SIGNS for sign in language):
        kept["LANG"] = language  # a locale's name; a path would be a file that the C library reads
    if (zone := env.get("TZ")) and _is_zone(zone):
        kept["TZ"] = zone  # the name of a zone, in which the dates of a block are
    for name, value in env.items():
        if name == "PATH" or name.startswith("XDG_"):
            folders = [part for part in value.split(":") if not objection(part, shared=name in _SHARED)]
            if folders:
                kept[name] = ":".join(folders)
    return kept


def _is_zone(text: str) -> bool:
    """Tell a zone's name or rule from a path, which the C library would read."""
    is_relative = text[0] not in "/:." and ".." not in text
    return is_relative and all(sign.isalnum() or sign in _ZONE_SIGNS for sign in text)


def check_program(path: str) -> None:
    """Raises DaemonUnavailable unless the real path `path` is a program that no workspace can have made."""
    tree = _working_tree(working_directory())
    if tree and f"{path}/".startswith(f"{tree}/"):
        raise DaemonUnavailable(
            f"cannot start the daemon: {path} lies in {tree}, where this program was started; "
            "install forged elsewhere, or run `forged serve` yourself"
        )
    try:
        found = os.stat(path)
        way = list(_way(os.path.dirname(path)))
    except (OSError, ValueError) as error:
        raise DaemonUnavailable(f"cannot start the daemon: {path} cannot be read") from error
    if not stat.S_ISREG(found.st_mode) or not only_ours(found):
        raise DaemonUnavailable(
            f"cannot start the daemon: {path} must belong to you or root and not be writable by others"
        )
    for folder, there in way:
        if why := _objection_on_the_way(folder, there):
            raise DaemonUnavailable(
                f"cannot start the daemon: {path} must belong to you or root alone: {why}"
            )


def objection(path: str, *, shared: bool = False) -> str:
    """Why `path` is no folder of ours outside every git work tree; empty if it is one.

    One that does not exist yet is as good as the folder that it would be made in. `shared`: it must exist,
    and may be root's.
    """
    if not path.startswith("/") or "/../" in f"{path}/":
        return "it is not a plain absolute path"
    way: list[_Place] = []
    try:
        way.extend(_way(path))
    except FileNotFoundError:
        if shared:
            return "it does not exist"
    except (OSError, ValueError):
        return "it cannot be read"
    for place in way:
        if why := _objection_on_the_way(*place):
            return why
    last, there = way[-1]
    if not stat.S_ISDIR(there.st_mode) or not only_ours(there):
        return f"others can write to {last}"
    if there.st_uid != os.geteuid() and not shared:
        return f"{last} belongs to another user"
    tree = next((tree for place in _signposts(way) for tree in _work_trees(place)), "")
    return f"it is in the git work tree {tree}" if tree else ""


def only_ours(found: os.stat_result) -> bool:
    """Whether nobody but us and root can write there."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _way(path: str) -> Iterator[_Place]:
    """Every folder and link on the way from / to an absolute path, and what it comes to.

    Raises OSError after the last that exists.
    """
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


def _objection_on_the_way(path: str, found: os.stat_result) -> str:
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user"
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode):
        return f"others can write to {path}"
    return ""


def _signposts(way: list[_Place]) -> Iterator[str]:
    """Where a way leads to, and the folders that hold a link on it."""
    yield way[-1][0]
    for place, found in way:
        if stat.S_ISLNK(found.st_mode):
            yield os.path.dirname(place)


def _working_tree(directory: str) -> str:
    """The outermost git work tree around a directory; without one itself, unless home lies in it."""
    if not directory:
        return ""
    outermost = [*_work_trees(directory)][-1:] or [directory]
    return "" if f"{_home_of_user()}/".startswith(f"{outermost[0].rstrip('/')}/") else outermost[0]


def _work_trees(folder: str) -> Iterator[str]:
    """From the inside out. A home that is kept in git is a home: nobody else says where it lies."""
    own = _home_of_user()
    while True:
        if folder != own and os.path.lexists(f"{folder.rstrip('/')}/.git"):
            yield folder
        if folder == "/":
            return
        folder = os.path.dirname(folder)


def _home_of_user() -> str:
    """The real path of the home that the user database knows, whatever HOME says; / where it knows none."""
    try:
        return os.path.realpath(home({}))
    except (AddressError, OSError, ValueError):
        return "/"


def _refused(what: str, path: str, why: str, remedy: str) -> DaemonUnavailable:
    return DaemonUnavailable(
        f"cannot start the daemon: {what} ({path}) must be a folder that only you can write to, outside of "
        f"git work trees: {why}; {remedy}, or run `forged serve` yourself"
    )
