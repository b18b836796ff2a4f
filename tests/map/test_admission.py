"""Which memories are let in: each by its own evidence, few for a weak request, fewer in a conversation."""

from __future__ import annotations

import numpy as np
import pytest

from forged.map.admission import admitted, is_hopeless
from forged.map.baseline import Baseline
from forged.map.relevance import UNGATED, threshold, weigh
from forged.map.search import search_maps
from tests.data.maps import vector_map
from tests.data.memories import memory

DIMENSION = 64
NEEDED = threshold(0.95)


def unit(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def baseline():
    of = np.random.default_rng
    return Baseline.of(
        "key", unit(of(0).standard_normal((64, DIMENSION))), unit(of(1).standard_normal((64, DIMENSION)))
    )


def request(baseline, heights):
    """A search for one axis by which row n has so much of it: the evidence follows the share."""
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((len(heights), DIMENSION))
    noise[:, 0] = 0
    rows = unit(noise) * np.sqrt(1 - np.square(heights))[:, None]
    rows[:, 0] = heights
    rows = unit(rows + baseline.passage_mean)
    memories = [memory(f"m{n:02}", f"text{n}") for n in range(len(heights))]
    one = vector_map(memories, {each.id: row for each, row in zip(memories, rows, strict=True)})
    asked = unit(np.eye(DIMENSION, dtype=np.float32)[:1] + baseline.query_mean)
    found = search_maps([one], texts=["?"], vectors=asked, lexical_weight=0.3, message=0)
    return weigh(found, baseline), found.best(10)


def came(reading, candidates, **how):
    return [(each.candidate.row, each.came) for each in admitted(reading, candidates, NEEDED, **how)]


def test_what_would_pass_alone_comes_and_beside_it_only_what_is_near_it(baseline):
    reading, candidates = request(baseline, [0.95, 0.9, 0.1, 0.05, 0.0])

    assert came(reading, candidates) == [(0, "strong"), (1, "strong")]


def test_what_is_not_near_the_best_stays_out_although_few_came(baseline):
    reading, candidates = request(baseline, [0.95, 0.72, 0.68])
    evidence = [reading.evidence_of(each.map_index, each.row) for each in candidates]
    least = evidence[0] + 0.5
    assert 1.5 < evidence[0] - evidence[1] < 4, "near enough for the old cut, and not for a few"

    assert [each.candidate.row for each in admitted(reading, candidates, least)] == [0]


def test_a_weak_request_is_given_its_best_and_never_ten(baseline):
    heights = np.full(12, 0.2)
    reading, candidates = request(baseline, heights)
    least = reading.evidence + 0.5  # so the request is weak, and all rows are alike

    let_in = admitted(reading, candidates, least)

    assert 1 <= len(let_in) <= 3
    assert {each.came for each in let_in} == {"weak"}
    evidence = [reading.evidence_of(each.map_index, each.row) for each in candidates]
    assert min(each.evidence for each in let_in) >= sorted(evidence)[-len(let_in)]


def test_a_request_for_which_nothing_speaks_is_given_nothing(baseline):
    reading, candidates = request(baseline, np.full(5, -0.9))

    assert is_hopeless(reading, NEEDED)
    assert came(reading, candidates) == []


def test_within_a_conversation_less_evidence_is_wanted_and_less_comes(baseline):
    reading, candidates = request(baseline, np.full(8, 0.2))
    least = reading.evidence + 2.0

    assert admitted(reading, candidates, least) == []
    assert 1 <= len(admitted(reading, candidates, least, goes_on=True)) <= 2


def test_by_words_alone_a_weak_request_of_its_own_is_given_nothing():
    one = vector_map([memory(f"m{n}", text) for n, text in enumerate(("the quokka sleeps", "a lamp"))])
    found = search_maps([one], texts=["the lamp of whom and what else"], vectors=None, lexical_weight=0.3)
    reading = weigh(found, None)

    assert admitted(reading, found.best(5), reading.evidence + 0.1) == []
    assert [each.came for each in admitted(reading, found.best(5), reading.evidence - 0.1)] == ["strong"]


def test_where_nothing_can_be_compared_everything_is_let_in():
    one = vector_map([memory("a", "x"), memory("b", "y")], {"a": [1.0, 0.0], "b": [0.0, 1.0]})
    found = search_maps([one], texts=["x"], vectors=np.array([[1.0, 0.0]], np.float32), lexical_weight=0)
    reading = weigh(found, None)

    assert reading.evidence == UNGATED
    assert [each.came for each in admitted(reading, found.best(5), NEEDED)] == ["", ""]


def test_the_best_row_has_the_evidence_of_the_request(baseline):
    reading, _ = request(baseline, [0.7, 0.3, 0.1])

    assert reading.evidence_of(0, 0) == pytest.approx(reading.evidence, abs=0.02)
    assert reading.evidence_of(0, 0) > reading.evidence_of(0, 1) > reading.evidence_of(0, 2)


def test_what_a_message_goes_on_from_counts_half_of_it(baseline):
    """Two rows: one is what the message says, the other what was spoken of; a stranger is neither."""
    axes = np.eye(DIMENSION, dtype=np.float32)
    rows = unit(axes[:3] + baseline.passage_mean)
    memories = [memory(f"m{n}", f"text{n}") for n in range(3)]
    one = vector_map(memories, {each.id: row for each, row in zip(memories, rows, strict=True)})
    asked = unit(axes[:2] + baseline.query_mean)

    def read(continued):
        found = search_maps(
            [one], texts=["a", "b"], vectors=asked, lexical_weight=0.3, message=0, continued=continued
        )
        return found, weigh(found, baseline)

    found, reading = read(1)
    evidence = [reading.evidence_of(0, row) for row in range(3)]

    assert evidence[0] == pytest.approx(evidence[1], rel=0.25)
    assert min(evidence[:2]) > evidence[2] + 1
    assert [each.row for each in found.best(3)][2] == 2
    assert reading.evidence < read(None)[1].evidence, "neither row answers both"
