"""Sealed sets: refused, recorded, and at most three times."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.evaluation import closing
from tests.evaluation import sealed as known
from tests.evaluation.dataset import DatasetError


@pytest.fixture
def sealed(tmp_path):
    folder = tmp_path / "data/lives/sealed"
    folder.mkdir(parents=True)
    return folder


def record(sealed):
    return sealed.parents[1] / "closing-runs.md"


def begun(paths, command="eval"):
    folders = closing.allowed(paths, closing=True)
    closing.begin(folders, command)
    return folders


def test_a_sealed_set_is_refused_unless_it_is_a_closing_run(sealed):
    inside = sealed / "part"
    inside.mkdir()
    file = inside / "said.jsonl"
    file.write_text("{}")
    link = sealed.parent / "dev"
    link.symlink_to(sealed)
    borrowed = sealed.parent / "mine"
    borrowed.mkdir()
    (borrowed / "said.jsonl").symlink_to(file)

    for path in (sealed, inside, link, file, borrowed, sealed / ".." / "sealed", borrowed / ".." / "dev"):
        with pytest.raises(DatasetError, match=r"is sealed.*--closing"):
            closing.allowed([path], closing=False)
    assert not record(sealed).exists()


def test_other_sets_are_measured_freely_and_leave_no_record(sealed, tmp_path):
    assert closing.allowed([tmp_path / "data/lives"], closing=False) == ()
    assert begun([tmp_path / "data/lives"]) == ()
    assert not record(sealed).exists()


def test_a_run_is_recorded_before_it_begins_and_its_figures_when_it_has_ended(sealed):
    (folder,) = begun([sealed], "eval a | b")

    began = record(sealed).read_text().splitlines()
    assert began[-1].endswith("| lives | `eval a / b` | began |")

    closing.end(folder, "recall 0.5\n(0.4-0.6)")

    ended = record(sealed).read_text().splitlines()
    assert ended[:-1] == began[:-1]
    assert ended[-1].endswith("| recall 0.5 (0.4-0.6) |")


def test_a_fourth_run_of_a_set_is_refused_and_another_set_has_its_own_three(sealed):
    other = sealed.parents[1] / "words/sealed"
    other.mkdir(parents=True)
    for _ in range(3):
        begun([sealed])
    before = record(sealed).read_text()

    with pytest.raises(DatasetError, match="has had its 3 closing runs"):
        begun([other, sealed])

    assert record(sealed).read_text() == before
    assert begun([other]) == (other,)


SAID = {"id": "a", "messages": [{"role": "user", "content": "From now on the silo doors are painted red."}]}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """One message is known to be sealed."""
    (tmp_path / "all.jsonl").write_text(json.dumps(SAID))
    found = known.fingerprints(tmp_path / "all.jsonl")
    monkeypatch.setattr(known, "_known", lambda: found)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(SAID),
        json.dumps({"keep": [], **SAID, "id": "another"}, indent=None, separators=(",", ":")),
        "> From now on: the silo doors are painted red!",
    ],
    ids=["as it is", "another id", "plain text"],
)
def test_a_copy_of_what_is_sealed_is_refused_wherever_it_lies_and_also_as_a_closing_run(
    tmp_path, listed, line
):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "mine.jsonl").write_text(f'{{"text": "thanks"}}\n{line}\n')

    for path in (copy, copy / "mine.jsonl"):
        for said in (True, False):
            with pytest.raises(DatasetError, match="holds what is sealed"):
                closing.allowed([path], closing=said)


def test_what_is_sealed_is_measured_in_its_repository_and_not_in_a_copy_without_a_record(sealed, listed):
    (sealed / "said.jsonl").write_text(json.dumps(SAID))

    with pytest.raises(DatasetError, match="only its own folder in the repository"):
        closing.allowed([sealed], closing=True)

    top = sealed.parents[2]
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", str(top), *command], check=True)
    assert closing.allowed([sealed], closing=True) == (sealed,)
