"""Checks of this machine and of the daemon's status report, for `forgectl doctor`.

A finding states a fact and, if it is a problem, a fix. `FAIL` means that forged does not work; `warn` is for
everything less.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping

import msgspec

from forged import __version__
from forged.cli.scope_lines import scope_facts
from forged.cli.status import skew
from forged.cli.terminal import counted, distinct
from forged_client.address import socket_path
from forged_client.errors import AddressError
from forged_client.protocol import RootReport, StatusReport

OK, WARN, FAIL = "ok", "warn", "FAIL"

_NEEDED = ("msgspec", "numpy", "httpx", "watchfiles", "platformdirs", "click", "PyYAML", "PyStemmer")
_GATES = {
    "off": "everything that is found is injected",
    "words": "keyword scores decide what is injected",
    "learning": "keyword scores decide what is injected for a few seconds, until the model is calibrated",
    "vectors": "embedding and keyword scores decide what is injected",
}
_TRUST = {
    "own": "no memories were there before forged (own)",
    "follow": "trusted, also what is merged into its branch (follow)",
    "locked": "trusted as it was then (locked)",
    "unknown": "no memories of others are there yet",
    "unread": "the trust records cannot be read now",
}
_COMMAND, _CHOWN = re.compile("`(?:FORGED_SOCKET=[^`]+ )?forgectl [^`]+`"), re.compile("`chown [^`]+`")
_INOTIFY = "/proc/sys/fs/inotify"
# A root needs at most 8 watches, and one instance serves all roots; editors need the rest.
_INOTIFY_LEAST = (("max_user_watches", 8192), ("max_user_instances", 128))
_INOTIFY_SPARE = 8  # with fewer left, an editor or a test runner may be refused

# States in which nothing is captured, each with its fix.
_NOT_CAPTURING = {
    "off": "`forgectl config show --origin` shows the setting that switched it off",
    "paused": "`forgectl resume` ends it, or `forgectl resume --all`",
    "failing": "`forgectl status --all` and `forgectl logs` show the cause",
    "waiting": "nothing is lost; it goes on when the cause is gone",
}


class Check(msgspec.Struct, frozen=True):
    """One finding of doctor: subject, `level` (ok, warn, FAIL), detail, and a `fix` if it is a problem.

    `about` is the file or memory at the beginning of `detail`, where findings of many files may be alike.
    """

    name: str
    level: str
    detail: str
    fix: str = ""
    about: str = ""


def interpreter() -> Iterator[Check]:
    """Yield findings: versions of Python and packages, and a FAIL for packages that are missing."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", OK, f"{version} at {sys.executable}, forged {__version__}")
    found, missing = [], []
    for name in _NEEDED:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    yield Check("packages", OK, ", ".join(found))
    if missing:
        yield Check("packages", FAIL, f"missing: {', '.join(missing)}", "install forged-memory again")


def address(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield findings on socket and its folder: valid path, owned by the user, closed to others."""
    try:
        path = socket_path(environ)
    except AddressError as error:
        yield Check("socket", FAIL, str(error), "set FORGED_SOCKET to a short absolute path")
        return
    for name, place in (("socket", path), ("socket directory", os.path.dirname(path))):
        yield _check_private(name, place)


def reached(report: StatusReport) -> Iterator[Check]:
    """Yield findings on a daemon that answered: version and build, disabled memory, warnings."""
    yield Check("daemon", OK, f"forged {report.version}, pid {report.pid}, {report.socket}")
    if differs := skew(report.version, report.build):
        yield Check("version", WARN, differs.partition(";")[0], "`forgectl restart`")
    if report.state == "disabled":
        fix = "`forgectl config show --origin` shows the setting that switched it off"
        yield Check("state", WARN, f"disabled: {report.reason}", fix)
    for warning in distinct(report.warnings):
        fix = "fix the cause; after a change of the configuration run `forgectl rebuild`"
        yield Check("daemon warning", WARN, warning, _command_in(warning) or fix)


def gate(report: StatusReport) -> Iterator[Check]:
    """Yield findings: embedding model, and scores that decide on injections (warn if failing)."""
    model = report.embedding_model or "none"
    engine = f", run by {report.engine}" if report.engine else ""
    yield Check("model", OK, f"strategy {report.strategy}, embedding model {model}{engine}")
    if not report.gate.state:
        return
    because = f": {report.gate.reason}" if report.gate.reason else ""
    if report.gate.state == "failing":
        fix = "fix the model's endpoint (`forgectl doctor --try` calls it)"
        yield Check("gate", WARN, f"keyword scores decide what is injected{because}", fix)
    else:
        yield Check("gate", OK, _GATES.get(report.gate.state, report.gate.state) + because)


def scopes(report: StatusReport) -> Iterator[Check]:
    """Yield a finding for each scope: where its memories are, how many, and how long they live."""
    for name, facts in scope_facts(report.scopes) if report.scopes else ():
        yield Check(f"scope {name}", OK, facts)


def roots(report: StatusReport) -> Iterator[Check]:
    """Yield findings on each root's folder, watch, trust, owner, git, index, secrets and files."""
    for root in report.roots:
        yield _check_directory(root)
        yield _check_watch(root)
        if root.notice:
            yield Check("trust", WARN, f"{root.root}: {root.notice}", _command_in(root.notice))
        elif root.scope == "repo" and root.trust:
            yield Check("trust", OK, f"{root.root}: {_TRUST.get(root.trust, root.trust)}")
        if root.owner:
            yield Check("owner", WARN, f"{root.root}: {root.owner}", _command_in(root.owner, _CHOWN))
        if root.git_problem:
            yield Check("git", WARN, root.git_problem, f"`forgectl trust --exclude {root.root}` tries again")
        if root.redacted:
            holds = counted(root.redacted, "memory contains a secret", "memories contain a secret")
            fix = f"`forgectl show {root.redacted_ids[0]}` names it; remove it from the file"
            yield Check("secrets", WARN, f"{root.root}: {holds}, which agents do not see", fix)
        if root.forks:
            count = counted(root.forks, "memory has", "memories have")
            fix = f"`forgectl show {root.fork_ids[0]}` lists them; edit the one that is true"
            yield Check("forks", WARN, f"{root.root}: {count} more than one current version", fix)
        if root.last_error:
            failed = FAIL if root.state == "failed" else WARN
            yield Check("build", failed, f"{root.root}: {root.last_error}", "fix it, then `forgectl rebuild`")
        if root.quarantined:
            texts = counted(root.quarantined, "text was", "texts were")
            detail = f"{root.root}: {texts} refused by the embedding model"
            yield Check("refused texts", WARN, detail, "shorten them; `forgectl logs` names them")
        if root.stale:
            count = counted(root.stale, "memory depends", "memories depend")
            detail = f"{root.root}: {count} on files that changed"
            fix = "`forgectl list --stale` lists them; edit them, or confirm with `forgectl edit --evidence`"
            yield Check("evidence", WARN, detail, fix)
        if root.no_memories:
            files = counted(len(root.no_memories), "file is not a memory", "files are not memories")
            yield Check("files", OK, f"{root.root}: {files} (`forgectl list --problems` shows why)")
        for problem in root.problems:
            detail = f"{problem.path}: {problem.reason}"
            yield Check("file", WARN, detail, "edit or remove the file", problem.path)


def capture(report: StatusReport) -> Iterator[Check]:
    """Yield a finding that turns are captured, or why not, and one if capture gave up events."""
    state = report.capture
    if state.state in _NOT_CAPTURING and (state.reason or state.state != "waiting"):
        detail = f"{state.state}: {state.reason or state.last_error or 'no reason given'}"
        yield Check("capture", WARN, detail, _command_in(detail) or _NOT_CAPTURING[state.state])
    else:
        yield Check("capture", OK, f"{state.state}, classifier {state.classifier}")
    if state.dead:
        detail = f"{counted(state.dead, 'capture event')} given up"
        fix = "`forgectl dead list` shows why; fix it, then `forgectl dead retry --all`"
        yield Check("dead events", WARN, detail, fix)


def inotify(directory: str = _INOTIFY) -> Iterator[Check]:
    """Yield findings on Linux's limits of file watching against need and use; none elsewhere."""
    in_use = _inotify_in_use()
    for name, least in _INOTIFY_LEAST:
        try:
            with open(os.path.join(directory, name), encoding="ascii") as file:
                limit = int(file.read())
        except (OSError, ValueError):
            continue
        used = in_use[name]
        shown = f"{name} is {limit:,}, {used:,} in use"
        if limit - used < _INOTIFY_SPARE:
            fix = f"sysctl fs.inotify.{name}={max(least, 4 * limit)}, or stop programs that watch files"
            yield Check("inotify", WARN, shown, fix)
        elif limit < least:
            fix = f"sysctl fs.inotify.{name}={least}; until then changes are found by a scan every 25 s"
            yield Check("inotify", WARN, shown, fix)
        else:
            yield Check("inotify", OK, shown)


def _inotify_in_use() -> dict[str, int]:
    """Count, by the limits' names, the inotify instances and watches of this user's visible processes."""
    instances = watches = 0
    for process in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        numbers: list[str] = []
        with contextlib.suppress(OSError):  # it ended, or hides
            if os.stat(f"/proc/{process}").st_uid == os.geteuid():
                numbers = os.listdir(f"/proc/{process}/fd")
        for number in numbers:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{process}/fd/{number}") == "anon_inode:inotify":
                    instances += 1
                    with open(f"/proc/{process}/fdinfo/{number}", "rb") as file:
                        watches += file.read().count(b"inotify wd:")
    return {"max_user_instances": instances, "max_user_watches": watches}


def _ownership_fix(path: str, top: str) -> str:
    """Return a `chown` for the topmost folder between `path` and `top` that another user owns, else ""."""
    place, ours = path, ""
    while place != top:
        with contextlib.suppress(OSError):
            if (uid := os.lstat(place).st_uid) != os.geteuid():
                ours = f"{place} belongs to user {uid}: `sudo chown -R {os.geteuid()} {shlex.quote(place)}`"
        place = os.path.dirname(place)
    return ours


def _command_in(text: str, command: re.Pattern[str] = _COMMAND) -> str:
    """Return the first command, of forgectl by default, in backticks in a text, "" if none."""
    named = command.search(text)
    return named.group() if named else ""


def _check_private(name: str, path: str) -> Check:
    """Return the finding on a path: not there yet, of another user, open to others, or private."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return Check(name, OK, f"{path} is created when the daemon starts ({error.strerror})")
    if found.st_uid != os.geteuid():
        return Check(
            name, FAIL, f"{path} belongs to user {found.st_uid}", "set FORGED_SOCKET to another path"
        )
    if stat.S_ISLNK(found.st_mode) or found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        return Check(name, WARN, f"{path} is open to others ({mode})", f"chmod go-rwx {path}")
    return Check(name, OK, path)


def _check_watch(root: RootReport) -> Check:
    """Return the finding on a root's watch: changes are watched, polled, or not watched yet."""
    if root.watch.startswith("polling"):
        fix = "raise fs.inotify.max_user_watches and max_user_instances, then `forgectl restart`"
        return Check("watcher", WARN, f"{root.root}: {root.watch}", fix)
    if root.watch in {"", "stopped"}:
        return Check("watcher", OK, f"{root.root}: not watched yet; a scan every 25 s finds changes")
    return Check("watcher", OK, f"{root.root}: {root.watch}, {counted(root.watches, 'watch', 'watches')}")


def _check_directory(root: RootReport) -> Check:
    """Return the finding on a root's memory folder: absent, unusable, writable by all, or fine."""
    path = root.directory
    name = f"{root.scope} memories"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Check(name, OK, f"{path} is created at the first write")
    except OSError as error:
        fix = _ownership_fix(path, root.root) or "make it a directory that you can read"
        return Check(name, FAIL, f"{path}: {error.strerror}", fix)
    if not stat.S_ISDIR(mode):
        return Check(name, FAIL, f"{path} is not a directory", "move it away")
    if not os.access(path, os.W_OK):
        fix = _ownership_fix(path, root.root) or f"chmod u+w {path}"
        return Check(name, WARN, f"{path} cannot be written", fix)
    if mode & stat.S_IWOTH:
        return Check(name, WARN, f"{path} can be written by all users", f"chmod o-w {path}")
    return Check(name, OK, f"{path}, {counted(root.memories, 'memory', 'memories')}, {root.state}")
