"""Sealed sets: refused, recorded, and at most three times."""

from __future__ import annotations

import pytest

from forged.evaluation import closing
from forged.evaluation.dataset import DatasetError


@pytest.fixture
def sealed(tmp_path):
    folder = tmp_path / "data/lives/sealed"
    folder.mkdir(parents=True)
    return folder


def record(sealed):
    return sealed.parents[1] / "closing-runs.md"


def test_a_sealed_set_is_refused_unless_it_is_a_closing_run(sealed):
    inside = sealed / "part"
    inside.mkdir()
    link = sealed.parent / "dev"
    link.symlink_to(sealed)

    for path in (sealed, inside, link):
        with pytest.raises(DatasetError, match=r"is sealed.*--closing"):
            closing.begin([path], "forgectl eval", closing=False)
    assert not record(sealed).exists()


def test_other_sets_are_measured_freely_and_leave_no_record(sealed, tmp_path):
    assert closing.begin([tmp_path / "data/lives"], "forgectl eval", closing=False) == ()
    assert closing.begin([tmp_path / "data/lives"], "forgectl eval", closing=True) == ()
    assert not record(sealed).exists()


def test_a_run_is_recorded_before_it_begins_and_its_figures_when_it_has_ended(sealed):
    (folder,) = closing.begin([sealed], "forgectl eval a | b", closing=True)

    began = record(sealed).read_text().splitlines()
    assert began[-1].endswith("| lives | `forgectl eval a / b` | began |")

    closing.end(folder, "recall 0.5\n(0.4-0.6)")

    ended = record(sealed).read_text().splitlines()
    assert ended[:-1] == began[:-1]
    assert ended[-1].endswith("| recall 0.5 (0.4-0.6) |")


def test_a_fourth_run_of_a_set_is_refused_and_another_set_has_its_own_three(sealed):
    other = sealed.parents[1] / "words/sealed"
    other.mkdir(parents=True)
    for _ in range(3):
        closing.begin([sealed], "forgectl eval", closing=True)
    before = record(sealed).read_text()

    with pytest.raises(DatasetError, match="has had its 3 closing runs"):
        closing.begin([other, sealed], "forgectl eval", closing=True)

    assert record(sealed).read_text() == before
    assert closing.begin([other], "forgectl eval", closing=True) == (other,)
