"""Read-only access to git: the index of a root's memory files, and reachable objects.

The program is found in fixed places and gets its own environment: no configuration except the repository's,
no lock, prompt, network, hook, filter or monitor. Only commands that read are run, in a thread, in roots that
a person trusts or that were empty at first. Each has five seconds and 16 MiB of output; more is GitFailed, as
is any error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
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
_FORMS = ("filter", "working-tree-encoding", "ident")
_LINE_ENDS = ("text", "eol", "crlf")
_MARKERS = "conflict-marker-size"
_SUBMODULE = b"160000"
_PLAIN = frozenset({"unspecified", "unset"})
_IDENT = re.compile(rb"\$Id:[^$\n]*\$")
_REFS = "--format=%(refname)%00%(objectname)%00%(upstream)%00%(upstream:remotename)%00%(symref)"
_GUESSED = ("main", "master")


class GitFailed(ForgedError):  # noqa: N818 - reads as what happened
    """Raised if git is missing, failed, or gave no usable answer in time."""


class IndexEntry(msgspec.Struct, frozen=True):
    """Entry of git's index for a path: its blob, and size, mtime and inode of the file as git saw it."""

    blob: str
    is_merged: bool  # no unresolved merge
    size: int
    mtime_ns: int
    inode: int
    sides: tuple[str, ...] = ()  # blobs of an unresolved merge: base, ours and theirs


class Git:
    """Runs git commands that only read, in the repository whose work tree is at `top`."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._prefix = (
            *(f"--git-dir={top}/.git", f"--work-tree={top}"),
            *(part for setting in _SETTINGS for part in ("-c", setting)),
        )

    @cached_property
    def _hash_algorithm(self) -> str:
        return self._run("rev-parse", "--show-object-format").decode().strip()

    def branch(self) -> str:
        """Return the full name of the branch that is checked out, or ""."""
        name = self._run("rev-parse", "--symbolic-full-name", "HEAD").decode().strip()
        return name if name.startswith("refs/heads/") else ""

    def entries(self) -> dict[str, IndexEntry]:
        """Return git's index entries of the memory folders, with sides of merges, by path below the top."""
        output = self._run("ls-files", "--stage", "--debug", "-z", "--", *FOLDERS)
        found: dict[str, IndexEntry] = {}
        for mode, blob, stage, name, seconds, nanoseconds, inode, size in _ENTRY.findall(output):
            path, is_merged = os.fsdecode(name), stage == b"0"
            mtime_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
            sides = found[path].sides if path in found else ()
            if not is_merged and mode != _SUBMODULE:
                sides += (blob.decode(),)
            found[path] = IndexEntry(blob.decode(), is_merged, int(size), mtime_ns, int(inode), sides)
        return found

    def tracks(self, pathspec: str) -> bool:
        """Return True if git's index has a path that matches this pathspec."""
        return bool(self._run("ls-files", "-z", "--", pathspec))

    def ignores(self, path: str, ignore_file: str = "") -> bool:
        """Return True if git ignores an untracked path; `ignore_file` is the user's own list of patterns."""
        own = ("-c", f"core.excludesFile={ignore_file or os.devnull}")
        asked = ("check-ignore", "--stdin", "-z", "--verbose", "--non-matching")
        output = self._run(*own, *asked, given=f"{path}\0".encode(), may_find_nothing=True)
        _, _, pattern, *_ = output.split(b"\0")
        return bool(pattern) and not pattern.startswith(b"!")

    def blob_names(self, data: bytes) -> tuple[str, ...]:
        """Return possible names of the blob of these bytes: as they are, with LF, without `$Id`.

        Git itself converts nothing, because that would run filters of the repository.
        """
        forms = {data, data.replace(b"\r\n", b"\n")}
        forms |= {_IDENT.sub(b"$Id$", form) for form in forms}
        return tuple(map(self._blob_name, forms))

    def is_empty(self, blob: str) -> bool:
        """Return True for the blob of no bytes, which `git add --intent-to-add` puts into the index."""
        return blob == self._blob_name(b"")

    def _blob_name(self, data: bytes) -> str:
        return hashlib.new(self._hash_algorithm, b"blob %d\0" % len(data) + data).hexdigest()

    def existing_objects(self, blobs: Iterable[str]) -> frozenset[str]:
        """Return those of these object names that the repository has."""
        output = self._run("cat-file", "--batch-check", given="\n".join([*blobs, ""]).encode())
        lines = (line.split() for line in output.decode().splitlines())
        return frozenset(words[0] for words in lines if words[-1] != "missing")

    def contents(self, blobs: Sequence[str]) -> tuple[bytes, ...]:
        """Return the bytes of these blobs, in order. Raises GitFailed if one is missing."""
        output = self._run("cat-file", "--batch", given="\n".join([*blobs, ""]).encode())
        found, at = [], 0
        for _ in blobs:
            start = output.index(b"\n", at) + 1
            if (words := output[at:start].split())[-1] == b"missing":
                raise GitFailed("git lacks a side of a merge")
            at = start + int(words[-1]) + 1
            found.append(output[start : at - 1])
        return tuple(found)

    def transformed_paths(self, paths: Sequence[str], with_cr: Collection[str]) -> frozenset[str]:
        """Return those of these paths that git may store in another form than `blob_names` returns.

        Attributes of the work tree and of the index are asked. `with_cr` are files with CRLF: where line ends
        are always converted, the blob may have any mixture of them.
        """
        found = set[str]()
        for path, of_it in self._attributes(paths, (*_FORMS, *_LINE_ENDS)):
            set_here = {name for name, value in of_it.items() if value not in _PLAIN}
            # With `text=auto` git leaves files with CRLF alone, without `text` all files.
            mixes = of_it["text"] not in {"auto", "unset"} and not set_here.isdisjoint(_LINE_ENDS)
            mixes = mixes and path in with_cr
            if mixes or not set_here.isdisjoint(_FORMS):
                found.add(path)
        return frozenset(found)

    def with_marker_size(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of these paths whose attributes set another length of conflict markers."""
        found = self._attributes(paths, (_MARKERS,)) if paths else ()
        return frozenset(path for path, of_it in found if of_it[_MARKERS] not in _PLAIN)

    def _attributes(self, paths: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each path with these git attributes, once from the work tree and once from the index."""
        given = "\0".join([*paths, ""]).encode("utf-8", "surrogateescape")
        for place in ((), ("--cached",)):
            words = self._run("check-attr", *place, "--stdin", "-z", *names, given=given).split(b"\0")
            for start in range(0, len(words) - 1, 3 * len(names)):
                values = words[start + 2 : start + 3 * len(names) : 3]
                of_it = dict(zip(names, (value.decode("utf-8", "replace") for value in values), strict=True))
                yield os.fsdecode(words[start]), of_it

    def tips(self, trusted: str) -> tuple[str, ...]:
        """Return the tip commits of the trusted branch, its upstream, the default branch here and remote.

        The remote is that of the upstream, else `origin`; default branches of other remotes are ignored.
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
        """Return the matching refs by name: object, upstream, its remote, and the target if symbolic."""
        output = self._run("for-each-ref", _REFS, *patterns).decode("utf-8", "replace")
        return {name: tuple(rest) for name, *rest in (line.split("\0") for line in output.splitlines())}

    def blobs_at(self, tips: Iterable[str]) -> frozenset[str]:
        """Return the blobs of the memory folders in the trees of these commits."""
        trees = (self._run("ls-tree", "-r", "-z", tip, "--", *FOLDERS) for tip in tips)
        return frozenset(line.split()[2].decode() for output in trees for line in output.split(b"\0") if line)

    def blobs_behind(self, tips: Sequence[str]) -> frozenset[str]:
        """Return the objects that memory folders had in the whole history of these commits."""
        options = ("--objects", "--full-history", "--missing=allow-any")
        output = self._run("rev-list", *options, *tips, "--", *FOLDERS)
        return frozenset(line.split(b" ", 1)[0].decode() for line in output.splitlines())

    def file_names(self) -> frozenset[str]:
        """Return names of memory files that git has in its index or in any commit it still keeps.

        Commits of every branch, stash and reflog are included.
        """
        options = ("--objects", "--full-history", "--missing=allow-any", "--all", "--reflog")
        output = self._run("rev-list", *options, "--", *FOLDERS)
        paths = [line.partition(b" ")[2] for line in output.splitlines()]
        paths += self._run("ls-files", "-z", "--", *FOLDERS).split(b"\0")
        return frozenset(os.path.basename(os.fsdecode(each)) for each in paths if each.endswith(b".md"))

    def _run(self, *arguments: str, given: bytes = b"", may_find_nothing: bool = False) -> bytes:
        """Run a git command that only reads, within limits of time and size; return its output."""
        program = next((path for path in _PROGRAMS if os.access(path, os.X_OK)), None)
        if program is None:
            raise GitFailed("git is not installed")
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
                    output = _read_output(process)
                    process.wait(_LIMIT_S)
                except subprocess.TimeoutExpired as error:
                    raise GitFailed("git did not end") from error
                finally:
                    process.kill()  # no effect if it has ended
        if process.returncode and not (may_find_nothing and process.returncode == 1):
            raise GitFailed(f"git {arguments[0]} failed")
        return output


def ignore_file(home: str) -> str:
    """Return the path of the ignore file that the user's own git configuration names, or git's default."""
    settings = _ENVIRONMENT | {"HOME": home}
    del settings["GIT_CONFIG_GLOBAL"]
    program = next((path for path in _PROGRAMS if os.access(path, os.X_OK)), None)
    asked = ("config", "--global", "--includes", "--type=path", "--get", "core.excludesFile")
    if program is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                (program, *asked), env=settings, cwd="/", capture_output=True, timeout=_LIMIT_S, check=False
            )
            if named := os.fsdecode(done.stdout.strip()):
                return named
    return os.path.join(home, ".config", "git", "ignore")


def _read_output(process: subprocess.Popen[bytes]) -> bytes:
    """Return the whole output of a git process. Raises GitFailed if it takes too long or is too large."""
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
    raise GitFailed("git's output is too long to read")
