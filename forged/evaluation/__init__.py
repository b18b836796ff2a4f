"""How well recall works, in figures: labelled sets, a real daemon in a scratch HOME, scores.

What is measured is what an agent gets: files on disk, the whole daemon, replies over the socket. Nothing here
imports the ranking, so that a figure cannot be better than the product.

`load` reads a set, `whole` and `small` say what one daemon holds of it, `prepare` finds what a model needs,
`run` asks and scores. Sessions are read by `load_sessions`, asked by `run_sessions` and come to `summaries`;
what people say is read by `load_said`, handed over by `run_capture` and comes to `capture_figures`. Raises
DatasetError, ConfigError, NotStarted and MeasurementFailed, each with a sentence for a person.
"""

from forged.evaluation.capture_scores import CaptureFigures
from forged.evaluation.capture_scores import figures as capture_figures
from forged.evaluation.capture_trial import AllKept
from forged.evaluation.capture_trial import run as run_capture
from forged.evaluation.closing import allowed as allowed_sealed
from forged.evaluation.closing import begin as begin_closing
from forged.evaluation.closing import end as end_closing
from forged.evaluation.dataset import Dataset, DatasetError
from forged.evaluation.figures import Figure
from forged.evaluation.jsonl_set import load_off_topic
from forged.evaluation.loading import load
from forged.evaluation.said import SaidSet
from forged.evaluation.said import is_one as is_said
from forged.evaluation.said import load as load_said
from forged.evaluation.scores import Summary
from forged.evaluation.scratch import NotStarted, daemon
from forged.evaluation.session_scores import SessionSummary, summaries
from forged.evaluation.session_trial import APPEND, BLOCK, TurnHeard
from forged.evaluation.session_trial import run as run_sessions
from forged.evaluation.sessions import SessionSet
from forged.evaluation.sessions import is_one as is_sessions
from forged.evaluation.sessions import load as load_sessions
from forged.evaluation.settings import SHIPPED_TOP_K, TOP_K, Prepared, Subject, prepare
from forged.evaluation.stores import SEED, small, whole
from forged.evaluation.trial import LEARNING, Failure, Outcome, run

__all__ = [
    "APPEND",
    "BLOCK",
    "LEARNING",
    "SEED",
    "SHIPPED_TOP_K",
    "TOP_K",
    "AllKept",
    "CaptureFigures",
    "Dataset",
    "DatasetError",
    "Failure",
    "Figure",
    "NotStarted",
    "Outcome",
    "Prepared",
    "SaidSet",
    "SessionSet",
    "SessionSummary",
    "Subject",
    "Summary",
    "TurnHeard",
    "allowed_sealed",
    "begin_closing",
    "capture_figures",
    "daemon",
    "end_closing",
    "is_said",
    "is_sessions",
    "load",
    "load_off_topic",
    "load_said",
    "load_sessions",
    "prepare",
    "run",
    "run_capture",
    "run_sessions",
    "small",
    "summaries",
    "whole",
]
