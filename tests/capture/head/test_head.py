"""The head as it is shipped, and the arithmetic that its training and the worker share."""

from __future__ import annotations

import os
from array import array

import msgspec
import numpy as np
import pytest

from forged.capture.head.choosing import chosen
from forged.capture.head.features import SIGNS, SIZE, pieces, signs
from forged.capture.head.head import FILE, HeadFile, Output, _Line, head
from forged.capture.head.units import SHORT, units
from forged.capture.statements import statements
from forged.conversation import Utterance
from forged.memory import Category
from tests.training import data
from tests.training.fitting import Rows, fit

MOST_BYTES = 48 << 10


def shipped() -> HeadFile:
    with open(FILE, "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=HeadFile)


def test_shipped_head_was_trained_on_the_data_in_the_tree_and_is_small():
    assert shipped().data == data.digest(), "make head"
    assert os.path.getsize(FILE) <= MOST_BYTES
    assert set(shipped().categories) == set(Category)


def test_what_is_fitted_is_what_the_worker_reckons():
    rng = np.random.default_rng(3)
    texts = [f"always use {word} here" for word in ("tabs", "pnpm", "uv", "ruff")] + [
        "fix it",
        "why?",
        "ok",
        "go on",
    ]
    vectors = rng.normal(size=(len(texts), 8)).astype(np.float32)
    right = np.array([1.0] * 4 + [0.0] * 4)
    rows = Rows(texts, vectors)
    fitted = fit(rows, right, np.ones(len(texts)))
    assert ((fitted.of(rows) > 0) == (right > 0)).all()
    line = _line(fitted.output())
    found = [
        line.at(array("f", row.tobytes()), pieces(text), signs(text))
        for text, row in zip(texts, vectors, strict=True)
    ]
    assert np.allclose(found, fitted.of(rows), atol=0.1)


def _line(output: Output):
    return _Line(output)


def test_a_row_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a vector of 3 numbers for a head of 384"):
        head().leanings("always use tabs", array("f", [1.0, 2.0, 3.0]).tobytes())


def test_pieces_are_places_in_the_table_and_signs_are_as_many_as_are_said():
    assert all(0 <= place < SIZE for place in pieces("以后都用制表符, always 4 of them"))
    assert len(signs("x")) == SIGNS
    assert pieces("Port 8080") == pieces("port 9191"), "numbers and capitals make no difference"
    assert pieces("") == ()


def test_a_short_message_is_one_unit_and_a_long_one_has_each_sentence_with_its_neighbour():
    short = "We use pnpm. Never npm."
    long = f"The build is slow again today. We use pnpm here. {'Look at the bundler please. ' * 6}"
    assert len(long) > SHORT
    assert [unit.text for unit in _units(short)] == [short]
    assert _units(long)[1].text == "The build is slow again today. We use pnpm here."


def test_of_a_message_two_units_are_kept_at_most_and_no_sentence_twice():
    found = _units(
        "Ids are ULIDs. Money is cents. Dates are UTC. " + "The rest of it is beside the point. " * 5
    )
    scores = {unit.sentences[0].text: 5.0 - place for place, unit in enumerate(found)}
    kept = chosen(found, lambda text: scores.get(text, 0.0), 1.0)
    assert [unit.sentences[0].text for unit in kept] == ["Ids are ULIDs.", "Dates are UTC."]
    assert chosen(found, lambda text: scores.get(text, 0.0), 9.0) == []


def _units(text: str):
    window = [Utterance("user", text)]
    return units(statements(window), window)
