"""The rules of the LoCoMo task, on a conversation that was made up for this file in its form."""

import json

import pytest

from tests.evaluation import loading, locomo
from tests.evaluation.dataset import DatasetError

SAMPLE = {
    "sample_id": "conv-x",
    "conversation": {
        "speaker_a": "Ann",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hello."}],
        "session_2_date_time": "12:05 am on 1 June, 2023",
    },
    "observation": {
        "session_1_observation": {
            "Ann": [["Ann keeps bees.", "D1:1"], ["Ann sold her car.", ["D1:3", "D1:4"]]],
            "Bo": [["Bo bakes rye bread.", "D1:3"]],
        },
        "session_2_observation": {"Bo": [["Bo moved.", "D2:2; D2:7"]]},
        "session_3_observation": {"Bo": [["Bo is back.", "D3:1"]]},
    },
    "qa": [
        {"question": "What does Ann keep?", "answer": "bees", "evidence": ["D1:1", "D9:9"], "category": 4},
        {"question": "And then?", "answer": 7, "evidence": ["D1:3", "D2:7"], "category": 1},
        {"question": "Nobody noted it?", "evidence": ["D8:8"], "category": 2},
        {"question": "Never said?", "evidence": ["D1:1"], "category": 5},
        {"question": "When?", "evidence": ["D3:1"], "category": 2},
    ],
}


@pytest.fixture
def repository(tmp_path):
    file = tmp_path / "some.json"
    file.write_text(json.dumps([SAMPLE]))
    found = loading.load(file)
    assert (found.name, found.user, found.off_topic) == ("some", (), ())
    (repository,) = found.repositories
    return repository


def test_facts_are_memories_that_carry_their_turns(repository):
    facts = {item.memory.content: item.labels for item in repository.items}

    assert facts["Ann sold her car.\n"] == {"D1:3", "D1:4"}
    assert facts["Bo moved.\n"] == {"D2:2", "D2:7"}
    assert len({item.memory.id for item in repository.items}) == 5


def test_a_fact_is_as_old_as_its_session(repository):
    times = {item.memory.content: item.memory.created_at for item in repository.items}

    assert times["Ann keeps bees.\n"] == "2023-05-08T13:56:00Z"
    assert times["Bo moved.\n"] == "2023-06-01T00:05:00Z"
    assert times["Bo is back.\n"] == ""


def test_turns_that_no_fact_covers_do_not_count(repository):
    evidence = {query.text: query.evidence for query in repository.queries}

    assert evidence["What does Ann keep?"] == {"D1:1"}
    assert "Nobody noted it?" not in evidence


def test_what_was_never_said_is_not_asked(repository):
    assert [(query.text, query.kind) for query in repository.queries] == [
        ("What does Ann keep?", "single-hop"),
        ("And then?", "multi-hop"),
        ("When?", "temporal"),
    ]


def test_questions_belong_to_every_split(repository):
    assert {query.split for query in repository.queries} == {""}


@pytest.mark.parametrize("content", ["", "{}", "[3]", '[{"qa": []}]', "\x00"], ids=repr)
def test_any_other_file_is_refused_and_named(tmp_path, content):
    file = tmp_path / "odd.json"
    file.write_text(content)

    with pytest.raises(DatasetError, match=r"odd\.json is no list of LoCoMo conversations"):
        locomo.load(file)


def test_a_path_that_is_nothing_is_said_to_be_nothing(tmp_path):
    with pytest.raises(DatasetError, match="there is no"):
        loading.load(tmp_path / "missing")
