"""fastembed models: the folder is all there is, and what goes wrong with it is a reason.

`FORGED_FASTEMBED_MODEL=DIR pytest tests/models/test_fastembed.py` runs the real test over the files of
BGE-small-en-v1.5, or of another 384-number model under the same names.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from forged.errors import ProviderError
from forged.models import Kind, Vectors
from tests.support.provider import fill, plant
from tests.support.provider.embedders import QUERY

NAME = "fastembed:bge-small-en-v1.5"
_REAL = os.environ.get("FORGED_FASTEMBED_MODEL", "")
_HERE = importlib.util.find_spec("fastembed") is not None

# A stand-in that notes what it was asked for, and embeds or fails as the folder says.
FAKE = """
import pathlib
import numpy as np
asked = []
class TextEmbedding:
    @staticmethod
    def list_supported_models():
        return [{"model": "BAAI/bge-small-en-v1.5"}, {"model": "BAAI/bge-small-zh-v1.5"}]
    def __init__(self, name, **options):
        asked.append((name, options))
        if "broken" in str(options["specific_model_path"]):
            raise Exception("INVALID_PROTOBUF")
    def embed(self, texts):
        asked.append(tuple(texts))
        for text in texts:
            if "poison" in text:
                raise Exception(text)
            yield np.array([1.0, len(text)], np.float32)
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """Return the calls of a fake fastembed."""
    site = tmp_path / "site"
    plant(monkeypatch, site, "fastembed", FAKE)
    (site / "fastembed-0.9.9.dist-info").mkdir()
    (site / "fastembed-0.9.9.dist-info/METADATA").write_text("Name: fastembed\nVersion: 0.9.9\n")
    import fastembed

    return fastembed.asked


def embedded(folder: Path, texts: list[str], kind: Kind, name: str = NAME, **prefixes: str) -> Vectors:
    from forged.models.fastembed import fastembed_embedder

    async def go() -> Vectors:
        embedder = fastembed_embedder(name, folder, **prefixes)
        try:
            return await embedder.embed(texts, kind, purpose=QUERY)
        finally:
            await embedder.aclose()

    return asyncio.run(go())


@pytest.mark.parametrize("name", [NAME, "fastembed:BAAI/bge-small-en-v1.5", "fastembed:BGE-Small-EN-v1.5"])
def test_the_model_is_loaded_from_the_folder_and_nothing_else(asked, tmp_path, name):
    folder = fill(tmp_path / "model")

    rows = embedded(folder, ["text"], "query", name, query_prefix="q: ", passage_prefix="p: ")

    (known, options), texts = asked
    assert known == "BAAI/bge-small-en-v1.5"
    assert options["specific_model_path"] == options["cache_dir"] == str(folder)
    assert options["enable_cpu_mem_arena"] is False
    assert texts == ("q: text",)
    assert rows.shape == (1, 2)


def test_a_name_that_fastembed_does_not_know_is_a_reason(asked, tmp_path):
    with pytest.raises(ProviderError, match="knows no model bge-tiny"):
        embedded(tmp_path, ["a"], "passage", "fastembed:bge-tiny")


def test_files_that_are_no_model_are_a_reason_that_names_the_folder(asked, tmp_path):
    with pytest.raises(ProviderError, match="INVALID_PROTOBUF") as caught:
        embedded(tmp_path / "broken", ["a"], "passage")

    assert str(tmp_path / "broken") in str(caught.value)
    assert caught.value.reason == "unreachable"


def test_a_text_that_the_model_fails_on_is_not_quoted(asked, tmp_path):
    with pytest.raises(ProviderError) as caught:
        embedded(tmp_path, ["my poison"], "passage")

    assert caught.value.reason == "bad_input"
    assert "poison" not in str(caught.value)


@pytest.mark.skipif(not _HERE, reason="fastembed is not installed (`make install EXTRAS=fastembed`)")
@pytest.mark.skipif(not _REAL, reason="FORGED_FASTEMBED_MODEL is not set to a folder with a model's files")
@pytest.mark.filterwarnings("default")  # of packages that are not ours
def test_a_real_model_finds_the_fact_that_answers():
    facts = ["Deployments go to staging first.", "The user prefers tabs in Go files.", "Tests need Postgres."]

    passages = embedded(Path(_REAL), facts, "passage")
    (query,) = embedded(Path(_REAL), ["where is something deployed at first"], "query")

    assert passages.shape == (3, 384)
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    assert int(np.argmax(passages @ query)) == 0


@pytest.mark.skipif(not _HERE, reason="fastembed is not installed (`make install EXTRAS=fastembed`)")
@pytest.mark.filterwarnings("default")
def test_real_fastembed_downloads_nothing_when_files_are_missing(tmp_path):
    with pytest.raises(ProviderError, match=str(tmp_path / "model_optimized.onnx")):
        embedded(tmp_path, ["a"], "passage")
