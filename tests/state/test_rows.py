"""Tables of rows: both policies, bounds, ages, and the ways a memory goes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from forged.errors import StoreError
from forged.state.database import Database, FileOnlyChange, connect, put, start
from forged.state.removal import Absence, Absences
from forged.state.rows import MemoryRows, Rows
from tests.support.clock import PATIENCE_S, Clock

NOW = 1_000_000.0
TOP, OTHER = "/srv/repo", "/home/me"


class Color(msgspec.Struct, frozen=True):
    name: str
    count: int = 0


class File:
    """A file with tables, as a daemon opens and closes it."""

    def __init__(self, path: Path) -> None:
        self.database = Database(str(path / "state.db"))
        self.clock = Clock(NOW)

    def rows(self, name: str, **options) -> Rows[Color]:
        return Rows(self.database, name, Color, clock=self.clock, **options)

    def memories(self, name: str, **options) -> MemoryRows[Color]:
        return MemoryRows(self.database, name, Color, clock=self.clock, **options)

    async def open(self) -> None:
        for take_over in await self.database.open(_made(self.database), _read(self.database)):
            take_over()


def _made(database):
    def prepare(path):
        connection = connect(path)
        start(connection, [table.name for table in database.tables], expected=False)
        return connection

    return prepare


def _read(database):
    return lambda connection: [table.load(connection) for table in database.tables]


@contextlib.asynccontextmanager
async def opened(path: Path, *names: str, **options) -> AsyncIterator[tuple]:
    file = File(path)
    made = [file.rows(name, **options) for name in names]
    await file.open()
    try:
        yield (file, *made)
    finally:
        await file.database.close()


RED, BLUE = Color("red"), Color("blue", 2)


async def test_a_durable_row_is_there_after_a_restart(tmp_path):
    async with opened(tmp_path, "colors", durable=True) as (_, colors):
        await colors.store({"a": RED, "b": BLUE})
        await colors.store({"a": None})
        assert dict(colors) == {"b": BLUE}
    async with opened(tmp_path, "colors", durable=True) as (_, colors):
        assert dict(colors) == {"b": BLUE}


async def test_rows_that_are_written_behind_are_in_memory_at_once_and_in_the_file_when_saved(tmp_path):
    async with opened(tmp_path, "colors") as (_, colors):
        colors.update({"a": RED})
        await colors.save()
        colors.update({"b": BLUE, "a": None})
        assert dict(colors) == {"b": BLUE}
    async with opened(tmp_path, "colors") as (_, colors):
        assert dict(colors) == {"a": RED}


async def test_a_durable_row_that_the_file_refuses_is_not_in_memory(tmp_path):
    async with opened(tmp_path, "colors", "others", durable=True) as (file, colors, others):
        await colors.store({"a": RED})
        await file.database.run(lambda connection: connection.execute("DROP TABLE others"))
        with pytest.raises(StoreError, match="no such table"):
            await file.database.commit(colors.change({"a": None, "b": BLUE}), others.change({"c": RED}))
        assert (dict(colors), dict(others)) == ({"a": RED}, {})
    async with opened(tmp_path, "colors", durable=True) as (_, colors):
        assert dict(colors) == {"a": RED}


async def test_a_transaction_over_tables_of_both_policies_is_whole(tmp_path):
    file = File(tmp_path)
    first, second = file.rows("first", durable=True), file.rows("second")
    await file.open()
    await file.database.commit(first.change({"a": RED}), second.change({"b": BLUE}))
    assert second.is_saved
    await file.database.close()

    async with opened(tmp_path, "first", "second") as (_, first, second):
        assert (dict(first), dict(second)) == ({"a": RED}, {"b": BLUE})


async def test_what_changes_while_it_is_written_is_written_again(tmp_path):
    async with opened(tmp_path, "colors") as (_, colors):
        colors.update({"a": RED, "b": RED})
        saving = asyncio.ensure_future(colors.save())
        await asyncio.sleep(0)
        colors.update({"a": BLUE})
        await saving
        assert not colors.is_saved
        await colors.save()
        assert colors.is_saved
    async with opened(tmp_path, "colors") as (_, colors):
        assert dict(colors) == {"a": BLUE, "b": RED}


async def test_what_cannot_be_saved_is_said_once_and_written_later(tmp_path, caplog):
    file = File(tmp_path)
    colors = file.rows("colors")
    for _ in range(2):
        colors.update({"a": RED})
        await colors.save()
    with pytest.raises(StoreError, match="is not open"):
        await colors.flush()
    assert caplog.text.count("rows are in memory only table=colors") == 1

    await file.open()
    await colors.save()
    await file.database.close()
    async with opened(tmp_path, "colors") as (_, colors):
        assert dict(colors) == {"a": RED}


@pytest.mark.parametrize("durable", [True, False])
async def test_the_oldest_go_where_there_are_too_many(tmp_path, durable):
    async with opened(tmp_path, "colors", durable=durable, most=2) as (_, colors):
        for key in ("a", "b", "a", "c"):
            await colors.store({key: RED})
        assert list(colors) == ["a", "c"]
    async with opened(tmp_path, "colors", durable=durable) as (_, colors):
        assert list(colors) == ["a", "c"]


@pytest.mark.parametrize("durable", [True, False])
async def test_the_oldest_go_where_they_take_too_much(tmp_path, durable):
    async with opened(tmp_path, "colors", durable=durable, most_bytes=300) as (_, colors):
        for key in "abcd":
            await colors.store({key: Color("x" * 100)})
        assert list(colors) == ["c", "d"]
        await colors.store({"c": Color("x")})  # that leaves room
        await colors.store({"e": Color("x" * 100)})
        assert list(colors) == ["d", "c", "e"]
    async with opened(tmp_path, "colors", durable=durable, most_bytes=120) as (_, colors):
        assert list(colors) == ["e"]


@pytest.mark.parametrize("durable", [True, False])
async def test_rows_of_an_age_go_from_memory_and_from_the_file(tmp_path, durable):
    async with opened(tmp_path, "colors", durable=durable, keep_s=60) as (file, colors):
        await colors.store({"a": RED})
        file.clock.now += 59
        await colors.store({"b": RED})
        assert list(colors) == ["a", "b"]
        file.clock.now += 1
        colors.tidy()
        assert list(colors) == ["b"]
        await colors.save()
    async with opened(tmp_path, "colors", durable=durable) as (_, colors):
        assert list(colors) == ["b"]


async def test_a_row_that_is_not_renewed_keeps_its_place_and_its_time(tmp_path):
    async with opened(tmp_path, "colors") as (file, colors):
        colors.update({"a": RED, "b": RED})
        file.clock.now += 9
        colors.update({"a": BLUE}, renew=False)
        assert (list(colors), colors._kept["a"].at) == (["a", "b"], NOW)
        colors.update({"a": BLUE})
        assert (list(colors), colors._kept["a"].at) == (["b", "a"], NOW + 9)


async def test_what_was_put_before_the_file_was_open_is_the_newer_or_is_merged(tmp_path):
    async with opened(tmp_path, "plain", "merged") as (_, plain, merged):
        for table in (plain, merged):
            table.update({"a": BLUE, "c": RED})
            await table.flush()
    file = File(tmp_path)
    plain = file.rows("plain")
    merged = file.rows("merged", merge=lambda old, new: Color(new.name, old.count + new.count))
    for table in (plain, merged):
        table.update({"a": Color("late", 3)})
    await file.open()
    assert dict(plain) == {"a": Color("late", 3), "c": RED}
    assert dict(merged) == {"a": Color("late", 5), "c": RED}
    await merged.save()
    await file.database.close()
    async with opened(tmp_path, "merged") as (_, merged):
        assert merged["a"] == Color("late", 5)


async def test_a_row_is_in_memory_once_it_is_in_the_file_though_no_one_waits_any_more(tmp_path):
    async with opened(tmp_path, "colors", durable=True) as (file, colors):
        begun, go = threading.Event(), threading.Event()
        slow = FileOnlyChange("colors", lambda _: (begun.set(), go.wait(PATIENCE_S)))
        storing = asyncio.ensure_future(file.database.commit(colors.change({"a": RED}), slow))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        storing.cancel()
        await asyncio.gather(storing, return_exceptions=True)
        go.set()
        await file.database.run(lambda _: None)  # behind the other
        assert dict(colors) == {"a": RED}


async def test_a_row_that_is_not_what_was_written_is_damage(tmp_path):
    async with opened(tmp_path, "colors", durable=True) as (file, colors):
        await colors.store({"a": RED})
        await file.database.run(lambda connection: put(connection, "colors", "b", 1.0, b"?"))
    with pytest.raises(StoreError, match="a row of colors cannot be read"):
        async with opened(tmp_path, "colors"):
            pass


async def test_text_that_is_not_unicode_is_refused(tmp_path):
    async with opened(tmp_path, "colors", durable=True) as (_, colors):
        with pytest.raises(StoreError, match="not Unicode"):
            await colors.store({"a": Color("\ud800")})
        assert dict(colors) == {}


# --- memories ---------------------------------------------------------------------------------------------


def added(old: Color, new: Color) -> Color:
    return Color(new.name, old.count + new.count)


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_forgotten_is_erased_in_its_root_alone(tmp_path, durable):
    file = File(tmp_path)
    colors = file.memories("colors", durable=durable)
    await file.open()
    for top in (TOP, OTHER):
        await file.database.commit(colors.restore_change(top, {"mem_1": RED, "mem_2": BLUE}))
    await file.database.commit(colors.erase_change(TOP, ["mem_1", "mem_never"]))
    assert (colors.of_root(TOP).keys(), colors.of_root(OTHER).keys()) == ({"mem_2"}, {"mem_1", "mem_2"})
    await file.database.close()
    async with opened(tmp_path, "colors") as (_, colors):
        assert len(colors) == 3


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_trashed_is_handed_over_and_given_back(tmp_path, durable):
    file = File(tmp_path)
    colors = file.memories("colors", durable=durable)
    await file.open()
    await file.database.commit(colors.restore_change(TOP, {"mem_1": RED, "mem_2": BLUE}))
    held = colors.rows_of(TOP, ["mem_1", "mem_never"])
    await file.database.commit(colors.erase_change(TOP, held))
    assert (held, colors.of(TOP, "mem_1")) == ({"mem_1": RED}, None)
    await file.database.commit(colors.restore_change(TOP, held))
    assert colors.of(TOP, "mem_1") == RED
    await file.database.close()


@pytest.mark.parametrize(
    ("merge", "there", "moved"),
    [
        (None, None, Color("new", 2)),
        (None, Color("there", 9), Color("there", 9)),
        (added, None, Color("new", 3)),
        (added, Color("there", 9), Color("there", 12)),
    ],
)
@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_moved_has_the_rows_of_its_chain(tmp_path, merge, there, moved, durable):
    file = File(tmp_path)
    colors = file.memories("colors", durable=durable, merge=merge)
    await file.open()
    chain = {"mem_1": Color("old", 1), "mem_2": Color("new", 2)}
    await file.database.commit(colors.restore_change(TOP, chain))
    if there is not None:
        await file.database.commit(colors.restore_change(OTHER, {"mem_3": there}))
    await file.database.commit(colors.move_change(TOP, [*chain, "mem_never"], OTHER, "mem_3"))
    assert (colors.of_root(TOP), colors.of(OTHER, "mem_3")) == ({}, moved)
    await file.database.commit(colors.move_change(TOP, ["mem_never"], OTHER, "mem_4"))
    assert colors.of_root(OTHER).keys() == {"mem_3"}
    await file.database.close()


async def test_days_on_which_a_memory_is_absent_count_once_and_end_when_it_is_seen(tmp_path):
    file = File(tmp_path)
    absences = Absences(file.database)
    await file.open()
    for day in ("2026-01-01", "2026-01-01", "2026-01-09", "2026-01-08"):
        await file.database.commit(absences.absence_change(TOP, ["mem_1", "mem_2"], day))
    assert absences.of_root(TOP) == dict.fromkeys(["mem_1", "mem_2"], Absence("2026-01-01", "2026-01-09", 2))
    await absences.forget(TOP, ["mem_1"])
    assert (absences.of_root(TOP).keys(), absences.of_root(OTHER)) == ({"mem_2"}, {})
    await file.database.close()
