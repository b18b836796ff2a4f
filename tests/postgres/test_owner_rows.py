"""The rows of one owner as replication sees them, on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from forged.attributes import Facts
from forged.files import render
from forged.memory import Memory, Scope
from forged.postgres.owner_rows import OwnerRows
from forged.postgres.replicating import CarriedFile, FileChange, PushResult
from forged.state import RemovalMark
from tests.postgres.machines import held
from tests.postgres.rows import running
from tests.support.postgres import Database

TIME = "2026-01-01T00:00:00.000007Z"


def change(memory_id: str, content: str = "text", expected: str = "", older: str = "") -> FileChange:
    data = render(
        Memory(memory_id, content, TIME, TIME, 1, "user", "user-facts", "s", "explicit", older or None)
    )
    return FileChange(CarriedFile(data, Facts("fact", 0.7, {"topic": "x"})), held(data, memory_id), expected)


async def test_a_row_comes_back_as_the_file_it_was_with_what_is_known_next_to_it(
    database: Database, tmp_path: Path
):
    async with running(database, tmp_path) as shared:
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        sent = change("mem_1", older="mem_0")
        assert (await rows.push({"mem_1": sent})).ids == {"mem_1"}
        news = await rows.changes_since(0)
        assert news.versions == {"mem_1": sent.version}
        assert (await rows.fetch(["mem_1", "mem_2"])) == {"mem_1": sent.carried}
        assert (await rows.changes_since(news.cursor)).versions == {}
        assert (await OwnerRows(shared, Scope.USER, "bob", "/home/bob").changes_since(0)).versions == {}


async def test_only_who_knows_what_is_there_changes_a_row(database: Database, tmp_path: Path):
    async with running(database, tmp_path) as shared:
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        first, second = change("mem_1", "first"), change("mem_1", "second")
        await rows.push({"mem_1": first})
        assert await rows.push({"mem_1": second}) == PushResult()
        knowing = change("mem_1", "second", expected=first.version.sha256)
        assert (await rows.push({"mem_1": knowing})).ids == {"mem_1"}
        assert (await rows.fetch(["mem_1"]))["mem_1"].data == second.carried.data


async def test_a_mark_beats_rows_that_come_later_until_a_later_mark(database: Database, tmp_path: Path):
    async with running(database, tmp_path) as shared:
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        await rows.push({"mem_1": change("mem_1")})
        await rows.mark({"mem_1": RemovalMark(1_000_000, "chain")})
        assert (await rows.changes_since(0)).versions == {}
        assert await rows.push({"mem_1": change("mem_1")}) == PushResult()
        await rows.mark({"mem_1": RemovalMark(999_999, "restored")})
        assert (await rows.changes_since(0)).marks == {"mem_1": RemovalMark(1_000_000, "chain")}
        await rows.mark({"mem_1": RemovalMark(1_000_001, "restored")})
        assert (await rows.push({"mem_1": change("mem_1")})).ids == {"mem_1"}


async def test_a_reader_passes_no_row_by_however_many_write_at_once(database: Database, tmp_path: Path):
    async with running(database, tmp_path) as shared:
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        over, seen = asyncio.Event(), dict[str, str]()

        async def write(writer: int) -> None:
            for number in range(15):
                name = f"mem_{writer}_{number}"
                await rows.push({name: change(name)})

        async def read() -> None:
            cursor = 0
            while True:
                was_over = over.is_set()
                news = await rows.changes_since(cursor)
                seen.update({each: version.sha256 for each, version in news.versions.items()})
                cursor = news.cursor
                if was_over:
                    return

        reader = asyncio.create_task(read())
        await asyncio.gather(*map(write, range(3)))
        over.set()
        await reader
        assert len(seen) == 45


async def test_a_file_with_a_secret_or_that_no_table_takes_stays_and_the_others_go(
    database: Database, tmp_path: Path
):
    async with running(database, tmp_path) as shared:
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        secret = "ghp_" + "Zk3Lq9Rt7Wx2Bn5Vc8Mj1Hd4Fg6Ys0PaQeUi"
        sent = {
            "mem_1": change("mem_1", f"the token is {secret}"),
            "mem_2": change("mem_2", "<private>my diary</private> and more"),
            "mem_3": change("mem_3", "nothing odd"),
        }
        taken = await rows.push(sent)
        assert taken.ids == {"mem_3"}
        assert taken.refused == dict.fromkeys(("mem_1", "mem_2"), "looks secret")
        assert [each for (each,) in database.sql("SELECT id FROM forged.user_memories")] == ["mem_3"]
