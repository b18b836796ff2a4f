"""Vectors that the worker requests: the local model's alone, kept in memory."""

from __future__ import annotations

import numpy as np
import pytest

from forged.capture import vectors as rows
from forged.capture.vectors import LocalVectors
from forged.errors import ProviderError


class StandIn:
    """An embedder; it fails if it is told to."""

    def __init__(self, *, gives_layers: bool = True, fails: bool = False) -> None:
        self.gives_layers, self.fails = gives_layers, fails
        self.asked: list[tuple[list[str], str]] = []

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        if self.fails:
            raise ProviderError("no", reason="unreachable")
        self.asked.append((texts, kind))
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


def row(text: str) -> bytes:
    return np.array([len(text), ord(text[0])], np.float32).tobytes()


async def test_each_text_has_its_row_and_is_asked_for_by_itself_so_that_a_query_waits_for_one_at_most():
    embedder = StandIn()
    assert await LocalVectors(embedder)(["ab", "c"]) == (row("ab"), row("c"))
    assert embedder.asked == [(["ab"], "layers"), (["c"], "layers")]


@pytest.mark.parametrize(
    "embedder",
    [StandIn(gives_layers=False), StandIn(fails=True)],
)
async def test_where_the_local_model_is_not_or_fails_there_are_none(embedder):
    assert await LocalVectors(embedder)(["ab"]) == ()


async def test_a_row_is_asked_for_once_and_each_text_has_its_own() -> None:
    embedder = StandIn()
    vectors = LocalVectors(embedder)

    assert await vectors(["a", "b"]) == (row("a"), row("b"))
    assert await vectors(["c", "b", "c"]) == (row("c"), row("b"), row("c"))
    assert await vectors([]) == ()
    assert [texts for texts, _ in embedder.asked] == [["a"], ["b"], ["c"]]


async def test_where_one_cannot_be_had_there_are_none_and_what_is_known_stays() -> None:
    embedder = StandIn()
    vectors = LocalVectors(embedder)
    await vectors(["a"])
    embedder.fails = True

    assert await vectors(["a", "b"]) == ()
    assert await vectors(["a"]) == (row("a"),)


async def test_the_rows_that_were_asked_for_last_stay(monkeypatch) -> None:
    monkeypatch.setattr(rows, "_MOST_ROWS", 2)
    embedder = StandIn()
    vectors = LocalVectors(embedder)
    for texts in (["a", "b"], ["a"], ["c"]):
        await vectors(texts)

    embedder.asked.clear()
    await vectors(["a", "c"])
    assert embedder.asked == []
    await vectors(["b"])
    assert embedder.asked == [(["b"], "layers")]
