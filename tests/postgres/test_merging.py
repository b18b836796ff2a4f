"""Files of one user on several machines become equal, and only forgotten ones are lost."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forged.files import MAX_FILE_BYTES, parse, render
from forged.map import build_chains
from forged.memory import Memory
from forged.postgres.merging import Resolution, merge_plan, problem_with, resolution_of, version_of
from forged.state import NEVER_MET, RemovalMark, Replica
from tests.postgres.machines import OWNER, Clock, Machine, Server, held

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
        """Restore what was forgotten: it comes back everywhere, also where a hand removed it before."""
        mark = machine.replicas.of(OWNER)[back].mark
        self.removed[machine.name].discard(back)
        if mark is not None and mark.is_dead:
            for each in self.machines:
                self.may_be_back[each.name].add(back)
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
        return [build_chains(machine.memories()) for machine in whole]


def content(data: bytes, name: str) -> str:
    return parse(data, "user", name).content


# Killed after the restored file was noted as sent, before the server had it: another machine's was faster.
KILLED_SENDING: list[Deed] = [
    ("hand", 1, 0, False),
    ("forget", 1, 0, False),
    ("sync", 1, 0, False),
    ("restore", 1, 0, False),
    ("killed", 1, 4, False),
]


# Edited on one machine, forgotten and restored on another that never had the edit.
RESTORED_OLDER: list[Deed] = [
    ("hand", 1, 1, False),
    ("forget", 0, 1, False),
    ("sync", 1, 0, False),
    ("sync", 0, 0, False),
    ("restore", 0, 0, False),
]


@given(st.lists(DEEDS, max_size=40))
@example(KILLED_SENDING)
@example(RESTORED_OLDER)
def test_machines_that_meet_again_hold_the_same_and_have_lost_nothing(deeds: list[Deed]):
    async def lived() -> None:
        world = World()
        await world.begin()
        for deed in deeds:
            await world.do(deed)
        await world.heal()
        world.check()

    asyncio.run(lived())


REMOVED_LATE: list[Deed] = [
    ("forget", 1, 2, False),
    ("restore", 1, 0, False),
    ("remove", 0, 2, False),
    ("forget", 2, 2, False),
    ("sync", 2, 0, False),
]


@pytest.mark.parametrize("forgets_again", [False, True])
async def test_a_hand_that_removes_after_a_restore_is_obeyed_and_a_later_forget_everywhere(
    forgets_again: bool,
):
    """The clock of the machine that forgets last is 40 s slow, that of the one that restored 40 s fast."""
    world = World()
    await world.begin()
    for deed in REMOVED_LATE if forgets_again else REMOVED_LATE[:3]:
        await world.do(deed)
    await world.heal()
    world.check()
    assert "mem_a3" not in world.machines[0].files
    assert ["mem_a3" in each.files for each in world.machines[1:]] == [not forgets_again] * 2


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), min_size=2, max_size=12),
)
def test_one_text_that_several_machines_were_told_becomes_one_memory(said: list[tuple[int, int, bool]]):
    """However many say it, and whoever meets the server first; a person's replacement stays one."""

    async def lived() -> None:
        world = World()
        await world.heal()
        for at, text, syncs in said:
            world.machines[at].write(f"text {text}")
            if syncs:
                await world.machines[at].sync()
        await world.heal()
        for machine in world.machines:
            chains = build_chains(machine.memories())
            heads = [memory.content for memory in machine.memories() if chains.is_head(memory.id)]
            assert sorted(heads) == sorted({f"text {text}" for _, text, _ in said})
            assert not chains.concurrent_heads
            assert len(machine.memories()) == len(said), "and none is lost"

    asyncio.run(lived())


async def test_a_text_that_replaces_another_stays_so_when_it_was_told_elsewhere_too():
    world = World()
    one, other, _ = world.machines
    old = one.write("tabs are fine")
    await world.heal()
    replacing = one.write("use four spaces", old)
    said = other.write("use four spaces")
    await world.heal()
    for machine in world.machines:
        chains = build_chains(machine.memories())
        assert len({chains.head(each) for each in machine.files}) == 1
        assert set(chains.chain(said)) == {old, replacing, said}

    newer = one.write("use two spaces", build_chains(one.memories()).head(said))
    again = other.write("use four spaces")
    await world.heal()
    chains = build_chains(one.memories())
    heads = {each for each in one.files if chains.is_head(each)}
    assert (heads, chains.concurrent_heads) == ({newer, again}, {}), "what was replaced since is no twin"


async def test_a_row_that_is_forgotten_before_it_is_fetched_counts_as_no_bad_row():
    world = World()
    await world.begin()
    one, other, _ = world.machines
    gone = one.write("soon forgotten")
    await one.sync()
    there = world.server.file

    async def fetch(ids):
        await one.forget([gone], "chain")
        await one.sync()
        return {each: there(each) for each in ids if each in world.server.rows}

    other.replication._rows.fetch = fetch
    await other.sync()
    assert gone not in other.files
    assert other.replication.progress.refused == 0


# --- one memory at a time --------------------------------------------------------------------------------


def memory(memory_id: str, content: str, *, at: int = 0, older: str = "") -> bytes:
    time = f"2026-01-01T00:00:{at:02}Z"
    return render(
        Memory(memory_id, content, time, time, 1, "user", "user-facts", "s", "explicit", older or None)
    )


def test_a_version_that_was_written_before_its_chain_was_forgotten_goes_with_it_and_a_later_one_stays():
    forgotten_at = version_of(parse(memory("mem_x", "", at=30), "user", "mem_x"), "").created
    here = {
        "mem_2": held(memory("mem_2", "written before", at=20, older="mem_1"), "mem_2"),
        "mem_3": held(memory("mem_3", "on top of that", at=25, older="mem_2"), "mem_3"),
        "mem_4": held(memory("mem_4", "said anew", at=40, older="mem_1"), "mem_4"),
    }
    for kind, gone in (("chain", ("mem_2", "mem_3")), ("version", ())):
        plan = merge_plan(here, {}, {}, {"mem_1": RemovalMark(forgotten_at, kind)})
        assert plan.take_away == gone
        assert set(plan.push) == here.keys() - set(gone)
        assert set(plan.marks_to_send) == set(gone)


def settled(one: bytes, other: bytes) -> Resolution:
    return resolution_of("mem_1", "user", (one, 0), (other, 0))


def test_two_edits_of_one_file_come_to_the_same_whichever_side_looks_and_however_often():
    one, other = memory("mem_1", "tea", at=5), memory("mem_1", "coffee", at=9)
    end = settled(one, other)
    assert end == settled(other, one)
    assert end == settled(end.data, one), "one side has written its half already"
    kept, next_to = parse(end.data, "user", "mem_1"), parse(end.second, "user", end.second_id)
    assert (kept.id, kept.content, next_to.id, next_to.content) == ("mem_1", "coffee", end.second_id, "tea")
    assert build_chains([kept, next_to]).concurrent_heads == {next_to.id: (kept.id,)} or build_chains(
        [kept, next_to]
    ).concurrent_heads == {kept.id: (next_to.id,)}


def test_of_two_edits_the_later_one_by_the_clock_of_the_server_keeps_the_id():
    """The clock of the machine that wrote "coffee" is ten seconds fast."""
    tea, coffee = (memory("mem_1", "tea", at=5), 0), (memory("mem_1", "coffee", at=9), -10_000_000)
    for one, other in ((tea, coffee), (coffee, tea)):
        end = resolution_of("mem_1", "user", one, other)
        assert parse(end.data, "user", "mem_1").content == "tea"


def test_two_files_that_differ_in_nothing_that_is_said_leave_one():
    one = memory("mem_1", "tea", older="mem_0")
    other = memory("mem_1", "tea", at=0)
    assert settled(one, other) == Resolution(one) == settled(other, one)


@pytest.mark.parametrize(
    ("is_common", "ours", "theirs", "end"),
    [
        (True, "noted", "other", "pull"),
        (True, "other", "noted", "push"),
        (False, "noted", "other", "both"),
        (False, "other", "noted", "push"),
        (False, "other", "another", "both"),
    ],
)
def test_a_file_that_was_here_is_the_common_one_only_where_both_sides_had_it(
    is_common: bool, ours: str, theirs: str, end: str
):
    sides = [{"mem_1": held(memory("mem_1", said), "mem_1")} for said in (ours, theirs, "noted")]
    known = {"mem_1": Replica(sides[2]["mem_1"].sha256, is_common=is_common)}
    plan = merge_plan(sides[0], sides[1], known, {})
    assert (plan.pull, plan.push, plan.both) == tuple(
        ("mem_1",) if each == end else () for each in ("pull", "push", "both")
    )


@pytest.mark.parametrize(
    ("memory_id", "data", "said"),
    [
        ("../mem_1", memory("../mem_1", "x"), "cannot be the name of a file"),
        (".mem_1", memory(".mem_1", "x"), "cannot be the name of a file"),
        ("mem_1\n", memory("mem_1", "x"), "cannot be the name of a file"),
        ("mem_1", memory("mem_2", "x"), "another id"),
        ("mem_1", b"---\nid: [", "closing"),
        ("mem_1", b"x" * (MAX_FILE_BYTES + 1), "larger than"),
        ("mem_1", memory("mem_1", "x"), ""),
    ],
)
def test_what_comes_from_a_server_is_a_memory_of_its_id_or_is_refused(memory_id: str, data: bytes, said: str):
    problem = problem_with(memory_id, "user", data)
    assert said in problem
    assert bool(said) == bool(problem)
