"""LoCoMo's conversations as a set: facts as a repository's memories, questions as queries.

LoCoMo (Maharana et al. 2024, snap-research/LoCoMo) is licensed CC BY-NC 4.0: it may measure forged, but no
byte of it is part of the project, so the path always comes from outside. The rules are those of the paper's
retrieval task: a fact answers a question when both name a common dialogue turn; turns that no fact covers do
not count, and questions left without any are not asked, nor are those of category 5, which ask for what was
never said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from forged.memory import Category, Memory, Scope, Trigger
from tests.evaluation.dataset import Dataset, DatasetError, Item, Query, Repository, labels_of

KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_DIALOGUE_TURN = re.compile(r"D\d+:\d+")
_SESSION = re.compile(r"session_(\d+)_observation")
_DATE = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023

_Turns = str | list[str]


class _Question(msgspec.Struct, frozen=True):
    question: str
    category: int
    evidence: _Turns = ""

    @property
    def turns(self) -> frozenset[str]:
        return _turns(self.evidence)


class _Sample(msgspec.Struct, frozen=True):
    """One conversation: `observation` holds per session, then per speaker, facts and their turns."""

    sample_id: str
    qa: list[_Question]
    observation: dict[str, dict[str, list[tuple[str, _Turns]]]]
    conversation: dict[str, msgspec.Raw]


def load(file: Path) -> Dataset:
    """Read a file of conversations. Raises DatasetError."""
    try:
        samples = msgspec.json.decode(file.read_bytes(), type=list[_Sample])
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DatasetError(f"{file} is no list of LoCoMo conversations: {error}") from error
    return Dataset(name=file.stem, repositories=tuple(map(_repository, samples)))


def _repository(sample: _Sample) -> Repository:
    items = tuple(_items(sample))
    covered = labels_of(items)
    queries = (
        Query(f"{sample.sample_id}:{number}", asked.question, KINDS[asked.category], asked.turns & covered)
        for number, asked in enumerate(sample.qa)
        if asked.category in KINDS
    )
    return Repository(sample.sample_id, items, tuple(query for query in queries if query.evidence))


def _items(sample: _Sample) -> Iterator[Item]:
    number = 0
    for session, by_speaker in sample.observation.items():
        said_at = _said_at(sample, session)
        for text, turns in (fact for facts in by_speaker.values() for fact in facts):
            memory = Memory(
                id=f"mem_{number:05d}",
                content=f"{text}\n",
                created_at=said_at,
                updated_at=said_at,
                version=1,
                scope=Scope.REPO,
                category=Category.USER_FACTS,
                session_id="eval",
                trigger=Trigger.EXPLICIT,
            )
            yield Item(memory, _turns(turns))
            number += 1


def _said_at(sample: _Sample, observation: str) -> str:
    """When a session took place, as front matter says it; nothing if the set does not tell."""
    match = _SESSION.fullmatch(observation)
    stated = sample.conversation.get(f"session_{match[1]}_date_time") if match else None
    if stated is None:
        return ""
    try:
        moment = datetime.strptime(msgspec.json.decode(stated, type=str), _DATE)  # noqa: DTZ007 - no zone in it
    except (ValueError, msgspec.ValidationError):
        return ""
    return f"{moment.isoformat()}Z"


def _turns(field: _Turns) -> frozenset[str]:
    """Turns of a field that is one id, a list of them, or several in one string."""
    return frozenset(_DIALOGUE_TURN.findall(field if isinstance(field, str) else " ".join(field)))
