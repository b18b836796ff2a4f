"""Recall as a user gets it: files on disk, the real daemon, no model at all, questions through the client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.evaluation import loading, settings, stores, trial
from tests.evaluation.settings import Subject

_PATH = os.environ.get("FORGED_LOCOMO", "")


@pytest.mark.skipif(not _PATH, reason="FORGED_LOCOMO does not name the LoCoMo development conversations")
def test_recall_at_10_of_the_lexical_leg_through_the_daemon_is_at_least_72_percent():
    world = stores.whole(loading.load(Path(_PATH)))
    subject = settings.prepare(Subject("builtin:lexical", "direct"), {"PATH": os.environ["PATH"]})

    ((_, outcome),) = trial.run(world, [subject], lambda *_: None)

    found = outcome.total
    print(f"recall@10 {found.recall_at_10:.4f} nDCG@10 {found.ndcg_at_10:.4f} over {found.queries} questions")
    assert outcome.failures == ()
    assert found.queries == 631
    assert found.recall_at_10 >= 0.72
