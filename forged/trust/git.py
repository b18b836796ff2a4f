"""Git as an instrument that reads: what its index says of a root's memory files, and what can be reached.

The program is found in fixed places and gets an environment of its own: no configuration but that of the
repository, no lock, no prompt, no network, no hook, no monitor. Only commands that read are run, only in a
root that a person trusts, and in a thread. Each has five seconds and may say 16 MiB; more is GitFailed, as is
any error.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from forged.errors import ForgedError
from forged.files import FOLDERS

_PROGRAMS = ("/usr/bin/git", "/usr/local/bin/git", "/opt/homebrew/bin/git", "/run/current-system/sw/bin/git")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_SETTINGS = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.untrackedCache=false")
_LIMIT_S, _MOST_BYTES = 5.0, 16 << 20
_ENTRY = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0"
    rb"  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n  uid: \d+\tgid: \d+\n  size: (\d+)\t"
)
_ATTRIBUTES = ("filter", "working-tree-encoding", "ident")
_REFS = "--format=%(refname)%00%(objectname)%00%(upstream)%00%(upstream:remotename)%00%(symref)"
_GUESSED = ("main", "master")


class GitFailed(ForgedError):  # noqa: N818 - reads as what happened
    """Git gave no answer that can be used."""


class Entry(msgspec.Struct, frozen=True):
    """What the index says of a path: the blob, and the file as git last wrote or looked at it."""

    blob: str
    is_merged: bool  # no conflict waits to be resolved
    size: int
    mtime_ns: int
    inode: int


class Git:
    """The repository whose work tree is at `top`."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._prefix = (
            *(f"--git-dir={top}/.git", f"--work-tree={top}"),
            *(part for setting in _SETTINGS for part in ("-c", setting)),
        )

    @cached_property
    def _algorithm(self) -> str:
        return self._run("rev-parse", "--show-object-format").decode().strip()

    def branch(self) -> str:
        """Full name of the branch that is checked out; nothing if there is none."""
        name = self._run("rev-parse", "--symbolic-full-name", "HEAD").decode().strip()
        return name if name.startswith("refs/heads/") else ""

    def entries(self) -> dict[str, Entry]:
        """What the index holds of the memory folders, by path below the top."""
        said = self._run("ls-files", "--stage", "--debug", "-z", "--", *FOLDERS)
        found = {}
        for _, blob, stage, path, seconds, nanoseconds, inode, size in _ENTRY.findall(said):
            mtime_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
            entry = Entry(blob.decode(), stage == b"0", int(size), mtime_ns, int(inode))
            found[os.fsdecode(path)] = entry
        return found

    def blob_names(self, data: bytes) -> tuple[str, ...]:
        """What git would call these bytes, as they are and with the line ends that it stores."""
        return tuple({self._blob_name(data), self._blob_name(data.replace(b"\r\n", b"\n"))})

    def _blob_name(self, data: bytes) -> str:
        return hashlib.new(self._algorithm, b"blob %d\0" % len(data) + data).hexdigest()

    def known(self, blobs: Iterable[str]) -> frozenset[str]:
        """Those of these objects that the repository has, whoever brought them."""
        said = self._run("cat-file", "--batch-check", given="\n".join([*blobs, ""]).encode())
        lines = (line.split() for line in said.decode().splitlines())
        return frozenset(words[0] for words in lines if words[-1] != "missing")

    def transformed(self, paths: Sequence[str]) -> frozenset[str]:
        """Those of these paths that git does not store as they lie there, so that bytes do not tell."""
        given = "\0".join([*paths, ""]).encode("utf-8", "surrogateescape")
        words = self._run("check-attr", "--stdin", "-z", *_ATTRIBUTES, given=given).split(b"\0")
        triples = zip(words[::3], words[1::3], words[2::3], strict=False)
        plain = (b"unspecified", b"unset")
        return frozenset(os.fsdecode(path) for path, _, value in triples if value not in plain)

    def tips(self, trusted: str) -> tuple[str, ...]:
        """The commits that what a person trusts leads to.

        These are the tips of the trusted branch, of its upstream, and of the default branch, here and at the
        remote. The remote is that of the upstream, else `origin`: another one's default counts for nothing.
        """
        listed = self._refs(trusted, "refs/remotes/*/HEAD") if trusted else self._refs("refs/remotes/*/HEAD")
        _, upstream, remote, _ = listed.get(trusted, ("", "", "", ""))
        remote = remote or "origin"
        head = listed.get(f"refs/remotes/{remote}/HEAD", ("", "", "", ""))[3]
        default = head.removeprefix(f"refs/remotes/{remote}/")
        wanted = {trusted, upstream} - {""}
        for name in (default,) if default else _GUESSED:
            wanted |= {f"refs/remotes/{remote}/{name}", f"refs/heads/{name}"}
        found = self._refs(*wanted)
        return tuple(sorted({found[name][0] for name in wanted if name in found}))

    def _refs(self, *patterns: str) -> dict[str, tuple[str, ...]]:
        said = self._run("for-each-ref", _REFS, *patterns).decode("utf-8", "replace")
        return {name: tuple(rest) for name, *rest in (line.split("\0") for line in said.splitlines())}

    def at(self, tips: Iterable[str]) -> frozenset[str]:
        """Blobs of the memory folders that these commits hold."""
        trees = (self._run("ls-tree", "-r", "-z", tip, "--", *FOLDERS) for tip in tips)
        return frozenset(line.split()[2].decode() for said in trees for line in said.split(b"\0") if line)

    def behind(self, tips: Sequence[str]) -> frozenset[str]:
        """Objects of the memory folders in the whole history of these commits."""
        options = ("--objects", "--full-history", "--missing=allow-any")
        said = self._run("rev-list", *options, *tips, "--", *FOLDERS)
        return frozenset(line.split(b" ", 1)[0].decode() for line in said.splitlines())

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        program = next((path for path in _PROGRAMS if os.access(path, os.X_OK)), None)
        if program is None:
            raise GitFailed("there is no git")
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            try:
                process = subprocess.Popen(
                    (program, *self._prefix, *arguments),
                    env=_ENVIRONMENT,
                    cwd=self._top,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                raise GitFailed(f"git cannot be run: {error.strerror}") from error
            with process:
                try:
                    said = _said(process)
                    process.wait(_LIMIT_S)
                except subprocess.TimeoutExpired as error:
                    raise GitFailed("git does not end") from error
                finally:
                    process.kill()  # nothing happens to one that has ended
        if process.returncode:
            raise GitFailed(f"git {arguments[0]} failed")
        return said


def _said(process: subprocess.Popen[bytes]) -> bytes:
    """All that git says, to its end. Raises GitFailed when that is too long or too much."""
    assert process.stdout is not None
    deadline = time.monotonic() + _LIMIT_S
    waiting = select.poll()
    waiting.register(process.stdout, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while size <= _MOST_BYTES:
        if not waiting.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise GitFailed(f"git took longer than {_LIMIT_S:g} s")
        part = os.read(process.stdout.fileno(), 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise GitFailed("git said more than can be read")
