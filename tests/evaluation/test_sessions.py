"""Sets of sessions: what is read, what is refused, and a set through a real daemon."""

from __future__ import annotations

import json
import os
import tempfile

import pytest

from tests.evaluation import session_scores, session_trial, sessions, settings
from tests.evaluation.dataset import DatasetError
from tests.evaluation.settings import Subject
from tests.support.clock import eventually
from tests.support.daemon import processes_with


def memory(store, name, content, root="repo", **more):
    about = {"category": "patterns", "created_at": "2026-01-01T00:00:00Z"}
    return {"store": store, "id": name, "root": root, "content": content, **about, **more}


def turn(user, wanted=(), kind="plain", **more):
    about = {"harmless": [], "forbidden": []}
    return {"user": user, "assistant": "Yes.", "kind": kind, "wanted": list(wanted), **about, **more}


MEMORIES = [
    memory("mill", "m_1", "The hopper grinds rye at night.", supersedes="m_0"),
    memory("mill", "m_0", "The hopper grinds barley at night."),
    memory("mill", "m_user", "Trombone lessons on Tuesday.", root="user"),
    memory("kite", "k_1", "The spar is of bamboo."),
    memory("kite", "k_user", "Allergic to walnut sawdust.", root="user"),
]
SESSIONS = [
    {
        "id": "mill_a",
        "store": "mill",
        "turns": [
            turn("what does the hopper do at night", ["m_1"], forbidden=["m_0"]),
            turn("thanks", kind="chat"),
            turn("when are trombone lessons", ["m_user", "m_1"]),
        ],
    },
    {
        "id": "kite_a",
        "store": "kite",
        "turns": [turn("the spar, is it of bamboo", ["k_1"]), turn("when are trombone lessons")],
    },
]


@pytest.fixture
def written(tmp_path):
    def write(memories=MEMORIES, reported=SESSIONS):
        for name, lines in (("memories.jsonl", memories), ("sessions.jsonl", reported)):
            (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
        return tmp_path

    return write


def test_a_directory_becomes_stores_with_a_user_and_sessions_of_their_own(written):
    found = sessions.load(written())

    assert [(store.name, len(store.user), len(store.items), store.size) for store in found.stores] == [
        ("mill", 1, 2, 3),
        ("kite", 1, 1, 2),
    ]
    versions = {item.memory.id: item.memory.version for item in found.stores[0].items}
    assert versions == {"m_0": 1, "m_1": 2}
    assert found.turns == 5


@pytest.mark.parametrize(
    ("memories", "reported", "complaint"),
    [
        ([*MEMORIES, MEMORIES[0]], SESSIONS, "an id is there twice"),
        (MEMORIES, [{"id": "s", "store": "mill", "turns": [turn("?", ["k_1"])]}], "s names 'k_1'"),
        (
            MEMORIES,
            [{"id": "s", "store": "mill", "turns": [turn("?", forbidden=["gone"])]}],
            "s names 'gone'",
        ),
        ([memory("mill", "m", ".", supersedes="k_1"), MEMORIES[3]], [], "replaces what its store"),
        ([{"id": "m"}], SESSIONS, r"memories.jsonl, line 1"),
    ],
)
def test_what_names_nothing_is_refused(written, memories, reported, complaint):
    with pytest.raises(DatasetError, match=complaint):
        sessions.load(written(memories, reported))


@pytest.fixture
def ask(written, home, monkeypatch):
    """Ask the set; whatever a measurement leaves behind fails the test."""
    with tempfile.TemporaryDirectory(prefix="fs") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)

        def run(mode, pinned_tokens):
            changes = (("pinned_token_budget", str(pinned_tokens)),)
            subject = Subject("builtin:lexical", "direct", changes, shipped=True)
            prepared = settings.prepare(subject, {"HOME": str(home), "PATH": os.environ["PATH"]})
            return session_trial.run(sessions.load(written()), prepared, mode, lambda *_: None)

        yield run
        assert os.listdir(place) == []
        eventually(lambda: processes_with(place) == [])


def test_turns_are_asked_in_order_and_what_was_injected_stays_in_context(ask):
    found = ask(session_trial.APPEND, 0)

    first, thanks, later, other, nothing = found.turns
    assert (first.new, first.context) == (("m_1",), {"m_1"})
    assert (thanks.new, thanks.context, thanks.parts.total) == ((), {"m_1"}, 0.0)
    assert later.context == {"m_1", "m_user"}
    # The user of the other store is another person.
    assert other.context == {"k_1"}
    assert nothing.parts.total == 0.0
    assert found.failures == ()
    every = session_scores.summaries(found.turns)[0]
    assert (every.recall.value, every.forbidden.value, every.chat_memories.value) == (1.0, 0.0, 0.0)
    assert first.parts.searched == len("The hopper grinds rye at night.") / 4


def test_as_many_memories_come_as_are_shipped():
    measured = settings.prepare(Subject("builtin:lexical", "direct"), {"HOME": "/h"}).variables
    shipped = settings.prepare(Subject("builtin:lexical", "direct", shipped=True), {"HOME": "/h"}).variables

    assert measured.keys() - shipped.keys() == {"FORGED_MEMORY__RETRIEVAL_TOP_K"}


@pytest.mark.parametrize("mode", [session_trial.APPEND, session_trial.BLOCK])
def test_what_is_pinned_in_a_session_is_distinguished_and_paid_once(ask, mode):
    first, thanks, later, other, _ = ask(mode, 600).turns

    assert (set(first.new), first.pinned) == ({"m_1", "m_user"}, {"m_1", "m_user"})
    assert first.parts.pinned == len("The hopper grinds rye at night.Trombone lessons on Tuesday.") / 4
    assert (thanks.new, thanks.context) == ((), {"m_1", "m_user"})
    assert (later.new, later.parts.pinned) == ((), 0.0)
    assert other.context == {"k_1", "k_user"}
