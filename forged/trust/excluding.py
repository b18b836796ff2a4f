"""Keep captured memories out of the commits of a repository, with a line in git's `info/exclude`.

Takes a work tree before a write; makes git ignore forged's files there, or notes why it cannot. Nothing is
written where git's directory does not name the work tree back. The choice `commit` removes the line. Blocks
for the disk and for git. `CaptureExcluder` is used in threads and raises nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time

import msgspec

from forged.errors import StoreError
from forged.files import Root, is_git_directory, layout
from forged.state import Exclude, Excludes
from forged.trust.exclude_file import ExcludeError, add_line, remove_line
from forged.trust.identity import identity_of

logger = logging.getLogger(__name__)

CHOICES = ("exclude", "commit")

_AS_IT_IS = {
    "tracked": "git already tracks memories here, so captured memories may be committed, too",
    "ignored": "git already ignores captured memories here, by a line that forged did not write",
}
_AGAIN_S = 60.0  # after this delay a refused write is tried again


class CaptureExcluder:
    """Makes git ignore captured memories, or undoes that where commits are chosen.

    `problems` are sentences for status. `unreported` are lines that no reply has reported, by top.
    """

    def __init__(self, records: Excludes, default: str, home: str) -> None:
        """Take the configured default, and the home of the user's own git configuration."""
        self._records = records
        self._default = default
        self._home = home
        self._locks: dict[str, threading.Lock] = {}
        self._until: dict[tuple[str, str], float] = {}
        self._fresh: dict[str, Exclude] = {}
        self.unreported: dict[str, Exclude] = {}
        self._left_as_is: dict[str, str] = {}
        self.problems: dict[str, str] = {}

    def keep_out(self, root: Root) -> None:
        """Make git ignore forged's files in a root, before a write, unless commits are chosen."""
        if not root.has_files or not self._records.is_read:
            return  # the choice of the person is not loaded yet;
        if not os.path.lexists(os.path.join(root.top, ".git")):
            return
        key = root.top, identity_of(os.path.join(root.top, ".git"))
        if time.monotonic() < self._until.get(key, 0.0):
            return
        with self._lock_of(root.top):
            if time.monotonic() < self._until.get(key, 0.0):
                return
            if self._choice_of(root.top) == "exclude":
                self._try_add_line(root.top)
            is_open = root.top in self.problems
            self._until[key] = time.monotonic() + _AGAIN_S if is_open else float("inf")

    def apply_choice(self, top: str, choice: str) -> None:
        """Record and apply a person's choice for a repository; "" returns to the configuration.

        Raises ExcludeError if that is not possible.
        """
        with self._lock_of(top):
            self._until.clear()
            record = self._change_record(self._require_record(top), choice=choice)
            if (choice or self._default) == "exclude":
                self._try_add_line(top)
            else:
                self.problems.pop(top, None)
                self._try_remove_line(record)
            if problem := self.problems.get(top) or self.problems.get(record.common):
                raise ExcludeError(problem)

    def remove_lines(self, *, everywhere: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Remove forged's line where commits are chosen, or `everywhere`; return where, and failures.

        Returns the common directories without the line, and sentences about those that still have it.
        """
        done, left = [], []
        for record in self._all_records():
            wanted = record.choice or self._default
            if not record.has_line or not (everywhere or wanted == "commit"):
                continue
            with self._lock_of("", record.common):
                if self._try_remove_line(self._newest_record(record)):
                    done.append(record.common)
                else:
                    left.append(self.problems[record.common])
        return tuple(done), tuple(left)

    def problem_at(self, root: Root) -> str:
        """Return why the choice to exclude or commit could not be applied in a root, or ""."""
        record = self._record(root.top) if root.has_files and self.problems else None
        of_repository = self.problems.get(record.common, "") if record is not None else ""
        return self.problems.get(root.top, "") or of_repository

    def state_of(self, root: Root) -> str:
        """Return a sentence for status: if git ignores captured memories in a root, and why; or ""."""
        record = self._record(root.top) if root.has_files else None
        if record is None:
            return ""
        if record.has_line:
            return f"git ignores captured memories here, by a line in {record.common}/info/exclude"
        if (record.choice or self._default) == "commit":
            return "captured memories may be committed here, as you chose"
        return self._left_as_is.get(root.top, "")

    def notice(self, top: str) -> str:
        """Return the sentence about a line that was added in a top; count it as reported. "" without one."""
        record = self.unreported.pop(top, None)
        if record is None:
            return ""
        self._change_record(self._newest_record(record), is_reported=True)
        return (
            f"git ignores captured memories in {top} from now on (a line in {record.common}/info/exclude); "
            "to commit them: `forgectl trust --commit` there"
        )

    async def all_notices(self, *tops: str) -> tuple[str, ...]:
        """Return the notices about lines added in some tops, and record them as given."""
        notices = tuple(filter(None, map(self.notice, tops)))
        if notices:
            await self.save()
        return notices

    async def save(self) -> None:
        """Store changed records of git exclusions; after a failure the next call tries again."""
        for key, record in list(self._fresh.items()):
            try:
                await self._records.put(record)
            except StoreError as error:
                logger.warning("exclude is not written down error=%s", error)
                return
            if self._fresh.get(key) is record:
                del self._fresh[key]

    def _lock_of(self, top: str, common: str = "") -> threading.Lock:
        """Return the lock of a top's repository, so that a slow one does not delay others."""
        return self._locks.setdefault(common or layout(top).common or top, threading.Lock())

    def _choice_of(self, top: str) -> str:
        """Return exclude or commit for a repository: a person's choice, else the default."""
        record = self._record(top)
        return (record.choice if record is not None else "") or self._default

    def _record(self, top: str) -> Exclude | None:
        """Return the exclusion record of a work tree's repository; None without a valid one."""
        common = layout(top).common
        return self._newest_record(Exclude(common, identity_of(common))) if common else None

    def _require_record(self, top: str) -> Exclude:
        """Return the exclusion record of a work tree's repository. Raises ExcludeError without one."""
        record = self._record(top)
        if record is None:
            raise ExcludeError("the git directory does not name this folder as its work tree")
        return record

    def _newest_record(self, record: Exclude) -> Exclude:
        """Return the newest record of a repository, which may not be stored yet."""
        return self._fresh.get(record.key) or self._records.of(record.common, record.identity)

    def _all_records(self) -> tuple[Exclude, ...]:
        return tuple((dict(self._records) | self._fresh).values())

    def _change_record(self, record: Exclude, **changes: str | bool) -> Exclude:
        """Change a record of git exclusion in memory, to be stored by `save`; return it."""
        fresh = msgspec.structs.replace(record, **changes)
        if fresh != record:
            self._fresh[fresh.key] = fresh
        return fresh

    def _try_add_line(self, top: str) -> None:
        """Add forged's line to `info/exclude` unless not needed; record the result, or the problem."""
        try:
            record = self._require_record(top)
            if not is_git_directory(record.common):
                return  # not a repository for git, which will stage nothing of it
            became = add_line(top, record.common, self._home)
        except ExcludeError as error:
            self.problems[top] = (
                f"git may commit captured memories in {top}: {error}; "
                "`forgectl trust --exclude` there tries again, `--commit` accepts it"
            )
            logger.warning("exclude left alone top=%s reason=%s", top, error)
            return
        self.problems.pop(top, None)
        self._left_as_is[top] = _AS_IT_IS.get(became, "")
        if became in {"added", "there"}:
            record = self._change_record(record, has_line=True)
            if not record.is_reported:
                self.unreported[top] = record

    def _try_remove_line(self, record: Exclude) -> bool:
        """Remove forged's line and return True; after a failure note the problem, return False."""
        try:
            if identity_of(record.common) == record.identity:
                remove_line(record.common)
        except ExcludeError as error:
            if not record.has_line:
                return True
            self.problems[record.common] = (
                f"forged's line is still in {record.common}/info/exclude: {error}; remove it by hand"
            )
            return False
        self.problems.pop(record.common, None)
        self._change_record(record, has_line=False, is_reported=False)
        for top in [top for top, each in self.unreported.items() if each.key == record.key]:
            del self.unreported[top]
        return True
