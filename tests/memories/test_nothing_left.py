"""Whichever way a memory goes, no table of `state.db` knows it afterwards, and each knows the others."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from forged.attributes import FactsPatch
from forged.files import org_root, root_at
from forged.files.roots import Root
from forged.memories.removal import apply_remote_forget
from forged.memory import Scope, utc_now
from forged.state import (
    CaptureLogEntry,
    DecidedMemory,
    InjectedEntry,
    InjectedSet,
    InjectionRecord,
    RecordedMemory,
    SetKey,
    Write,
)
from forged.state import database as sql
from forged.writing.trash import TRASH_S
from forged_client import protocol as wire
from tests.daemon.handlers.test_capture import captured
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory
from tests.state.conftest import names
from tests.support.reading import bytes_of

# Every table is in one of these two. What has ids of memories is cleaned by `state.removal`, or it
# says here why it may keep them.
CLEANED = {
    *(
        "own_files",
        "uses",
        "injected_sets",
        "to_review",
        "capture_log",
        "injections",
        "attributes",
        "accesses",
        "outbox",
    ),
    "requests",  # by the writer, before the file goes: the key stays, the id does not
}
OTHERS = {
    "meta": "about the file",
    "events": "what was said; a forgotten text is cut out",
    "journal": "goes with its event",
    "dead": "goes with its event; a forgotten text is cut out",
    "forgotten": "digests of texts",
    "pauses": "roots",
    "spending": "counts by day",
    "roots": "roots",
    "approvals": "hashes of files",
    "egress": "counts by day",
    "intents": "go when what they tell of is done",
    "capture_cursors": "digests of messages",
    "parts": "what was said; a forgotten text is cut out",
    "agents": "counts by day",
    "learned": "digests of messages",
    "replicas": "marks that hold against a server which still has the memory",
    "server_clock": "the offset of a clock",
    "git_files": "hashes of files",
    "excludes": "roots",
    "absences": "days of what has no file, which end when the memory is seen or goes",
    "places": "roots",
    "ingested_files": "files of documents; a row goes with its document",
    "receipts": "what a request came to, by its key, for a day: ids are what it told",
}
GONE, STAYS = "mem_gone", "mem_stays"
SAID = FactsPatch(metadata={"customer": "Acme no. 2"})


def test_every_table_is_cleaned_or_says_why_not():
    assert CLEANED.isdisjoint(OTHERS)
    assert CLEANED | OTHERS.keys() == set(names())


async def _rows(parts: Parts) -> dict[str, str]:
    """All rows of each table, as text."""
    await parts.state._save()
    return await parts.state._database.run(
        lambda connection: {each: str(list(sql.unchecked(connection, each))) for each in names()}
    )


async def _known(parts: Parts, root: Root, memory_id: str) -> None:
    """Have each table know a memory beside others that it is linked to."""
    state, top = parts.state, root.top
    turn = InjectionRecord(
        at=4e9, memories=(RecordedMemory(top, memory_id, 1), RecordedMemory(top, f"{STAYS} beside", 1))
    )
    state.injections.add(turn)
    entries = (
        InjectedEntry(top, memory_id, 1, b"d"),
        InjectedEntry(top, f"{STAYS} {len(memory_id)}", 1, b"d", "replaces", memory_id),
    )
    key = SetKey("a", f"of {top}{len(memory_id)}", (top,))
    state.injected_sets.put(key, InjectedSet("t", 4e9, entries=entries))
    state.injected_sets.count_use(top, memory_id)
    state.accesses.hit([(top, memory_id)])
    state.capture_log.add(
        memory_id,
        CaptureLogEntry(at=4e9, text="kept", memory_id=memory_id, top=top, unreported=True, session_id="s"),
    )
    state.capture_log.add(
        f"{STAYS} newer", CaptureLogEntry(at=4e9, text="x", memory_id=STAYS, top=top, supersedes=memory_id)
    )
    waiting = memory(f"{STAYS}_waiting", "It waits.", supersedes=memory_id, related=[memory_id], version=2)
    await state.to_review.add([DecidedMemory(root, waiting, waits="why")])
    await state.outbox.add([Write(kind="put", scope=root.scope, owner="o", id=memory_id, row=b"r")])


async def _put(parts: Parts, root: Root, *ids: str) -> None:
    """Write captured memories, of a turn each, as capture does."""
    index = parts.indexer.open(root)
    for day, memory_id in enumerate(ids, 1):
        new = captured(memory_id, f"The walrus says {day}.", day, scope=root.scope)
        about = FactsPatch(metadata={"customer": f"Acme no. {day}"})
        await parts.memories.writer.add(index, new, key=f"key of {day}", patch=about)
        await _known(parts, root, memory_id)
    await index.until_tried(index.mark(), float("inf"))


async def _forget(parts, repo):
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=GONE))


async def _erase(parts, repo):
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=GONE, erase_now=True))


async def _version(parts, repo):
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=GONE, version_only=True))


async def _undo(parts, repo):
    assert [each.id for each in (await parts.ask(wire.Undo(workspace=str(repo)))).memories] == [GONE]


async def _move(parts, repo):
    await parts.ask(wire.Move(workspace=str(repo), memory_id=GONE, to="user"))


async def _elsewhere(parts, repo):
    root = root_at(str(repo), parts.resolver.home)
    await apply_remote_forget(parts.memories, parts.indexer.open(root), (GONE,))


WAYS = {
    "forget": _forget,
    "erase": _erase,
    "version": _version,
    "undo": _undo,
    "move": _move,
    "elsewhere": _elsewhere,
}


async def _from_trash(parts, repo):
    await _forget(parts, repo)
    await _erase(parts, repo)


async def _trash_ends(parts, repo):
    await _undo(parts, repo)
    trash = parts.memories.writer.trash
    await asyncio.to_thread(trash.erase_expired, time.time() + TRASH_S + 60)
    assert not await asyncio.to_thread(trash.held, time.time())


async def _moved_on(parts, repo):
    """And forgotten where it went."""
    moved = await parts.ask(wire.Move(workspace=str(repo), memory_id=GONE, to="user"))
    assert b"Acme no. 2" in b"".join(_files_of(parts).values())
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=moved.memory_id))


async def _dropped(parts, repo, by=wire.Review):
    """A proposal that says the same, and the memory."""
    root = root_at(str(repo), parts.resolver.home)
    (there,) = [each for each in (await parts.trust.look(root))[0].memories if each.id == GONE]
    await _forget(parts, repo)
    waiting = msgspec.structs.replace(there, id="mem_waits", created_at=utc_now())
    identity = "1:2:3" if by is wire.Dead else ""  # of a folder that lay at this path before
    await parts.state.to_review.add(
        [DecidedMemory(root, waiting, waits="why", identity=identity, attributes=SAID)]
    )
    parts.state.capture_log.add("mem_waits", CaptureLogEntry(at=4e9, text=there.content, reason="it waits"))
    await parts.state._save()
    assert b"walrus says 2" in b"".join(_files_of(parts).values())
    (parts.folder / "state.db.damaged-20260102").write_text("The walrus says 2.")
    if by is wire.Review:
        await parts.ask(wire.Review(workspace=str(repo), drop=("mem_waits",)))
    else:
        assert (await parts.ask(wire.Dead(action="drop", ids=("mem_waits",)))).events


async def _dropped_as_dead(parts, repo):
    await _dropped(parts, repo, wire.Dead)


def _files_of(parts: Parts) -> dict[str, bytes]:
    """Bytes of the files in the state directory, the trash aside."""
    return {path.name: held for path, held in bytes_of(parts.folder.iterdir()).items()}


ENDS = {
    **{name: way for name, way in WAYS.items() if name != "move"},
    "from the trash": _from_trash,
    "trash ends": _trash_ends,
    "moved and forgotten": _moved_on,
    "dropped in a review": _dropped,
    "dropped among the dead": _dropped_as_dead,
}


@pytest.mark.parametrize("goes", ENDS.values(), ids=ENDS)
async def test_no_byte_of_a_memory_that_is_gone_is_in_the_state(home, repo, goes):
    """In the file, its journal, the daily copy, and what was set aside of a damaged file."""
    async with assembled(home) as parts:
        root = root_at(str(repo), str(home))
        await _put(parts, root, STAYS, GONE)
        await parts.state._save()
        aside = parts.folder / "state.db.damaged-20260101"
        aside.write_text("The walrus says 2.")
        await parts.state._copy_daily()
        needles = (f"{repo}\n{GONE}".encode(), b"walrus says 2", b"Acme no. 2")
        before = _files_of(parts)
        assert {"state.db", "state.db-wal", "state.copy", aside.name} <= before.keys()
        assert all(any(needle in held for held in before.values()) for needle in needles)

        await goes(parts, repo)

        for _ in range(2):  # at once, and once all that waits has been written
            held = _files_of(parts)
            assert [(each, name) for each in needles for name in held if each in held[name]] == []
            await parts.state._save()


@pytest.mark.parametrize("goes", WAYS.values(), ids=WAYS)
async def test_no_table_knows_a_memory_that_is_gone(home, repo, goes):
    async with assembled(home) as parts:
        root = root_at(str(repo), str(home))
        await _put(parts, root, STAYS, GONE)
        before = await _rows(parts)
        assert {each for each, rows in before.items() if GONE in rows} == CLEANED

        await goes(parts, repo)

        after = await _rows(parts)
        assert [each for each, rows in after.items() if GONE in rows] == []
        assert {each for each, rows in after.items() if STAYS in rows} >= CLEANED - {"to_review"}
        assert f"{STAYS}_waiting" in after["to_review"]
        assert list(parts.state.capture_log.unreported("s"))  # of the one that stays, and of one that moved


@pytest.mark.parametrize("anew", [False, True], ids=["removed", "replaced"])
async def test_no_table_knows_the_pieces_of_a_document_that_is_gone(home, repo, anew):
    said = "Ships sail at noon, and the walrus sleeps."
    async with assembled(home) as parts:
        where = {"workspace": str(repo)}
        document = wire.Document(source="a.md", text=said, file=wire.LocalFile("/docs/a.md", "8:1 /"))
        brought = wire.Ingest(**where, documents=(document,), metadata={"k": "Acme of a.md"})
        (outcome,) = (await parts.ask(brought)).outcomes
        index = parts.indexer.open(org_root(str(home)))
        snapshot, _ = await parts.trust.look(index.root)
        (piece,) = [each.id for each in snapshot.memories]
        await _known(parts, index.root, piece)
        before = await _rows(parts)
        assert {each for each, rows in before.items() if piece in rows} == CLEANED - {"requests"}
        assert outcome.document_id in before["ingested_files"]

        if anew:
            other = (wire.Document(source="a.md", text="Ships sail at dawn."),)
            await parts.ask(wire.Ingest(**where, documents=other))
        else:
            await parts.ask(wire.RemoveDocument(**where, name="a.md"))

        after = await _rows(parts)
        assert [each for each, rows in after.items() if piece in rows] == []
        assert outcome.document_id not in after["ingested_files"]
        assert [name for name, held in _files_of(parts).items() if b"Acme of a.md" in held] == []


async def test_no_table_knows_a_memory_of_a_session_that_is_forgotten(home, repo):
    """Nor one that goes with it because it says the same."""
    async with assembled(home) as parts:
        ids = []
        for session in ("one", "two"):
            named = {"scope": "session", "session_id": session, "agent_id": "a"}
            noted = wire.Remember(workspace=str(repo), content="Tea is at four.", **named)
            ids.append((await parts.ask(noted)).memory_id)
            await _known(parts, Root(f"session:{session}", Scope.SESSION), ids[-1])
        before = await _rows(parts)
        assert all(each in before["injections"] for each in ids)

        await parts.ask(wire.Forget(workspace=str(repo), memory_id=ids[0]))

        after = await _rows(parts)
        assert [(each, of) for each, rows in after.items() for of in ids if of in rows] == []


async def test_what_comes_back_from_the_trash_is_as_trusted_as_it_was(home, repo):
    async with assembled(home, trusting=False) as parts:
        root = root_at(str(repo), str(home))
        await _put(parts, root, GONE)
        before = await parts.trust.own_files(root, [GONE])
        await _forget(parts, repo)
        assert await parts.trust.own_files(root, [GONE]) == {}
        await parts.ask(wire.Restore(workspace=str(repo), memory_id=GONE))

        assert await parts.trust.own_files(root, [GONE]) == before
        assert await parts.trust.withheld([root]) == ()
