"""Sets of conversations, and one run through a real daemon."""

from __future__ import annotations

import json
import os
import tempfile

import pytest

from tests.evaluation import capture_trial, said, settings
from tests.evaluation.dataset import DatasetError
from tests.evaluation.settings import Subject
from tests.support.clock import eventually
from tests.support.daemon import processes_with


def user(*texts):
    return [{"role": "user", "content": text} for text in texts]


ASKED = "Remember that we always use pnpm in this repository and never npm."
SAID = [
    {"id": "en_1", "language": "en", "kind": "explicit", "messages": user(ASKED), "keep": [
        {"says": ["pnpm"], "scope": "repo", "category": "project-conventions", "explicit": True, "note": "n"},
    ]},
    {"id": "en_2", "language": "en", "kind": "chat", "messages": user("thanks a lot"), "keep": []},
]  # fmt: skip
ALIKE = [
    {
        "id": "a_1",
        "language": "en",
        "first": {"scope": "repo", "text": "The billing service listens on port 7001."},
        "second": {"messages": user(ASKED)},
        "says_first": ["7001"],
        "says_second": ["pnpm"],
    }
]
MINDS = [
    {
        "id": "m_1",
        "language": "en",
        "agents": 2,
        "steps": [{"agent": 1, "messages": user(ASKED)}, {"agent": 2, "messages": user("thanks")}],
        "last": ["pnpm"],
        "gone": ["yarn"],
    }
]


@pytest.fixture
def written(tmp_path):
    def write(**files):
        for name, lines in files.items():
            (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        return tmp_path

    return write


def test_what_a_directory_holds_is_read_and_nothing_else_is_missed(written):
    found = said.load(written(said=SAID, minds=MINDS))

    assert (len(found.said), len(found.minds), found.alike, found.attacks, found.size) == (2, 1, (), (), 3)
    assert found.said[0].keep[0].explicit
    assert said.is_one(written())
    assert not said.is_one(written() / "elsewhere")


def test_an_id_that_is_there_twice_or_is_no_name_is_refused(written):
    with pytest.raises(DatasetError, match="is there twice"):
        said.load(written(said=[SAID[0], SAID[0]]))
    with pytest.raises(DatasetError, match="more than letters"):
        said.load(written(said=[{**SAID[1], "id": "../x"}]))


@pytest.mark.long
def test_conversations_are_handed_over_and_what_they_leave_is_distinguished(written, home, monkeypatch):
    prepared = settings.prepare(
        Subject("builtin:lexical", "direct", shipped=True), {"HOME": str(home), "PATH": os.environ["PATH"]}
    )
    steps = []
    with tempfile.TemporaryDirectory(prefix="fs") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        found = capture_trial.run(
            said.load(written(said=SAID, alike=ALIKE, minds=MINDS)),
            prepared,
            lambda *step: steps.append(step),
        )
        assert os.listdir(place) == []
        eventually(lambda: processes_with(place) == [])

    by_id = {each.said.id: each.kept for each in found.said}
    assert [("pnpm" in each.content, each.scope, each.is_head) for each in by_id["en_1"]] == [
        (True, "repo", True)
    ]
    assert by_id["en_2"] == ()
    (pair,) = found.alike
    assert sorted((each.of_first, "7001" in each.content) for each in pair.kept) == [
        (False, False),
        (True, True),
    ]
    assert ["pnpm" in each.content for each in found.minds[0].kept] == [True]
    assert steps[-1] == ("capturing", 4, 4)
