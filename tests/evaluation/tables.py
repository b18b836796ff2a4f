"""Tables of figures with intervals: a row for each figure, a column for each group.

README.md explains the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from forged.cli.tables import columns
from forged.cli.terminal import escape_line
from tests.evaluation.capture_scores import CaptureFigures
from tests.evaluation.capture_trial import AllKept
from tests.evaluation.figures import Figure
from tests.evaluation.session_scores import SessionSummary
from tests.evaluation.session_trial import TurnContext
from tests.evaluation.trial import Failure, Outcome

_NONE = "-"
_WIDE = 80
SESSION_ROWS = {
    "recall": "recall in context",
    "recall_in_reply": "recall in the turn's reply",
    "wanted": "share wanted",
    "wanted_or_harmless": "share wanted or harmless",
    "useful_or_pinned": "share of these or pinned",
    "first": "first is right",
    "muted": "lacked something, got nothing",
    "other_memories": "memories a turn off topic",
    "other_tokens": "tokens a turn off topic",
    "chat_memories": "memories a chat turn",
    "forbidden": "forbidden memories a session",
    "memories": "memories a session",
    "tokens": "tokens a session",
    "tokens_pinned": "  of pinned memories",
    "tokens_searched": "  of searched memories",
    "tokens_frame": "  of the frame",
    "tokens_a_turn": "tokens a turn",
    "pinned_a_turn": "  of pinned memories",
    "searched_a_turn": "  of searched memories",
    "frame_a_turn": "  of the frame",
}
INJECTED_ROWS = {
    "recall": "recall of all that came",
    "share": "share that answers",
    "right_or_pinned": "share of these or pinned",
    "first": "first is right",
    "muted": "got nothing",
    "memories": "memories a message",
    "tokens": "tokens a message",
    "tokens_pinned": "  of pinned memories",
    "tokens_searched": "  of searched memories",
    "tokens_frame": "  of the frame",
    "other_memories": "memories a message off topic",
    "other_tokens": "tokens a message off topic",
}
_INJECTED_COLUMNS = {
    "recall": "recall",
    "share": "share",
    "first": "first",
    "muted": "nothing",
    "memories": "memories",
    "tokens": "tokens",
}
_SAID_COLUMNS = ("precision", "recall", "explicit", "scope", "category")


class SessionMeasurement(msgspec.Struct, frozen=True):
    """One set of sessions under one subject."""

    set: str
    model: str
    strategy: str
    mode: str
    indexes: tuple[str, ...]
    summaries: tuple[SessionSummary, ...]
    failures: tuple[Failure, ...]
    turns: tuple[TurnContext, ...]
    seconds: float

    @property
    def line(self) -> str:
        """The main figures of all stores in one line."""
        reported = (f"{group.group}: {_main(group)}" for group in self.summaries)
        return f"{self.set} {self.model} {self.mode}: {'; '.join(reported)}"


def _main(group: SessionSummary) -> str:
    share = cell(group.useful_or_pinned)
    return f"recall {cell(group.recall)}, share {share}, tokens a session {cell(group.tokens)}"


class CaptureMeasurement(msgspec.Struct, frozen=True):
    """One set of what people say, under one embedding model."""

    set: str
    model: str
    figures: CaptureFigures
    kept: AllKept

    @property
    def line(self) -> str:
        """The main figures in one line."""
        return f"{self.set} {self.model}: {'; '.join(map(' '.join, self.main))}"

    @property
    def main(self) -> list[tuple[str, str]]:
        """The figures of all conversations by their names."""
        found = [(name, getattr(group, name)) for group in self.figures.said[:1] for name in _SAID_COLUMNS]
        rows = [(name, cell(figure)) for name, figure in found]
        return rows + [(each.name, _counted(each.figure)) for each in self.figures.others]


def capture_table(done: CaptureMeasurement) -> list[str]:
    """What a set came to: all of it with intervals, and by language and kind without."""
    groups = [
        (escape_line(each.group), str(each.conversations), str(each.memories), *_bare(each, _SAID_COLUMNS))
        for each in done.figures.said
    ]
    head = ("said", "messages", "memories", *_SAID_COLUMNS)
    return [
        f"{escape_line(done.set)}, {escape_line(done.model)}, {done.kept.seconds:.0f} s",
        *columns(done.main, numbers_from=1),
        *(["", *columns([head, *groups], numbers_from=1)] if groups else []),
    ]


def _bare(group: object, names: Iterable[str]) -> Iterator[str]:
    """The figures of a group without their intervals."""
    return (cell(getattr(group, name)).split(" ")[0] for name in names)


def _counted(figure: Figure) -> str:
    """A figure with its interval, and the two numbers of which it is the ratio."""
    return f"{cell(figure)}, {figure.value * figure.of:.0f} of {figure.of:.0f}" if figure.of else _NONE


def session_table(done: SessionMeasurement) -> list[str]:
    """What a set came to: a title, its figures, and recall at each kind of turn."""
    groups = done.summaries
    rows = [
        ("stores", *(each.group for each in groups)),
        ("sessions", *(str(each.sessions) for each in groups)),
        ("turns off topic", *(f"{each.other_memories.of:,.0f}" for each in groups)),
        ("chat turns", *(f"{each.chat_memories.of:,.0f}" for each in groups)),
        *_rows(groups, SESSION_ROWS),
    ]
    kinds = dict.fromkeys(kind.kind for each in groups for kind in each.kinds)
    for name in kinds:
        found = [{kind.kind: kind.recall for kind in each.kinds} for each in groups]
        rows.append((f"recall, {escape_line(name)}", *(cell(each.get(name)) for each in found)))
    title = f"{escape_line(done.set)}, {escape_line(done.model)}, {done.strategy}, {done.mode}"
    return [f"{title}, {'+'.join(done.indexes) or _NONE}, {done.seconds:.0f} s", *_abreast(rows)]


def injected_table(outcome: Outcome) -> list[str]:
    """What the messages of a measurement brought: all of them with intervals, and by kind without."""
    if outcome.injected is None:
        return []
    total = [("messages", f"{outcome.injected.muted.of:,.0f}"), *_rows([outcome.injected], INJECTED_ROWS)]
    kinds = [
        (escape_line(each.group), f"{each.muted.of:,.0f}", *_bare(each, _INJECTED_COLUMNS))
        for each in outcome.injected_kinds
    ]
    head = ("kind", "messages", *_INJECTED_COLUMNS.values())
    below = ["", *columns([head, *kinds], numbers_from=1)] if kinds else []
    return [*columns(total, numbers_from=1), *below]


def _rows(groups: Sequence[object], labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Those of the figures that some group has."""
    for name, label in labels.items():
        cells = tuple(cell(getattr(each, name)) for each in groups)
        if set(cells) != {_NONE}:
            yield (label, *cells)


def _abreast(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as tables below one another, each with the first column and as many others as fit."""
    widths = [max(map(len, cells)) + 2 for cells in zip(*rows, strict=True)]
    lines: list[str] = []
    start = 1
    while start < len(widths):
        end = start + 1
        while end < len(widths) and sum(widths[start : end + 1], start=widths[0]) - 2 <= _WIDE:
            end += 1
        part = [(row[0], *row[start:end]) for row in rows]
        shown = [row for row in part if set(row[1:]) != {_NONE}]
        lines += [*([""] if lines else []), *columns(shown, numbers_from=1)]
        start = end
    return lines


def cell(figure: Figure | None) -> str:
    """A figure and its interval; a dash where nothing speaks about it."""
    if figure is None or not figure.of:
        return _NONE
    digits = 0 if figure.value >= 10 else 3
    value, low, high = (f"{number:,.{digits}f}" for number in (figure.value, figure.low, figure.high))
    return f"{value} ({low}-{high})"
