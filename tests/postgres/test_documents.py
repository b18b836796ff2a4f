"""Documents where org is shared: what one machine brings, another finds, lists, replaces and removes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from forged.config import Config
from forged.config.values import SharedConfig
from forged.errors import MemoryNotFound, SharedError
from forged.files import org_root
from forged.maps import EmbeddingQueue
from forged.memories.document_store import follow_documents
from forged.memory import Scope
from forged.postgres import ServerDocuments
from forged.postgres.values import Stored
from forged.postgres.writing import RemovalBatch
from forged_client import Document, LocalFile
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.postgres.rows import running as sharing
from tests.postgres.rows import soon, until
from tests.postgres.test_forgetting import read_only
from tests.postgres.test_sync import Machine, a_meeting, running
from tests.support.clock import eventually
from tests.support.postgres import Database
from tests.support.provider import FakeEmbedder

CONFIG = Config(shared=SharedConfig(url="set by the test", user_id="ada"))
SECRET = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"
LONG = " ".join(f"walrus{number:04d}" for number in range(400))
OTHER = "Otters hold hands."
VECTORS = "SELECT embedding::text FROM forged.organizational_memories ORDER BY chunk_index"
ROWS = "SELECT source, chunk_index, content FROM forged.organizational_memories ORDER BY 1, 2"


@contextlib.asynccontextmanager
async def machine(database: Database, place: Path, name: str) -> AsyncIterator[Parts]:
    """A daemon's handlers with files of their own, in step with the server."""
    home = place / name
    home.mkdir()
    queue = EmbeddingQueue(FakeEmbedder())
    clock = {"clock": lambda: datetime.now(UTC), "daemon": name, "queue": queue}
    async with (
        sharing(database, place / f"{name}-state", [Scope.ORG], **clock) as shared,
        assembled(home, FakeEmbedder(), CONFIG) as parts,
    ):
        parts.shares(shared)
        await until(lambda: shared.listening.is_connected)
        following = asyncio.create_task(follow_documents(parts.memories))
        try:
            yield parts
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def ingested(parts: Parts, text: str, source: str = "guide.md", **fields) -> wire.DocumentOutcome:
    reply = await parts.ask(wire.Ingest(documents=(wire.Document(source=source, text=text),), **fields))
    return reply.outcomes[0]


async def listed(parts: Parts) -> list[tuple[str, int, bool, bool]]:
    reply = await parts.ask(wire.ListDocuments())
    return [(each.source, each.pieces, each.shared, each.here) for each in reply.documents]


async def recalled(parts: Parts, query: str) -> list[wire.MemoryRecord]:
    return list((await parts.ask(wire.Recall(query=query, scopes=("org",)))).memories)


def files(place: Path, name: str) -> list[Path]:
    return sorted((place / name / ".forge/org/memory").glob("*.md"))


async def test_what_one_machine_ingests_another_recalls_and_lists(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        outcome = await ingested(one, LONG, metadata={"team": "core"}, agent_id="claude")
        found = await recalled(other, "walrus0001")
        again, stock = await ingested(one, LONG), await listed(other)
        own = await recalled(one, "walrus0001")

    assert (outcome.result, outcome.shared, again.result, again.shared) == ("new", "there", "exists", "there")
    assert {each.document_id for each in found} == {outcome.document_id}
    assert (found[0].metadata, found[0].agent_id) == ({"team": "core"}, "claude")
    assert stock == [("guide.md", outcome.pieces, True, False)]
    assert len(own) == len({each.id for each in own}) > 0
    assert len(database.sql(ROWS)) == outcome.pieces


async def test_a_later_text_from_another_machine_takes_the_place_of_the_former_everywhere(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        await ingested(one, LONG)
        await ingested(other, OTHER)
        await until(lambda: not files(tmp_path, "one"), 5)
        stock, back = await listed(one), await ingested(one, LONG)
        await until(lambda: not files(tmp_path, "other"), 5)

    assert stock == [("guide.md", 1, True, False)]
    assert (back.result, back.shared) == ("new", "there")
    assert len(files(tmp_path, "one")) == back.pieces == len(database.sql(ROWS))


async def test_a_document_that_another_machine_removes_is_gone_from_files_and_rows(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        outcome = await ingested(one, LONG)
        gone = await other.ask(wire.RemoveDocument(name="guide.md"))
        await until(lambda: not files(tmp_path, "one"), 5)
        stock = await listed(one)
        with pytest.raises(MemoryNotFound, match="ingest --list"):
            await one.ask(wire.RemoveDocument(name=outcome.document_id))

    assert (gone.pieces, gone.waits, stock) == (outcome.pieces, False, [])
    assert database.sql(ROWS) == []


async def test_a_document_that_is_ingested_again_elsewhere_outlives_an_earlier_removal_that_comes_late(
    database, tmp_path
):
    """The removal of half an hour ago waited on a machine without a connection."""
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        outcome = await ingested(one, LONG)
        database.sql("UPDATE forged.organizational_memories SET created_at = now() - interval '1 hour'")
        vectors = database.sql(VECTORS)
        assert (await ingested(other, LONG)).shared == "there"
        shared = other.memories.shared
        assert shared is not None
        before = datetime.now(UTC) - timedelta(hours=1)
        old = "SELECT id FROM forged.organizational_memories WHERE created_at < now() - interval '1 minute'"
        assert database.sql(old) == []
        queued = [
            Stored(scope=Scope.ORG, owner="", id=each, content=content, chunk_index=index, created_at=before)
            for each, content, index in database.sql(
                "SELECT id, content, chunk_index FROM forged.organizational_memories"
            )
        ]
        document = {"document_id": outcome.document_id}
        await shared.put([msgspec.structs.replace(each, **document) for each in queued])
        assert database.sql(old) == [], "an older write that comes late changes nothing"
        at = datetime.now(UTC) - timedelta(minutes=30)
        late = RemovalBatch(scope=Scope.ORG, owner="", ids=(outcome.document_id,), at=at, kind="document")
        async with shared.writer(soon()) as writer:
            await writer.remove(late)
        assert len(database.sql(ROWS)) == outcome.pieces
        assert database.sql(VECTORS) == vectors, "none was embedded again"


async def test_a_removal_is_followed_soon_after_a_server_that_did_not_answer_when_it_came_back(
    database, tmp_path, monkeypatch
):
    """The news of the reconnect comes once, and the first questions may still fail."""
    ask, failures = ServerDocuments.gone, iter(range(6))

    async def failing(self: ServerDocuments, ids: Sequence[str]) -> dict[str, datetime]:
        if next(failures, None) is not None:
            raise SharedError("away", reason="unreachable")
        return await ask(self, ids)

    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        await ingested(one, LONG)
        monkeypatch.setattr(ServerDocuments, "gone", failing)
        await other.ask(wire.RemoveDocument(name="guide.md"))
        await until(lambda: not files(tmp_path, "one"), 30)


async def test_a_clock_that_is_behind_removes_and_brings_all_the_same(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        await ingested(one, OTHER)
        database.sql("UPDATE forged.organizational_memories SET created_at = now() + interval '1 hour'")
        await other.ask(wire.RemoveDocument(name="guide.md"))
        assert database.sql(ROWS) == []
        assert (await ingested(other, OTHER)).shared == "there"
        assert len(database.sql(ROWS)) == 1


async def test_a_piece_that_is_forgotten_goes_from_the_server_too(database, tmp_path):
    async with machine(database, tmp_path, "one") as one:
        outcome = await ingested(one, LONG)
        await one.loaded(tmp_path / "one")
        name, place = files(tmp_path, "one")[1].stem, str(tmp_path / "one")
        await one.ask(wire.Forget(workspace=place, memory_id=name, scope="org"))
        again = await ingested(one, LONG)

    assert again.shared == "there"
    assert [each[1] for each in database.sql(ROWS)] == [each for each in range(outcome.pieces) if each != 1]


async def test_a_secret_that_someone_insists_on_stays_here_and_private_spans_stay_nowhere(database, tmp_path):
    async with machine(database, tmp_path, "one") as one:
        await ingested(one, f"The zebra uses {SECRET} here. <private>An emu.</private>", allow_secret=True)

    ((_, _, content),) = database.sql(ROWS)
    assert "zebra" in content
    assert SECRET not in content
    assert "emu" not in content
    assert SECRET in files(tmp_path, "one")[0].read_text()


def test_two_daemons_bring_and_remove_documents_while_they_cannot_reach_the_server(server, tmp_path):
    meeting = a_meeting(server, "forged_documents")
    one, other = (Machine(name, tmp_path, meeting, scopes="org") for name in ("one", "other"))
    with running(one, other), one.client() as here, other.client() as there:
        eventually(lambda: here.status().shared.listening and there.status().shared.listening)
        document = [Document(source="guide.md", text=OTHER)]
        one.cut()
        (outcome,) = here.ingest(document).outcomes
        assert (outcome.result, outcome.shared) == ("new", "waits")
        assert here.documents().reason.startswith("the shared server was not asked")
        one.mend()
        eventually(lambda: [each.source for each in there.documents().documents] == ["guide.md"])
        eventually(lambda: here.status().shared.listening)

        other.cut()
        eventually(lambda: there.documents().reason)
        refused = there.remove_document("guide.md")
        assert (refused.status, refused.documents) == ("error", ())
        assert "the shared server was not asked" in refused.reason
        other.mend()
        eventually(lambda: there.status().shared.state == "ok")
        one.cut()
        eventually(lambda: here.documents().reason)
        assert here.remove_document("guide.md").waits
        one.mend()
        eventually(lambda: not there.documents().documents)
        assert not there.documents().reason


def test_no_document_counts_as_removed_by_hand_while_it_is_ingested(server, tmp_path):
    meeting = a_meeting(server, "forged_absent")
    one = Machine("one", tmp_path, meeting, scopes="org")
    with running(one):
        eventually(lambda: one.status.listening)
        with read_only(meeting):
            for number in range(20):
                one.ingest(f"page{number % 4}.md", f"{OTHER} {number}")
                assert one.status.absent_documents == 0, number
        eventually(lambda: not one.status.waiting)
        for path in (one.home / ".forge/org/memory").glob("*.md"):
            path.unlink()
        eventually(lambda: one.status.absent_documents == 4)


def lists_guide(machine: Machine) -> bool:
    with machine.client() as client:
        return "guide.md" in {each.source for each in client.documents().documents}


@pytest.mark.parametrize("ahead_s", [-300, 300])
def test_documents_are_removed_and_come_back_whatever_the_clock_of_their_machine_says(
    server, tmp_path, ahead_s
):
    """Both the removal of what is newer by a fast clock, and a new ingest that is older by a slow one."""
    meeting = a_meeting(server, f"forged_documents_{ahead_s + 300}")
    one = Machine("one", tmp_path, meeting, scopes="org", ahead_s=ahead_s)
    other = Machine("other", tmp_path, meeting, scopes="org")
    with running(one, other):
        for machine in (one, other):
            eventually(lambda machine=machine: machine.status.listening)
        one.ingest("guide.md", OTHER)
        other.remove_document("guide.md")
        eventually(lambda: not one.documents())
        assert one.ingest("guide.md", OTHER) in one.documents()
        gone = one.ingest("later.md", "Sea lions bark.")
        other.remove_document("later.md")
        eventually(lambda: gone not in one.documents())
        assert len(one.documents()) == 1, "the removal of before was not carried out again"
        with one.client() as client:
            (kept,) = one.documents()
            file = LocalFile("/docs/guide.md", "1 /")
            client.ingest([Document(source="guide.md", text=OTHER, file=file)])
            client.ask(wire.RemoveDocuments(document_ids=(kept,), below="/docs"))
            eventually(lambda: not lists_guide(other))
            client.restore(str(one.workspace), "guide.md")
        eventually(lambda: lists_guide(other))
        assert one.documents() == {kept}
        other.remove_document("guide.md")
        eventually(lambda: not one.documents())
        assert one.ingest("guide.md", OTHER) == kept
        one.ingest("later.md", "Sea lions sleep.")
        other.remove_document("later.md")
        eventually(lambda: len(one.documents()) == 1)
        assert one.documents() == {kept}
        eventually(lambda: one.status.absent_documents == 0)


# --- documents follow their folder -----------------------------------------------------------------------


async def from_file(parts: Parts, text: str, name: str, **fields) -> wire.DocumentOutcome:
    """Ingest a file of the folder /docs."""
    document = wire.Document(source=name, text=text, file=wire.LocalFile(f"/docs/{name}", "1 /"), **fields)
    (outcome,) = (await parts.ask(wire.Ingest(documents=(document,)))).outcomes
    return outcome


async def pruned(parts: Parts, *outcomes: wire.DocumentOutcome) -> wire.DocumentRemoved:
    ids = tuple(each.document_id for each in outcomes)
    return await parts.ask(wire.RemoveDocuments(document_ids=ids, below="/docs"))


async def restored(parts: Parts, place: Path, name: str) -> wire.Restored:
    return await parts.ask(wire.Restore(workspace=str(place / "one"), memory_id=name))


async def test_a_prune_goes_everywhere_and_its_undo_comes_back_everywhere(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        first, second = await from_file(one, LONG, "a.md"), await from_file(one, OTHER, "b.md")
        await from_file(other, OTHER, "b.md")  # of a folder of its own
        before = database.sql(ROWS)

        gone = await pruned(one, first, second)
        assert (gone.pieces, gone.waits) == (first.pieces + second.pieces, False)
        assert database.sql(ROWS) == []
        await until(lambda: not files(tmp_path, "other"), 5)

        await restored(one, tmp_path, "b.md")
        assert database.sql(ROWS) == before
        assert len(files(tmp_path, "one")) == len(before)
        assert await listed(other) == [("a.md", first.pieces, True, False), ("b.md", 1, True, False)]
        again = await from_file(other, OTHER, "b.md")
        await follow_once(one)
        assert (again.result, again.shared) == ("new", "there")
        assert len(files(tmp_path, "one")) == len(before)  # newer than the mark of the prune
        assert (await pruned(one, first)).pieces == first.pieces  # the record of its file is back, too


async def follow_once(parts: Parts) -> None:
    """Remove the files of documents that were removed elsewhere, once."""
    from forged.memories.document_store import _remove_stale_files

    await _remove_stale_files(parts.memories)


async def test_what_a_clock_that_is_behind_prunes_comes_back_as_newer(database, tmp_path):
    async with machine(database, tmp_path, "one") as one:
        outcome = await from_file(one, OTHER, "a.md")
        database.sql("UPDATE forged.organizational_memories SET created_at = now() + interval '1 hour'")
        await pruned(one, outcome)
        await restored(one, tmp_path, "a.md")
        await follow_once(one)

    assert len(database.sql(ROWS)) == len(files(tmp_path, "one")) == 1


async def test_a_prune_leaves_alone_what_another_machine_ingested(database, tmp_path):
    """Another document, and another text of the same source, which has replaced this machine's."""
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        mine = await from_file(one, LONG, "a.md")
        theirs, newer = await from_file(other, OTHER, "b.md"), await from_file(other, "An emu.", "a.md")
        await until(lambda: not files(tmp_path, "one"), 5)

        gone = await pruned(one, mine, theirs, newer)

        assert (gone.documents, gone.pieces) == ((), 0)
        assert [each[0] for each in database.sql(ROWS)] == ["a.md", "b.md"]
        assert (await one.ask(wire.ListDocuments(below="/docs"))).documents == ()


async def calls_of(parts: Parts) -> list[list[tuple[str, ...]]]:
    """The texts that were embedded, for the files here and for the rows there, once all are."""
    index = parts.indexer.open(org_root(parts.resolver.home))
    await index.until_ended(index.generations.wanted)
    queues = parts.indexer.queue, parts.memories.shared.vectors.queues[""]
    return [list(each.identity.embedder.calls) for each in queues]


async def test_a_renamed_file_is_one_document_on_the_server_with_its_attributes(database, tmp_path):
    async with machine(database, tmp_path, "one") as one, machine(database, tmp_path, "other") as other:
        named = wire.Document(source="old.md", text=LONG, file=wire.LocalFile("/docs/old.md", "1 /"))
        await one.ask(wire.Ingest(documents=(named,), metadata={"team": "core"}, agent_id="claude"))
        texts, vectors = [each[1:] for each in database.sql(ROWS)], database.sql(VECTORS)
        embedded = await calls_of(one)

        moved = await from_file(one, LONG, "new.md", moved_from="old.md")

        assert (moved.result, moved.moved_from, moved.shared) == ("moved", "old.md", "there")
        assert database.sql(ROWS) == [("new.md", *each) for each in texts]
        assert database.sql(VECTORS) == vectors
        assert await calls_of(one) == embedded
        (there,) = (await other.ask(wire.ListDocuments())).documents
        assert (there.source, there.metadata, there.agent_id) == ("new.md", {"team": "core"}, "claude")
        assert {each.source for each in await recalled(one, "walrus0001")} == {"new.md"}


@pytest.mark.parametrize("replayed", [False, True])
def test_a_prune_and_its_undo_while_the_server_is_away_reach_it_in_their_order(server, tmp_path, replayed):
    """Also where the removal still waits when the server is back."""
    meeting = a_meeting(server, f"forged_pruned_{int(replayed)}")
    one, other = (Machine(name, tmp_path, meeting, scopes="org") for name in ("one", "other"))
    with running(one, other), one.client() as here, other.client() as there:
        eventually(lambda: here.status().shared.listening and there.status().shared.listening)
        file = LocalFile("/docs/guide.md", "1 /")
        (outcome,) = here.ingest([Document(source="guide.md", text=OTHER, file=file)]).outcomes
        one.cut()
        eventually(lambda: here.documents().reason)

        gone = here.ask(wire.RemoveDocuments(document_ids=(outcome.document_id,), below="/docs"))
        assert (gone.pieces, gone.waits) == (1, True)
        assert [each.document_id for each in there.documents().documents] == [outcome.document_id]
        if replayed:
            one.mend()
            eventually(lambda: not there.documents().documents)
        back = here.restore(str(tmp_path), "guide.md")
        assert [each.source for each in back.memories] == ["guide.md"]
        if not replayed:
            one.mend()
        eventually(lambda: here.status().shared.waiting == 0 and here.status().shared.state == "ok")
        eventually(lambda: [each.source for each in there.documents().documents] == ["guide.md"])
        (shown,) = here.documents().documents
        assert (shown.here, shown.shared) == (True, True)
