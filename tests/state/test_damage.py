"""A file that is damaged or of an older format is named, and pauses all until a person acts.

Damage costs what cannot be read and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest

from forged.attributes import Facts
from forged.counters import EgressRecord
from forged.memory import utc_now
from forged.state import (
    CaptureCursor,
    CaptureLogEntry,
    CapturePart,
    DecidedMemory,
    InjectedSet,
    InjectionRecord,
    Intent,
    LearnedSession,
    OwnFile,
    PendingWrite,
    Receipt,
    RecordedMemory,
    RequestOutcome,
    RootIds,
    RootListing,
    RootRecord,
    SetKey,
    TrustFindings,
    Write,
)
from forged.state.database import FORMAT, connect, put, transaction
from forged.state.forgotten import digest
from forged.state.ingested import IngestedFile
from forged.state.trust import Exclude
from tests.state.conftest import a_governor, documents, event, names, opened, raw
from tests.state.stepped import killed_at_every_call
from tests.support.clock import run

TOP = "/srv/repo"
TEXTS = [f"forgotten text {number}" for number in range(40)]
DOUBT = "state.db was damaged"
OPENING = """
import shutil
from forged.models.budget import Governor
from forged.state import State
def prepare(directory):
    shutil.copytree({directory!r}, directory, dirs_exist_ok=True)
def act(directory):
    state = State(directory, Governor(daily_token_limit=0, calls_per_minute=0))
    state._prepare(directory + "/state.db").close()
"""
TRUSTED = RootRecord(
    "/srv/trusted", "1:2:3", "then", born_empty=True, trusted_at="now", mode="locked", branch="b"
)


def proposals() -> list[DecidedMemory]:
    (decided, _) = documents("waits for a person")
    memory = msgspec.structs.replace(decided.memory, id="mem_waits7", created_at=utc_now())
    return [msgspec.structs.replace(decided, memory=memory, waits="pasted")]


async def filled(directory: Path) -> None:
    """Rows in every table, on several pages of some; the copy of the day is made when a daemon starts."""
    governor = a_governor()
    async with opened(directory, governor) as state:
        await state.events.put_all([event(number, f"waits {number} " + "x" * 900) for number in range(1, 13)])
        for number in (1, 2):
            state.events.set_decision(event(number).id, documents(f"decided {number}"))
            await state.events.journal(event(number).id)
        for number in range(20, 26):
            await state.events.give_up(event(number, f"dead {number} " + "x" * 900), "no")
        await state.forgotten.add(TOP, TEXTS)
        await state.pauses.set("/srv/other", True)
        await state.trust.put_root(TRUSTED)
        await state.trust.put_own("1:2:3", [OwnFile(f"mem_own{number}", "beef") for number in range(9)])
        await state.trust.approve("1:2:3", [f"f00d{number}" for number in range(9)])
        found = TrustFindings(TRUSTED, from_git=frozenset(f"b20d{n}" for n in range(9)))
        assert state.trust.note(found)
        state.capture_cursors.update({"of-a-session": CaptureCursor(b"12345678", ((1, 7),))})
        await state.events.put_all([], state.capture_cursors.pending())
        await state.parts.put("a-capture", 0, CapturePart((), b""))
        governor.spend("hyde", prompt_tokens=5)
        governor.spend("capture", prompt_tokens=7)
        known = [RequestOutcome(f"digest {number}", f"mem_{number}") for number in range(8)]
        rows = [
            PendingWrite("1:2:3", key=f"key-of-{number}", known=each) for number, each in enumerate(known)
        ]
        await asyncio.wrap_future(state.requests.begin(rows))
        await state.intents.begin(Intent("intent-7", "remove", TOP, "repo", ("mem_7",)))
        key = SetKey("agent", "told-session", (TOP,))
        state.injected_sets.put(key, InjectedSet("0123abcd", 1.0))
        state.injected_sets.count_use(TOP, "mem_used7")
        await state.to_review.add(proposals())
        state.capture_log.add(
            "mem_logged7", CaptureLogEntry(at=time.time(), text="logged", memory_id="mem_logged7")
        )
        state.egress.add(EgressRecord("models.example", "build", calls=3, texts=5, characters=70))
        state.agents.record_event("agent-of-a-hook", "Stop")
        state.injections.add(
            InjectionRecord(at=time.time(), memories=(RecordedMemory(TOP, "mem_injected7", 1),))
        )
        progress = LearnedSession(agent="claude", session_id="s", mark="all")
        await state.events.put_all([], state.learned.change({"a-learned-session": progress}))
        await state.attributes.put("/srv/repo", {"mem_detailed7": Facts("fact")})
        state.accesses.hit([("/srv/repo", "mem_accessed7")])
        await state.outbox.add([Write(kind="put", scope="org", owner="", id="mem_outbox7", row=b"a row")])
        await state.replicas.mark(("user", "ada"), ["mem_replica7"], "chain")
        await state.server_clock.set(1234.5)
        await state.excludes.put(Exclude("/srv/excluded7/.git", "1:2:3", "commit"))
        await state.receipts.put("receipt7", Receipt("digest", b"reply"))
        await state.ingested.store({"docs/ingested7.md": IngestedFile("doc_7", "digest", "/docs/7", "8:1 /")})
        await state._database.commit(state.absences.absence_change(TOP, ["mem_absent7"], "2026-01-01"))
        look = RootListing(RootIds("/srv/placed7"), "1:2:3 0", "2026-01-01", frozenset({"mem_1"}))
        await state.removal.count_absences(look, ["mem_1"])
    async with opened(directory) as state:
        await state._copy_daily()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    run(filled(tmp_path / "state"))
    return tmp_path / "state"


def flip(directory: Path, at: int) -> None:
    with (directory / "state.db").open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))


def a_byte_of(directory: Path, table: str) -> int:
    """Where in the file a row of a table lies."""
    needle = {
        "meta": b"version",
        "events": b"waits 5",
        "journal": b"decided 2",
        "dead": b"dead 22",
        "forgotten": digest(TOP, TEXTS[7]).encode(),
        "pauses": b"/srv/other",
        "spending": b"capture",
        "roots": b"/srv/trusted",
        "own_files": b"mem_own7",
        "approvals": b"f00d7",
        "git_files": b"b20d7",
        "egress": b"models.example build",
        "requests": b"key-of-7",
        "intents": b"intent-7",
        "capture_cursors": b"of-a-session",
        "parts": b"a-capture/0",
        "injected_sets": b"told-session",
        "uses": b"mem_used7",
        "to_review": b"mem_waits7",
        "capture_log": b"mem_logged7",
        "agents": b"agent-of-a-hook",
        "injections": b"mem_injected7",
        "learned": b"a-learned-session",
        "attributes": b"mem_detailed7",
        "accesses": b"mem_accessed7",
        "outbox": b"mem_outbox7",
        "replicas": b"mem_replica7",
        "server_clock": b"offset",
        "excludes": b"/srv/excluded7",
        "receipts": b"receipt7",
        "ingested_files": b"docs/ingested7.md",
        "absences": b"mem_absent7",
        "places": b"/srv/placed7",
    }[table]
    data = (directory / "state.db").read_bytes()
    return (data.find(needle) if table == "meta" else data.rfind(needle)) + 3


@pytest.mark.parametrize("table", names())
async def test_flipped_byte_in_a_table_costs_one_row_at_most_and_is_named(directory, table):
    flip(directory, a_byte_of(directory, table))
    damaged = (directory / "state.db").read_bytes()
    governor = a_governor()
    async with opened(directory, governor) as state:
        waiting = {item.id: item for item in state.events.take_restored()}
        dead = {item.event.id: item for item in await state.events.dead()}
        lost = {"events": event(5).id, "dead": event(22).id}.get(table)
        whole = {**waiting, **{event_id: item.event for event_id, item in dead.items()}}
        for number in (*range(1, 13), *range(20, 26)):
            if (event_id := event(number).id) != lost:
                assert f" {number} x" in whole[event_id].window[0].text
        if lost is not None:  # it is not simply gone
            assert dead[lost].reason.startswith("unreadable since state.db was damaged; ")
        for number in (1, 2):
            if (table, number) != ("journal", 2):
                assert state.events.documents(event(number).id) == documents(f"decided {number}")
        # The copy fills what the file lost of these.
        assert state.forgotten.digests() == {digest(TOP, text) for text in TEXTS}
        assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ("/srv/other",))
        assert {(day.purpose, day.tokens) for day in governor.accounts()} == {("hyde", 5), ("capture", 7)}
        (left,) = state.egress.days(90)
        assert (left.host, left.purpose, left.calls, left.characters) == ("models.example", "build", 3, 70)
        assert state.trust.roots() == ()  # nobody is trusted until a person has said what holds
        assert not state.trust.hashes("1:2:3")
        assert not state.trust.own("1:2:3")
        (warning,) = state.warnings
        assert "state.db was damaged" in warning
        assert "`forgectl resume --all` ends that" in warning
        assert state.pauses.reason(("/srv/any",)).startswith(DOUBT)
        (aside,) = directory.glob("state.db.damaged-*")
        assert aside.read_bytes() == damaged
        assert str(aside) in warning
        await state.pauses.set(None, False)
        assert state.trust.roots() == (TRUSTED,)
        assert state.trust.own("1:2:3").keys() == {f"mem_own{number}" for number in range(9)}
        assert state.trust.hashes("1:2:3") == {"beef", *(f"f00d{number}" for number in range(9))}
        assert state.trust.from_git("1:2:3") == {f"b20d{number}" for number in range(9)}


async def test_the_doubt_lasts_until_a_person_ends_it(directory):
    flip(directory, a_byte_of(directory, "events"))
    for ends in (False, True):
        async with opened(directory) as state:
            assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ("/srv/other",))
            await state.pauses.set(TOP, False)  # says nothing about everything
            if ends:
                await state.pauses.set(None, False)
                assert (state.pauses.listed(), state.warnings) == (("/srv/other",), ())
    async with opened(directory) as state:
        assert state.pauses.listed() == ("/srv/other",)


@pytest.mark.parametrize("what", ["header", "schema", "cut", "empty", "gone", "noise"])
async def test_file_that_is_damaged_as_a_whole_is_survived(directory, what):
    path = directory / "state.db"
    data = path.read_bytes()
    match what:
        case "header":
            flip(directory, 3)
        case "schema":
            flip(directory, data.find(b"CREATE TABLE dead") + 2)
        case "cut":
            os.truncate(path, len(data) // 2)
        case "empty":
            os.truncate(path, 0)
        case "gone":
            path.unlink()
        case "noise":
            path.write_bytes(os.urandom(len(data)))

    async with opened(directory) as state:
        assert not state.problem
        assert state.pauses.reason(()).startswith(DOUBT)
        assert state.forgotten.digests() >= {digest(TOP, TEXTS[0])}
        assert await state.events.put(event(99))
        assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ("/srv/other",))
        if what in ("header", "schema"):
            assert len(state.events.take_restored()) == 12


@pytest.mark.long
async def test_every_page_may_be_lost(directory, tmp_path):
    """Zeros in place of any page: what is elsewhere is taken over, and the next daemon finds a whole file."""
    found = []
    for page in range(0, (directory / "state.db").stat().st_size, 4096):
        place = tmp_path / f"page-{page}"
        shutil.copytree(directory, place)
        with (place / "state.db").open("r+b") as file:
            file.seek(page)
            file.write(bytes(4096))
        async with opened(place) as state:
            assert not state.problem
            assert state.pauses.doubt
            found.append((len(state.events.take_restored()), state.events.dead_count))
        async with opened(place) as state:
            assert not state.problem

    assert sum(waiting for waiting, _ in found) > len(found) * 6
    assert max(found) >= (12, 6)


@pytest.mark.parametrize("how", ["missing", "torn", "flipped"])
async def test_damaged_copy_is_as_good_as_none_and_harms_nothing(directory, how):
    """The file alone says then what it can: all that was forgotten but for what lay in its damaged row."""
    copy = directory / "state.copy"
    whole = copy.read_bytes()
    assert whole.count(b"/srv/other") == 1
    match how:
        case "missing":
            copy.unlink()
        case "torn":
            copy.write_bytes(b"torn")
        case "flipped":
            copy.write_bytes(whole.replace(b"/srv/other", b"/srv/othes"))
    flip(directory, a_byte_of(directory, "pauses"))
    flip(directory, a_byte_of(directory, "forgotten"))

    async with opened(directory) as state:
        assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ())
        assert state.forgotten.digests() == {digest(TOP, text) for text in TEXTS if text != TEXTS[7]}


def test_copy_of_the_day_holds_no_text(directory):
    assert b"waits" not in (directory / "state.copy").read_bytes()
    assert b"dead 2" not in (directory / "state.copy").read_bytes()


async def test_what_was_set_aside_goes_with_what_is_forgotten(directory):
    flip(directory, a_byte_of(directory, "meta"))
    async with opened(directory) as state:
        assert b"waits 5" in b"".join(path.read_bytes() for path in directory.glob("*.damaged-*"))
        for item in state.events.take_restored():
            await state.events.remove(item.id)
        await state.erase_traces()
        assert b"waits 5" not in raw(directory)


async def test_file_of_a_newer_forged_stays_as_it_is_and_nothing_is_injected(directory):
    with contextlib.closing(connect(str(directory / "state.db"))) as connection, transaction(connection):
        put(connection, "meta", "version", str(FORMAT + 1))
    before = (directory / "state.db").read_bytes()

    async with opened(directory) as state:
        assert f"a newer forged has written it (format {FORMAT + 1})" in state.problem
        assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ())
        assert state.events.take_restored() == ()

    assert (directory / "state.db").read_bytes() == before
    assert list(directory.glob("*.damaged-*")) == []


OLD_TABLES = {
    "meta": ("key", "value"),
    "events": ("id", "event"),
    "dead": ("id", "kind", "reason", "died_at", "event", "documents"),
    "pauses": ("top",),
    "roots": ("identity_and_top", "first_seen", "born_empty", "trusted_at", "mode", "branch"),
}
OLD_ROWS = {
    "meta": [("version", "8")],
    "events": [("ev_1", b"the walrus said this"), ("ev_2", b"the walrus said that")],
    "dead": [("ev_0", "turn", "no", "then", b"the walrus died", None)],
    "pauses": [("/srv/other",)],
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A state of format 8: its tables had columns of their own, and there was a copy of the day."""
    directory = tmp_path / "older"
    directory.mkdir(mode=0o700)
    with contextlib.closing(connect(str(directory / "state.db"))) as connection, transaction(connection):
        for table, (key, *others) in OLD_TABLES.items():
            columns = ", ".join([f"{key} TEXT PRIMARY KEY", *others, "checksum"])
            connection.execute(f"CREATE TABLE {table} ({columns}) WITHOUT ROWID")
            for row in OLD_ROWS.get(table, ()):
                put(connection, table, *row)
    copy = msgspec.msgpack.encode({"pauses": [["/srv/other"]], "roots": [], "forgotten": []})
    (directory / "state.copy").write_bytes(hashlib.blake2b(copy, digest_size=16).digest() + copy)
    return directory


async def test_file_of_an_older_format_is_set_aside_whole_and_pauses_hold_until_a_person_acts(older):
    before = (older / "state.db").read_bytes()
    for _ in range(2):
        async with opened(older) as state:
            (warning,) = state.warnings
            (aside,) = older.glob("state.db.format-8-*[0-9]")
            assert aside.read_bytes() == before
            assert f"it is {aside} now, with rows in it: 1 of dead, 2 of events, 1 of pauses;" in warning
            assert state.pauses.reason(("/srv/any",)) == warning
            assert "`forgectl resume --all` ends that" in warning
            assert (state.pauses.listed(), state.events.take_restored()) == ((), ())
            await state.trust.put_root(TRUSTED)
            assert state.trust.roots() == ()
            assert await state.unexpected_files() == ()
    async with opened(older) as state:
        await state.pauses.set(None, False)
        assert (state.pauses.reason(()), state.warnings, state.trust.roots()) == ("", (), (TRUSTED,))
        await state._copy_daily()
        assert aside.exists()
        await state.erase_traces()
    assert b"walrus" not in raw(older)
    assert sorted(os.listdir(older)) == ["state.copy", "state.db"]


async def test_of_an_older_format_with_another_one_set_aside_both_stay(older):
    day = time.strftime("%Y%m%d", time.gmtime())
    (older / f"state.db.format-8-{day}").write_text("of this morning")
    async with opened(older) as state:
        assert f"state.db.format-8-{day}-2 now" in state.pauses.doubt
    assert (older / f"state.db.format-8-{day}").read_text() == "of this morning"


async def test_damaged_file_of_an_older_format_gives_no_row_to_the_new_one(older):
    flip(older, (older / "state.db").read_bytes().rfind(b"version") + 3)
    async with opened(older) as state:
        assert state.pauses.reason(()).startswith(DOUBT)
        assert (state.events.take_restored(), state.pauses.listed()) == ((), ())


async def test_setting_aside_that_is_killed_is_finished_by_the_next_start(older, tmp_path):
    left = killed_at_every_call(OPENING.format(directory=str(older)), tmp_path / "killed")

    for place in left:
        async with opened(place) as state:
            assert not state.problem
            assert state.pauses.reason(()).startswith("state.db is of an older forged (format 8)")
            (aside,) = place.glob("state.db.format-8-*[0-9]")
            assert b"the walrus died" in aside.read_bytes()
            assert (place / f"{aside.name}-copy").exists()
    assert {"rename", "unlink"} <= set(left.values())


@pytest.mark.parametrize("how", ["directory", "link"])
async def test_file_that_cannot_be_opened_today_is_a_problem_and_no_damage(directory, tmp_path, how):
    path = directory / "state.db"
    path.rename(tmp_path / "kept")
    if how == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "kept")

    async with opened(directory) as state:
        assert (bool(state.pauses.doubt), state.pauses.listed()) == (True, ())
        assert "state.db" in state.problem
    assert list(directory.glob("*.damaged-*")) == []


async def test_where_nothing_was_ever_kept_a_file_that_cannot_be_made_pauses_nothing(tmp_path):
    (tmp_path / "in the way").write_text("")

    async with opened(tmp_path / "in the way/state") as state:
        assert "cannot use" in state.problem
        assert state.pauses.listed() == ()


async def test_mending_that_is_killed_is_finished_by_the_next_start(directory, tmp_path):
    flip(directory, a_byte_of(directory, "events"))
    left = killed_at_every_call(OPENING.format(directory=str(directory)), tmp_path / "killed")

    for place in left:
        async with opened(place) as state:
            assert not state.problem
            assert state.pauses.reason(()).startswith(DOUBT)
            assert (len(state.events.take_restored()), len(await state.events.dead())) == (11, 7)
    assert {"rename", "unlink"} <= set(left.values())


async def test_file_system_without_locks_has_a_rollback_journal_and_says_so(tmp_path, monkeypatch):
    real = sqlite3.connect

    def without_locks(path: str, **options: object) -> sqlite3.Connection:
        if not options.get("uri"):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_LOCK"
            raise error
        return real(path, **options)

    monkeypatch.setattr(sqlite3, "connect", without_locks)

    async with opened(tmp_path / "state ?#%") as state:
        assert await state.events.put(event())
        (warning,) = state.warnings
        assert "rollback journal" in warning
    assert os.listdir(tmp_path) == ["state ?#%"]
