"""Sets that are no questions, for `forgectl eval`: sessions, and what people say. Reads and measures them."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from forged import evaluation
from forged.cli.call import Invocation
from forged.cli.eval_figures import CaptureMeasurement, SessionMeasurement
from forged.cli.terminal import Bar


class Lives(msgspec.Struct, frozen=True):
    """The sets of both kinds that were named."""

    sessions: tuple[evaluation.SessionSet, ...] = ()
    said: tuple[evaluation.SaidSet, ...] = ()


class Lived(msgspec.Struct, frozen=True):
    """What they came to."""

    sessions: tuple[SessionMeasurement, ...] = ()
    capture: tuple[CaptureMeasurement, ...] = ()

    def lines(self, folder: str) -> str:
        """The main figures of the sets in a folder, in one line."""
        told = [(each.set, each.line) for each in self.sessions]
        told += [(each.set, each.line) for each in self.capture]
        return "; ".join(line for name, line in told if name.startswith(f"{folder}/"))


def load(paths: Iterable[Path]) -> tuple[Lives, list[Path]]:
    """Read what is of either kind; returns the other paths beside it. Raises DatasetError."""
    places = list(paths)
    found = Lives(
        tuple(evaluation.load_sessions(place) for place in places if evaluation.is_sessions(place)),
        tuple(evaluation.load_said(place) for place in places if evaluation.is_said(place)),
    )
    others = [p for p in places if not evaluation.is_sessions(p) and not evaluation.is_said(p)]
    return found, others


def measure(
    call: Invocation, lives: Lives, named: Sequence[evaluation.Subject], modes: Iterable[str]
) -> Lived:
    """Measure every set with every subject, as it is shipped."""
    shipped = (msgspec.structs.replace(each, shipped=True) for each in named)
    subjects = [evaluation.prepare(each, call.environ) for each in shipped]
    bar = Bar(call.redraws(sys.stderr) and not call.as_json)
    try:
        return Lived(
            tuple(_sessions(bar, lives.sessions, subjects, modes)),
            tuple(_capture(bar, lives.said, subjects)),
        )
    finally:
        bar.wipe()


def _sessions(
    bar: Bar,
    sets: Iterable[evaluation.SessionSet],
    subjects: Sequence[evaluation.Prepared],
    modes: Iterable[str],
) -> Iterator[SessionMeasurement]:
    for each, prepared, mode in itertools.product(sets, subjects, modes):
        heard = evaluation.run_sessions(each, prepared, mode, functools.partial(draw, bar, each.name))
        about = (each.name, prepared.subject.model, prepared.subject.strategy, mode, heard.legs)
        figures = evaluation.summaries(heard.turns)
        yield SessionMeasurement(*about, figures, heard.failures, heard.turns, heard.seconds)


def _capture(
    bar: Bar, sets: Iterable[evaluation.SaidSet], subjects: Sequence[evaluation.Prepared]
) -> Iterator[CaptureMeasurement]:
    for each, prepared in itertools.product(sets, subjects):
        kept = evaluation.run_capture(each, prepared, functools.partial(draw, bar, each.name))
        yield CaptureMeasurement(each.name, prepared.subject.model, evaluation.capture_figures(kept), kept)


def draw(bar: Bar, title: str, doing: str, done: int, total: int) -> None:
    """Draw a step of a measurement; where no bar is, only a wait that nobody expects is told."""
    bar.draw(f"{title}: {doing}", done, total)
    if doing == evaluation.LEARNING:
        bar.tell_instead(f"{title}: waiting, {doing}", once=title)
