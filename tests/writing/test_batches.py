"""Writers that wait together: they share what it costs, and nothing else."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from forged.errors import NoLongerWanted, StoreError
from forged.files import NewFile, Root, atomic
from forged.memory import Scope
from forged.state.database import Database
from forged.writing import WriteRequest
from forged.writing.root_writer import RootContents
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.writing.conftest import bench_at, draft


async def all_of(bench, drafts):
    """Each by a caller of its own; exceptions are among the results."""
    return await asyncio.gather(
        *(bench.writer.add(bench.index, each) for each in drafts), return_exceptions=True
    )


async def test_those_who_wait_share_a_transaction_and_the_sync_of_the_directory(bench, monkeypatch):
    await bench.writer.add(bench.index, draft("mem_first"))
    synced, transactions, marks = [], [], bench.index.generations.wanted
    fsync, change = os.fsync, Database.change
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synced.append(stat.S_ISDIR(os.fstat(fd).st_mode)), fsync(fd))
    )
    monkeypatch.setattr(
        Database, "change", lambda *args, **named: (transactions.append(args), change(*args, **named))[1]
    )

    reported = await all_of(bench, [draft(f"mem_{number}") for number in range(32)])

    assert len({each.memory.id for each in reported}) == 32
    assert synced.count(False) == 32
    assert synced.count(True) == 1
    assert len(transactions) == 1
    assert {each.generation for each in reported} == {marks + 1}


async def test_four_who_replace_one_head_line_up_and_every_reply_is_true(bench, repo):
    put(repo, draft("mem_1"))
    for round_ in range(5):
        before = max(bench.versions().items(), key=lambda item: item[1][0])[0]
        drafts = [draft(f"mem_{round_}{agent}", before) for agent in range(4)]
        reported = await all_of(bench, drafts)

        there = bench.versions()
        assert [there[each.memory.id][1] for each in reported] == [each.replaced for each in reported]
        assert [each.base_moved for each in reported] == [each.replaced != before for each in reported]
        assert sum(not each.base_moved for each in reported) == 1
    links = [older for _, older in bench.versions().values() if older]
    assert len(set(links)) == len(links) == 20
    assert sorted(version for version, _ in bench.versions().values()) == list(range(1, 22))


@pytest.mark.parametrize("call", ["sync", "link"])
async def test_what_goes_wrong_with_one_is_its_own_affair(bench, monkeypatch, call):
    real = getattr(NewFile, call)
    failing = []

    def sometimes(self, *args):
        if b"poison" in self._data and not failing:
            failing.append(self)
            raise OSError(5, "Input/output error")
        return real(self, *args)

    monkeypatch.setattr(NewFile, call, sometimes)
    drafts = [draft(f"mem_{number}", content="poison" if number == 3 else "") for number in range(8)]
    reported = await all_of(bench, drafts)

    assert [isinstance(each, StoreError) for each in reported] == [number == 3 for number in range(8)]
    assert len(bench.on_disk()) == 7


async def test_what_leaned_on_a_version_that_failed_is_based_on_the_one_before(bench, repo, monkeypatch):
    put(repo, draft("mem_1"))
    real = NewFile.link

    def link(self, name):
        if name == "mem_2.md":
            raise OSError(5, "Input/output error")
        real(self, name)

    monkeypatch.setattr(NewFile, "link", link)
    failed, third, twin = await all_of(
        bench, [draft("mem_2", "mem_1", "two"), draft("mem_3", "mem_1", "three"), draft("mem_4", None, "two")]
    )

    assert isinstance(failed, StoreError)
    assert (third.replaced, third.base_moved) == ("mem_1", False)
    assert (twin.memory.id, twin.existed) == ("mem_4", False)
    assert bench.versions() == {"mem_1": (1, None), "mem_3": (2, "mem_1"), "mem_4": (1, None)}


async def test_a_directory_that_cannot_be_synced_fails_all_and_leaves_none(bench, monkeypatch):
    await bench.writer.add(bench.index, draft("mem_0"))
    await bench.writer.add(bench.index, draft("mem_9"))

    def refused(directory, names):
        for name in names:
            os.unlink(name, dir_fd=directory)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "sync_names", refused)
        reported = await all_of(
            bench, [draft("mem_1"), draft("mem_2", "mem_0"), draft("mem_3", None, "text of mem_9")]
        )

    assert [type(each) for each in reported[:2]] == [StoreError, StoreError]
    assert reported[2].memory.id == "mem_9"
    assert set(bench.versions()) == {"mem_0", "mem_9"}
    assert (await bench.writer.add(bench.index, draft("mem_4", "mem_0"))).replaced == "mem_0"


async def test_a_full_disk_under_the_record_writes_nothing_and_the_next_goes_through(bench, monkeypatch):
    def full(self, work, **_):
        raise StoreError(f"{self.path}: no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr(Database, "change", full)
        reported = await all_of(
            bench, [draft("mem_1"), draft("mem_2"), draft("mem_x", None, "text of mem_1")]
        )
    assert [str(each) for each in reported] == [f"{bench.state._path}: no space left on the device"] * 3
    assert bench.contents() == []

    assert not (await bench.writer.add(bench.index, draft("mem_3", content="text of mem_1"))).existed


async def test_a_root_that_cannot_be_written_to_fails_alone(repo, tmp_path, bench):
    other = repo.with_name("other")
    (other / ".forge").mkdir(parents=True)
    (other / ".forge/memory").write_text("a file where the directory should be")
    await bench.trust.trust(str(other))
    from forged.counters import Metrics
    from forged.maps import Indexer

    indexer = Indexer(embedder=None, lexical=True, metrics=Metrics(), trust=bench.trust)
    try:
        index = indexer.open(Root(str(other), Scope.REPO))
        reported = await asyncio.gather(
            bench.writer.add(index, draft("mem_1")),
            bench.writer.add(bench.index, draft("mem_2")),
            return_exceptions=True,
        )
    finally:
        await indexer.close()

    assert isinstance(reported[0], StoreError)
    assert set(bench.versions()) == {"mem_2"}


async def test_a_caller_that_goes_away_stops_no_one(bench, monkeypatch):
    """One before its turn is left out, one whose file is being written only misses its answer."""
    await bench.writer.add(bench.index, draft("mem_0"))
    begun, go = asyncio.Event(), asyncio.Event()
    loop, real = asyncio.get_running_loop(), NewFile.sync

    def held(self):
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(PATIENCE_S)
        real(self)

    monkeypatch.setattr(NewFile, "sync", held)
    first = asyncio.create_task(bench.writer.add(bench.index, draft("mem_1")))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    second = asyncio.create_task(bench.writer.add(bench.index, draft("mem_2")))
    third = asyncio.create_task(bench.writer.add(bench.index, draft("mem_3")))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    go.set()

    assert (await asyncio.wait_for(third, PATIENCE_S)).memory.id == "mem_3"
    assert set(bench.versions()) == {"mem_0", "mem_1", "mem_3"}


async def test_what_was_forgotten_while_it_waited_is_not_written(bench):
    (reported,) = await bench.writer.add_all(
        bench.index, [WriteRequest(draft("mem_1"), unwanted=lambda _: True)]
    )

    assert isinstance(reported, NoLongerWanted)
    assert bench.contents() == []


# --- what is there, without reading all of it ---------------------------------------------------------


@pytest.fixture
def looks(monkeypatch):
    """How many files each look of the ledger was about: None stands for all."""
    from forged.writing import root_writer

    seen, real = [], root_writer.scan

    def scan(root, previous=None, files=None):
        seen.append(None if files is None else len(files))
        return real(root, previous, files or frozenset())

    monkeypatch.setattr(root_writer, "scan", scan)
    return seen


@pytest.mark.inotify
async def test_a_write_after_a_write_looks_at_nothing_and_one_after_an_editor_at_one_file(bench, repo, looks):
    (repo / ".forge/memory").mkdir(parents=True)
    for number in range(3):
        await bench.writer.add(bench.index, draft(f"mem_{number}"))
    assert looks == [None]

    (repo / ".forge/memory/mem_0.md").unlink()
    reported = await bench.writer.add(bench.index, draft("mem_3", content="text of mem_0"))
    assert looks == [None, 3]  # ours, that no look was about yet, and what was removed is one of them
    await bench.writer.add(bench.index, draft("mem_4"))
    assert len(looks) == 2
    assert not reported.existed


async def test_what_is_withheld_is_no_head_and_no_text_that_exists(bench, repo):
    await bench.writer.add(bench.index, draft("mem_1"))
    await bench.trust.revoke(str(repo))
    put(repo, memory("evil", "evil", supersedes="mem_1", version=9), memory("evil2", "use tabs"))

    reported = await bench.writer.add(bench.index, draft("mem_2", "mem_1"))
    assert (reported.replaced, reported.base_moved) == ("mem_1", False)
    assert not (await bench.writer.add(bench.index, draft("mem_3", content="use tabs"))).existed


async def test_trust_that_changes_counts_at_the_next_write(bench, repo):
    await bench.writer.add(bench.index, draft("mem_1"))
    await bench.trust.revoke(str(repo))
    put(repo, memory("theirs", "theirs", supersedes="mem_1", version=2))
    assert (await bench.writer.add(bench.index, draft("mem_2"))).memory.version == 1
    await bench.trust.trust(str(repo))

    reported = await bench.writer.add(bench.index, draft("mem_3", "mem_1"))
    assert (reported.replaced, reported.base_moved) == ("theirs", True)


async def test_the_ledger_is_as_a_fresh_look_after_anything(repo, tmp_path):
    """Forks, cycles, gaps, removals and edits by hand, and its own writes between them."""
    from random import Random

    from forged.map import build_chains

    draw = Random(5)
    async with bench_at(repo, tmp_path / "state") as bench:
        ledger = RootContents(bench.index.root, bench.trust, None)
        for step in range(150):
            ids = [each.id for each in bench.on_disk()]
            kind = draw.choice(["new", "new", "version", "remove", "edit"])
            older = draw.choice(ids) if ids and kind in ("version", "edit") else None
            match kind:
                case "remove" if ids:
                    (repo / f".forge/memory/{draw.choice(ids)}.md").unlink()
                case "edit" if ids:
                    put(
                        repo,
                        memory(
                            draw.choice(ids), f"edited {step}", supersedes=older, version=draw.randint(1, 9)
                        ),
                    )
                case _:
                    await bench.writer.add(bench.index, draft(f"mem_{step}", older, f"said {step % 40}"))
            await bench.trust.approve(
                str(repo), [each.sha256 for each in await bench.trust.withheld([bench.index.root])]
            )
            ledger.update()
            there = {each.id: each for each in bench.on_disk()}
            chains = build_chains(there.values())
            for memory_id, each in there.items():
                assert ledger.find(memory_id) == each
                assert {one.id for one in ledger.chain(memory_id)} == set(chains.chain(memory_id))
                found = ledger.find_same_text(each.content)
                assert (found is not None) or not chains.is_head(memory_id)
            assert all(ledger.find(each) is None for each in {"mem_gone"} | set(ids) - set(there))


async def test_a_repository_that_cannot_be_watched_is_read_anew(bench, repo, monkeypatch, looks):
    from forged.files import directory_events

    monkeypatch.setattr(directory_events, "_libc", lambda: None)
    await bench.writer.add(bench.index, draft("mem_1"))
    (repo / ".forge/memory/mem_1.md").unlink()

    assert not (await bench.writer.add(bench.index, draft("mem_2", content="text of mem_1"))).existed
    assert looks == [None, None]
