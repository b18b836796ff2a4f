"""Decide who brought a file into a repository: the trusted branch, the person, or git from elsewhere.

`judge` is for a trusted root. A file is merged if it is reachable from the trusted branch, its upstream or
the default branch of the remote. An edit by hand is content that no object of the repository has.
`judge_unasked` is for a root that was empty at first; there only edits by hand count. During a merge an edit
must also have a line that neither side has. Every other file is withheld with the reason. So is a file during
a checkout, in a folder that is a link or another repository, or under a filter.

Git writes an object before it writes the file, or it holds the lock of the index. Therefore bytes are read
first, then the lock, then objects. Scripts of git that merge (`merge -s resolve`, an octopus) and `rerere`
hold no lock, and their object comes later or never. There the file is compared line by line with the sides in
the index. Used in threads, one at a time. Blocks for git. Raises nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

import msgspec

from forged.files import FOLDERS
from forged.trust.git import Git, GitFailed, IndexEntry
from forged.trust.git_files import check_readable, recorded_resolutions

OTHER_BRANCH = "it is from a branch that is not merged into the one that you trust"
FROM_GIT = (
    "it came with git (checkout, merge, pull, stash) or was there before forged, and you have not allowed it"
)
NOT_ASKED = "`.git` or its config belongs to another user than the daemon, so git is not asked who wrote it"
BUSY = "a git command is running in this repository"
CONFLICT = "it is in the middle of a merge"
LINKED = "its folder is a link or a repository of its own"
FILTERED = "git stores it in another form, so its branch cannot be checked"
MOVING = "it is being changed"

Hashes = AbstractSet[str]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnrecordedFile(msgspec.Struct, frozen=True):
    """Memory file without a record, to be judged: path, hash; inode, size, mtime to match git's index."""

    path: str
    sha256: str
    inode: int
    size: int
    mtime_ns: int


_Blobs = dict[UnrecordedFile, tuple[str, ...]]
_Reasons = dict[UnrecordedFile, str]  # "" for a file that counts


class _GitFindings(msgspec.Struct, frozen=True):
    """Blobs that files may be, by their bytes or git's index, and files refused already, with reasons.

    `as_written` and `by_content`: the blobs that a file may be. `sides`: the blobs that git merges there.
    """

    verdicts: _Reasons
    as_written: _Blobs
    by_content: _Blobs
    sides: _Blobs


_Ask = Callable[[Sequence[UnrecordedFile]], _Reasons]


class AdmissionDecision(msgspec.Struct, frozen=True):
    """Decision on files without a record: accepted hashes, and reasons of refused files by path.

    `may_change`: part of it may differ in a moment. `from_git`: hashes of files that git had.
    """

    accepted: frozenset[str] = frozenset()
    refused: dict[str, str] = {}
    may_change: bool = False
    from_git: frozenset[str] = frozenset()


class _GitBusy(GitFailed):
    """Raised if git is at work in the repository and may change files; git is asked again later."""


class Repository:
    """Judges the new files of a root by their origin: edits by hand, trusted merges, or other git changes."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._git = Git(top)
        self._lock = threading.Lock()
        self._seen: tuple[object, ...] = ()
        self._verdicts: _Reasons = {}
        self._tips: tuple[str, ...] = ()
        self._at_tips = frozenset[str]()
        self._behind_tips: frozenset[str] | None = None

    def branch(self) -> str:
        """Return the full name of the branch that is checked out, or "" if it is unknown."""
        if not git_directory(self._top):
            return ""
        try:
            return self._git.branch()
        except GitFailed:
            return ""

    def judge(
        self, trusted: str, candidates: Sequence[UnrecordedFile], from_git: Hashes = frozenset()
    ) -> AdmissionDecision:
        """Decide on files of a trusted root: merges into the branch `trusted` and edits by hand count.

        `from_git` are recorded hashes of files from git. They are no edits by hand, even if git has pruned
        them.
        """
        with self._lock:
            refused, rest = self._without_linked(candidates)
            if not rest:
                return AdmissionDecision(refused=refused)
            try:
                git_dir = git_directory(self._top)
                if not git_dir:
                    return AdmissionDecision(frozenset(each.sha256 for each in rest), refused)
                ask = partial(self._judge_trusted, trusted, git_dir, from_git)
                verdicts, is_news = self._verdicts_of(trusted, rest, git_dir, ask)
            except (GitFailed, OSError) as error:
                return _refuse_all(error, refused, rest)
        refused |= {each.path: why for each, why in verdicts.items() if why}
        theirs = _hashes_judged(verdicts, OTHER_BRANCH) - from_git
        return AdmissionDecision(_hashes_judged(verdicts, ""), refused, is_news and bool(refused), theirs)

    def judge_unasked(self, candidates: Sequence[UnrecordedFile]) -> AdmissionDecision:
        """Decide on files of a root never asked about: accept only content unknown to git (edits).

        No branch is trusted. Git is asked only if `.git` and its config belong to the user of this process.
        """
        with self._lock:
            refused, rest = self._without_linked(candidates)
            if not rest:
                return AdmissionDecision(refused=refused)
            try:
                git_dir = git_directory(self._top)
                if not git_dir or not _belongs_to_us(self._top, git_dir):
                    return AdmissionDecision(refused=refused | {each.path: NOT_ASKED for each in rest})
                verdicts, _ = self._verdicts_of(None, rest, git_dir, partial(self._judge_unasked, git_dir))
            except (GitFailed, OSError) as error:
                return _refuse_all(error, refused, rest)
        refused |= {each.path: why for each, why in verdicts.items() if why}
        theirs = _hashes_judged(verdicts, FROM_GIT)
        return AdmissionDecision(_hashes_judged(verdicts, ""), refused, MOVING in refused.values(), theirs)

    def _without_linked(
        self, candidates: Sequence[UnrecordedFile]
    ) -> tuple[dict[str, str], list[UnrecordedFile]]:
        """Return refusals by path of files in folders that are links or repositories, and other files."""
        foreign = tuple(folder for folder in FOLDERS if _is_linked(self._top, folder))
        linked = {each.path: LINKED for each in candidates if self._relative_folder(each) in foreign}
        return linked, [each for each in candidates if each.path not in linked]

    def _relative_folder(self, candidate: UnrecordedFile) -> str:
        return os.path.relpath(os.path.dirname(candidate.path), self._top)

    def _relative_path(self, candidate: UnrecordedFile) -> str:
        return os.path.relpath(candidate.path, self._top)

    def _verdicts_of(
        self, trusted: str | None, candidates: Sequence[UnrecordedFile], git_dir: str, ask: _Ask
    ) -> tuple[_Reasons, bool]:
        """Return a refusal or "" for each file, cached or by `ask`; and True if any was asked."""
        _check_idle(git_dir)
        seen = (
            trusted,
            *map(_file_state, (*_git_state_paths(git_dir), *_attribute_paths(self._top, git_dir))),
        )
        if seen != self._seen:
            self._verdicts, self._seen = {}, ()
        fresh = [each for each in candidates if each not in self._verdicts]
        if fresh:
            self._verdicts.update(ask(fresh))
            self._seen = seen
        verdicts = {each: self._verdicts[each] for each in candidates}
        self._verdicts = {each: why for each, why in self._verdicts.items() if why != MOVING}
        return verdicts, bool(fresh)

    def _judge_trusted(
        self, trusted: str, git_dir: str, from_git: Hashes, candidates: Sequence[UnrecordedFile]
    ) -> _Reasons:
        """Return "" for merged files and edits by hand in a trusted root, the reason for others."""
        found = self._find_blobs(candidates, git_dir)
        verdicts, blobs = dict(found.verdicts), found.as_written | found.by_content
        merged = self._merged_blobs(trusted, {blob for names in blobs.values() for blob in names})
        for each, names in blobs.items():
            verdicts[each] = "" if merged.intersection(names) else OTHER_BRANCH
        doubtful = {
            each: names
            for each, names in found.by_content.items()
            if verdicts[each] and each.sha256 not in from_git
        }
        return verdicts | self._edit_verdicts(doubtful, found.sides, git_dir, OTHER_BRANCH)

    def _judge_unasked(self, git_dir: str, candidates: Sequence[UnrecordedFile]) -> _Reasons:
        """Return "" for edits by hand in a root never asked about, the reason for other files."""
        found = self._find_blobs(candidates, git_dir)
        blobs = found.as_written | found.by_content
        return found.verdicts | self._edit_verdicts(blobs, found.sides, git_dir, FROM_GIT)

    def _find_blobs(self, candidates: Sequence[UnrecordedFile], git_dir: str) -> _GitFindings:
        """Find the blobs that files may be: by bytes, and by the index; refuse files being changed."""
        found = _GitFindings({}, {}, {}, {})
        entries = self._git.entries()
        unmerged = [each for each in candidates if not _is_merged(entries.get(self._relative_path(each)))]
        odd = self._git.with_marker_size([self._relative_path(each) for each in unmerged])
        for each in candidates:
            path = self._relative_path(each)
            entry = entries.get(path)
            if path in odd:
                found.verdicts[each] = CONFLICT
            elif (data := _read_if_unchanged(each)) is None:
                found.verdicts[each] = MOVING
            else:
                found.by_content[each] = self._git.blob_names(data)
                is_as_written = entry is not None and entry.is_merged and _is_as_written(each, entry)
                if entry is not None and is_as_written and not (data and self._git.is_empty(entry.blob)):
                    found.as_written[each] = (entry.blob, *found.by_content.pop(each))
                elif entry is not None and not entry.is_merged:
                    found.sides[each] = entry.sides
        _check_idle(git_dir)
        return found

    def _merged_blobs(self, trusted: str, wanted: set[str]) -> frozenset[str]:
        """Return blobs at the trusted tips and, unless all wanted are there, in their history."""
        tips = self._git.tips(trusted)
        if tips != self._tips:
            self._tips, self._at_tips, self._behind_tips = (), self._git.blobs_at(tips), None
            self._tips = tips
        if wanted <= self._at_tips or not tips:
            return self._at_tips
        if self._behind_tips is None:
            self._behind_tips = self._git.blobs_behind(tips)
        return self._at_tips | self._behind_tips

    def _edit_verdicts(self, blobs: _Blobs, sides: _Blobs, git_dir: str, theirs: str) -> _Reasons:
        """Return "" for files that a person edited here, a reason for files that git has or merges."""
        if not blobs:
            return {}
        wanted = {blob for names in blobs.values() for blob in names}
        check_readable(_common_dir(git_dir), wanted)
        known = self._git.existing_objects(wanted)
        verdicts = {each: theirs for each, names in blobs.items() if not known.isdisjoint(names)}
        verdicts |= self._merges_in([each for each in blobs if each not in verdicts], sides, git_dir, theirs)
        paths = {each: self._relative_path(each) for each in blobs if each not in verdicts}
        if paths:
            with_cr = {path for each, path in paths.items() if len(blobs[each]) > 1}
            transformed = self._git.transformed_paths(list(paths.values()), with_cr)
            verdicts |= {each: FILTERED if path in transformed else "" for each, path in paths.items()}
        return verdicts

    def _merges_in(
        self, candidates: Sequence[UnrecordedFile], sides: _Blobs, git_dir: str, theirs: str
    ) -> _Reasons:
        """Return the reason for each file that is only a merge by git, without a line of the person."""
        unmerged = [each for each in candidates if each in sides]
        if not unmerged:
            return {}
        kept = _lines(recorded_resolutions(_common_dir(git_dir)))
        verdicts: _Reasons = {}
        for each in unmerged:
            data = _read_if_unchanged(each)
            if data is None:
                verdicts[each] = MOVING
            elif _is_made_of(data, kept | _lines(self._git.contents(sides[each]))):
                verdicts[each] = theirs
        return verdicts


def _hashes_judged(verdicts: Mapping[UnrecordedFile, str], verdict: str) -> frozenset[str]:
    return frozenset(each.sha256 for each, found in verdicts.items() if found == verdict)


def _refuse_all(
    error: GitFailed | OSError, refused: dict[str, str], rest: Sequence[UnrecordedFile]
) -> AdmissionDecision:
    """Return a decision that refuses all files without a verdict, as git gives no answer."""
    return AdmissionDecision(
        refused=refused | {each.path: str(error) for each in rest}, may_change=isinstance(error, _GitBusy)
    )


def _check_idle(git_dir: str) -> None:
    """Raise _GitBusy if git holds the lock of the index, because files may be changing."""
    if os.path.lexists(os.path.join(git_dir, "index.lock")):
        raise _GitBusy(BUSY)


def _lines(texts: Iterable[bytes]) -> set[bytes]:
    """Return all lines of some texts, without blanks at their ends, which editors may change."""
    return {line.strip() for text in texts for line in text.split(b"\n")}


def _is_made_of(data: bytes, lines: set[bytes]) -> bool:
    """Return True if a text has only these lines, so git may have merged it; its end may be missing yet."""
    *whole, last = (line.strip() for line in data.split(b"\n"))
    return lines.issuperset(filter(None, whole)) and (
        not last or any(line.startswith(last) for line in lines)
    )


def _is_merged(entry: IndexEntry | None) -> bool:
    return entry is None or entry.is_merged


def _read_if_unchanged(candidate: UnrecordedFile) -> bytes | None:
    """Return the bytes of a file if they still have the hash that was judged, else None."""
    try:
        with open(os.open(candidate.path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(candidate.size + 1)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == candidate.sha256 else None


def git_directory(top: str) -> str:
    """Return the git directory of a work tree, or "" without a repository."""
    path = os.path.join(top, ".git")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            line = file.read(8192)
        if not line.startswith(b"gitdir:"):
            return ""
        path = os.path.join(top, os.fsdecode(line.removeprefix(b"gitdir:").strip()))
    holds = any(os.path.exists(os.path.join(path, name)) for name in ("objects", "commondir"))
    return path if holds and os.path.isfile(os.path.join(path, "HEAD")) else ""


def _belongs_to_us(top: str, git_dir: str) -> bool:
    """Return True if all files that configure git are this user's, links included."""
    common = _common_dir(git_dir)
    needed = (os.path.join(top, ".git"), git_dir, common, os.path.join(common, "objects"))
    others = [
        os.path.join(place, name) for place in (git_dir, common) for name in ("config", "config.worktree")
    ]
    try:
        owners = {look(path).st_uid for path in needed for look in (os.stat, os.lstat)}
        owners |= {
            look(path).st_uid for path in others if os.path.lexists(path) for look in (os.stat, os.lstat)
        }
    except OSError:
        return False
    return owners == {os.geteuid()}


def _common_dir(git_dir: str) -> str:
    """Return the common git directory, with objects, refs and config, which linked worktrees share."""
    path = os.path.join(git_dir, "commondir")
    if not os.path.isfile(path):
        return git_dir
    with open(path, "rb") as file:
        return os.path.join(git_dir, os.fsdecode(file.read(8192).strip()))


def _is_linked(top: str, folder: str) -> bool:
    parts = folder.split("/")
    ways = [os.path.join(top, *parts[: count + 1]) for count in range(len(parts))]
    return any(os.path.islink(way) or os.path.lexists(os.path.join(way, ".git")) for way in ways)


def _is_as_written(candidate: UnrecordedFile, entry: IndexEntry) -> bool:
    """Return True if size, inode and mtime of a file are those that git's index has for it."""
    found = (candidate.size & 0xFFFFFFFF, candidate.inode & 0xFFFFFFFF, candidate.mtime_ns)
    return found == (entry.size, entry.inode, entry.mtime_ns)


def _git_state_paths(git_dir: str) -> Iterable[str]:
    """Yield the paths of index, HEAD, refs and config, whose change means that git's state changed."""
    git_dir_of_refs = _common_dir(git_dir)
    yield from (os.path.join(git_dir, name) for name in ("index", "HEAD"))
    yield from (os.path.join(git_dir_of_refs, name) for name in ("packed-refs", "config", "reftable"))
    for kind in ("heads", "remotes"):
        for folder, _, files in os.walk(os.path.join(git_dir_of_refs, "refs", kind)):
            yield folder
            yield from (os.path.join(folder, name) for name in files)


def _attribute_paths(top: str, git_dir: str) -> Iterable[str]:
    yield os.path.join(_common_dir(git_dir), "info", "attributes")
    for folder in ("", ".forge", *FOLDERS):
        yield os.path.join(top, folder, ".gitattributes")


def _file_state(path: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, status.st_ino, status.st_size, status.st_mtime_ns
