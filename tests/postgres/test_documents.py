"""Documents where org is shared: what one machine brings, another finds, lists, replaces and removes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forged.config import Config
from forged.config.values import SharedConfig
from forged.errors import MemoryNotFound
from forged.maps import EmbeddingQueue
from forged.memories.document_store import follow_documents
from forged.memory import Scope
from forged_client import Document
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.postgres.rows import running as sharing
from tests.postgres.rows import until
from tests.postgres.test_sync import Machine, a_meeting, running
from tests.support.clock import eventually
from tests.support.postgres import Database
from tests.support.provider import FakeEmbedder

CONFIG = Config(shared=SharedConfig(url="set by the test", user_id="ada"))
SECRET = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"
LONG = " ".join(f"walrus{number:04d}" for number in range(400))
OTHER = "Otters hold hands."
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
