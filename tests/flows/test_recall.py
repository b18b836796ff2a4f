"""Recall as a user gets it: files on disk, the real daemon, no model at all, questions through the client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.flows.locomo import Conversation, load, mean, recall_at
from tests.support.daemon import DaemonProcess, running

_PATH = os.environ.get("FORGED_LOCOMO", "")


@pytest.mark.skipif(not _PATH, reason="FORGED_LOCOMO does not name the LoCoMo development conversations")
def test_recall_at_10_of_the_lexical_leg_through_the_daemon_is_at_least_72_percent(home, tmp_path):
    conversations = load(Path(_PATH))

    with running(home) as daemon:
        shares = [
            share
            for number, conversation in enumerate(conversations)
            for share in _shares(daemon, tmp_path / f"repo{number}", conversation)
        ]

    print(f"recall@10 {mean(shares):.4f} over {len(shares)} questions")
    assert len(shares) == 631
    assert mean(shares) >= 0.72


def _shares(daemon: DaemonProcess, repo: Path, conversation: Conversation) -> list[float]:
    (repo / ".git").mkdir(parents=True)
    directory = repo / ".forge/memory"
    directory.mkdir(parents=True)
    for number, fact in enumerate(conversation.facts):
        (directory / f"mem_{number:05d}.md").write_text(fact.text)
    found = []
    with daemon.client() as client:
        for question in conversation.questions:
            reply = client.retrieve(str(repo), [{"role": "user", "content": question.text}])
            assert reply.status in {"ok", "empty"}, reply
            ranked = [int(hit.id.removeprefix("mem_")) for hit in reply.memories]
            found.append(recall_at(conversation.facts, ranked, question))
    return found
