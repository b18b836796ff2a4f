"""`list_captured`: what capture kept and refused, as a client asks for it."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from forged.memory import utc
from forged.state import CaptureLogEntry
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

NOW = time.time()


def kept(top, memory_id="mem_a", **fields) -> CaptureLogEntry:
    given = {"at": NOW, "text": "Tests run with pytest.", "session_id": "s-1", "scope": "repo"}
    return CaptureLogEntry(memory_id=memory_id, top=str(top), **{**given, **fields})


def refused(top, text="Remember this.", **fields) -> CaptureLogEntry:
    return CaptureLogEntry(
        **{"at": NOW, "text": text, "reason": "why", "session_id": "s-1", "top": str(top)} | fields
    )


async def listed(parts, top, *entries, **fields) -> list[wire.CapturedEntry]:
    for number, each in enumerate(entries):
        parts.state.capture_log.add(each.memory_id or f"refused {number}", each)
    return list((await parts.ask(wire.ListCaptured(workspace=str(top), **fields))).captured)


def texts(found) -> list[str]:
    return [each.text for each in found]


async def test_all_fields_are_listed_newest_first(home, repo):
    put(repo, memory("mem_a", "Tests run with pytest."))
    one = kept(repo, agent="claude", kind="turn", why="rule", classifier="builtin:rules", supersedes="mem_0")
    async with assembled(home) as parts:
        newest, oldest = await listed(parts, repo, one, refused(repo, at=NOW + 1))

    assert (newest.text, newest.reason, newest.memory_id, newest.is_there) == (
        "Remember this.",
        "why",
        "",
        False,
    )
    assert oldest == wire.CapturedEntry(
        at=utc(NOW),
        text="Tests run with pytest.",
        memory_id="mem_a",
        session_id="s-1",
        agent="claude",
        kind="turn",
        why="rule",
        classifier="builtin:rules",
        scope="repo",
        root=str(repo),
        supersedes="mem_0",
        is_there=True,
    )


async def test_a_workspace_shows_its_own_roots_and_with_all_repos_every_root(home, repo):
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    said = (kept(repo, text="ours"), kept(other, "mem_b", text="theirs"), kept(home, "mem_c", text="mine"))
    async with assembled(home) as parts:
        assert sorted(texts(await listed(parts, repo, *said))) == ["mine", "ours"]
        assert len(await listed(parts, repo, all_repos=True)) == 3
        assert len((await parts.ask(wire.ListCaptured(all_repos=True))).captured) == 3  # from nowhere


@pytest.mark.parametrize("since", ["last week", "2026-13-01"])
async def test_a_time_that_is_none_is_refused_in_a_sentence(home, repo, since):
    async with assembled(home) as parts:
        code, reported = await parts.refusal(wire.ListCaptured(workspace=str(repo), since=since))
        assert (code, "write it like 2026-11-20T14:00:00Z" in reported) == ("invalid", True)
        code, _ = await parts.refusal(wire.ListMemories(workspace=str(repo), since=since))
        assert code == "invalid"


async def test_forgetting_a_memory_forgets_its_text_here(home, repo):
    put(repo, memory("mem_a", "Tests run with pytest."))
    refusal = refused(repo, text="Please keep in mind: tests run with pytest.")
    async with assembled(home) as parts:
        parts.state.capture_log.add("mem_a", replace(kept(repo), unreported=True))
        parts.state.capture_log.add("refused", replace(refusal, unreported=True))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_a"))
        found = await listed(parts, repo)

        assert [(each.text, each.is_there) for each in found] == [("", False), ("", False)]
        assert parts.capture.notifications.unreported("s-1") == ()
