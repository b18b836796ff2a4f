"""Trust for the rest of the daemon: which files count, trusted roots, and decisions of a person.

`admit` runs in the thread of a build. All other methods run on the event loop and use the disk in threads. A
decision of a person is durable, and in force in every map, when the call returns. Raises StoreError if it
cannot be written, WorkspaceError for a directory without a root.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from forged.errors import StoreError, WorkspaceError
from forged.files import Root, Snapshot, files_of, repo_root, scan, upwards
from forged.memory import ID_PATTERN, OF_PERSON, Origin, Scope, utc_now
from forged.state import OwnFile, Rewrite, RootIds, RootRecord, State
from forged.trust.admission import REPLACED, Admission, Admitted, Stamp, TrustState
from forged.trust.excluding import CaptureExcluder
from forged.trust.git import Git, GitFailed
from forged.trust.walk import roots_below
from forged_client.protocol import WithheldFile

logger = logging.getLogger(__name__)

MODES = ("follow", "locked")

Rebuild = Callable[[str], Awaitable[None]]
Previous = Callable[[Root], Snapshot | None]


class KnownRoot(msgspec.Struct, frozen=True):
    """Trust state of a root with its branch and withheld files, in the form that a person is shown.

    `state` is `trusted`; `own`, if nothing foreign was there at the first look; `unknown`, never asked about;
    `unread`, if the records cannot be read now: nothing is withheld there, and nothing used. `mode`, `branch`
    and `trusted_at` are set for a trusted root.
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
    """Trust in all roots: admits their memory files, records own files, applies decisions of a person.

    `mode` and `git` are configured defaults, `home` is the user's directory, `of_team` are the tops of roots
    of agents that a team has in common.
    """

    def __init__(
        self,
        state: State,
        *,
        mode: str = "follow",
        git: str = "exclude",
        home: str = "",
        of_team: Collection[str] = (),
    ) -> None:
        self._records, self._mode = state.trust, mode
        self._rebuild: Rebuild | None = None
        self._previous: Previous | None = None
        self._admission = admission = Admission(state.trust, of_team)
        self.admit, self.stamp, self.save = admission.admit, admission.stamp, admission.save
        # Waits until the records are read, or could not be read.
        self.wait_until_open = state.tried.wait
        self.excluding = CaptureExcluder(state.excludes, git, home)

    def connect_maps(self, rebuild: Rebuild, previous: Previous) -> None:
        """Set callbacks of the maps, which are created later: `rebuild` applies a decision to a root's map.

        `previous` returns the last snapshot of a root, so that not all files are read again.
        """
        self._rebuild, self._previous = rebuild, previous

    def is_own(self, stamp: Stamp, memory_id: str) -> bool:
        """Return True if this daemon wrote a memory into the root that has this stamp."""
        return memory_id in self._records.own(stamp.identity)

    def is_of_person(self, stamp: Stamp, memory_id: str) -> bool:
        """Return True if it is on record that this daemon wrote a memory in the words of the person."""
        own = self._records.own(stamp.identity).get(memory_id)
        return own is not None and own.origin in OF_PERSON

    async def record_own(self, root: Root, files: Sequence[OwnFile]) -> None:
        """Record files that this daemon is about to write into a root, durably on return.

        Raises StoreError, except for the user's own roots, where every file counts.
        """
        trust = await asyncio.to_thread(self._admission.state_of, root.top)
        try:
            await self._records.put_own(trust.identity, files)
        except StoreError as error:
            if not root.is_own:
                raise
            logger.warning("origin not written down error=%s", error)

    async def own_files(self, root: Root, memory_ids: Collection[str]) -> Mapping[str, OwnFile]:
        """Return the records of the files that this daemon wrote for these memories, by id."""
        trust = await asyncio.to_thread(self._admission.state_of, root.top)
        own = [self._records.own(each) for each in _identities(trust)]
        found = ((each, next(filter(None, (files.get(each) for files in own)), None)) for each in memory_ids)
        return {memory_id: file for memory_id, file in found if file is not None}

    async def ids(self, top: str) -> RootIds:
        """Return the path of a root with the identities under which its files may be recorded."""
        trust = await asyncio.to_thread(self._admission.state_of, top)
        return RootIds(top, _identities(trust))

    async def tracked(self, root: Root, memory_ids: Collection[str]) -> frozenset[str]:
        """Return those memories whose file git may bring back; all of them if git cannot be asked.

        Git may do so by branch, stash or reflog. Returns none of them for a root without git.
        """
        return await asyncio.to_thread(self._tracked, root, frozenset(memory_ids))

    async def accept_hashes(self, root: Root, hashes: Collection[str]) -> None:
        """Accept files of a repository by hash, written now or soon; durable. Raises StoreError."""
        trust = await asyncio.to_thread(self._admission.state_of, root.top)
        if root.scope is Scope.REPO:
            await self._records.approve(trust.identity, hashes)

    async def record_rewrites(
        self, root: Root, rewrites: Sequence[Rewrite], *, keeps_origin: bool = True
    ) -> None:
        """Record the new hashes of own files that are about to be rewritten. Raises StoreError.

        Without `keeps_origin` the words are no longer those of the person.
        """
        trust = await asyncio.to_thread(self._admission.state_of, root.top)
        own = self._records.own(trust.identity)
        known = ((own.get(each.id), each) for each in rewrites)
        if files := [
            msgspec.structs.replace(
                file,
                sha256=each.after,
                origin=Origin.FILE if file.origin in OF_PERSON and not keeps_origin else file.origin,
            )
            for file, each in known
            if file is not None and file.sha256 == each.before
        ]:
            await self._records.put_own(trust.identity, files)

    async def exclude_captures(self, root: Root) -> None:
        """Make git ignore forged's files in a root, before a write, unless commits are chosen."""
        await self.wait_until_open()
        await asyncio.to_thread(self.excluding.keep_out, root)
        await self.excluding.save()

    async def remove_unwanted_lines(self) -> None:
        """Remove forged's lines from `info/exclude` where commits are chosen or the default."""
        await self.wait_until_open()
        await asyncio.to_thread(self.excluding.remove_lines)
        await self.excluding.save()

    async def look(self, root: Root) -> tuple[Snapshot, Admitted]:
        """Scan a root; return its snapshot, and its admitted memories and withheld files."""
        await self.wait_until_open()
        previous = self._previous(root) if self._previous is not None else None
        snapshot = await asyncio.to_thread(scan, root, previous)
        admitted = await asyncio.to_thread(self.admit, root, snapshot)
        await self.save()
        return snapshot, admitted

    async def withheld(self, roots: Iterable[Root]) -> tuple[WithheldFile, ...]:
        """Scan the repositories among these roots; return their withheld files."""
        looks = [await self.look(root) for root in roots if root.scope is Scope.REPO]
        return tuple(each for _, admitted in looks for each in admitted.withheld)

    async def describe(self, top: str) -> KnownRoot:
        """Scan a root and return its trust state, with the number of accepted and the withheld files."""
        _, admitted = await self.look(await asyncio.to_thread(repo_root, top))
        trust = await asyncio.to_thread(self._admission.state_of, top)
        return _known_root(top, trust, admitted, self._records.doubt)

    async def status(self, top: str) -> KnownRoot:
        """Return the trust state of a root from the records, without a look at its files."""
        trust = await asyncio.to_thread(self._admission.state_of, top)
        return _known_root(top, trust, Admitted(()), self._records.doubt)

    async def known_roots(self) -> tuple[KnownRoot, ...]:
        """Return the trust state of every root that was ever seen and still exists."""
        return tuple([await self.describe(top) for top in await self.known_tops()])

    async def known_tops(self) -> tuple[str, ...]:
        """Return the tops of all roots that were ever seen and still exist."""
        tops = sorted({record.top for record in self._records.roots()})
        return await asyncio.to_thread(lambda: tuple(filter(os.path.isdir, tops)))

    async def roots_under(self, directory: str, home: str) -> tuple[KnownRoot, ...]:
        """Find roots with memories below a directory; return their trust. Raises WorkspaceError."""
        tops = await asyncio.to_thread(roots_below, directory, home)
        return tuple([await self.describe(top) for top in tops])

    async def trust(self, top: str, mode: str = "", hashes: Collection[str] | None = None) -> KnownRoot:
        """Trust a root and accept its files (all or `hashes`); rebuild its map, return its state.

        `hashes` are of files that were shown to the person. `mode` is the configured one if empty.
        """
        await self.save()
        root = await asyncio.to_thread(repo_root, top)
        snapshot, _ = await self.look(root)
        trust = await asyncio.to_thread(self._admission.state_of, top)
        if not trust.identity:
            raise WorkspaceError(f"{top} cannot be looked at")
        branch = await asyncio.to_thread(self._admission.repository(top).branch)
        there = {file.sha256 for file in files_of(snapshot)}
        record = trust.record or RootRecord(top, trust.identity, utc_now(), born_empty=False)
        record = msgspec.structs.replace(record, identity=trust.identities[0])
        trusted = msgspec.structs.replace(
            record, trusted_at=utc_now(), mode=mode or self._mode, branch=branch
        )
        await self._records.put_root(trusted, there if hashes is None else there & set(hashes))
        return await self._rebuild_map(top)

    async def revoke(self, top: str) -> KnownRoot:
        """End the trust in a root and in files it accepted; rebuild its map, return its trust state."""
        await self.save()
        trust = await asyncio.to_thread(self._admission.state_of, top)
        for record in self._records.roots(top):
            if record.trusted_at or record.identity == trust.identity:
                await self._records.revoke(record)
        return await self._rebuild_map(top)

    async def approve(self, top: str, hashes: Collection[str]) -> KnownRoot:
        """Accept hashes of files of a root, unchecked, and rebuild its map; return its trust state."""
        trust = await asyncio.to_thread(self._admission.state_of, top)
        await self._records.approve(trust.identity, hashes)
        return await self._rebuild_map(top)

    async def _rebuild_map(self, top: str) -> KnownRoot:
        """Rebuild the map of a root after a decision; return its new trust state."""
        if self._rebuild is not None:
            await self._rebuild(top)
        return await self.describe(top)

    def _tracked(self, root: Root, memory_ids: frozenset[str]) -> frozenset[str]:
        """Return those of these memories whose file git may bring back; all if git cannot be asked."""
        if not memory_ids or root.in_git or not _lies_in_git(root.top):
            return frozenset()
        record = self._admission.state_of(root.top).record
        if record is None or not (record.trusted_at or record.born_empty):
            return memory_ids
        try:
            names = Git(root.top).file_names()
        except GitFailed:
            return memory_ids
        stems = {each.removesuffix(".md") for each in names}
        if not all(map(ID_PATTERN.fullmatch, stems)):  # the id in a file may differ from its name
            return memory_ids
        return memory_ids & stems


def _lies_in_git(top: str) -> bool:
    """Return True if a folder or one above it has a `.git`."""
    return any(os.path.lexists(os.path.join(each, ".git")) for each in upwards(top))


def _identities(trust: TrustState) -> tuple[str, ...]:
    """Return all identities of a root, the one of its record first."""
    return tuple(dict.fromkeys(filter(None, (trust.identity, *trust.identities))))


def _known_root(top: str, trust: TrustState, admitted: Admitted, doubt: str) -> KnownRoot:
    """Return the trust of a root in the form that a person is shown: trusted, own, unknown or unread."""
    record = trust.record
    found = KnownRoot(top, "unknown", accepted=len(admitted.memories), withheld=admitted.withheld)
    if doubt:
        return msgspec.structs.replace(found, state="unread", reason=doubt)
    if record is None or not record.trusted_at:
        state = "own" if record is not None and record.born_empty else "unknown"
        reason = REPLACED if trust.replaced else ""
        return msgspec.structs.replace(found, state=state, reason=reason)
    fields = {"mode": record.mode, "branch": record.branch, "trusted_at": record.trusted_at}
    return msgspec.structs.replace(found, state="trusted", **fields)
