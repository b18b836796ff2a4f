"""Shares, means and the bounds of both."""

from __future__ import annotations

from tests.evaluation.figures import Figure, ratio


def test_a_figure_is_the_ratio_of_the_sums_and_lies_within_its_bounds():
    figure = ratio([(1, 2), (3, 4), (0, 4), (2, 2)])

    assert (figure.value, figure.of) == (0.5, 12)
    assert figure.low < 0.5 < figure.high
    assert ratio([(1, 2), (3, 4), (0, 4), (2, 2)]) == figure


def test_units_that_speak_about_nothing_do_not_widen_the_bounds():
    units = [(1.0, 1.0), (0.0, 1.0)] * 5

    assert ratio([*units, *[(0, 0)] * 50]) == ratio(units)
    assert ratio([(0, 0)]) == Figure()
    assert ratio([(1, 1), (2, 2)]) == Figure(1.0, 1.0, 1.0, 3)
