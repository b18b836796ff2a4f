"""Tables of figures with their intervals: a row a figure, a column a group."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from forged import evaluation
from forged.cli.tables import columns
from forged.cli.terminal import escape_line

_NONE = "-"
_SESSION_ROWS = {
    "recall": "recall in context",
    "recall_in_reply": "recall in the turn's reply",
    "wanted": "share wanted",
    "wanted_or_harmless": "share wanted or harmless",
    "useful_or_standing": "share wanted, harmless or standing",
    "first": "first is right",
    "muted": "lacked something, got nothing",
    "beside_memories": "memories a turn beside the point",
    "beside_tokens": "tokens a turn beside the point",
    "chat_memories": "memories a chat without content",
    "forbidden": "forbidden memories a session",
    "memories": "memories a session",
    "tokens": "tokens a session",
    "tokens_standing": "  of standing memories",
    "tokens_searched": "  of searched memories",
    "tokens_frame": "  of the frame",
    "tokens_a_turn": "tokens a turn",
}
INJECTED_ROWS = {
    "recall": "recall of all that came",
    "share": "share that answers",
    "first": "first is right",
    "muted": "got nothing",
    "memories": "memories a message",
    "tokens": "tokens a message",
    "beside_memories": "memories an off-topic message",
    "beside_tokens": "tokens an off-topic message",
}
_SAID_COLUMNS = ("precision", "recall", "explicit", "scope", "category")


class SessionMeasurement(msgspec.Struct, frozen=True):
    """One set of sessions under one subject."""

    set: str
    model: str
    strategy: str
    mode: str
    legs: tuple[str, ...]
    summaries: tuple[evaluation.SessionSummary, ...]
    failures: tuple[evaluation.Failure, ...]
    turns: tuple[evaluation.TurnHeard, ...]
    seconds: float

    @property
    def line(self) -> str:
        """The main figures of all stores in one line."""
        told = (f"{group.group}: {_main(group)}" for group in self.summaries)
        return f"{self.set} {self.model} {self.mode}: {'; '.join(told)}"


def _main(group: evaluation.SessionSummary) -> str:
    share = cell(group.useful_or_standing)
    return f"recall {cell(group.recall)}, share {share}, tokens a session {cell(group.tokens)}"


class CaptureMeasurement(msgspec.Struct, frozen=True):
    """One set of what people say, under one embedding model."""

    set: str
    model: str
    figures: evaluation.CaptureFigures
    kept: evaluation.AllKept

    @property
    def line(self) -> str:
        """The main figures in one line."""
        told = [
            f"{name} {cell(getattr(group, name))}"
            for group in self.figures.said[:1]
            for name in _SAID_COLUMNS
        ]
        told += [f"{each.name} {cell(each.figure)}" for each in self.figures.others]
        return f"{self.set} {self.model}: {'; '.join(told)}"


def capture_table(done: CaptureMeasurement) -> list[str]:
    """What a set came to: by language and kind, and what is not about single conversations."""
    said = [
        (escape_line(each.group), str(each.conversations), str(each.memories), *_said_cells(each))
        for each in done.figures.said
    ]
    head = ("said", "conversations", "memories", *_SAID_COLUMNS)
    others = [(each.name, cell(each.figure)) for each in done.figures.others]
    return [
        f"{escape_line(done.set)}, {escape_line(done.model)}, {done.kept.seconds:.0f} s",
        *(columns([head, *said], numbers_from=1) if said else ()),
        *(columns(others, numbers_from=1) if others else ()),
    ]


def _said_cells(group: evaluation.SaidSummary) -> Iterator[str]:
    return (cell(getattr(group, name)) for name in _SAID_COLUMNS)


def session_table(done: SessionMeasurement) -> list[str]:
    """What a set came to: a title, its figures, and recall at each kind of turn."""
    groups = done.summaries
    rows = [
        ("stores", *(each.group for each in groups)),
        ("sessions", *(str(each.sessions) for each in groups)),
    ]
    rows += [
        (label, *(cell(getattr(each, name)) for each in groups)) for name, label in _SESSION_ROWS.items()
    ]
    kinds = dict.fromkeys(kind.kind for each in groups for kind in each.kinds)
    for name in kinds:
        found = [{kind.kind: kind.recall for kind in each.kinds} for each in groups]
        rows.append((f"recall, {escape_line(name)}", *(cell(each.get(name)) for each in found)))
    title = f"{escape_line(done.set)}, {escape_line(done.model)}, {done.strategy}, {done.mode}"
    return [f"{title}, {'+'.join(done.legs) or _NONE}, {done.seconds:.0f} s", *columns(rows, numbers_from=1)]


def cell(figure: evaluation.Figure | None) -> str:
    """A figure and its interval; a dash where nothing speaks about it."""
    if figure is None or not figure.of:
        return _NONE
    digits = 0 if figure.value >= 10 else 3
    value, low, high = (f"{number:,.{digits}f}" for number in (figure.value, figure.low, figure.high))
    return f"{value} ({low}-{high})"
