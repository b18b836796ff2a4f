"""Writes that a disk refused: counted, and in the first line of status until one succeeds."""

from __future__ import annotations

import contextlib
import errno
import os
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from forged.counters import Metrics
from forged.daemon.handlers import DiskRefusals
from forged.errors import StoreError
from forged_client import protocol as wire
from tests.daemon.parts import assembled

FULL = StoreError("cannot write m1: no space left on the device; free some and try again")
WRITE, KEEP = wire.Remember(content="x", workspace="/"), wire.Capture(session_id="s", workspace="/")
STORED = wire.Captured(outcome="durable")
REJECTED = wire.Captured(outcome="rejected", reason="storage_error: the disk quota is used up")


@pytest.fixture
def refused() -> DiskRefusals:
    return DiskRefusals(Metrics(), SimpleNamespace(problem=""))


def test_refused_writes_are_counted_by_reason_and_the_newest_is_reported(refused):
    for _ in range(235):
        refused.note_failure(WRITE, FULL)
    refused.note_failure(WRITE, StoreError("cannot write m2: permission denied"))

    assert refused.sentence == (
        "236 writes were refused (235 for a full disk, 1 for missing permission); "
        "the last, remember: cannot write m2: permission denied"
    )


def test_a_write_of_the_same_kind_that_succeeds_ends_it_and_no_other_does(refused):
    refused.note_failure(WRITE, FULL)
    refused.note_reply(KEEP, STORED)
    assert refused.sentence.startswith("1 write was refused (1 for a full disk); the last, remember: ")

    refused.note_reply(WRITE, wire.Remembered())
    assert refused.sentence == ""


async def test_status_says_in_its_first_line_that_writes_are_refused_until_one_succeeds(home, repo):
    ask = wire.Remember(workspace=str(repo), content="the port is 8123", scope="repo")
    async with assembled(home) as parts:
        parts.daemon.disk_refusals.note_failure(ask, FULL)
        report = await parts.ask(wire.Status())
        assert (report.state, report.reason) == ("degraded", parts.daemon.disk_refusals.sentence)
        assert report.counters["writes_refused_full"] == 1

        assert (await parts.ask(ask)).status == "ok"
        report = await parts.ask(wire.Status())
        assert (report.state, report.reason) == ("ok", "")


async def test_a_write_without_a_directory_is_refused_and_reported(home, repo):
    (repo / ".forge").mkdir()
    (repo / ".forge/memory").touch()
    async with assembled(home) as parts:
        with pytest.raises(StoreError):
            await parts.ask(wire.Remember(workspace=str(repo), content="the port is 8123", scope="repo"))

        assert (await parts.ask(wire.Status())).reason.startswith(
            "1 write was refused (1 for another reason)"
        )


DRAFT = wire.ImportedDraft(memory_id="mem_1", content="the port is 8123")
DOCUMENT = wire.Document(source="notes.md", text="The port is 8123.", is_markdown=True)


@pytest.mark.parametrize("scope", ["remember", "import", "ingest"])
async def test_a_disk_that_takes_no_file_is_reported_whichever_verb_met_it_and_how_it_replied(
    home, repo, scope, monkeypatch
):
    """Fates of an import and of an ingest say it in a reply that is ok."""
    workspace = str(repo)
    asked = {
        "remember": wire.Remember(workspace=workspace, content=DRAFT.content),
        "import": wire.Import(workspace=workspace, drafts=(DRAFT,)),
        "ingest": wire.Ingest(workspace=workspace, documents=(DOCUMENT,)),
    }[scope]

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with assembled(home) as parts:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with contextlib.suppress(StoreError):
                await parts.ask(asked)
        report = await parts.ask(wire.Status())
        assert (report.state, report.counters["writes_refused_full"]) == ("degraded", 1)
        assert f"the last, {scope}: " in report.reason

        preview = (
            replace(asked, preview=True)
            if scope != "remember"
            else wire.Undo(workspace=workspace, preview=True)
        )
        await parts.ask(preview)
        assert (await parts.ask(wire.Status())).state == "degraded"

        await parts.ask(asked)
        assert (await parts.ask(wire.Status())).reason == ""


def test_a_past_session_that_was_not_stored_is_a_refused_write(refused):
    asked = wire.Learn(workspace="/", session_id="s", messages=(wire.Message(role="user", content="x"),))
    refused.note_reply(asked, wire.Learned(reason=REJECTED.reason))
    assert refused.sentence.startswith("1 write was refused (1 for a full disk); the last, learn: ")

    refused.note_reply(asked, wire.Learned(outcome="waiting"))
    assert refused.sentence == ""


@pytest.mark.parametrize(
    ("number", "counter"),
    [(errno.ENOSPC, "writes_refused_full"), (errno.EROFS, "writes_refused_forbidden")],
    ids=["full", "read-only"],
)
async def test_a_disk_that_is_still_full_after_a_start_is_reported_before_any_write(
    home, tmp_path, monkeypatch, number, counter
):
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    async with assembled(home) as parts:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", refused)
            await parts.daemon.disk_refusals.try_out((str(tmp_path / "gone"), str(tmp_path)))
            reported = [await parts.ask(wire.Status()) for _ in range(2)]
        after = await parts.ask(wire.Status())

    assert [report.state for report in reported] == ["degraded", "degraded"]
    assert f"the last, a trial: cannot write into {tmp_path}: " in reported[0].reason
    assert reported[1].counters[counter] == 1
    assert (after.state, after.reason) == ("ok", "")
    assert list(tmp_path.glob("tmp*")) == []
