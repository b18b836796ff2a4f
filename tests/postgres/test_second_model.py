"""Rows in Chinese, Japanese and Korean have vectors of a second model, and never of the first."""

from __future__ import annotations

import asyncio
import re
from itertools import product

import msgspec
import numpy as np
import pytest

from forged.errors import SharedError
from forged.maps import EmbeddingQueue
from forged.memory import Scope
from forged.models import Purpose
from forged.postgres import statements
from forged.postgres.connecting import connect
from forged.postgres.filling import RowVectors
from forged.postgres.inspecting import examine
from forged.postgres.migrating import migrate
from forged.postgres.schema import CJK, MAIN
from forged.postgres.values import EmbeddingModel, Settings, Stored
from tests.postgres.meeting import Machine, a_meeting
from tests.postgres.meeting import running as machines_running
from tests.postgres.rows import NOW, row, running, soon, until
from tests.support.clock import eventually
from tests.support.postgres import MODEL
from tests.support.provider import EMBEDDINGS, FakeEmbedder, ScriptedProvider

SECOND = EmbeddingModel("zh-embedder", 12)
OTHER = EmbeddingModel("ja-embedder", 16)
THEIRS = {
    "zh": "部署之前必须先执行数据库迁移脚本。",
    "ja": "デプロイの前にマイグレーションを必ず実行する。",
    "ko": "배포하기 전에 데이터베이스 마이그레이션을 실행한다.",
    "mixed": "迁移用 alembic，先跑脚本再部署到 staging。",
}
OURS = {
    "en": "Migrations run before each deployment.",
    "term": "The word 重试 is how the payments code base of the Shanghai office names a retry.",
}
OWNERS = {Scope.SESSION: "s1", Scope.USER: "ada", Scope.AGENT: "ada/coder", Scope.ORG: ""}
TABLES = {scope: f"forged.{'organizational' if scope is Scope.ORG else scope}_memories" for scope in OWNERS}


class Embedder(FakeEmbedder):
    """Vectors from a hash of the text, of one model."""

    def __init__(self, model: EmbeddingModel) -> None:
        super().__init__(model.dimension)
        self.model = self.key = model.name

    async def vector(self, text: str) -> np.ndarray:
        return (await self.embed([text], purpose=Purpose("query")))[0]


def rows_of(scope: Scope) -> list[Stored]:
    texts = THEIRS | OURS
    return [row(scope, OWNERS[scope], name, content=text, vector=None) for name, text in texts.items()]


def columns(database, scope: Scope) -> dict[str, str]:
    """The model of each row's vector, "both" or "none"."""
    names = {(True, False): MAIN, (False, True): CJK, (True, True): "both", (False, False): "none"}
    found = database.sql(f"SELECT id, embedding IS NOT NULL, embedding_cjk IS NOT NULL FROM {TABLES[scope]}")
    return {each.removeprefix("mem_"): names[main, second] for each, main, second in found}


RIGHT = dict.fromkeys(THEIRS, CJK) | dict.fromkeys(OURS, MAIN)
WITHOUT = dict.fromkeys(THEIRS, "none") | dict.fromkeys(OURS, MAIN)


async def add_second(database, second: EmbeddingModel = SECOND) -> None:
    async with await connect(database.settings()) as connection:
        await migrate(connection, {MAIN: MODEL, CJK: second})


@pytest.fixture
def both(database):
    """A database with both models."""
    asyncio.run(add_second(database))
    return database


def server_of(database, folder, second: EmbeddingModel | None = SECOND):
    """A daemon's server with the main model and, unless None, a second one."""
    settings = msgspec.structs.replace(database.settings(), scopes=frozenset(OWNERS), second=second)
    return running(
        database,
        folder,
        settings=settings,
        queue=EmbeddingQueue(Embedder(MODEL)),
        second=None if second is None else EmbeddingQueue(Embedder(second)),
    )


@pytest.mark.parametrize("scope", OWNERS)
class TestARow:
    async def test_has_the_vector_of_its_languages_model(self, scope, both, tmp_path):
        async with server_of(both, tmp_path) as shared:
            await shared.put(rows_of(scope))
            assert columns(both, scope) == RIGHT

    async def test_is_found_by_its_own_model_alone(self, scope, both, tmp_path):
        owners, limits = {scope: OWNERS[scope]}, dict.fromkeys(OWNERS, 10)
        async with server_of(both, tmp_path) as shared:
            await shared.put(rows_of(scope))
            for name, text in (THEIRS | OURS).items():
                model, family = (CJK, THEIRS) if name in THEIRS else (MAIN, OURS)
                asked = await Embedder(SECOND if model == CJK else MODEL).vector(text)
                found = (await shared.recall(owners, asked, limits=limits, deadline=soon(), model=model))[
                    scope
                ]
                assert {each.id.removeprefix("mem_") for each in found} == set(family)
                assert found[0].id == f"mem_{name}"

    async def test_changes_its_model_with_its_text(self, scope, both, tmp_path):
        first, second = OURS["en"], THEIRS["zh"]
        async with server_of(both, tmp_path) as shared:
            for content, model in ((first, MAIN), (second, CJK), (second, CJK), (first, MAIN)):
                await shared.put([row(scope, OWNERS[scope], "one", content=content, vector=None)])
                assert columns(both, scope) == {"one": model}

    async def test_waits_for_a_machine_that_has_the_model(self, scope, both, tmp_path):
        async with server_of(both, tmp_path / "a", second=None) as shared:
            await shared.put(rows_of(scope))
            assert columns(both, scope) == WITHOUT
            if scope is Scope.SESSION:  # its rows are written by one program, and end soon
                return
            await shared.state.replicas.record_sent((Scope.AGENT, "ada/coder"), {"mem_zh": "seen"})
            shared.filling.want(0)
            await until(lambda: shared.condition().without_vector == 0)
            assert columns(both, scope) == WITHOUT
        async with server_of(both, tmp_path / "b") as shared:
            await shared.state.replicas.record_sent((Scope.AGENT, "ada/coder"), {"mem_zh": "seen"})
            shared.filling.want(0)
            await until(lambda: columns(both, scope) == RIGHT)

    async def test_of_a_machine_without_the_model_gets_its_vector_soon(self, scope, both, tmp_path):
        if scope is Scope.SESSION:
            pytest.skip("rows of a session end within the hour")
        async with server_of(both, tmp_path / "a") as one, server_of(both, tmp_path / "b", None) as other:
            await one.state.replicas.record_sent((Scope.AGENT, "ada/coder"), {"mem_zh": "seen"})
            await until(lambda: one.listening.is_connected)
            await other.put(rows_of(scope))
            await until(lambda: columns(both, scope) == RIGHT)

    async def test_of_a_time_before_the_second_model_is_embedded_anew(self, scope, database, tmp_path):
        """Also while daemons run: they notice that the database has the model now."""
        if scope is Scope.SESSION:
            pytest.skip("rows of a session end within the hour")
        async with server_of(database, tmp_path) as shared:
            await shared.put(rows_of(scope))
            await shared.state.replicas.record_sent((Scope.AGENT, "ada/coder"), {"mem_zh": "seen"})
            await until(lambda: columns(database, scope) == dict.fromkeys(THEIRS | OURS, MAIN))
            assert "`forgectl shared migrate`" in shared.vectors.problem
            await add_second(database)
            await until(lambda: columns(database, scope) == RIGHT)
            assert shared.vectors.problem == ""


async def test_another_second_model_is_named_and_costs_its_languages_alone(database, tmp_path):
    await add_second(database, OTHER)
    async with server_of(database, tmp_path) as shared:
        await shared.put(rows_of(Scope.USER))
        assert columns(database, Scope.USER) == WITHOUT
        assert "have 16 numbers, and shared.cjk_dimension is 12" in shared.vectors.problem
        assert not shared.vectors.is_usable(CJK)
        assert shared.condition().problem == ""


async def test_a_row_that_waited_for_the_server_gets_the_vector_that_the_server_wants(database, tmp_path):
    """It is queued with the vector of the second model, which this server does not have."""
    async with server_of(database, tmp_path) as shared:
        waiting = shared.vectors
        waiting.recorded = None
        whole = await waiting.with_vectors(rows_of(Scope.USER))
        assert {each.id.removeprefix("mem_"): each.model for each in whole} == RIGHT
        async with shared.writer(soon()) as writer:
            await writer.put(whole)
        shared.filling.want(0)
        await until(lambda: columns(database, Scope.USER) == dict.fromkeys(THEIRS | OURS, MAIN))


MODELS = (None, SECOND, OTHER)


@pytest.mark.parametrize(("ours", "recorded"), list(product(MODELS, MODELS)))
@pytest.mark.parametrize("made_by", [MAIN, CJK])
@pytest.mark.parametrize("text", (THEIRS | OURS).values(), ids=THEIRS | OURS)
def test_a_vector_is_sent_if_the_database_has_its_model_for_the_text(text, made_by, ours, recorded):
    vectors = RowVectors(Settings(url="postgresql:///any", model=MODEL, second=ours), {})
    vectors.recorded = {MAIN: MODEL} | ({} if recorded is None else {CJK: recorded})
    made = MODEL if made_by == MAIN else ours or SECOND
    given = row(
        Scope.USER, "ada", "one", content=text, vector=np.ones(made.dimension, np.float32), model=made_by
    )

    sent = vectors.fitting(given)

    is_theirs = text in THEIRS.values() and recorded is not None
    fits = (made_by == CJK and ours == recorded) if is_theirs else made_by == MAIN
    assert (sent.vector is not None) is fits
    assert sent.model == (made_by if fits else MAIN)


COLUMNS = {
    Scope.USER: "user_id, agent_id, id",
    Scope.AGENT: "agent_id, user_id, id",
    Scope.ORG: "agent_id, document_id, id",
}


@pytest.mark.parametrize("scope", COLUMNS)
def test_its_graph_finds_the_nearest_of_many_rows(scope, both):
    owner = OWNERS[scope] or "any"
    both.sql(
        f"INSERT INTO {TABLES[scope]} ({COLUMNS[scope]}, content, embedding_cjk)"
        " SELECT %s, 'x', 'mem_' || n, '数据库', (SELECT array_agg(random() + n %% 2 + 0 * d)::vector"
        " FROM generate_series(1, 12) AS d) FROM generate_series(1, 4000) AS n",
        [owner],
    )
    both.sql(f"ANALYZE {TABLES[scope]}")
    text = statements.search(scope, CJK, dimension=SECOND.dimension)
    values = {"owner": owner, "vector": str([0.5] * 12), "least": 0.0, "now": NOW, "limit": 5}
    plan = "\n".join(line for (line,) in both.sql(f"EXPLAIN {text}", values))
    assert re.search(r"Index Scan using \S*(near_cjk|_embedding_cjk_idx) ", plan), plan


@pytest.mark.parametrize(
    ("ours", "recorded", "level"),
    [
        (None, None, None),
        (SECOND, None, "warn"),
        (None, SECOND, "warn"),
        (SECOND, SECOND, "ok"),
        (SECOND, OTHER, "fail"),
    ],
)
async def test_doctor_compares_the_second_models(ours, recorded, level, database):
    if recorded is not None:
        await add_second(database, recorded)
    settings = msgspec.structs.replace(database.settings(), second=ours)
    async with await connect(settings) as connection:
        found = {each.name: each for each in await examine(connection, settings)}
    finding = found.get("second model")
    assert (finding.level if finding else None) == level
    assert [each for each in found.values() if each.level == "fail" and each.name != "second model"] == []


async def test_migrate_refuses_another_second_model(both):
    with pytest.raises(SharedError, match=r"memory\.cjk_embedding_model to zh-embedder"):
        await add_second(both, OTHER)


def test_a_chinese_document_of_another_machine_is_found_in_a_turn_and_by_a_search(server, tmp_path):
    """Its pieces come with the second model's vectors, and no machine embeds them again."""
    model = EmbeddingModel("zh-embedder", 8)
    meeting = a_meeting(server, "forged_second", MODEL.name)

    async def prepared() -> None:
        async with await connect(meeting.settings()) as connection:
            await migrate(connection, {MAIN: meeting.model, CJK: model})

    asyncio.run(prepared())
    texts = {"数据库": (1, 0, 0, 0, 0, 0, 0, 0), "handbook": (0, 1, 0, 0, 0, 0, 0, 0)}
    with ScriptedProvider(vectors=texts) as provider:
        one, other = (
            Machine(
                name, tmp_path, meeting, scopes="user org", provider=provider, cjk_model=model.name,
                cjk_dimension=8, retrieve="org",
            )
            for name in ("one", "other")
        )  # fmt: skip
        with machines_running(one, other):
            one.ingest("指南.md", f"# 数据库\n\n{THEIRS['zh']}")
            one.ingest("handbook.md", "# The handbook\n\nThe handbook is for new people.")
            eventually(lambda: set(columns(meeting, Scope.ORG).values()) == {MAIN, CJK})
            embedded = len(provider.requests(EMBEDDINGS))
            eventually(lambda: THEIRS["zh"] in other.turn("数据库的迁移脚本什么时候执行？"))
            later = provider.requests(EMBEDDINGS)[embedded:]
            asked = [text for request in later for text in request.inputs]
            assert not [text for text in asked if THEIRS["zh"] in text]
            found = other.recalled("数据库迁移脚本", scopes=["org"])
            assert THEIRS["zh"] in found[0]
