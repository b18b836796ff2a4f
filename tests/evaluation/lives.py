"""Sets that are no questions, for `make eval`: sessions, and what people say. Reads and measures them."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from forged.cli.call import Invocation
from forged.cli.terminal import ProgressBar
from tests.evaluation import (
    capture_scores,
    capture_trial,
    said,
    session_scores,
    session_trial,
    sessions,
    settings,
)
from tests.evaluation.said import SaidSet
from tests.evaluation.sessions import SessionSet
from tests.evaluation.settings import Prepared, Subject
from tests.evaluation.tables import CaptureMeasurement, SessionMeasurement
from tests.evaluation.trial import LEARNING


class Lives(msgspec.Struct, frozen=True):
    """The sets of both kinds that were named."""

    sessions: tuple[SessionSet, ...] = ()
    said: tuple[SaidSet, ...] = ()


class Lived(msgspec.Struct, frozen=True):
    """What they came to."""

    sessions: tuple[SessionMeasurement, ...] = ()
    capture: tuple[CaptureMeasurement, ...] = ()

    def lines(self, folder: str) -> str:
        """The main figures of the sets in a folder, in one line."""
        reported = [(each.set, each.line) for each in self.sessions]
        reported += [(each.set, each.line) for each in self.capture]
        return "; ".join(line for name, line in reported if name.startswith(f"{folder}/"))


def load(paths: Iterable[Path]) -> tuple[Lives, list[Path]]:
    """Read what is of either kind; returns the other paths beside it. Raises DatasetError."""
    places = list(paths)
    found = Lives(
        tuple(sessions.load(place) for place in places if sessions.is_one(place)),
        tuple(said.load(place) for place in places if said.is_one(place)),
    )
    others = [p for p in places if not sessions.is_one(p) and not said.is_one(p)]
    return found, others


def measure(call: Invocation, lives: Lives, named: Sequence[Subject], modes: Iterable[str]) -> Lived:
    """Measure every set with every subject, as it is shipped."""
    shipped = (msgspec.structs.replace(each, shipped=True) for each in named)
    subjects = [settings.prepare(each, call.environ) for each in shipped]
    bar = ProgressBar(call.can_redraw(sys.stderr) and not call.as_json)
    try:
        return Lived(
            tuple(_sessions(bar, lives.sessions, subjects, modes)),
            tuple(_capture(bar, lives.said, subjects)),
        )
    finally:
        bar.wipe()


def _sessions(
    bar: ProgressBar,
    sets: Iterable[SessionSet],
    subjects: Sequence[Prepared],
    modes: Iterable[str],
) -> Iterator[SessionMeasurement]:
    for each, prepared, mode in itertools.product(sets, subjects, modes):
        contexts = session_trial.run(each, prepared, mode, functools.partial(draw, bar, each.name))
        about = (each.name, prepared.subject.model, prepared.subject.strategy, mode, contexts.indexes)
        figures = session_scores.summaries(contexts.turns)
        yield SessionMeasurement(*about, figures, contexts.failures, contexts.turns, contexts.seconds)


def _capture(
    bar: ProgressBar, sets: Iterable[SaidSet], subjects: Sequence[Prepared]
) -> Iterator[CaptureMeasurement]:
    for each, prepared in itertools.product(sets, subjects):
        kept = capture_trial.run(each, prepared, functools.partial(draw, bar, each.name))
        yield CaptureMeasurement(each.name, prepared.subject.model, capture_scores.figures(kept), kept)


def draw(bar: ProgressBar, title: str, doing: str, done: int, total: int) -> None:
    """Draw a step of a measurement; where no bar is, only a wait that nobody expects is told."""
    bar.draw(f"{title}: {doing}", done, total)
    if doing == LEARNING:
        bar.tell_instead(f"{title}: waiting, {doing}", once=title)
