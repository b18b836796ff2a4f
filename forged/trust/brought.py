"""Who brought a file into a trusted repository: the trusted branch, the person, or another branch.

Merged is what can be reached from the trusted branch, its upstream or the default branch of the remote. An
edit by hand is content that git has never seen: no branch can have brought it. All else is withheld, with
the reason, and so is whatever cannot be told: a file in the middle of a checkout or of a conflict, in a
folder that is a link or another repository, or under a filter, where bytes do not say what git has stored.

Used in threads, one at a time. Blocks for git; nothing is raised.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from forged.files import FOLDERS
from forged.trust.git import Entry, Git, GitFailed

OTHER_BRANCH = "it came with a branch that is not merged into the one that you trust"
BUSY = "git is at work in this repository"
CONFLICT = "it is in the middle of a merge"
LINKED = "its folder is a link or a repository of its own"
FILTERED = "git stores it in another form, so that nobody can tell whether a branch brought it"
MOVING = "it is being changed"

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Candidate(msgspec.Struct, frozen=True):
    """A file on which nothing is on record: its path, its hash, and its inode, size and mtime as read."""

    path: str
    sha256: str
    inode: int
    size: int
    mtime_ns: int


class Judged(msgspec.Struct, frozen=True):
    """Hashes that count from now on, and why the others do not, by path.

    `passes`: some of that may be different in a moment.
    """

    accepted: frozenset[str] = frozenset()
    refused: dict[str, str] = {}
    passes: bool = False


class Repository:
    """What git said of one root, kept until its refs or its index change."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._git = Git(top)
        self._lock = threading.Lock()
        self._seen: tuple[object, ...] = ()
        self._verdicts: dict[Candidate, str] = {}
        self._tips: tuple[str, ...] = ()
        self._at_tips = frozenset[str]()
        self._behind_tips: frozenset[str] | None = None

    def branch(self) -> str:
        """Full name of the branch that is checked out, nothing where that cannot be told."""
        if not git_directory(self._top):
            return ""
        try:
            return self._git.branch()
        except GitFailed:
            return ""

    def judge(self, trusted: str, candidates: Sequence[Candidate]) -> Judged:
        """Judge files of the root; `trusted` is the full name of the branch that a person trusts."""
        with self._lock:
            return self._judge(trusted, candidates)

    def _judge(self, trusted: str, candidates: Sequence[Candidate]) -> Judged:
        foreign = tuple(folder for folder in FOLDERS if _is_foreign(self._top, folder))
        linked = [each for each in candidates if self._folder(each) in foreign]
        refused = {each.path: LINKED for each in linked}
        rest = [each for each in candidates if each.path not in refused]
        git_dir = git_directory(self._top)
        if not git_dir:
            return Judged(frozenset(each.sha256 for each in rest), refused)
        if os.path.lexists(os.path.join(git_dir, "index.lock")):
            return Judged(refused=refused | {each.path: BUSY for each in rest}, passes=bool(rest))
        try:
            verdicts, is_news = self._verdicts_on(trusted, rest, git_dir)
        except GitFailed as error:
            return Judged(refused=refused | {each.path: str(error) for each in rest})
        refused |= {each.path: why for each, why in verdicts.items() if why}
        accepted = frozenset(each.sha256 for each, why in verdicts.items() if not why)
        return Judged(accepted, refused, is_news and bool(refused))

    def _folder(self, candidate: Candidate) -> str:
        return os.path.relpath(os.path.dirname(candidate.path), self._top)

    def _verdicts_on(
        self, trusted: str, candidates: Sequence[Candidate], git_dir: str
    ) -> tuple[dict[Candidate, str], bool]:
        """Why a file does not count, or nothing; what was said is kept as long as nothing moves.

        And whether anything was said anew: a merge may move the files first and the branch a moment later.
        """
        seen = (trusted, *map(_state_of, _telling(git_dir)))
        if seen != self._seen:
            self._verdicts, self._seen = {}, ()
        fresh = [each for each in candidates if each not in self._verdicts]
        if fresh:
            self._verdicts.update(self._ask(trusted, fresh))
            self._seen = seen
        verdicts = {each: self._verdicts[each] for each in candidates}
        self._verdicts = {each: why for each, why in self._verdicts.items() if why != MOVING}
        return verdicts, bool(fresh)

    def _ask(self, trusted: str, candidates: Sequence[Candidate]) -> dict[Candidate, str]:
        verdicts: dict[Candidate, str] = {}
        blobs: dict[Candidate, tuple[str, ...]] = {}
        by_hand: list[Candidate] = []
        entries = self._git.entries()
        for each in candidates:
            entry = entries.get(os.path.relpath(each.path, self._top))
            if entry is not None and not entry.is_merged:
                verdicts[each] = CONFLICT
            elif entry is not None and _is_as_written(each, entry):
                blobs[each] = (entry.blob,)
            elif (data := _still(each)) is None:
                verdicts[each] = MOVING
            else:
                blobs[each] = self._git.blob_names(data)
                by_hand.append(each)
        merged = self._merged(trusted, {blob for names in blobs.values() for blob in names})
        for each, names in blobs.items():
            verdicts[each] = "" if merged.intersection(names) else OTHER_BRANCH
        doubtful = [each for each in by_hand if verdicts[each]]
        return verdicts | dict(self._edits(doubtful, blobs))

    def _merged(self, trusted: str, wanted: set[str]) -> frozenset[str]:
        """Those that can be reached; the whole history is looked through only for what no tip holds."""
        tips = self._git.tips(trusted)
        if tips != self._tips:
            self._tips, self._at_tips, self._behind_tips = (), self._git.at(tips), None
            self._tips = tips
        if wanted <= self._at_tips or not tips:
            return self._at_tips
        if self._behind_tips is None:
            self._behind_tips = self._git.behind(tips)
        return self._at_tips | self._behind_tips

    def _edits(
        self, candidates: Sequence[Candidate], blobs: dict[Candidate, tuple[str, ...]]
    ) -> Iterator[tuple[Candidate, str]]:
        """Which of these files a person has written here."""
        if not candidates:
            return
        known = self._git.known(blob for each in candidates for blob in blobs[each])
        paths = [os.path.relpath(each.path, self._top) for each in candidates]
        transformed = self._git.transformed(paths)
        for each, path in zip(candidates, paths, strict=True):
            if known.isdisjoint(blobs[each]):
                yield each, FILTERED if path in transformed else ""


def _still(candidate: Candidate) -> bytes | None:
    """The bytes of a file, if they are still those that were judged."""
    try:
        with open(os.open(candidate.path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(candidate.size + 1)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == candidate.sha256 else None


def git_directory(top: str) -> str:
    """Where git keeps what it knows of a work tree; nothing where there is no repository."""
    path = os.path.join(top, ".git")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            line = file.read(8192)
        if not line.startswith(b"gitdir:"):
            return ""
        path = os.path.join(top, os.fsdecode(line.removeprefix(b"gitdir:").strip()))
    holds = any(os.path.exists(os.path.join(path, name)) for name in ("objects", "commondir"))
    return path if holds and os.path.isfile(os.path.join(path, "HEAD")) else ""


def _is_foreign(top: str, folder: str) -> bool:
    """Whether a folder, or one on the way to it, is a link or a repository of its own."""
    parts = folder.split("/")
    ways = [os.path.join(top, *parts[: count + 1]) for count in range(len(parts))]
    return any(os.path.islink(way) or os.path.lexists(os.path.join(way, ".git")) for way in ways)


def _is_as_written(candidate: Candidate, entry: Entry) -> bool:
    """Whether the file is the one that git wrote or looked at last."""
    found = (candidate.size & 0xFFFFFFFF, candidate.inode & 0xFFFFFFFF, candidate.mtime_ns)
    return found == (entry.size, entry.inode, entry.mtime_ns)


def _telling(git_dir: str) -> Iterable[str]:
    """Files and directories that change when a ref or the index does."""
    common = os.path.join(git_dir, "commondir")
    if os.path.isfile(common):
        with open(common, "rb") as file:
            git_dir_of_refs = os.path.join(git_dir, os.fsdecode(file.read(8192).strip()))
    else:
        git_dir_of_refs = git_dir
    yield from (os.path.join(git_dir, name) for name in ("index", "HEAD"))
    yield from (os.path.join(git_dir_of_refs, name) for name in ("packed-refs", "config", "reftable"))
    for kind in ("heads", "remotes"):
        for folder, _, files in os.walk(os.path.join(git_dir_of_refs, "refs", kind)):
            yield folder
            yield from (os.path.join(folder, name) for name in files)


def _state_of(path: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, status.st_ino, status.st_size, status.st_mtime_ns
