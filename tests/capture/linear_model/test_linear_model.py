"""The head as it is shipped, and the arithmetic that its training and the worker share."""

from __future__ import annotations

import math
import os
from array import array

import msgspec
import numpy as np
import pytest

from forged.capture.authorship import statements
from forged.capture.linear_model import (
    FILE,
    SHORT,
    SIGNS,
    LinearModelFile,
    StatementScorer,
    StatementWeights,
    form_features,
    linear_model,
    passages,
    select_passages,
)
from forged.conversation import Utterance
from forged.text.linear import SIZE, LinearFunction, Weights, hashed_features
from tests.training import data
from tests.training.fitting import Rows, fit

MOST_BYTES = 256 << 10


def shipped() -> LinearModelFile:
    with open(FILE, "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=LinearModelFile)


def test_shipped_head_was_trained_on_the_data_in_the_tree_and_is_small():
    assert shipped().data == data.digest(), "make linear-models"
    assert os.path.getsize(FILE) <= MOST_BYTES
    for numbers in (shipped().by_rows, shipped().by_words):
        assert (tuple(numbers.kept), tuple(numbers.others)) == (data.KEPT, data.OTHERS)


@pytest.mark.parametrize("size", [SIZE, 1 << 12, 0])
def test_what_is_fitted_is_what_the_worker_reckons(size):
    rows, right = _learnt()
    fitted, other = fit(rows, np.stack([right, 1 - right], 1), np.ones(len(right)), size=size)
    more = fitted.less(other)
    assert not size or ((more.of(rows) > 0) == (right > 0)).all()
    line = LinearFunction(more.weights())
    found = [
        line.value(array("f", row.tobytes()), hashed_features(text), form_features(text))
        for text, row in zip(TEXTS, rows.vectors, strict=True)
    ]
    assert np.allclose(found, more.of(rows), atol=0.1)


TEXTS = [
    *(f"always use {word} here" for word in ("tabs", "pnpm", "uv", "ruff")),
    *("fix it", "why?", "ok", "go on"),
]


def _learnt():
    vectors = np.random.default_rng(3).normal(size=(len(TEXTS), 8)).astype(np.float32)
    return Rows(TEXTS, vectors), np.array([1.0] * 4 + [0.0] * 4, np.float32)


def test_the_score_of_the_kinds_is_added_to_that_of_keeping():
    line, none = Weights(b"", 1.0, (0.0,) * (SIGNS - 1) + (2.0,)), Weights(b"", 1.0, (0.0,) * SIGNS)
    numbers = StatementWeights(
        bar=0.0,
        asked_bar=0.0,
        settles_bar=0.0,
        settles=none,
        lasts_bar=0.0,
        lasts=none,
        keep=line,
        asks=none,
        kept={"rule": line, "explicit": none},
        others={"question": none},
        user=none,
    )
    found = StatementScorer(numbers).scores("whatever")
    assert found.keep == pytest.approx(2.0 + math.log(math.exp(2.0) + 1.0))
    assert (found.asks, found.kind) == (0.0, "rule")


def test_a_short_message_is_one_passage_and_a_long_one_has_one_per_sentence():
    short = "We use pnpm. Never npm."
    assert len(LONG) > SHORT
    assert [passage.text for passage in _units(short)] == [short]
    assert [passage.text for passage in _units(LONG)][:3] == [
        "The build is slow.",
        "We use pnpm.",
        "Never npm.",
    ]


LONG = f"The build is slow. We use pnpm. Never npm. {'Look at the bundler please. ' * 6}"


def test_a_sentence_is_kept_with_what_it_needs():
    complaint = f"You used npm again. We are on pnpm. {'Look at the bundler please. ' * 6}"
    assert _units(complaint)[0].text == "You used npm again. We are on pnpm."
    request = f"We are on pnpm. Remember that. {'Look at the bundler please. ' * 6}"
    assert _units(request)[1].text == "We are on pnpm."


def test_a_short_message_has_what_it_agrees_to_and_not_the_request():
    window = [
        Utterance("assistant", "I would move to pytest."),
        Utterance("user", "Yes, pytest. Remember that."),
    ]
    assert [passage.text for passage in passages(statements(window))] == [
        "I would move to pytest. Yes, pytest."
    ]


def test_a_sentence_is_kept_with_its_neighbours_that_are_likely_too():
    scores = {"We use pnpm.": 4.0, "Never npm.": 1.0, "The build is slow.": -3.0}
    (kept,) = select_passages(_units(LONG), lambda text: scores.get(text, -5.0), -1.0)
    assert kept.text == "We use pnpm. Never npm."


def test_of_a_message_two_passages_are_kept_at_most_and_no_sentence_twice():
    found = _units(
        "Ids are ULIDs. Money is cents. Dates are UTC. " + "The rest of it is beside the point. " * 5
    )
    scores = {passage.sentences[0].text: 5.0 - place for place, passage in enumerate(found)}
    kept = select_passages(found, lambda text: scores.get(text, 0.0), 1.0)
    assert [passage.sentences[0].text for passage in kept] == ["Ids are ULIDs.", "Dates are UTC."]
    assert [passage.text for passage in kept] == ["Ids are ULIDs. Money is cents.", "Dates are UTC."]
    assert select_passages(found, lambda text: scores.get(text, 0.0), 9.0) == []


def _units(text: str):
    return passages(statements([Utterance("user", text)]))


def test_a_row_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a row of 3 numbers for one of 1152"):
        linear_model().by_rows.scores("always use tabs", array("f", [1.0, 2.0, 3.0]).tobytes())
