"""Files of one user on several machines become the same everywhere, and nothing is lost unless forgotten."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from forged.files import parse
from forged.map import link
from forged.state import NEVER_MET
from tests.postgres.machines import OWNER, Clock, Machine, Server

Deed = tuple[str, int, int, bool]

KINDS = (
    "write",
    "version",
    "version",
    "hand",
    "hand",
    "remove",
    "forget",
    "forget",
    "restore",
    "sync",
    "killed",
)
DEEDS = st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 5), st.booleans())


class World:
    """Three machines, and a record of what was said and of what may be gone."""

    def __init__(self) -> None:
        self.server, clock = Server(), Clock()
        self.machines = [
            Machine(name, self.server, clock, skew) for name, skew in (("a", 0), ("b", 40), ("c", -40))
        ]
        self._numbers = itertools.count()
        self.said: set[str] = set()
        self.excused: set[str] = set()
        self.ever: defaultdict[str, set[str]] = defaultdict(set)
        self.removed: defaultdict[str, set[str]] = defaultdict(set)
        self.may_be_back: defaultdict[str, set[str]] = defaultdict(set)

    async def begin(self) -> None:
        """All have a chain of two and a memory alone."""
        first = self.machines[0]
        first.write(self._say(), first.write(self._say()))
        first.write(self._say())
        await self.heal()

    async def do(self, deed: Deed) -> None:
        what, at, pick, flag = deed
        machine = self.machines[at]
        there, trashed = sorted(machine.files), sorted(machine.trash)
        meant = there[pick % len(there)] if there else ""
        if what == "write" or (what == "version" and not there):
            machine.write(self._say())
        elif what == "version":
            machine.write(self._say(), meant)
        elif what == "sync":
            await machine.sync()
        elif what == "killed":
            machine.breaking.left = pick
            await machine.sync()
            machine.breaking.left = None
        elif what == "restore" and trashed:
            await self._restore(machine, trashed[pick % len(trashed)])
        elif what == "forget" and there:
            await machine.forget(machine.chain(meant) if flag else (meant,), "chain" if flag else "version")
        elif what == "remove" and there:
            self._lose(machine, meant)
            machine.remove_by_hand(meant)
            # Whoever was killed between a file and the note of it cannot know later that it was there.
            if machine.replicas.of(OWNER).get(meant, NEVER_MET).sha256:
                self.removed[machine.name].add(meant)
        elif what == "hand" and there:
            self._lose(machine, meant)
            machine.edit_by_hand(meant, self._say(), says_when=flag)
        self._note()

    async def _restore(self, machine: Machine, back: str) -> None:
        """Whoever restores what was forgotten brings it back everywhere, also where a hand had removed it."""
        mark = machine.replicas.of(OWNER)[back].mark
        self.removed[machine.name].discard(back)
        if mark is not None and mark.is_dead:
            for name in self.removed:
                self.may_be_back[name].add(back)
        await machine.restore(back)

    def _say(self) -> str:
        said = f"word {next(self._numbers)}"
        self.said.add(said)
        return said

    def _lose(self, machine: Machine, memory_id: str) -> None:
        """A person takes a text out of a file. It is gone unless somebody else has it, and nobody minds."""
        self.excused.add(content(machine.files[memory_id], memory_id))

    def _note(self) -> None:
        for files in (*(machine.files for machine in self.machines), self._rows()):
            for each, data in files.items():
                self.ever[each].add(content(data, each))

    def _rows(self) -> dict[str, bytes]:
        return {each: row[0].data for each, row in self.server.rows.items()}

    async def heal(self) -> None:
        for _ in range(12):
            before = [dict(machine.files) for machine in self.machines], self.server.changes
            for machine in self.machines:
                await machine.sync()
                self._note()
            if before == ([dict(machine.files) for machine in self.machines], self.server.changes):
                return
        raise AssertionError("they never agree")

    def check(self) -> None:
        rows = self._rows()
        dead = {each for each, (mark, _) in self.server.marks.items() if mark.is_dead}
        for machine in self.machines:
            lacking = rows.keys() - machine.files.keys()
            assert lacking <= self.removed[machine.name], f"{machine.name} lacks {lacking}"
            again = machine.files.keys() & self.removed[machine.name] - self.may_be_back[machine.name]
            assert not again, "made again what a hand had removed"
            assert machine.files == {each: rows[each] for each in machine.files}
        assert not dead & rows.keys()
        there = {content(data, each) for each, data in rows.items()}
        forgotten = {said for each in dead for said in self.ever[each]}
        for machine in self.machines:
            forgotten |= {content(each.data, name) for name, each in machine.trash.items()}
        assert self.said - there <= self.excused | forgotten

    def heads(self) -> list[object]:
        whole = [machine for machine in self.machines if not self.removed[machine.name]]
        return [link(machine.memories()) for machine in whole]


def content(data: bytes, name: str) -> str:
    return parse(data, "user", name).content


@given(st.lists(DEEDS, max_size=40))
def test_machines_that_meet_again_hold_the_same_and_have_lost_nothing(deeds: list[Deed]):
    async def lived() -> None:
        world = World()
        await world.begin()
        for deed in deeds:
            await world.do(deed)
        await world.heal()
        world.check()

    asyncio.run(lived())
