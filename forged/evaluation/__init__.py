"""How well recall works, in figures: labelled sets, a real daemon in a scratch HOME, scores.

What is measured is what an agent gets: files on disk, the whole daemon, replies over the socket. Nothing here
imports the ranking, so that a figure cannot be better than the product.

`load` reads a set, `whole` and `small` say what one daemon holds of it, `prepare` finds what a model needs,
`run` asks and scores. Raises DatasetError, ConfigError, NotStarted and MeasurementFailed, each with a
sentence for a person.
"""

from forged.evaluation.dataset import Dataset, DatasetError
from forged.evaluation.jsonl_set import load_off_topic
from forged.evaluation.loading import load
from forged.evaluation.scores import Summary
from forged.evaluation.scratch import NotStarted, daemon
from forged.evaluation.settings import TOP_K, Prepared, Subject, prepare
from forged.evaluation.stores import SEED, small, whole
from forged.evaluation.trial import LEARNING, Outcome, run

__all__ = [
    "LEARNING",
    "SEED",
    "TOP_K",
    "Dataset",
    "DatasetError",
    "NotStarted",
    "Outcome",
    "Prepared",
    "Subject",
    "Summary",
    "daemon",
    "load",
    "load_off_topic",
    "prepare",
    "run",
    "small",
    "whole",
]
