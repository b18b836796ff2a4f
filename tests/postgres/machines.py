"""Several machines of one user and a server, without disks and sockets: for the merge alone.

`Machine` does to its files what the daemon does to its own, by the same functions; `Server` takes changes as
the real one does. A call in `Breaking` fails at a chosen moment, as if the daemon were killed there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from forged.files import parse, relinked, render
from forged.map import build_chains
from forged.memory import Memory, utc
from forged.postgres.merging import FileVersion, FileVersions, links_of_twins, version_of
from forged.postgres.replicating import CarriedFile, FileChange, PushResult, RemoteChanges, Replication
from forged.state import RemovalMark, Replicas
from forged.writing.removing import bypass_links

OWNER = ("user", "ada")
START = 1_700_000_000.0


class KilledError(Exception):
    """The daemon was killed here."""


class Nowhere:
    """A `state.db` that needs no disk."""

    def __init__(self) -> None:
        self.tables = []

    async def run(self, work, *, durable=True):
        return None


class Clock:
    def __init__(self) -> None:
        self.now = START

    def tick(self) -> float:
        self.now += 1
        return self.now


class Breaking:
    """Lets so many calls pass."""

    def __init__(self) -> None:
        self.left: int | None = None

    def call(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def held(data: bytes, name: str) -> FileVersion:
    return version_of(parse(data, "user", name), sha256(data))


class Server:
    """The rows of one owner. `is_away` for who cannot reach it."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[CarriedFile, FileVersion, int]] = {}
        self.marks: dict[str, tuple[RemovalMark, int]] = {}
        self.changes = 0

    def _next(self) -> int:
        self.changes += 1
        return self.changes

    def changes_since(self, since: int) -> RemoteChanges:
        return RemoteChanges(
            {each: version for each, (_, version, changed) in self.rows.items() if changed > since},
            {each: mark for each, (mark, changed) in self.marks.items() if changed > since},
            self.changes,
        )

    def file(self, memory_id: str) -> CarriedFile:
        """The file of a row, with the offset of the clock of its writer."""
        carried, version, _ = self.rows[memory_id]
        held_there = held(carried.data, memory_id)
        return msgspec.structs.replace(carried, offset_us=version.created - held_there.created)

    def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        done = set()
        for each, change in changes.items():
            there = self.rows[each][1].sha256 if each in self.rows else ""
            is_dead = each in self.marks and self.marks[each][0].is_dead
            if there == change.expected and not is_dead:
                self.rows[each] = (change.carried, change.version, self._next())
                done.add(each)
        return PushResult(frozenset(done))

    def mark(self, marks: Mapping[str, RemovalMark]) -> None:
        for each, mark in marks.items():
            if each not in self.marks or mark.rank > self.marks[each][0].rank:
                self.marks[each] = (mark, self._next())
                row = self.rows.pop(each, None)
                if row is not None and not mark.is_dead:
                    self.rows[each] = (*row[:2], self._next())


class Reached:
    """The server as one machine reaches it."""

    def __init__(self, server: Server, breaking: Breaking, offset_s: float = 0.0) -> None:
        self._server, self._breaking = server, breaking
        self.offset_us = round(offset_s * 1e6)

    async def access(self) -> str:
        return ""

    async def changes_since(self, since: int) -> RemoteChanges:
        self._breaking.call()
        return self._server.changes_since(since)

    async def fetch(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        self._breaking.call()
        return {each: self._server.file(each) for each in ids if each in self._server.rows}

    async def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        self._breaking.call()
        taken = self._server.push(changes)
        self._breaking.call()  # the server has it, and we do not know
        return taken

    async def mark(self, marks: Mapping[str, RemovalMark]) -> PushResult:
        self._breaking.call()
        self._server.mark(marks)
        self._breaking.call()
        return PushResult()


class Trashed(msgspec.Struct):
    data: bytes
    older: str
    followers: tuple[str, ...]


class Machine:
    """One machine: its files, its trash and what it knows. `skew_s` is how wrong its clock is."""

    def __init__(self, name: str, server: Server, clock: Clock, skew_s: float = 0.0) -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.trash: dict[str, Trashed] = {}
        self.breaking = Breaking()
        self._server, self._clock, self._skew_s = server, clock, skew_s
        self.replicas = Replicas(Nowhere(), clock=lambda: self.now() - skew_s)
        self._written = 0
        self.start()

    def now(self) -> float:
        return self._clock.tick() + self._skew_s

    def start(self) -> None:
        """As a daemon that was killed or ended comes back: with its disk."""
        rows = Reached(self._server, self.breaking, -self._skew_s)
        self.replication = Replication(OWNER, Disk(self), rows, self.replicas)

    def memories(self) -> list[Memory]:
        return [parse(data, "user", each) for each, data in self.files.items()]

    # --- what a person or an agent does -----------------------------------------------------------------

    def write(self, content: str, supersedes: str = "") -> str:
        self._written += 1
        memory_id, now = f"mem_{self.name}{self._written}", utc(self.now())
        version = 1 + max(
            [memory.version for memory in self.memories() if memory.id == supersedes], default=0
        )
        self.files[memory_id] = render(
            Memory(
                memory_id,
                content,
                now,
                now,
                version,
                "user",
                "user-facts",
                "s",
                "explicit",
                supersedes or None,
            )
        )
        return memory_id

    def edit_by_hand(self, memory_id: str, content: str, *, says_when: bool) -> None:
        memory = parse(self.files[memory_id], "user", memory_id)
        changed = msgspec.structs.replace(memory, content=content)
        if says_when:
            changed = msgspec.structs.replace(changed, updated_at=utc(self.now()))
        self.files[memory_id] = render(changed)

    def remove_by_hand(self, memory_id: str) -> None:
        del self.files[memory_id]

    def chain(self, memory_id: str) -> tuple[str, ...]:
        return build_chains(self.memories()).chain(memory_id)

    async def forget(self, ids: Sequence[str], kind: str) -> None:
        await self.replicas.mark(OWNER, ids, kind)
        self.drop(ids)

    async def restore(self, memory_id: str) -> None:
        if memory_id in self.files:  # another machine restored it: refused, and it stays in the trash
            return
        await self.replicas.mark(OWNER, [memory_id], "restored")
        trashed = self.trash.pop(memory_id)
        self.files[memory_id] = trashed.data
        for each in trashed.followers:
            if (
                each in self.files
                and (parse(self.files[each], "user", each).supersedes or "") == trashed.older
            ):
                self.files[each] = relinked(self.files[each], "user", each, memory_id)

    def drop(self, ids: Sequence[str]) -> None:
        gone = frozenset(ids)
        before = {memory.id: memory for memory in self.memories()}
        links = bypass_links(list(before.values()), gone)
        for each, older in links.items():
            self.files[each] = relinked(self.files[each], "user", each, older or None)
        for each in gone & self.files.keys():
            followers = tuple(sorted(other for other in links if before[other].supersedes == each))
            older = links[followers[0]] if followers else ""
            self.trash[each] = Trashed(self.files.pop(each), older, followers)

    # --- life -------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Steps until there is nothing to do, or the daemon is killed, which then starts again."""
        try:
            for _ in range(20):
                if not await self.replication.step():
                    return
            raise AssertionError(f"{self.name} is never in step: {self.replication.progress}")
        except KilledError:
            self.breaking.left = None
            self.start()


class Disk:
    """The files of a machine as replication sees them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._call = machine.breaking.call

    async def look(self) -> FileVersions:
        self._call()
        return {each: held(data, each) for each, data in self._machine.files.items()}

    async def read(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        files = self._machine.files
        return {each: CarriedFile(files[each]) for each in ids if each in files}

    async def write(self, files: Mapping[str, CarriedFile]) -> PushResult:
        for each, carried in files.items():
            self._call()
            self._machine.files.setdefault(each, carried.data)
        return PushResult(frozenset(files))

    async def rewrite(self, memory_id: str, carried: CarriedFile, expected: str) -> PushResult:
        self._call()
        if sha256(self._machine.files.get(memory_id, b"")) != expected:
            return PushResult()
        self._machine.files[memory_id] = carried.data
        self._call()
        return PushResult(frozenset({memory_id}))

    async def join_twins(self, ids: Collection[str]) -> None:
        self._call()
        memories = [memory for memory in self._machine.memories() if memory.id in ids]
        for memory_id, other in links_of_twins(memories).items():
            files = self._machine.files
            files[memory_id] = relinked(files[memory_id], "user", memory_id, other or None)

    async def take_away(self, ids: Sequence[str]) -> None:
        self._call()
        self._machine.drop(ids)
