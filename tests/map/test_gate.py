"""The gate: each memory by its own evidence, few for a weak request, most at a start."""

from __future__ import annotations

import numpy as np
import pytest

from forged.map.baseline import Baseline
from forged.map.gate import UNGATED, evidence_threshold, gate_decisions, is_hopeless, may_follow, score_search
from forged.map.search import search_maps
from tests.data.maps import unit, vector_map
from tests.data.memories import memory

DIMENSION = 64
NEEDED = evidence_threshold(0.95)


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
    return score_search(found, baseline), found.best(10)


def let_in(reading, candidates, least=NEEDED, **how):
    found = gate_decisions(reading, candidates, least, **{"most": 10, **how})
    assert [each.row for each in found] == [each.row for each in candidates], "each is judged, in their order"
    return [each for each in found if not each.rejected]


def admitted(reading, candidates, **how):
    return [(each.row, each.admitted_as) for each in let_in(reading, candidates, **how)]


def evidence(reading, candidates):
    return [reading.evidence_of(each.map_index, each.row) for each in candidates]


def test_a_memory_that_passes_alone_is_admitted_and_others_only_near_it(baseline):
    reading, candidates = request(baseline, [0.95, 0.9, 0.1, 0.05, 0.0])

    assert admitted(reading, candidates) == [(0, "strong"), (1, "strong")]


def test_a_memory_next_to_a_doubtful_best_needs_more_of_its_evidence(baseline):
    """What stays out says why: too little speaks for it, or too little beside the best."""
    reading, candidates = request(baseline, [0.3, 0.18, -0.1])
    best, second, third = evidence(reading, candidates)
    assert 0.3 < second / best < 0.6, "enough beside a best that is beyond doubt, and no more"
    assert third < second - 1.25

    beyond = gate_decisions(reading, candidates, best / 2, most=10)
    in_doubt = gate_decisions(reading, candidates, second + 1.0, most=10)

    assert [each.rejected for each in beyond] == ["", "", "faint"]
    assert [each.rejected for each in in_doubt] == ["", "far", "faint"]


def test_a_weak_request_is_given_its_best_and_never_ten(baseline):
    reading, candidates = request(baseline, np.full(12, 0.2))
    least = reading.evidence + 0.5  # so the request is weak, and all rows are alike

    found = let_in(reading, candidates, least)

    assert 1 <= len(found) <= 5
    assert {each.admitted_as for each in found} == {"weak"}
    known = sorted(evidence(reading, candidates))
    assert min(each.evidence for each in found) >= known[-len(found)]
    others = [each for each in gate_decisions(reading, candidates, least, most=10) if each.rejected]
    assert {each.rejected for each in others} <= {"faint", "far", "full"}


def test_a_request_for_which_nothing_speaks_is_given_nothing(baseline):
    reading, candidates = request(baseline, np.full(5, -0.9))

    assert is_hopeless(reading, NEEDED)
    assert admitted(reading, candidates) == []
    assert {each.rejected for each in gate_decisions(reading, candidates, NEEDED, most=10)} == {"faint"}


def test_a_session_hears_most_at_its_beginning_and_then_fewer_and_fewer(baseline):
    reading, candidates = request(baseline, np.full(12, 0.2))
    least = reading.evidence + 1.5  # nothing that a message alone would be given

    assert let_in(reading, candidates, least) == []
    counts = [len(let_in(reading, candidates, least, turn=turn)) for turn in (1, 2, 3, 4, 5, 6, 50)]
    assert counts == [10, 6, 5, 4, 3, 3, 3]
    assert len(let_in(reading, candidates, least, turn=1, most=2)) == 2
    assert len(let_in(reading, candidates, least, turn=50, most=2)) == 2


def test_only_the_first_turn_of_a_session_may_be_weaker_than_what_it_brings(baseline):
    reading, candidates = request(baseline, np.full(3, 0.2))
    least = reading.evidence + 2.0

    assert [bool(let_in(reading, candidates, least, turn=turn)) for turn in (0, 1, 2)] == [False, True, False]


def test_by_words_alone_a_weak_request_of_its_own_is_given_nothing():
    one = vector_map([memory(f"m{n}", text) for n, text in enumerate(("the quokka sleeps", "a lamp"))])
    found = search_maps([one], texts=["the lamp of whom and what else"], vectors=None, lexical_weight=0.3)
    reading = score_search(found, None)

    assert let_in(reading, found.best(5), reading.evidence + 0.1) == []
    assert [each.admitted_as for each in let_in(reading, found.best(5), reading.evidence - 0.1)] == ["strong"]


def test_where_nothing_can_be_compared_everything_is_let_in():
    one = vector_map([memory("a", "x"), memory("b", "y")], {"a": [1.0, 0.0], "b": [0.0, 1.0]})
    found = search_maps([one], texts=["x"], vectors=np.array([[1.0, 0.0]], np.float32), lexical_weight=0)
    reading = score_search(found, None)

    assert reading.evidence == UNGATED
    assert [each.admitted_as for each in let_in(reading, found.best(5))] == ["", ""]


def test_a_link_leads_to_what_has_weak_evidence_of_its_own_or_comes_from_what_is_beyond_doubt(baseline):
    reading, candidates = request(baseline, [0.95, 0.3, -0.5])
    best, weak, none = evidence(reading, candidates)
    assert best > weak > none

    needed = weak + 1.0  # the weak one is weak, and the best is beyond doubt or not
    assert may_follow(reading, (0, 2), (0, 1), needed)
    assert may_follow(reading, (0, 0), (0, 2), best / 2)
    assert not may_follow(reading, (0, 0), (0, 2), best / 1.4)
    assert not may_follow(reading, (0, 1), (0, 2), needed)


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
        return found, score_search(found, baseline)

    found, reading = read(1)
    speaks = [reading.evidence_of(0, row) for row in range(3)]

    assert speaks[0] == pytest.approx(speaks[1], rel=0.25)
    assert min(speaks[:2]) > speaks[2] + 1
    assert [each.row for each in found.best(3)][2] == 2
    assert reading.evidence < read(None)[1].evidence, "neither row answers both"
