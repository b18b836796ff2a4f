"""Writes to a team's server: stored, withheld, and queued while the server is gone."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from forged.counters import EgressRecord
from forged.maps import EmbeddingQueue
from forged.memory import Scope
from forged.models import EgressGuard
from forged.postgres import SharedServer
from tests.postgres.rows import NOW, Clock, ScriptedEmbedder, ids, row, running, soon, until, vector
from tests.support.clock import PATIENCE_S
from tests.support.postgres import Database

ORG = {Scope.ORG: ""}


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> AbstractAsyncContextManager[SharedServer]:
    return running(database, tmp_path)


async def found(shared: SharedServer, scope: Scope = Scope.ORG, owner: str = "") -> list[str]:
    limits = dict.fromkeys(Scope, 1000)
    return ids((await shared.recall({scope: owner}, vector(1), limits=limits, deadline=soon()))[scope])


async def test_many_rows_are_copied_and_come_back_as_they_were(shared: SharedServer):
    rows = [
        row(
            Scope.USER,
            "ada",
            f"{n:04}",
            metadata={"n": n, "text": 'a "b"\n\tc'},
            supersedes="",
            version=n + 1,
        )
        for n in range(700)
    ]
    await shared.put(rows)

    one = (await shared.recall({Scope.USER: "ada"}, vector(1), {"n": 650}, deadline=soon()))[Scope.USER]

    assert [(each.id, each.facts.metadata, each.version, each.created_at) for each in one] == [
        ("mem_0650", {"n": 650, "text": 'a "b"\n\tc'}, 651, NOW)
    ]
    assert len(await found(shared, Scope.USER, "ada")) == 700


async def test_what_was_forgotten_stays_away_whoever_writes_it_again(shared: SharedServer):
    memory = row(Scope.USER, "ada", "secret")
    await shared.put([memory])
    await shared.remove(Scope.USER, "ada", [memory.id])
    await shared.put([memory])
    await shared.put([row(Scope.USER, "ada", f"{n}") for n in range(60)] + [memory])

    assert len(await found(shared, Scope.USER, "ada")) == 60


async def test_a_forget_wins_over_writers_that_write_at_the_same_time(database: Database, tmp_path: Path):
    """Ten writers and one who forgets: whatever the order, the row is not there in the end."""
    async with running(database, tmp_path / "a") as one, running(database, tmp_path / "b") as two:
        for round_ in range(10):
            memory = row(Scope.AGENT, "coder", f"{round_}")
            writes = [shared.put([memory]) for shared in (one, two) for _ in range(5)]
            writes.insert(round_, one.remove(Scope.AGENT, "coder", [memory.id]))
            await asyncio.gather(*writes)

        assert await found(one, Scope.AGENT, "coder") == []


async def test_removing_a_document_removes_all_of_its_pieces_and_it_can_be_taken_in_again(
    database: Database, tmp_path: Path
):
    clock = Clock()
    async with running(database, tmp_path, clock=clock) as shared:
        pieces = [row(Scope.ORG, "", f"d_{n}", document_id="doc_d") for n in range(70)]
        await shared.put([*pieces, row(Scope.ORG, "", "other")])
        await shared.remove_document("doc_d")
        await shared.put(pieces)
        assert await found(shared) == ["other"]

        clock.now = NOW.replace(hour=13)
        again = [row(Scope.ORG, "", f"d_{n}", document_id="doc_d", created_at=clock.now) for n in range(3)]
        await shared.put(again)
        assert await found(shared) == ["d_0", "d_1", "d_2", "other"]


async def test_no_secret_and_no_private_span_leaves_and_what_leaves_is_counted(
    database: Database, tmp_path: Path
):
    left: list[EgressRecord] = []
    egress = EgressGuard(record=left.append)
    secret = "sk-proj-" + "a1B2c3D4" * 6
    text = f"the key is {secret} and <private>my salary is 7</private> stays"
    async with running(database, tmp_path, egress=egress) as shared:
        await shared.put([row(Scope.ORG, "", "one", content=text, metadata={"note": secret, "topic": "a"})])

    ((content, metadata),) = database.sql(
        "SELECT content, metadata::text FROM forged.organizational_memories WHERE embedding IS NULL"
    )
    assert secret not in content + metadata
    assert "salary" not in content
    assert "stays" in content
    assert "topic" in metadata
    assert [(each.purpose, each.texts) for each in left] == [("shared", 1)]
    assert "@" not in left[0].host


async def test_while_paused_nothing_leaves_and_what_waited_leaves_afterwards(
    database: Database, tmp_path: Path
):
    paused = ["paused everywhere"]

    async def guard(_: tuple[str, ...]) -> str:
        return "".join(paused)

    egress = EgressGuard()
    egress.configure(guard, lambda _: "", lambda _: None, egress.metrics)
    async with running(database, tmp_path, egress=egress) as shared:
        await shared.put([row(Scope.ORG, "", "one")])
        assert database.sql("SELECT count(*) FROM forged.organizational_memories") == [(0,)]
        assert shared.condition().waiting == 1

        paused.clear()
        await until(lambda: not shared.condition().waiting)
        assert await found(shared) == ["one"]


async def test_rows_get_their_vectors_when_the_model_is_back(database: Database, tmp_path: Path):
    embedder = ScriptedEmbedder()
    embedder.down = "unreachable"
    async with running(database, tmp_path, queue=EmbeddingQueue(embedder)) as shared:
        await shared.put([row(Scope.ORG, "", "one", vector=None), row(Scope.ORG, "", "two")])
        assert await found(shared) == ["two"]
        assert shared.condition().without_vector == 1

        embedder.down = ""
        shared.replay.wake()
        await until(lambda: not shared.condition().without_vector)
        assert await found(shared) == ["two", "one"]
        assert set(embedder.texts) == {"one of "}


async def test_rows_get_their_vectors_when_the_server_is_back(database: Database, tmp_path: Path):
    """Without waiting for the next look, which is an hour later."""
    async with running(database, tmp_path, queue=EmbeddingQueue(ScriptedEmbedder())) as shared:
        await shared.put([row(Scope.ORG, "", "one", vector=None)])
        await until(lambda: shared.listening.is_connected and not shared.condition().without_vector)
        database.sql("UPDATE forged.organizational_memories SET embedding = NULL")
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        lacking = "SELECT id FROM forged.organizational_memories WHERE embedding IS NULL"
        await until(lambda: not database.sql(lacking))


async def test_a_row_that_the_model_refuses_keeps_no_other_waiting(database: Database, tmp_path: Path):
    embedder = ScriptedEmbedder()
    embedder.poison["bad of "] = "bad_input"
    async with running(database, tmp_path, queue=EmbeddingQueue(embedder)) as shared:
        await shared.put([row(Scope.ORG, "", name, vector=None) for name in ("one", "bad", "two")])

        assert set(await found(shared)) == {"one", "two"}
        assert shared.condition().without_vector == 1


async def test_another_daemon_hears_of_a_write_and_of_its_own_nothing(database: Database, tmp_path: Path):
    async with (
        running(database, tmp_path / "a", daemon="first") as one,
        running(database, tmp_path / "b", daemon="second") as two,
    ):
        changes = []
        heard = asyncio.Event()
        await until(lambda: one.listening.is_connected and two.listening.is_connected)
        two.listen(lambda change: (changes.append(change), heard.set()))
        one.listen(lambda change: changes.append("its own"))
        await one.put([row(Scope.USER, "ada", "text")])
        await asyncio.wait_for(heard.wait(), PATIENCE_S)
        assert [each.scope for each in changes] == ["user"]
        assert "ada" not in str(changes)
        await until(lambda: list(two.condition().writers) == ["first"])


async def test_a_notification_that_anybody_invents_is_a_hint_and_neither_shown_nor_believed(
    database: Database, tmp_path: Path
):
    """However many come, who listens is called for all of them at once, and a real one is not lost."""
    async with running(database, tmp_path / "a") as shared, running(database, tmp_path / "b") as other:
        await until(lambda: shared.listening.is_connected)
        calls = []
        shared.listen(lambda change: calls.append((change, round(time.monotonic(), 1))))
        invented = [
            "",
            "user",
            "nonsense",
            f"user {'x' * 7000}",
            *(f"user {n} evil/writer" for n in range(300)),
        ]
        for payload in invented:
            database.sql("SELECT pg_notify('forged_memories', %s)", (payload,))
        await other.put([row(Scope.ORG, "", "one")])
        await until(lambda: any(each.scope in {"", "org"} for each, _ in calls))
        assert len({at for _, at in calls}) <= 3 + (calls[-1][1] - calls[0][1])
        assert "evil" not in str(shared.condition())
        assert "nonsense" not in str(calls)


@pytest.mark.parametrize("scope", [Scope.USER, Scope.AGENT, Scope.ORG])
async def test_a_vector_that_is_lost_is_made_again_by_the_owner_alone(
    database: Database, tmp_path: Path, scope: Scope
):
    """Also by a daemon that has written none of the rows, and not for rows of others."""
    owner = {Scope.USER: "ada", Scope.AGENT: "ada/coder", Scope.ORG: ""}[scope]
    async with running(database, tmp_path / "a", queue=EmbeddingQueue(ScriptedEmbedder())) as shared:
        await shared.put([row(scope, owner, f"{n}", vector=None) for n in range(70)])
        await shared.put([row(Scope.USER, "bob", "other")])
    table = f"forged.{'organizational' if scope is Scope.ORG else scope}_memories"
    for each in (table, "forged.user_memories"):
        database.sql(f"UPDATE {each} SET embedding = NULL")
    async with running(database, tmp_path / "b", queue=EmbeddingQueue(ScriptedEmbedder())) as shared:
        await shared.state.replicas.record_sent((Scope.AGENT, "ada/coder"), {"mem_0": "seen"})
        shared.filling.want(0)
        await until(lambda: database.sql(f"SELECT count(*) FROM {table} WHERE embedding IS NULL")[0][0] < 2)
        await until(lambda: shared.condition().without_vector == 0)
    bare = database.sql("SELECT user_id FROM forged.user_memories WHERE embedding IS NULL")
    assert bare == [("bob",)]


async def test_a_removal_of_an_earlier_time_leaves_a_document_that_is_newer(shared: SharedServer):
    await shared.put([row(Scope.ORG, "", "page", document_id="doc_1")])

    await shared.remove(Scope.ORG, "", ("doc_1",), kind="document", at=NOW - timedelta(milliseconds=1))
    assert await found(shared) == ["page"]
    await shared.put([row(Scope.ORG, "", "page", document_id="doc_1")])  # the mark is older than it
    assert await found(shared) == ["page"]

    await shared.remove(Scope.ORG, "", ("doc_1",), kind="document", at=NOW)
    assert await found(shared) == []
