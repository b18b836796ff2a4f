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


def request(baseline, heights, *, text="?", held=()):
    """A search for one axis by which row n has so much of it: the evidence follows the share.

    `held` are the texts of the first rows.
    """
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((len(heights), DIMENSION))
    noise[:, 0] = 0
    rows = unit(noise) * np.sqrt(1 - np.square(heights))[:, None]
    rows[:, 0] = heights
    rows = unit(rows + baseline.passage_mean)
    said = [*held, *(f"text{n}" for n in range(len(held), len(heights)))]
    memories = [memory(f"m{n:02}", each) for n, each in enumerate(said)]
    one = vector_map(memories, {each.id: row for each, row in zip(memories, rows, strict=True)})
    asked = unit(np.eye(DIMENSION, dtype=np.float32)[:1] + baseline.query_mean)
    found = search_maps([one], texts=[text], vectors=asked, lexical_weight=0.3, message=0)
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


def test_a_weak_neighbour_of_a_strong_hit_comes_only_with_a_word_of_its_own(baseline):
    """Two memories are as near: one says a rare word of the message that the best one lacks."""
    held = ("the quokka feeds at dawn", "the quokka sleeps at noon", "a zeppelin lands at noon")
    reading, candidates = request(baseline, [0.6, 0.26, 0.26], text="quokka and zeppelin", held=held)
    parts = [each / max(evidence(reading, candidates)) for each in evidence(reading, candidates)]
    assert all(0.35 < part < 0.45 for part in parts[1:]), parts

    found = gate_decisions(reading, candidates, max(evidence(reading, candidates)) / 2, most=10)

    assert {each.row: each.rejected for each in found} == {0: "", 1: "far", 2: ""}


@pytest.mark.parametrize(("words", "comes"), [(6, False), (9, False), (12, False), (18, True), (40, True)])
def test_a_request_of_many_rare_words_has_more_than_one_subject(baseline, words, comes):
    """The neighbour's evidence is four tenths of the best memory's: too little for one subject."""
    text = " ".join(f"{first}{second}zeppelin" for first in "bdfgklm" for second in "aeiouy")
    held = ("the quokka feeds at dawn", "the quokka sleeps at noon")
    said = " ".join(["quokka", *text.split()[: words - 1]])
    reading, candidates = request(baseline, [0.6, 0.26], text=said, held=held)
    best, next_best = evidence(reading, candidates)
    assert 0.3 < next_best / best < 0.45
    assert reading.subjects == pytest.approx(max(1, words / 12))

    assert len(let_in(reading, candidates, best / 2)) == 1 + comes


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
    counts = [len(let_in(reading, candidates, least, turn=turn)) for turn in (2, 3, 4, 5, 6, 7, 50)]
    assert counts == [8, 6, 5, 4, 3, 3, 3]
    assert len(let_in(reading, candidates, reading.evidence - 2, turn=1)) == 10
    assert len(let_in(reading, candidates, reading.evidence - 2, turn=1, most=2)) == 2
    assert len(let_in(reading, candidates, least, turn=50, most=2)) == 2


STRANGE = "sonata ballet opera fugue minuet waltz tango polka mazurka gavotte bolero"


def test_the_first_turn_brings_more_the_stronger_its_message_is(baseline):
    reading, candidates = request(baseline, np.full(12, 0.2))

    above = (-1.0, -0.7, -0.3, 0, 1.5)  # of the threshold
    counts = [len(let_in(reading, candidates, reading.evidence - each, turn=1)) for each in above]

    assert counts == [0, 1, 3, 4, 10]


@pytest.mark.parametrize("by_vectors", [True, False])
def test_the_first_message_of_a_session_has_to_be_in_the_words_of_its_store(baseline, by_vectors):
    """Two messages are as near to the best memory; of one the other memories know the words, too."""
    held = [f"The quokka number {n} needs its lichen, the turbine of hall {n} an obelisk." for n in range(9)]
    known, strange = "marzipan for the quokka lichen turbine obelisk", f"marzipan for a {STRANGE}"
    memories = [memory(f"m{n}", text) for n, text in enumerate([*held, "There is marzipan."])]
    rows = {each.id: row for each, row in zip(memories, unit(np.eye(DIMENSION)[:10] + 1), strict=True)}
    one = vector_map(memories, rows if by_vectors else None)
    asked = unit(np.eye(DIMENSION, dtype=np.float32)[20:21] + baseline.query_mean) if by_vectors else None

    def read(text):
        found = search_maps([one], texts=[text], vectors=asked, lexical_weight=0.3, message=0)
        return score_search(found, baseline), found.best(10)

    assert read(known)[0].familiarity > 0 > read(strange)[0].familiarity
    reading, candidates = read(strange)
    least = reading.evidence + 0.8 - 0.1  # it would be enough without its words
    assert let_in(reading, candidates, least, turn=1) == []
    assert let_in(*read(known), least, turn=1) != []


# --- names ------------------------------------------------------------------------------------------

OF_NAMES = (
    "Marta Ruiz leads billing and approves every refund.",
    "Refunds above 500 euros need two approvals.",
    "Checkout events go to RabbitMQ.",
)


def by_words(text):
    memories = [memory(f"m{n}", each) for n, each in enumerate(OF_NAMES)]
    found = search_maps([vector_map(memories)], texts=[text], vectors=None, lexical_weight=0.3, message=0)
    return score_search(found, None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("What did Tomas Berg say about the refund?", "question"),
        ("Was hat Tomas Berg zur Erstattung gesagt?", "question"),
        ("¿Qué dijo Tomas sobre el refund?", "question"),
        ("退款的事 Tomas Berg 怎么说？", "question"),
        ("Ask Priya to approve the refund", "task"),
        ("Which Kafka topic do the checkout events use?", "question"),
        ("What did Marta say to Tomas about the refund?", ""),
        ("do the checkout events go to RabbitMQ or to Kafka?", ""),
        ("what did they say about the refund?", ""),
        ("Wie hoch darf eine Erstattung sein und wer muss sie freigeben?", ""),
        ("open src/Refund.py and the README", ""),
        ("Please Review All Refunds Of This Week", ""),
    ],
)
def test_a_name_that_no_memory_has_is_noticed_and_no_other_word(text, kind):
    assert by_words(text).unknown_name == kind


def test_an_unknown_name_speaks_against_memories_of_another_name_and_of_no_other():
    known, unknown = (
        by_words("What about the refund, the checkout events?"),
        by_words("What about the refund, the checkout events of Priya?"),
    )
    against = [
        one - other
        for one, other in zip(
            known.evidences([(0, n) for n in range(3)]),
            unknown.evidences([(0, n) for n in range(3)]),
            strict=True,
        )
    ]

    assert against[0] > against[1] + 2 < against[2] + 1
    assert against[2] > against[1] + 2


@pytest.mark.parametrize(
    ("text", "known"), [("rabbit?", True), ("refu", True), ("moin", False), ("ok", False)]
)
def test_a_word_that_a_memory_has_or_begins_with_is_a_known_name(text, known):
    assert by_words(text).names_known == known


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
