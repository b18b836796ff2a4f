"""Restore of removed memories, and moves to another scope."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.errors import MemoryNotFound, StoreError
from forged.memories.removal import remove_memories
from forged.memories.restore import resume
from forged.state import Intent
from forged.state.forgotten import digest
from forged.writing.trash import Trash
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.data.secrets import ALNUM, Draw
from tests.faults.amount import times
from tests.memories.test_versions import THREE, chain, forgotten, links, remembered, shown
from tests.support.clock import run, until

SAMPLES = sorted((Path(__file__).parents[1] / "data/samples").glob("*.md"))
WHOLE = [("mem_1", None), ("mem_2", "mem_1"), ("mem_3", "mem_2")]


def files(top: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(path, top): path.read_bytes()
        for folder in (".forge/memory", ".forge/memories")
        for path in (top / folder).glob("*")
    }


async def restored(parts: Parts, repo: Path, memory_id: str = "", **fields: object) -> wire.Restored:
    return await parts.ask(wire.Restore(workspace=str(repo), memory_id=memory_id, **fields))


async def away(parts: Parts, repo: Path, memory_id: str, **fields: object) -> wire.Forgotten:
    """Forget a whole chain."""
    return await parts.ask(wire.Forget(workspace=str(repo), memory_id=memory_id, **fields))


# --- restore ------------------------------------------------------------------------------------------


async def test_a_chain_that_was_forgotten_comes_back_as_it_was(home, repo):
    put(repo, *THREE)
    before = files(repo)
    async with assembled(home) as parts:
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_3"))
        assert files(repo) == {}
        back = await restored(parts, repo, "mem_1")
        found = await parts.ask(wire.Search(workspace=str(repo), query="third"))

    assert files(repo) == before
    assert [each.id for each in back.memories] == ["mem_1", "mem_2", "mem_3"]
    assert [hit.id for hit in found.memories] == ["mem_3"]
    assert list((home / "state/trash").iterdir()) == []


@pytest.mark.parametrize("taken", ["mem_1", "mem_2", "mem_3"])
async def test_a_chain_comes_back_as_a_whole_or_not_at_all(home, repo, taken):
    """Else a later start would go on, and bring back memories that were forgotten since."""
    put(repo, *THREE)
    before = files(repo)
    async with assembled(home) as parts:
        await away(parts, repo, "mem_3")
        other = repo / f".forge/memory/{taken}.md"
        other.write_bytes(b"notes of a person")
        with pytest.raises(StoreError, match="there is another file"):
            await restored(parts, repo, "mem_1")
        assert list(files(repo)) == [f".forge/memory/{taken}.md"]
        assert list(parts.state.intents.values()) == []
        other.unlink()
        await restored(parts, repo, "mem_1")
    assert files(repo) == before


@pytest.mark.parametrize("gone", ["mem_1", "mem_2", "mem_3"])
async def test_a_single_version_comes_back_into_its_chain(home, repo, gone):
    put(repo, *THREE)
    before = files(repo)
    async with assembled(home) as parts:
        await forgotten(parts, repo, gone)
        await restored(parts, repo, gone)
        found = await chain(parts, repo, "mem_3")

    assert links(found) == WHOLE
    assert found.flags == ()
    assert files(repo) == before


async def test_files_of_the_go_program_and_by_hand_come_back_byte_by_byte(home, repo):
    folder = repo / ".forge/memories"
    folder.mkdir(parents=True)
    for sample in SAMPLES:
        shutil.copy(sample, folder / sample.name)
    before = files(repo)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        listed = await parts.ask(wire.ListMemories(workspace=str(repo), all_versions=True))
        for each in listed.memories:
            await parts.ask(wire.Forget(workspace=str(repo), memory_id=each.id, version_only=True))
        there = files(repo)
        for each in reversed(listed.memories):
            await restored(parts, repo, each.id)

    assert len(listed.memories) >= 5
    assert len(there) == len(before) - len(listed.memories)
    assert files(repo) == before


async def test_what_comes_back_may_be_captured_again_and_counts_as_before(home, repo):
    async with assembled(home, trusting=False) as parts:
        reported = await remembered(parts, repo, "We deploy on Mondays.")
        await parts.ask(wire.Forget(workspace=str(repo), memory_id=reported.memory_id))
        held = parts.state.forgotten.digests()
        await restored(parts, repo, reported.memory_id)
        found = await shown(parts, repo, reported.memory_id)

        assert held
        assert parts.state.forgotten.digests() == frozenset()
        assert found.origin == "agent"


async def test_without_an_id_it_lists_what_can_come_back_and_until_when(home, repo):
    put(repo, *THREE)
    put(home, memory("mem_u", "of the user", scope="user"))
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    async with assembled(home) as parts:
        foreign = await remembered(parts, other, "of another repository")
        await parts.ask(wire.Forget(workspace=str(other), memory_id=foreign.memory_id))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_3"))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_u"))
        reported = await restored(parts, repo)
        refused, _ = await parts.refusal(wire.Restore(workspace=str(repo), memory_id=foreign.memory_id))

    assert [(each.id, each.ids, each.why, each.first_line) for each in reported.restorable] == [
        ("mem_u", ("mem_u",), "forget", "of the user"),
        ("mem_3", ("mem_1", "mem_2", "mem_3"), "forget", "third"),
    ]
    assert all(each.until[:8] >= each.taken_at[:8] for each in reported.restorable)
    assert refused == "not_found"


async def test_after_seven_days_nothing_comes_back(home, repo):
    put(repo, memory("mem_1", "text"))
    async with assembled(home) as parts:
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        (note,) = (home / "state/trash").glob("*/origin.json")
        said = json.loads(note.read_text())
        note.write_text(json.dumps(said | {"taken_at": said["taken_at"] - 7 * 24 * 3600 - 1}))
        refused, reported = await parts.refusal(wire.Restore(workspace=str(repo), memory_id="mem_1"))
        listed = await restored(parts, repo)

    assert (refused, listed.status, listed.restorable) == ("not_found", "empty", ())
    assert "7 days" in reported
    assert files(repo) == {}


async def test_what_is_there_is_no_failure(home, repo):
    put(repo, memory("mem_1", "text"))
    async with assembled(home) as parts:
        reported = await restored(parts, repo, "mem_1")

    assert (reported.status, reported.reason) == ("empty", "it is there already")


async def test_a_file_that_is_in_the_way_is_not_overwritten(home, repo):
    put(repo, memory("mem_1", "text"))
    async with assembled(home) as parts:
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        put(repo, memory("mem_1", "somebody else's"))
        refused, reported = await parts.refusal(wire.Restore(workspace=str(repo), memory_id="mem_1"))

    assert refused == "conflict"
    assert "mem_1.md" in reported
    assert b"somebody else's" in files(repo)[".forge/memory/mem_1.md"]
    assert len(list((home / "state/trash").glob("*/mem_1.md"))) == 1


# --- erasing what lies in the trash -------------------------------------------------------------------


@pytest.mark.parametrize("went", ["forget", "undo", "move", "version"])
async def test_what_lies_in_the_trash_is_erased_by_its_id(home, repo, went):
    """Also an older copy of the same text, and nothing that went with it and is another memory."""
    captured = [
        replace(each, trigger="cadence") for each in (memory("mem_1", "goose"), memory("mem_2", "redis"))
    ]
    put(repo, *captured)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        if went == "undo":
            await parts.ask(wire.Undo(workspace=str(repo)))
        elif went == "move":
            await parts.ask(wire.Move(workspace=str(repo), memory_id="mem_1", to="user"))
        else:
            await away(parts, repo, "mem_1", version_only=went == "version")
        code, reported = await parts.refusal(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        gone = await parts.ask(wire.Forget(workspace=str(repo), memory_id="1", erase_now=True))
        again, _ = await parts.refusal(wire.Forget(workspace=str(repo), memory_id="mem_1", erase_now=True))
        back, _ = await parts.refusal(wire.Restore(workspace=str(repo), memory_id="mem_1"))
        digests = parts.state.forgotten.digests()

    assert (code, "--now" in reported, again, back) == ("not_found", True, "not_found", "not_found")
    assert (gone.ids, gone.trash) == (("mem_1",), "")
    held = b"".join(path.read_bytes() for path in (home / "state/trash").rglob("*.md"))
    assert (b"goose" in held, b"redis" in held) == (False, went == "undo")
    assert digest(str(repo), "goose") in digests


@pytest.mark.parametrize("others", [("mem_notes-2",), ("mem_notes-2", "mem_notes-3")], ids=len)
@pytest.mark.parametrize("named", ["mem_notes", "notes"])
async def test_an_id_in_the_trash_is_meant_before_those_on_disk_that_begin_so(home, repo, named, others):
    put(repo, memory("mem_notes", "goose"), *(memory(each, f"redis {each}") for each in others))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        away_first = await parts.ask(wire.Forget(workspace=str(repo), memory_id=named))
        code, reported = await parts.refusal(wire.Forget(workspace=str(repo), memory_id=named))
        gone = await parts.ask(wire.Forget(workspace=str(repo), memory_id=named, erase_now=True))
        left = (await parts.ask(wire.ListMemories(workspace=str(repo)))).memories

    assert (away_first.ids, gone.ids) == (("mem_notes",), ("mem_notes",))
    assert (code, "--now" in reported) == ("not_found", True)
    assert sorted(each.id for each in left) == sorted(others)


async def test_erasing_erases_a_copy_that_went_between_the_look_and_the_write(home, repo, monkeypatch):
    """A second request takes the memory into the trash while the first is about to erase it."""
    put(repo, memory("mem_1", "goose"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        chain = parts.memories.writer.chain

        async def late(index, memory_id):
            found = await chain(index, memory_id)
            monkeypatch.setattr(parts.memories.writer, "chain", chain)
            await away(parts, repo, "mem_1")
            return found

        monkeypatch.setattr(parts.memories.writer, "chain", late)
        gone = await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1", erase_now=True))

    assert gone.ids == ("mem_1",)
    assert list((home / "state/trash").rglob("*.md")) == []


@given(st.lists(st.sampled_from(["restore", "erase", "forget"]), min_size=3, max_size=8), st.randoms())
@settings(max_examples=times(20, 5))
def test_erasing_during_restores_never_fails_and_what_is_erased_last_is_nowhere(verbs, draw):
    """Requests begin at once; one that finds nothing says so, and no other fault is known."""

    async def scenario(home: Path, repo: Path) -> None:
        put(repo, memory("mem_1", "goose"), memory("mem_2", "goose"), memory("mem_3", "redis"))
        async with assembled(home) as parts:
            for memory_id in ("mem_1", "mem_2", "mem_3"):
                await away(parts, repo, memory_id)

            async def one(verb: str) -> str:
                named = {"workspace": str(repo), "memory_id": draw.choice(["mem_1", "mem_2", "mem_3"])}
                erases = {"erase_now": True} if verb == "erase" else {}
                ask = wire.Restore(**named) if verb == "restore" else wire.Forget(**named, **erases)
                try:
                    return (await parts.ask(ask)).status
                except MemoryNotFound:
                    return "not_found"

            ends = await asyncio.gather(*map(one, verbs))
            assert set(ends) <= {"ok", "empty", "not_found"}
            await one_by_one(parts, repo)

    async def one_by_one(parts: Parts, repo: Path) -> None:
        for memory_id in ("mem_1", "mem_2", "mem_3"):
            with contextlib.suppress(MemoryNotFound):
                await parts.ask(wire.Forget(workspace=str(repo), memory_id=memory_id, erase_now=True))
        assert files(repo) == {}
        assert list(Path(parts.memories.writer.trash.path).glob("*")) == []

    with tempfile.TemporaryDirectory() as folder:
        home, repo = Path(folder, "home"), Path(folder, "repo")
        (repo / ".git").mkdir(parents=True)
        home.mkdir()
        run(scenario(home, repo))


async def test_a_restore_that_was_read_before_an_erase_brings_nothing_back(home, repo, monkeypatch):
    put(repo, memory("mem_1", "goose"))
    async with assembled(home) as parts:
        await away(parts, repo, "mem_1")
        held = parts.memories.writer.trash.held

        def late(now):
            found = held(now)
            monkeypatch.setattr(parts.memories.writer.trash, "held", held)
            parts.memories.writer.trash.erase(str(repo), ("mem_1",), ())
            return found

        monkeypatch.setattr(parts.memories.writer.trash, "held", late)
        code, reported = await parts.refusal(wire.Restore(workspace=str(repo), memory_id="mem_1"))

    assert (code, "erased or restored meanwhile" in reported) == ("not_found", True)
    assert files(repo) == {}


# --- move ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "end"), [("repo", "user"), ("user", "repo")])
async def test_a_memory_gets_the_other_scope_and_its_chain_goes_to_the_trash(home, repo, start, end):
    tops = {"repo": repo, "user": home}
    async with assembled(home) as parts:
        one = await remembered(parts, repo, "first", scope=start, category="corrections")
        two = await remembered(parts, repo, "second", supersedes=one.memory_id)
        reported = await parts.ask(wire.Move(workspace=str(repo), memory_id=one.memory_id, to=end))
        found = await shown(parts, repo, reported.memory_id)

        assert set(reported.ids) == {one.memory_id, two.memory_id}
        assert (found.scope, found.category, found.content, found.version) == (
            end,
            "corrections",
            "second",
            1,
        )
        assert found.origin == "agent"
        assert files(tops[start]) == {}
        back = await restored(parts, repo, two.memory_id)
        assert {each.id for each in back.memories} == {one.memory_id, two.memory_id}
        assert parts.state.forgotten.digests() == frozenset()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"to": "repo"}, "invalid"),
        ({"to": "org"}, "invalid"),
        ({"to": "user", "memory_id": "mem_none"}, "not_found"),
    ],
)
async def test_a_move_that_makes_no_sense_is_refused(home, repo, fields, code):
    put(repo, memory("mem_1", "text"))
    async with assembled(home) as parts:
        refused, _ = await parts.refusal(wire.Move(**{"workspace": str(repo), "memory_id": "mem_1"} | fields))

    assert refused == code
    assert len(files(repo)) == 1


async def test_a_secret_in_a_file_is_moved_only_by_who_insists(home, repo):
    secret = "gh" + "p_" + Draw("moved").of(ALNUM, 36)
    put(repo, memory("mem_1", f"push with {secret}"))
    async with assembled(home) as parts:
        refused, reported = await parts.refusal(wire.Move(workspace=str(repo), memory_id="mem_1", to="user"))
        moved = await parts.ask(
            wire.Move(workspace=str(repo), memory_id="mem_1", to="user", allow_secret=True)
        )

    assert (refused, secret in reported) == ("secret", False)
    assert secret in Path(moved.path).read_text()


async def test_withheld_memories_are_named_by_a_beginning_too(home, repo):
    put(repo, memory("mem_abc", "one"), memory("mem_abd", "two"), memory("mem_abe", "three"))
    async with assembled(home, trusting=False) as parts:
        reported = await parts.ask(wire.Review(workspace=str(repo), accept=("abc",)))
        refused, _ = await parts.refusal(wire.Review(workspace=str(repo), accept=("mem_a",)))
        code, _ = await parts.refusal(wire.Review(workspace=str(repo), accept=("mem_z",)))

    assert reported.accepted == ("mem_abc",)
    assert (refused, code) == ("invalid", "not_found")


# --- after a kill -------------------------------------------------------------------------------------


async def test_a_removal_that_stopped_after_the_link_is_finished_at_the_start(home, repo, monkeypatch):
    put(repo, *THREE)
    async with assembled(home) as parts:
        with monkeypatch.context() as broken:
            broken.setattr("forged.files.store.atomic.move", _full)
            refused, _ = await parts.refusal(
                wire.Forget(workspace=str(repo), memory_id="mem_2", version_only=True)
            )
        assert refused == "storage_error"
        assert len(parts.state.intents) == 1
    async with assembled(home) as parts:
        await resume(parts.memories)
        found = await chain(parts, repo, "mem_3")
        assert links(found) == [("mem_1", None), ("mem_3", "mem_1")]
        assert dict(parts.state.intents) == {}
        await restored(parts, repo, "mem_2")
        assert links(await chain(parts, repo, "mem_3")) == WHOLE


async def test_a_move_that_stopped_after_the_copy_is_finished_at_the_start(home, repo, monkeypatch):
    put(repo, *THREE)

    class Killed(BaseException):
        pass

    async def killed(*_: object, **__: object) -> None:
        raise Killed

    async with assembled(home) as parts:
        with monkeypatch.context() as broken:
            broken.setattr("forged.memories.restore.remove_moved", killed)
            broken.setattr(parts.state.intents, "drop", killed)
            with pytest.raises(Killed):
                await parts.ask(wire.Move(workspace=str(repo), memory_id="mem_1", to="user"))
    assert (len(files(repo)), len(files(home))) == (3, 1)
    async with assembled(home) as parts:
        await resume(parts.memories)

    assert (len(files(repo)), len(files(home))) == (0, 1)


@pytest.mark.parametrize(
    "ask",
    [
        wire.Restore(workspace="", memory_id="mem_2"),
        wire.Forget(workspace="", memory_id="mem_3"),
        wire.Move(workspace="", memory_id="mem_3", to="user"),
        wire.Undo(workspace=""),
    ],
    ids=lambda ask: type(ask).__name__,
)
async def test_requests_wait_for_what_a_kill_interrupted(home, repo, monkeypatch, ask):
    """The kill came after the removal and before its row went: else what comes back is taken away again."""
    ask = replace(ask, workspace=str(repo))
    put(repo, *THREE)
    async with assembled(home) as parts:
        await forgotten(parts, repo, "mem_2")
        await parts.state.intents.begin(Intent("k1", "remove", str(repo), "repo", ("mem_2",)))
    async with assembled(home) as parts:
        answered = asyncio.Event()

        async def slow(*args, **fields):
            await answered.wait()
            return await remove_memories(*args, **fields)

        monkeypatch.setattr("forged.memories.restore.remove_memories", slow)
        with monkeypatch.context() as impatient:
            impatient.setattr("forged.daemon.handlers.request_context.PATIENCE_S", 0.01)
            resuming = asyncio.create_task(resume(parts.memories))
            await until(lambda: not parts.state.intents.resumed.is_set())
            refused = await parts.refusal(ask)
        asking = asyncio.create_task(parts.ask(ask))
        answered.set()
        await resuming
        await asking
        if isinstance(ask, wire.Restore):
            assert links(await chain(parts, repo, "mem_3")) == WHOLE
    assert refused == (
        "busy",
        "the daemon is still finishing what was interrupted before its start; try again in a moment",
    )


@pytest.mark.parametrize("kind", ["remove", "move"])
async def test_what_came_back_is_not_taken_away_again_at_the_next_start(home, repo, kind):
    """The kill came after the removal and before its row went; a person restored it before the next kill."""
    put(repo, *THREE)
    left = Intent("k1", kind, str(repo), "repo", ("mem_2",), became="mem_9" if kind == "move" else "")
    left = replace(left, to_top=str(home), to_scope="user") if kind == "move" else left
    async with assembled(home) as parts:
        await forgotten(parts, repo, "mem_2")
        await parts.state.intents.begin(left)
        await restored(parts, repo, "mem_2")
    put(home, memory("mem_9", "Its copy."))
    async with assembled(home) as parts:
        await resume(parts.memories)
        assert links(await chain(parts, repo, "mem_3")) == WHOLE
        assert dict(parts.state.intents) == {}


@pytest.mark.parametrize("erase_now", [False, True])
async def test_what_was_taken_away_does_not_come_back_at_the_next_start(home, repo, erase_now):
    """The kill came while it was put back; a person took it away again before the next kill."""
    put(repo, *THREE)
    async with assembled(home) as parts:
        await forgotten(parts, repo, "mem_2")
        (held,) = Trash(str(home / "state/trash")).held(time.time())
        shutil.copytree(held.place, home / "aside")
        await restored(parts, repo, "mem_2")
        shutil.copytree(home / "aside", held.place)
        await parts.state.intents.begin(
            Intent("k1", "restore", str(repo), "repo", ("mem_2",), batch=held.note.batch)
        )
        await forgotten(parts, repo, "mem_2", erase_now=erase_now)
    async with assembled(home) as parts:
        await resume(parts.memories)
        assert links(await chain(parts, repo, "mem_3")) == [("mem_1", None), ("mem_3", "mem_1")]
        assert dict(parts.state.intents) == {}


def _full(*_: object) -> None:
    raise OSError(28, "no space")
