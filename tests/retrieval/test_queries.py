"""Queries as a model sees them: one pass for the vector and for how a message is said."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from forged.models import Purpose
from forged.retrieval import pipeline
from forged.retrieval.pipeline import QueryVectors, embed_queries
from tests.support.clock import PATIENCE_S

ROW = [3.0, 4.0, 1.0, 0.0, 0.0, 2.0]


class Model:
    health, replaceable = None, False

    def __init__(self, *, gives_layers: bool) -> None:
        self.gives_layers = gives_layers
        self.asked: list[tuple[list[str], str]] = []

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        self.asked.append((texts, kind))
        return np.array([ROW if kind == "layers" else [0.0, 1.0]] * len(texts), np.float32)


def found_by(model: Model) -> QueryVectors:
    return asyncio.run(
        embed_queries(model, ("the walrus", "lol"), Purpose("query"), time.monotonic() + PATIENCE_S)
    )


def test_a_model_that_gives_its_layers_is_asked_once_for_its_layers_the_last_of_which_is_the_vector():
    model = Model(gives_layers=True)
    found = found_by(model)
    assert model.asked == [(["the walrus", "lol"], "layers")]
    assert found.vectors.tolist() == [[0.0, 1.0]] * 2
    assert found.layers.tolist() == [ROW[:4]] * 2


def test_any_other_is_asked_for_vectors_alone():
    model = Model(gives_layers=False)
    found = found_by(model)
    assert model.asked == [(["the walrus", "lol"], "query")]
    assert (found.vectors.tolist(), found.layers) == ([[0.0, 1.0]] * 2, None)


def test_a_message_is_judged_by_its_own_layers_and_by_words_where_it_has_none(monkeypatch):
    heard: list[tuple[object, ...]] = []
    monkeypatch.setattr(pipeline, "is_chat", lambda *reported: bool(heard.append(reported)))
    before = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    QueryVectors(("a guess", "lol"), before, before).is_chat("lol")
    QueryVectors(("a guess", "lol"), before, before).is_chat("another")
    QueryVectors().is_chat("lol")
    assert heard == [("lol", [3.0, 4.0]), ("another",), ("lol",)]
