"""Evidence for rows: computed together it equals, to the last bit, each row's own."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.map.baseline import Baseline
from forged.map.gate import LEAST, UNGATED, GateScore, clip_odds, score_search
from forged.map.search import search_maps
from tests.data.maps import vector_map
from tests.data.memories import memory

DIMENSION = 64
WORDS = ("ports", "tests", "makefile", "deploys", "tabs", "redis", "friday", "the", "use", "of")


def units(seed: int, count: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


BASELINE = Baseline.of("key", units(0, 64), units(1, 64))


def reading_of(seed: int, *, queries: int, message: int | None, continued: int | None, by: str) -> GateScore:
    """Two maps, of which one may have no vectors, asked by words, by vectors, or by both."""
    draw = np.random.default_rng(seed)
    maps = []
    for place in range(2):
        said = [" ".join(draw.choice(WORDS, 6)) for _ in range(int(draw.integers(1, 9)))]
        memories = [memory(f"m{n:02}", text) for n, text in enumerate(said)]
        rows = dict(zip((each.id for each in memories), units(seed + 2 + place, len(memories)), strict=True))
        bare = place == 1 and seed % 3 == 0
        maps.append(vector_map(memories, rows if by != "words" and not bare else None, root=f"/{place}"))
    texts = [" ".join(draw.choice(WORDS, 3)) for _ in range(queries)]
    vectors = None if by == "words" else units(seed + 5, queries)
    found = search_maps(
        maps,
        texts=texts,
        vectors=vectors,
        lexical_weight=0.0 if by == "vectors" else 0.3,
        message=message,
        continued=continued,
    )
    return score_search(found, BASELINE)


def by_itself(reading: GateScore, map_index: int, row: int) -> float:
    """One row, number by number."""
    if reading.evidence == UNGATED:
        return UNGATED
    found = reading.found
    column = found.column(map_index, row)
    odds = None if reading.odds is None else odds_of(reading, column)
    if reading.cosines is None or reading.lengths is None or reading.cosines[0, column] == -np.inf:
        if odds is None:
            return UNGATED
        return NormalDist().inv_cdf(1 - float(np.exp(-typical(odds, found.message) - 2.25)))
    heights = (reading.cosines[:, column] / reading.lengths[:, 0] - reading.usual) / reading.spread
    return typical(heights if odds is None else heights + 0.15 * (odds - LEAST), found.message)


def odds_of(reading: GateScore, column: int) -> np.ndarray:
    found, odds = reading.found, reading.odds
    assert odds is not None
    part = next(n for n, own in enumerate(found.columns) if own.start <= column < own.stop)
    rows, row = odds.rows[part], column - found.columns[part].start
    of_row = np.full(odds.queries, LEAST)
    if row < rows.shape[1]:
        of_row = clip_odds(rows[:, row] - float(np.log(max(sum(odds.sizes), 1))))
    return of_row if found.shares is None else np.array([found.shares @ of_row])


def typical(values: np.ndarray, message: int | None) -> float:
    best = float(values.max())
    return best if message is None or len(values) == 1 else (best + float(values[message])) / 2


@pytest.mark.parametrize("by", ["words", "vectors", "both"])
@given(st.integers(0, 10_000), st.sampled_from([(1, 0, None), (2, 0, 1), (3, None, None), (4, 3, None)]))
def test_rows_that_are_looked_at_together_have_what_each_has_by_itself(by, seed, asked):
    queries, message, continued = asked
    reading = reading_of(seed, queries=queries, message=message, continued=continued, by=by)
    rows = [(place, row) for place, each in enumerate(reading.found.maps) for row in range(len(each))]
    alone = [by_itself(reading, *each) for each in rows]

    assert reading.evidences(rows) == alone
    assert [reading.evidence_of(*each) for each in rows] == alone
