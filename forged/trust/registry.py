"""Trust as the rest of the daemon knows it: what counts, who is trusted, and what a person changes about it.

`admit` decides in a build's thread. All else is asked on the event loop and looks at the disk in threads.
What a person changes is durable, and in force in every map, when the call returns. Raises StoreError when it
cannot be written down, WorkspaceError for a directory that holds no root.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from forged.errors import StoreError, WorkspaceError
from forged.files import Root, Snapshot, files_of, repo_root, scan, upwards
from forged.memory import ID_PATTERN, Scope, utc_now
from forged.state import OwnFile, Rewrite, RootIds, RootRecord, State
from forged.trust.admission import REPLACED, Admission, Admitted, Stamp, TrustRecord
from forged.trust.excluding import CaptureExcluder
from forged.trust.git import Git, GitFailed
from forged.trust.walk import roots_below
from forged_client.protocol import WithheldFile

logger = logging.getLogger(__name__)

MODES = ("follow", "locked")

Rebuild = Callable[[str], Awaitable[None]]
Previous = Callable[[Root], Snapshot | None]


class KnownRoot(msgspec.Struct, frozen=True):
    """A root as a person is shown it.

    `state`: `trusted`; `own`, where nothing foreign was at the first look; `unknown`, never asked about;
    `unread`, where the records cannot be read now: nothing is withheld there, and nothing used. `mode`,
    `branch` and `trusted_at` are those of a trusted one.
    """

    top: str
    state: str
    mode: str = ""
    branch: str = ""
    trusted_at: str = ""
    accepted: int = 0
    withheld: tuple[WithheldFile, ...] = ()
    reason: str = ""


class TrustRegistry:
    """One for the daemon; `mode` and `git` are those of the configuration, `home` is the user's directory."""

    def __init__(self, state: State, *, mode: str = "follow", git: str = "exclude", home: str = "") -> None:
        self._records, self._mode = state.trust, mode
        self._rebuild: Rebuild | None = None
        self._previous: Previous | None = None
        self._admission = admission = Admission(state.trust)
        self.admit, self.stamp, self.save = admission.admit, admission.stamp, admission.save
        # Waits until the records have been read, or are known not to be readable now.
        self.opened = state.tried.wait
        self.excluding = CaptureExcluder(state.excludes, git, home)

    def join(self, rebuild: Rebuild, previous: Previous) -> None:
        """Join the maps, which are made after this: `rebuild` has a root's map follow a decision.

        `previous` is the last snapshot of a root, so that not all is read again.
        """
        self._rebuild, self._previous = rebuild, previous

    def is_own(self, stamp: Stamp, memory_id: str) -> bool:
        """Whether this daemon wrote a memory into the root."""
        return memory_id in self._records.own(stamp.identity)

    async def own(self, root: Root, files: Sequence[OwnFile]) -> None:
        """Note files that are about to be written, durably on return: a kill between must not lose one.

        Raises StoreError, but for the user's own roots, where every file counts in any case.
        """
        standing = await asyncio.to_thread(self._admission.standing, root.top)
        try:
            await self._records.put_own(standing.identity, files)
        except StoreError as error:
            if not root.is_own:
                raise
            logger.warning("origin not written down error=%s", error)

    async def owned(self, root: Root, memory_ids: Collection[str]) -> Mapping[str, OwnFile]:
        """Return the records of the files that this daemon wrote for these memories, by id."""
        standing = await asyncio.to_thread(self._admission.standing, root.top)
        own = [self._records.own(each) for each in _ways(standing)]
        found = ((each, next(filter(None, (files.get(each) for files in own)), None)) for each in memory_ids)
        return {memory_id: file for memory_id, file in found if file is not None}

    async def ids(self, top: str) -> RootIds:
        """Return a root with the identities under which its files may be on record."""
        standing = await asyncio.to_thread(self._admission.standing, top)
        return RootIds(top, _ways(standing))

    async def tracked(self, root: Root, memory_ids: Collection[str]) -> frozenset[str]:
        """Return those of a root's memories whose file git may bring back: from a branch, a stash, a reflog.

        Where git cannot be asked that may be all.
        """
        return await asyncio.to_thread(self._tracked, root, frozenset(memory_ids))

    async def expect(self, root: Root, hashes: Collection[str]) -> None:
        """Note hashes that files that count have, or will have; durable on return. Raises StoreError."""
        standing = await asyncio.to_thread(self._admission.standing, root.top)
        if root.scope is Scope.REPO:
            await self._records.approve(standing.identity, hashes)

    async def follow(self, root: Root, rewrites: Sequence[Rewrite]) -> None:
        """Let the records of files of ours be of the bytes that they are about to have. Raises StoreError."""
        standing = await asyncio.to_thread(self._admission.standing, root.top)
        own = self._records.own(standing.identity)
        known = ((own.get(each.id), each) for each in rewrites)
        if files := [
            msgspec.structs.replace(file, sha256=each.after)
            for file, each in known
            if file is not None and file.sha256 == each.before
        ]:
            await self._records.put_own(standing.identity, files)

    async def keep_out(self, root: Root) -> None:
        """Have git ignore what forged names in a root, before it is written to; nothing is raised."""
        await self.opened()
        await asyncio.to_thread(self.excluding.keep_out, root)
        await self.excluding.save()

    async def catch_up(self) -> None:
        """Take out what the configuration does not want any more, as a daemon starts."""
        await self.opened()
        await asyncio.to_thread(self.excluding.take_out)
        await self.excluding.save()

    async def look(self, root: Root) -> tuple[Snapshot, Admitted]:
        """Return the files of a root now, and which of them are trusted. Loads the records first."""
        await self.opened()
        previous = self._previous(root) if self._previous is not None else None
        snapshot = await asyncio.to_thread(scan, root, previous)
        admitted = await asyncio.to_thread(self.admit, root, snapshot)
        await self.save()
        return snapshot, admitted

    async def withheld(self, roots: Iterable[Root]) -> tuple[WithheldFile, ...]:
        """What does not count in these roots now."""
        looks = [await self.look(root) for root in roots if root.scope is Scope.REPO]
        return tuple(each for _, admitted in looks for each in admitted.withheld)

    async def describe(self, top: str) -> KnownRoot:
        """A root, with what is withheld of it."""
        _, admitted = await self.look(await asyncio.to_thread(repo_root, top))
        standing = await asyncio.to_thread(self._admission.standing, top)
        return _described(top, standing, admitted, self._records.doubt)

    async def stands(self, top: str) -> KnownRoot:
        """As `describe`, without a look at the files: nothing is counted."""
        standing = await asyncio.to_thread(self._admission.standing, top)
        return _described(top, standing, Admitted(()), self._records.doubt)

    async def known(self) -> tuple[KnownRoot, ...]:
        """Every root that was ever seen and is still there."""
        return tuple([await self.describe(top) for top in await self.seen()])

    async def seen(self) -> tuple[str, ...]:
        """Their tops alone."""
        tops = sorted({record.top for record in self._records.roots()})
        return await asyncio.to_thread(lambda: tuple(filter(os.path.isdir, tops)))

    async def under(self, directory: str, home: str) -> tuple[KnownRoot, ...]:
        """Roots with memories below a directory that a person named. Raises WorkspaceError."""
        tops = await asyncio.to_thread(roots_below, directory, home)
        return tuple([await self.describe(top) for top in tops])

    async def trust(self, top: str, mode: str = "", hashes: Collection[str] | None = None) -> KnownRoot:
        """Trust a root: what is there now, and with `follow` what is merged into its branch later.

        With `hashes` only these files of what is there, as a person was shown them.
        """
        await self.save()
        root = await asyncio.to_thread(repo_root, top)
        snapshot, _ = await self.look(root)
        standing = await asyncio.to_thread(self._admission.standing, top)
        if not standing.identity:
            raise WorkspaceError(f"{top} cannot be looked at")
        branch = await asyncio.to_thread(self._admission.repository(top).branch)
        there = {file.sha256 for file in files_of(snapshot)}
        record = standing.record or RootRecord(top, standing.identity, utc_now(), born_empty=False)
        record = msgspec.structs.replace(record, identity=standing.identities[0])
        trusted = msgspec.structs.replace(
            record, trusted_at=utc_now(), mode=mode or self._mode, branch=branch
        )
        await self._records.put_root(trusted, there if hashes is None else there & set(hashes))
        return await self._in_force(top)

    async def revoke(self, top: str) -> KnownRoot:
        """Trust a root no longer: what is foreign in it is in no map on return."""
        await self.save()
        standing = await asyncio.to_thread(self._admission.standing, top)
        for record in self._records.roots(top):
            if record.trusted_at or record.identity == standing.identity:
                await self._records.revoke(record)
        return await self._in_force(top)

    async def approve(self, top: str, hashes: Collection[str]) -> KnownRoot:
        """Accept single files of a root, trusted or not."""
        standing = await asyncio.to_thread(self._admission.standing, top)
        await self._records.approve(standing.identity, hashes)
        return await self._in_force(top)

    async def _in_force(self, top: str) -> KnownRoot:
        if self._rebuild is not None:
            await self._rebuild(top)
        return await self.describe(top)

    def _tracked(self, root: Root, memory_ids: frozenset[str]) -> frozenset[str]:
        if not memory_ids or root.in_git or not _lies_in_git(root.top):
            return frozenset()
        record = self._admission.standing(root.top).record
        if record is None or not (record.trusted_at or record.born_empty):
            return memory_ids
        try:
            names = Git(root.top).names()
        except GitFailed:
            return memory_ids
        stems = {each.removesuffix(".md") for each in names}
        if not all(map(ID_PATTERN.fullmatch, stems)):  # the id of a file with another name is in its text
            return memory_ids
        return memory_ids & stems


def _lies_in_git(top: str) -> bool:
    return any(os.path.lexists(os.path.join(each, ".git")) for each in upwards(top))


def _ways(standing: TrustRecord) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (standing.identity, *standing.identities))))


def _described(top: str, standing: TrustRecord, admitted: Admitted, doubt: str) -> KnownRoot:
    record = standing.record
    found = KnownRoot(top, "unknown", accepted=len(admitted.memories), withheld=admitted.withheld)
    if doubt:
        return msgspec.structs.replace(found, state="unread", reason=doubt)
    if record is None or not record.trusted_at:
        state = "own" if record is not None and record.born_empty else "unknown"
        reason = REPLACED if standing.replaced else ""
        return msgspec.structs.replace(found, state=state, reason=reason)
    told = {"mode": record.mode, "branch": record.branch, "trusted_at": record.trusted_at}
    return msgspec.structs.replace(found, state="trusted", **told)
