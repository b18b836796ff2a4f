"""Scores of sessions' turns: needed memories in context, other memories, and cost.

In a group of sessions: of all, of stores by size. Recall counts wanted memories that stand in context; share
counts each memory where it came newly into context. Intervals are over sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from tests.evaluation.figures import Figure, ratio
from tests.evaluation.session_trial import TurnContext

SMALL, LARGE, LARGEST = 12, 30, 90
CHAT = "chat"

_Pair = tuple[float, float]


class Kind(msgspec.Struct, frozen=True):
    """Recall in context at the turns of one kind."""

    kind: str
    recall: Figure


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a group. Shares are of memories that came; `first` of the first that a turn brought.

    `muted` are turns that lacked something wanted and got nothing, of all that lacked something. `beside` is
    about turns that want nothing; `chat` about those without content. Tokens are a session's mean, `tokens_*`
    its parts, `*_a_turn` the same of a turn.
    """

    group: str
    sessions: int
    recall: Figure
    recall_in_reply: Figure
    wanted: Figure
    wanted_or_harmless: Figure
    useful_or_pinned: Figure
    first: Figure
    muted: Figure
    other_memories: Figure
    other_tokens: Figure
    chat_memories: Figure
    forbidden: Figure
    tokens: Figure
    tokens_pinned: Figure
    tokens_searched: Figure
    tokens_frame: Figure
    tokens_a_turn: Figure
    pinned_a_turn: Figure
    searched_a_turn: Figure
    frame_a_turn: Figure
    memories: Figure
    kinds: tuple[Kind, ...]


def summaries(turns: Sequence[TurnContext]) -> tuple[SessionSummary, ...]:
    """Figures of all sessions, and of stores by size where there are several sizes."""
    groups: dict[str, Callable[[int], bool]] = {
        "all": lambda _: True,
        f"<= {SMALL}": lambda size: size <= SMALL,
        f"> {LARGE}": lambda size: size > LARGE,
        f"{LARGE + 1}-{LARGEST}": lambda size: LARGE < size <= LARGEST,
        f"> {LARGEST}": lambda size: size > LARGEST,
    }
    parts = {group: [turn for turn in turns if fits(turn.size)] for group, fits in groups.items()}
    return tuple(_summary(group, part) for group, part in parts.items() if part)


def _summary(group: str, turns: Sequence[TurnContext]) -> SessionSummary:
    sessions = [tuple(part) for _, part in groupby(turns, key=lambda turn: turn.session)]

    def over(pair: Callable[[TurnContext], _Pair]) -> Figure:
        return ratio(_sum(map(pair, session)) for session in sessions)

    def a_session(value: Callable[[TurnContext], float]) -> Figure:
        return ratio((sum(map(value, session)), 1.0) for session in sessions)

    return SessionSummary(
        group=group,
        sessions=len(sessions),
        recall=over(_recall),
        recall_in_reply=over(lambda one: _of_wanted(one, one.reply)),
        wanted=over(lambda one: _share(one, one.turn.wanted)),
        wanted_or_harmless=over(lambda one: _share(one, one.turn.wanted | one.turn.harmless)),
        useful_or_pinned=over(lambda one: _share(one, one.turn.wanted | one.turn.harmless | one.pinned)),
        first=over(_first),
        muted=over(_muted),
        other_memories=over(lambda one: _others(one, len(_searched(one)))),
        other_tokens=over(lambda one: _others(one, one.parts.total)),
        chat_memories=over(lambda one: (len(one.new), 1.0) if one.turn.kind == CHAT else (0.0, 0.0)),
        forbidden=a_session(lambda one: len(one.turn.forbidden.intersection(one.new))),
        tokens=a_session(lambda one: one.parts.total),
        tokens_pinned=a_session(lambda one: one.parts.pinned),
        tokens_searched=a_session(lambda one: one.parts.searched),
        tokens_frame=a_session(lambda one: one.parts.frame),
        tokens_a_turn=over(lambda one: (one.parts.total, 1.0)),
        pinned_a_turn=over(lambda one: (one.parts.pinned, 1.0)),
        searched_a_turn=over(lambda one: (one.parts.searched, 1.0)),
        frame_a_turn=over(lambda one: (one.parts.frame, 1.0)),
        memories=a_session(lambda one: len(one.new)),
        kinds=_kinds(sessions),
    )


def _kinds(sessions: Sequence[Sequence[TurnContext]]) -> tuple[Kind, ...]:
    names = sorted({one.turn.kind for session in sessions for one in session if one.turn.wanted})
    return tuple(
        Kind(
            name,
            ratio(_sum(_recall(one) for one in session if one.turn.kind == name) for session in sessions),
        )
        for name in names
    )


def _sum(pairs: Iterable[_Pair]) -> _Pair:
    each = tuple(pairs)
    return sum(part for part, _ in each), sum(whole for _, whole in each)


def _recall(one: TurnContext) -> _Pair:
    return _of_wanted(one, one.context)


def _of_wanted(one: TurnContext, there: frozenset[str]) -> _Pair:
    """The share of a turn's wanted memories that are there; turns that want nothing do not count."""
    wanted = one.turn.wanted
    return (len(wanted & there) / len(wanted), 1.0) if wanted else (0.0, 0.0)


def _share(one: TurnContext, good: frozenset[str]) -> _Pair:
    return float(len(good.intersection(one.new))), float(len(one.new))


def _searched(one: TurnContext) -> tuple[str, ...]:
    return tuple(name for name in one.new if name not in one.pinned)


def _first(one: TurnContext) -> _Pair:
    brought = _searched(one)
    return (float(brought[0] in one.turn.wanted), 1.0) if brought and one.turn.wanted else (0.0, 0.0)


def _muted(one: TurnContext) -> _Pair:
    lacking = one.turn.wanted - (one.context - frozenset(one.new))
    return (float(not one.new), 1.0) if lacking else (0.0, 0.0)


def _others(one: TurnContext, amount: float) -> _Pair:
    return (0.0, 0.0) if one.turn.wanted else (float(amount), 1.0)
