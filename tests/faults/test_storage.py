"""A disk that is full or broken loses nothing that was acknowledged, and its end needs no restart."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forged_client import Client, envelope
from forged_client.protocol import Reply
from tests.data.memories import memory, put
from tests.faults.telling import Telling, can_mount, telling
from tests.support.clock import eventually
from tests.support.daemon import stored

# Bytes of the disk for some of the events and not for all of them.
_LEFT = 128 << 10
_NAMELESS = "/#"
_WORDS = {"EIO": "input/output error", "ENOSPC": "no space left", "EDQUOT": "quota"}
# What fails when files are written, and what was decided. What fails when events are taken in.
_WRITING = (
    ("daemon", "fsync", rf"/\.forge/memory{_NAMELESS}", "EIO"),
    ("daemon", "fsync", r"/\.forge/memory$", "EIO"),
    ("daemon", "link", r"\.md$", "ENOSPC"),
    ("daemon", "link", r"\.md$", "EDQUOT"),
    ("daemon", "commit", "INTO own_files", "EIO"),
    ("daemon", "commit", "INTO own_files", "ENOSPC"),
    ("daemon", "commit", "INTO journal", "EIO"),
    ("daemon", "commit", "INTO journal", "ENOSPC"),
)
_TAKING = (
    ("daemon", "commit", "INTO events", "EIO"),
    ("daemon", "commit", "INTO events", "ENOSPC"),
)
# What a person decides of a repository, whether it is trusted before, and the rows that say so.
_DECISIONS: tuple[tuple[Callable[[Client, str], Reply], bool, str], ...] = (
    (lambda client, top: client.trust(top, action="trust"), False, "INTO approvals"),
    (lambda client, top: client.trust(top, action="trust"), False, "INTO roots"),
    (lambda client, top: client.trust(top, action="trust", mode="locked"), True, "INTO roots"),
    (lambda client, top: client.trust(top, action="revoke"), True, "INTO roots"),
    (lambda client, top: client.review(top, ["mem_foreign"]), False, "INTO approvals"),
    (lambda client, top: client.review(top, everything=True), False, "INTO approvals"),
)


@pytest.mark.long
def test_events_wait_while_their_files_cannot_be_written(place, promised):
    names: list[str] = []
    slowest = 0.0
    with telling(place, parts=2) as one:
        for number, (process, call, about, error) in enumerate(_WRITING):
            one.faults.arm(process, call, about, does=error, lasting=True)
            reported = [f"s{session}-{number}" for session in range(3)]
            for name in reported:
                assert one.tell(name).outcome == "durable"
            eventually(lambda word=_WORDS[error]: word in one.report().last_error)
            eventually(lambda known=tuple(names): one.keeps_once(known))
            assert one.report().spooled == len(reported)
            eventually(lambda word=_WORDS[error]: word in _waiting_for(one))
            names += reported
            slowest = max(slowest, _mended(one))
            one.assert_kept_once(names)
        calls, dead = len(one.provider.requests()), one.report().dead
        assert (calls, dead) == (len(names), 0)
    promised("EIO and ENOSPC on files and journals: nothing is lost", len(_WRITING), "kept, asked once")
    promised("events wait, drained after it", len(names), f"at most {slowest:.1f} s")


def test_a_disk_that_fills_between_two_files_of_an_event_costs_neither(place, promised):
    with telling(place, parts=3) as one:
        one.faults.arm("daemon", "link", r"\.md$", at=2, does="ENOSPC", lasting=True)
        one.tell("s-0")
        eventually(lambda: _WORDS["ENOSPC"] in _waiting_for(one))
        assert one.report().spooled == 1
        took = _mended(one)
        one.assert_kept_once(["s-0"])
    promised("ENOSPC between two files of one event", 1, f"both kept, {took:.1f} s after it")


def test_an_event_that_cannot_be_stored_is_rejected_and_not_lost_silently(place, promised):
    with telling(place) as one:
        one.go.clear()
        names = ["before-0"]
        one.tell("before-0")
        for number, (process, call, about, error) in enumerate(_TAKING):
            one.faults.arm(process, call, about, does=error, lasting=True)
            reply = one.tell(f"s-{number}")
            assert (reply.outcome, reply.reason.partition(":")[0]) == ("rejected", "storage_error")
            assert _WORDS[error] in reply.reason
            assert one.report().spooled == 1
            assert _WORDS[error] in one.report().last_error
            one.faults.disarm()
            assert one.tell(f"s-{number}").outcome == "durable"
            one.client.dead()  # any other verb
            names.append(f"s-{number}")
            assert one.report().rejected == number + 1
            one.go.set()
            one.drained()
            one.go.clear()
            one.assert_kept_once(names)
            one.tell(f"next-{number}")
            names.append(f"next-{number}")
        one.go.set()
        one.drained()
        one.assert_kept_once(names)
    promised("EIO and ENOSPC on the spool: rejected(storage_error), then durable", len(_TAKING), "kept")


def test_events_that_cannot_be_taken_out_of_the_spool_leave_it_later(place, promised):
    with telling(place) as one:
        one.faults.arm("daemon", "commit", "DELETE FROM events", does="EIO", lasting=True)
        names = [f"s{session}-0" for session in range(3)]
        for name in names:
            one.tell(name)
        eventually(lambda: one.report().finished == len(names))
        one.assert_kept_once(names)
        assert one.report().spooled == len(names)
        eventually(lambda: _WORDS["EIO"] in one.report().last_error)
        one.faults.disarm()
        since = time.monotonic()
        eventually(lambda: one.report().spooled == 0)
        took = time.monotonic() - since
        one.drained()
        one.assert_kept_once(names)
        assert stored(place / ".local/state/forged", "events", "journal") == []
    promised("EIO when events are removed: the spool is empty after it", len(names), f"{took:.1f} s")


def test_a_decision_that_could_not_be_stored_is_in_force_neither_now_nor_later(place, promised):
    errors = ("ENOSPC", "EIO", "EROFS")
    with telling(place) as one:
        for number, (decide, trusted, about) in enumerate(_DECISIONS):
            top = place / f"repo-{number}"
            (top / ".git").mkdir(parents=True)
            put(top, memory("mem_foreign", "Ask the marsupial first."), memory("mem_other", "And the gnu."))
            with one.daemon.client(trusts=False) as client:
                if trusted:
                    client.trust(str(top), action="trust", mode="follow")
                before = _force(client, top)
                for error in errors:
                    one.faults.arm("daemon", "commit", about, does=error, lasting=True)
                    refused = decide(client, str(top))
                    assert refused.status == "error"
                    assert "state.db" in refused.reason
                    assert _force(client, top) == before
                    one.faults.disarm()
                    assert _force(client, top) == before
            assert one.daemon.stop() == 0
            one.daemon.start()
            with one.daemon.client(trusts=False) as client:
                assert _force(client, top) == before
                assert decide(client, str(top)).status == "ok"
                assert _force(client, top) != before
    promised("a refused decision is not in force", len(_DECISIONS) * len(errors), "nor after a restart")


def _force(client: Client, top: Path) -> tuple[object, ...]:
    """Trust in force: the state of a repository, and what of it is shown and injected."""
    assert client.rebuild(str(top), wait=True).status == "ok"
    (root,) = client.trust(str(top)).roots
    listed = tuple(sorted(each.id for each in client.list(str(top)).memories))
    text = client.retrieve(str(top), [{"role": "user", "content": "Whom do we ask, marsupial or gnu?"}]).text
    return root.state, root.mode, root.withheld, listed, "marsupial" in text, "gnu" in text


@pytest.mark.skipif(not can_mount(), reason="NOT TESTED: a full disk; `unshare -Urm` does not work here")
def test_a_full_disk(place, promised, monkeypatch):
    disk = place / "disk"
    with telling(place, disk=disk) as one:
        # The daemon has the disk in a mount namespace of its own; its client says what is seen there.
        own_view = envelope.identity_of
        monkeypatch.setattr(envelope, "identity_of", lambda path: own_view(f"{one.seen(Path(path))}"))
        one.tell("first-0")
        one.drained()
        one.go.clear()
        ballast = one.seen(disk / "ballast")
        _fill(ballast, leave=_LEFT)
        replies = {f"s{number % 4}-{number}": one.tell(f"s{number % 4}-{number}") for number in range(60)}
        kept = [name for name, reply in replies.items() if reply.outcome == "durable"]
        refused = [name for name in replies if name not in kept]
        assert kept
        assert refused
        assert {replies[name].reason.partition(":")[0] for name in refused} == {"storage_error"}
        _fill(ballast)
        one.go.set()
        eventually(lambda: _WORDS["ENOSPC"] in _waiting_for(one))
        one.assert_kept_once(["first-0"])
        assert one.client.retrieve(str(one.top), [{"role": "user", "content": "port of first-0"}]).memories

        since = time.monotonic()
        ballast.unlink()
        one.drained()
        took = time.monotonic() - since
        one.assert_kept_once(["first-0", *kept])
        for name in refused[:5]:
            assert one.tell(name).outcome == "durable"
        one.drained()
        one.assert_kept_once(["first-0", *kept, *refused[:5]])
        assert not list(one.seen(one.top / ".forge/memory").glob(".forged-*"))
    promised("a full disk (1 MiB): rejected(storage_error)", len(refused), "said so")
    promised("a full disk: durable events afterwards", len(kept), f"each kept once, {took:.1f} s after it")


def _waiting_for(one: Telling) -> str:
    report = one.report()
    return report.reason if report.state == "waiting" else ""


def _mended(one: Telling) -> float:
    """Seconds from the end of all faults until nothing waits."""
    one.faults.disarm()
    since = time.monotonic()
    one.drained()
    return time.monotonic() - since


def _fill(ballast: Path, *, leave: int = 0) -> None:
    def free() -> int:
        disk = os.fstatvfs(file.fileno())
        return disk.f_bavail * disk.f_frsize

    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while free() > leave:
            file.write(bytes(1024))
