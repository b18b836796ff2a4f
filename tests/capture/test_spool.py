"""What was acknowledged is in one place, whole, whoever is killed and whatever lies in the directory."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.spool import Loaded, Spool
from forged.capture.spool_file import EVENT, MOST_BYTES, Unreadable
from forged.capture.values import Document, Event
from forged.conversation import Utterance
from forged.errors import StoreError
from forged.files.roots import Root
from forged.memory import Memory, Related, Scope
from tests.support import syscalls
from tests.support.stepped import killed_at_every_call

ROOTS = (Root("/srv/repo", Scope.REPO), Root("/home/me", Scope.USER))


def event(number: int = 1, text: str = "use errors.As, not a type switch", **fields: object) -> Event:
    given = {
        "kind": "compaction",
        "session_id": "s",
        "window_id": "w",
        "roots": ROOTS,
        "received_at": "",
    } | fields
    return Event(
        id=f"ev_{number:020}_0000abcd",
        window=(Utterance("user", text), Utterance("assistant", "noted")),
        **given,
    )


def documents(content: str = "errors.As") -> tuple[Document, ...]:
    memory = Memory(
        "mem_1",
        content,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        1,
        "repo",
        "patterns",
        "s",
        "cadence",
    )
    related = msgspec.structs.replace(memory, id="mem_2", related=(Related("mem_1", "refines"),))
    return (Document(ROOTS[0], memory), Document(ROOTS[1], related))


def spool_in(state: Path, **caps: int) -> Spool:
    return Spool(str(state / "spool"), str(state / "dead"), **caps)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def spool(state: Path) -> Spool:
    return spool_in(state)


def names(state: Path) -> dict[str, list[str]]:
    """Files of both directories, without the number in front of every id."""
    return {
        place: sorted(re.sub(r"ev_0*(\d+)_0000abcd", r"\1", name) for name in os.listdir(state / place))
        for place in ("spool", "dead")
        if (state / place).exists()
    }


def plant(state: Path, name: str, data: bytes) -> Path:
    path = state / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# Events that wait.


def test_event_is_the_same_after_a_restart(state, spool):
    spool.put(event())

    assert spool_in(state).load() == Loaded(events=(event(),))


def test_events_come_back_in_the_order_of_their_acceptance(state, spool):
    for number in (2, 11, 1):
        spool.put(event(number))

    assert [found.id for found in spool_in(state).load().events] == [event(n).id for n in (1, 2, 11)]


def test_nothing_is_made_before_the_first_write(state, spool):
    assert (spool.load(), spool.dead(), spool.dead_count()) == (Loaded(), (), 0)
    assert spool.journalled(event().id) is None
    assert spool.revive(event().id) is None
    assert not spool.drop_dead(event().id)
    spool.remove(event().id)
    assert not state.exists()


def test_directories_and_files_are_private(state, spool):
    previous = os.umask(0)
    try:
        spool.put(event())
        spool.bury(event(2), "no")
    finally:
        os.umask(previous)

    paths = [state / "spool", state / "dead", *(state / "spool").iterdir(), *(state / "dead").iterdir()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o600, 0o600]


def test_put_is_done_when_the_event_is_there_already(state, spool):
    spool.put(event())
    spool.put(event())

    assert (spool.count, names(state)) == (1, {"spool": ["1.event"]})


def test_count_and_bytes_are_those_of_the_event_files(state, spool):
    spool.put(event(1))
    spool.put_all([event(2), event(3)])
    spool.journal(event(1).id, documents())
    spool.remove(event(3).id)

    size = sum(path.stat().st_size for path in (state / "spool").glob("*.event"))
    assert (spool.count, spool.bytes) == (2, size)
    again = spool_in(state)
    again.load()
    assert (again.count, again.bytes) == (2, size)


def test_room_ends_with_the_number_of_events(state):
    spool = spool_in(state, max_events=1)

    assert spool.has_room(1)
    spool.put(event())
    assert not spool.has_room(1)
    spool.remove(event().id)
    assert spool.has_room(1)


def test_room_ends_with_their_bytes(state):
    spool = spool_in(state, max_bytes=1000)
    spool.put(event())

    assert spool.has_room(1000 - spool.bytes)
    assert not spool.has_room(1001 - spool.bytes)


def test_what_was_accepted_is_put_beyond_every_cap(state):
    spool = spool_in(state, max_events=1, max_bytes=10)

    spool.put_all([event(1), event(2)])
    spool.put(event(3))

    assert (spool.count, len(spool_in(state, max_events=1).load().events)) == (3, 3)


def test_many_events_are_put_with_one_sync_of_the_directory(state):
    script = """
import os, stat, sys
from tests.capture.test_spool import event, spool_in
from pathlib import Path
fsync, synced = os.fsync, []
def counted(fd):
    synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
    fsync(fd)
spool = spool_in(Path(sys.argv[1]))
spool.put(event(0))
os.fsync = counted
spool.put_all([event(n) for n in range(1, 65)])
print(synced.count(True), synced.count(False), synced[-1])
"""
    child = syscalls.run(script, str(state))

    assert child.stdout.split() == ["1", "64", "True"], child.stderr
    assert spool_in(state).load().events == tuple(event(n) for n in range(65))


def test_one_event_that_cannot_be_put_does_not_cost_the_others(state, spool):
    with pytest.raises(StoreError, match="1 of 3 events not spooled"):
        spool.put_all([event(1), event(2, "\ud800"), event(3)])

    assert [found.id for found in spool.load().events] == [event(1).id, event(3).id]


@pytest.mark.parametrize("text", ["x" * MOST_BYTES, "half a pair \ud800"], ids=["too_large", "no_unicode"])
def test_event_that_could_not_be_read_back_is_refused(state, spool, text):
    with pytest.raises(StoreError):
        spool.put(event(text=text))

    assert spool.count == 0


@syscalls.needs_seccomp
@pytest.mark.parametrize("call", ["fsync", "linkat"])
def test_full_disk_is_explained_and_nothing_counted(tmp_path, call):
    script = f"""
import errno, sys
from pathlib import Path
from forged.errors import StoreError
from tests.capture.test_spool import event, spool_in
from tests.support.syscalls import fail
spool = spool_in(Path(sys.argv[1]))
spool.put(event(1))
fail({call}=errno.ENOSPC)
for attempt in (lambda: spool.put(event(2)), lambda: spool.put_all([event(2)]),
                lambda: spool.journal(event(2).id, ()), lambda: spool.bury(event(1), "no")):
    try:
        attempt()
    except StoreError as error:
        assert "free some and try again" in str(error), error
    else:
        raise AssertionError("done")
print(spool.count)
"""
    child = syscalls.run(script, str(tmp_path))

    assert (child.stdout, child.stderr) == ("1\n", "")
    assert spool_in(tmp_path).load() == Loaded(events=(event(1),))
    assert spool_in(tmp_path).dead() == ()


def test_removed_event_leaves_nothing(state, spool):
    spool.put(event())
    spool.journal(event().id, documents())

    spool.remove(event().id)
    spool.remove(event().id)

    assert (spool.count, names(state)) == (0, {"spool": []})


@pytest.mark.parametrize(
    "odd", ["", "ev_", "../ev_1", "ev_1/../../x", "ev_1\0", "mem_1", "ev_" + "1" * 65, "ev_1\n"]
)
def test_id_that_is_none_is_no_path(state, spool, odd):
    spool.put(event())
    with pytest.raises(StoreError):
        spool.put(msgspec.structs.replace(event(), id=odd))
    with pytest.raises(StoreError):
        spool.bury(msgspec.structs.replace(event(), id=odd), "no")
    for attempt in (spool.remove, spool.journalled, lambda id_: spool.journal(id_, ())):
        with pytest.raises(StoreError, match="is no id"):
            attempt(odd)

    assert (spool.revive(odd), spool.drop_dead(odd)) == (None, False)
    assert names(state) == {"spool": ["1.event"]}


def test_directory_that_is_a_link_out_of_the_state_is_not_followed(state, spool, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    state.mkdir()
    (state / "spool").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="leads out"):
        spool.put(event())

    assert [problem.path for problem in spool.load().problems] == [str(state / "spool")]
    assert os.listdir(tmp_path / "elsewhere") == []


# Journals.


def test_journal_is_the_same_after_a_restart(state, spool):
    spool.journal(event().id, documents())

    assert spool_in(state).journalled(event().id) == documents()


def test_journal_of_nothing_is_not_no_journal(spool):
    spool.journal(event().id, ())

    assert spool.journalled(event().id) == ()
    assert spool.journalled(event(2).id) is None


def test_first_journal_of_an_event_stands(spool):
    spool.journal(event().id, documents("first"))
    spool.journal(event().id, documents("second"))

    assert spool.journalled(event().id) == documents("first")


def test_journal_without_its_event_is_an_orphan(spool):
    spool.put(event(1))
    spool.journal(event(1).id, documents())
    spool.journal(event(2).id, documents())

    assert spool.load() == Loaded(events=(event(1),), orphans=(event(2).id,))


def test_journal_that_cannot_be_stored_is_refused(spool):
    with pytest.raises(StoreError, match="not Unicode"):
        spool.journal(event().id, documents("\ud800"))


@pytest.mark.parametrize("data", [b"", b"torn", b"forged-documents 2\n[]", b"forged-event 1\n[]"])
def test_unreadable_journal_is_an_error_and_not_no_journal(state, spool, data):
    plant(state, f"spool/{event().id}.documents", data)

    with pytest.raises(StoreError, match="cannot be used"):
        spool.journalled(event().id)


# Events that were given up.


def test_buried_event_is_dead_and_no_longer_waits(state, spool):
    spool.put(event())

    spool.bury(event(), "the worker died 3 times over it")

    (buried,) = spool.dead()
    assert (buried.event, buried.reason) == (event(), "the worker died 3 times over it")
    assert buried.bytes == (state / f"dead/{event().id}.dead").stat().st_size
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", buried.died_at)
    assert (spool.load(), spool.count, spool.dead_count()) == (Loaded(), 0, 1)


def test_event_of_memory_alone_can_be_buried(spool):
    spool.bury(event(kind="turn"), "no")

    assert [buried.event for buried in spool.dead()] == [event(kind="turn")]


def test_dead_are_listed_oldest_first(spool):
    for number in (3, 1, 2):
        spool.bury(event(number), "no")

    assert [buried.event.id for buried in spool.dead()] == [event(n).id for n in (1, 2, 3)]


def test_revived_event_waits_again_with_its_journal(state, spool):
    spool.put(event())
    spool.journal(event().id, documents())
    spool.bury(event(), "no")

    assert spool.revive(event().id) == event()

    assert spool.load() == Loaded(events=(event(),))
    assert spool.journalled(event().id) == documents()
    assert (spool.dead(), spool.count) == ((), 1)
    assert spool.revive(event().id) is None


def test_revived_event_that_was_never_decided_has_no_journal(spool):
    spool.bury(event(), "no")
    spool.revive(event().id)

    assert spool.journalled(event().id) is None


def test_event_is_dead_as_before_when_the_spool_cannot_take_it(state, spool):
    spool.bury(event(), "no")
    plant(state, "spool", b"in the way")

    with pytest.raises(StoreError, match="cannot write to"):
        spool.revive(event().id)

    assert [buried.event for buried in spool.dead()] == [event()]
    (state / "spool").unlink()
    assert spool.revive(event().id) == event()
    assert spool.dead() == ()


def test_dropped_event_is_gone(state, spool):
    spool.bury(event(), "no")

    assert spool.drop_dead(event().id)
    assert not spool.drop_dead(event().id)
    assert names(state)["dead"] == []


def test_event_can_be_buried_again_with_what_was_decided_since(spool):
    spool.bury(event(), "first")
    spool.revive(event().id)
    spool.journal(event().id, documents())
    spool.bury(event(), "second")

    assert [buried.reason for buried in spool.dead()] == ["second"]
    spool.revive(event().id)
    assert spool.journalled(event().id) == documents()


def test_burial_that_is_done_again_tells_what_was_decided_in_between(spool):
    spool.bury(event(), "first, but the event could not be removed")
    spool.put(event())
    spool.journal(event().id, documents())

    spool.bury(event(), "second")

    spool.revive(event().id)
    assert spool.journalled(event().id) == documents()


def test_dead_event_that_still_waits_is_dead(spool):
    spool.bury(event(), "no")
    spool.put(event())

    assert spool.load() == Loaded()
    assert [buried.event for buried in spool.dead()] == [event()]


@pytest.mark.parametrize("suffix", ["dead", "event", "documents"])
def test_damaged_file_among_the_dead_takes_no_event_out_of_the_spool(state, spool, suffix):
    spool.put(event())
    plant(state, f"dead/{event().id}.{suffix}", b"torn")

    assert spool.load() == Loaded(events=(event(),))
    assert spool.dead() == ()


def test_what_is_damaged_in_both_places_is_kept_for_a_person(state, spool):
    plant(state, f"spool/{event().id}.event", b"torn")
    plant(state, f"dead/{event().id}.dead", b"torn, too")

    assert spool.load().events == ()
    assert names(state) == {"spool": [], "dead": ["1.dead", "1.event"]}
    assert [buried.reason for buried in spool.dead()] == ["unreadable"]


def test_torn_dead_file_does_not_swallow_a_burial(state, spool):
    spool.put(event())
    plant(state, f"dead/{event().id}.dead", b"forged-dead 1\n{")

    spool.bury(event(), "no")

    assert [buried.event for buried in spool.dead()] == [event()]


def test_too_many_dead_cost_the_oldest_turns_and_nothing_else(state):
    size = 10_000
    spool = spool_in(state, max_dead_bytes=4 * size)
    kinds = ["turn", "compaction", "turn", "explicit", "turn", "session_end", "turn"]
    for number, kind in enumerate(kinds):
        spool.bury(event(number, "x" * (size - 1000), kind=kind), "no")

    assert [buried.event.kind for buried in spool.dead()] == ["compaction", "explicit", "session_end", "turn"]
    assert spool.dead_dropped == 3
    for number in range(7, 10):
        spool.bury(event(number, "x" * size, kind="compaction"), "no")
    assert [buried.event.is_durable for buried in spool.dead()] == [True] * 6


# What lies in the directory.

TORN = [
    b"",
    b"forged-eve",
    b"forged-event 1",
    b"forged-event 1\n",
    b"forged-event 1\n{}",
    b"forged-event 0x\n{}",
    b"forged-dead 1\n{}",
    b"\0" * 4096,
    EVENT.encode(event())[:-1],
    EVENT.encode(event()) + b"}",
    EVENT.encode(event()).replace(b"errors", b"\0\0\0\0\0\0"),
    EVENT.encode(event()).replace(b"errors", b"\xff\xfe\xfd\xfc\xfb\xfa"),
    EVENT.encode(event(2)),
    b"forged-event 1\n" + b"[" * 100_000,
    b"forged-event 1\n" + b" " * MOST_BYTES,
]


@pytest.mark.parametrize("data", TORN, ids=range(len(TORN)))
def test_file_that_is_no_event_is_set_aside_as_it_is(state, spool, data):
    spool.put(event(7))
    plant(state, f"spool/{event().id}.event", data)

    loaded = spool.load()

    assert loaded.events == (event(7),)
    assert [(os.path.basename(p.path), p.reason) for p in loaded.problems] == [
        (f"{event().id}.event", "unreadable")
    ]
    assert (state / f"dead/{event().id}.event").read_bytes() == data
    (buried,) = spool.dead()
    assert (buried.event.id, buried.reason, buried.bytes) == (event().id, "unreadable", len(data))
    assert spool.load() == Loaded(events=(event(7),))
    assert spool.revive(event().id) is None
    assert spool.drop_dead(event().id)
    assert spool.dead() == ()


@given(st.binary(max_size=200).map(b"forged-event 1\n".__add__) | st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_without_an_exception(data):
    assert isinstance(EVENT.decode(data), Event | Unreadable)


@given(st.integers(0, len(EVENT.encode(event())) - 1))
def test_no_beginning_of_an_event_is_an_event(length):
    assert EVENT.decode(EVENT.encode(event())[:length]) == Unreadable("unreadable")


@pytest.mark.parametrize(
    ("name", "data"),
    [(".event", b"forged-event 2\n?"), (".documents", b"forged-documents 2\n?")],
    ids=["event", "journal"],
)
def test_file_of_a_newer_version_stays_with_all_that_belongs_to_it(state, spool, name, data):
    spool.put(event())
    spool.journal(event().id, documents())
    plant(state, f"spool/{event().id}{name}", data)

    loaded = spool.load()

    assert (loaded.events, loaded.orphans) == ((), ())
    assert [problem.reason for problem in loaded.problems] == ["written by a newer forged (format 2)"]
    assert names(state) == {"spool": ["1.documents", "1.event"]}
    assert (state / f"spool/{event().id}{name}").read_bytes() == data


def test_file_with_fields_that_are_not_known_is_read(state, spool):
    data = EVENT.encode(event()).replace(b'{"id"', b'{"later":[1],"id"')
    plant(state, f"spool/{event().id}.event", data)

    assert spool.load() == Loaded(events=(event(),))


def test_event_whose_journal_is_damaged_is_left_to_a_person(state, spool):
    spool.put(event())
    plant(state, f"spool/{event().id}.documents", b"torn")

    loaded = spool.load()

    assert (loaded.events, loaded.orphans, len(loaded.problems)) == ((), (), 1)
    assert [(b.event, b.reason) for b in spool.dead()] == [(event(), "its journal is unreadable")]
    assert names(state) == {"spool": [], "dead": ["1.dead", "1.documents"]}
    assert spool.revive(event().id) == event()
    assert names(state) == {"spool": ["1.event"], "dead": []}


def test_damaged_journal_alone_is_set_aside(state, spool):
    plant(state, f"spool/{event().id}.documents", b"torn")

    loaded = spool.load()

    assert (loaded.orphans, [problem.reason for problem in loaded.problems]) == ((), ["unreadable"])
    assert names(state) == {"spool": [], "dead": ["1.documents"]}
    assert [buried.reason for buried in spool.dead()] == ["unreadable"]


def test_damaged_event_that_was_decided_is_finished_from_its_journal(state, spool):
    spool.journal(event().id, documents())
    plant(state, f"spool/{event().id}.event", b"torn")

    assert spool.load().orphans == (event().id,)
    assert spool.journalled(event().id) == documents()


def odd_files(state: Path) -> None:
    plant(state, "spool/notes.txt", b"mine")
    plant(state, f"spool/{event().id}.event~", b"an editor's")
    plant(state, "spool/ev_1 2.event", b"")
    plant(state, "target", EVENT.encode(event(2)))
    (state / f"spool/{event(2).id}.event").symlink_to(state / "target")
    os.mkfifo(state / f"spool/{event(3).id}.event")
    (state / f"spool/{event(4).id}.event").mkdir()
    (state / f"spool/{event(5).id}.documents").mkdir()
    os.close(os.open(os.fsencode(state / "spool") + b"/ev_\xff\xfe.event", os.O_CREAT))


def test_what_is_not_ours_is_left_alone_and_told(state, spool):
    odd_files(state)
    spool.put(event(9))
    before = sorted(os.listdir(os.fsencode(state / "spool")))

    loaded = spool.load()

    assert (loaded.events, loaded.orphans, len(loaded.problems)) == ((event(9),), (), 8)
    assert msgspec.json.encode(loaded.problems)
    assert sorted(os.listdir(os.fsencode(state / "spool"))) == before
    assert spool.dead() == ()


def test_odd_files_among_the_dead_harm_nothing(state, spool):
    odd_files(state)
    os.rename(state / "spool", state / "dead")
    (state / f"dead/{event(6).id}.dead").mkdir()
    plant(state, f"dead/{event(7).id}.dead", b"forged-dead 2\n")
    spool.put(event(6))
    spool.put(event(7))

    assert spool.load().events == (event(6), event(7))
    assert [b.event.id for b in spool.dead() if "newer" in b.reason] == [event(7).id]
    with pytest.raises(StoreError):
        spool.bury(event(7), "no")
    assert spool.load().events == (event(6), event(7))


def test_file_that_cannot_be_opened_today_stays(state, spool):
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    spool.put(event())
    (state / f"spool/{event().id}.event").chmod(0)

    assert [problem.reason for problem in spool.load().problems] == [
        "permission denied; check owner and mode of the path"
    ]
    assert names(state) == {"spool": ["1.event"]}


def test_temporary_files_of_killed_writers_are_swept_when_they_are_old(state, spool):
    spool.put(event())
    spool.bury(event(2), "no")
    for place in ("spool", "dead"):
        plant(state, f"{place}/.forged-new.tmp", b"x")
        old = plant(state, f"{place}/.forged-old.tmp", b"x")
        os.utime(old, (time.time() - 3700,) * 2)

    assert spool.load() == Loaded(events=(event(),))
    assert names(state) == {"spool": [".forged-new.tmp", "1.event"], "dead": [".forged-new.tmp", "2.dead"]}


# Kills at every system call. `A` waits from the beginning and is not concerned.

A, B = event(1), event(2)

PREPARED = """
from pathlib import Path
from tests.capture.test_spool import A, B, documents, event, spool_in
def prepare(directory):
    spool = spool_in(Path(directory))
    spool.put(A)
    {prepare}
def act(directory):
    spool = spool_in(Path(directory))
    {act}
"""


def left_by(top: Path, act: str, prepare: str = "pass") -> dict[Path, str]:
    return killed_at_every_call(PREPARED.format(act=act, prepare=prepare), top)


def places(directory: Path) -> tuple[list[Event], list[Event]]:
    """Events in the spool and among the dead after a load that had nothing to complain of."""
    spool = spool_in(directory)
    loaded = spool.load()
    assert loaded.problems == ()
    assert spool_in(directory).load() == loaded
    return [*loaded.events], [buried.event for buried in spool.dead()]


def test_put_that_is_killed_leaves_a_whole_event_or_none(tmp_path):
    left = left_by(tmp_path, "spool.put(B)")

    found = {directory: places(directory) for directory in left}
    assert all(waiting in ([A], [A, B]) and not dead for waiting, dead in found.values())
    assert found[list(left)[-1]] == ([A, B], [])
    assert {"write", "half a write", "fsync", "link", "unlink"} <= set(left.values())


def test_put_of_many_that_is_killed_leaves_whole_events(tmp_path):
    left = left_by(tmp_path, "spool.put_all([event(n) for n in (2, 3, 4)])")

    for directory in left:
        waiting, _ = places(directory)
        assert waiting == [event(n) for n in range(1, 1 + len(waiting))]
    assert len(waiting) == 4


def test_journal_that_is_killed_leaves_a_whole_journal_or_none(tmp_path):
    left = left_by(tmp_path, "spool.journal(B.id, documents())", "spool.put(B)")

    found = [spool_in(directory).journalled(B.id) for directory in left]
    assert all(journal in (None, documents()) for journal in found)
    assert found[-1] == documents()
    assert all(places(directory) == ([A, B], []) for directory in left)


def test_removal_that_is_killed_never_leaves_the_event_without_its_journal(tmp_path):
    left = left_by(tmp_path, "spool.remove(B.id)", "spool.put(B); spool.journal(B.id, documents())")

    ends = set()
    for directory in left:
        spool = spool_in(directory)
        waiting = spool.load().events
        ends.add((waiting[1:], spool.journalled(B.id)))
        assert waiting[:1] == (A,)
    assert ends == {((B,), documents()), ((), documents()), ((), None)}


DECIDED = "spool.put(B); spool.journal(B.id, documents())"


@pytest.mark.parametrize("prepare", [DECIDED, "spool.put(B)"], ids=["journalled", "plain"])
def test_burial_that_is_killed_leaves_the_event_in_one_place(tmp_path, prepare):
    left = left_by(tmp_path, "spool.bury(B, 'no')", prepare)

    found = [places(directory) for directory in left]
    assert all(place in (([A, B], []), ([A], [B])) for place in found)
    assert found[-1] == ([A], [B])
    assert_decided(left, documents() if prepare == DECIDED else None)


@pytest.mark.parametrize("prepare", [DECIDED, "spool.put(B)"], ids=["journalled", "plain"])
def test_revival_that_is_killed_leaves_the_event_in_one_place(tmp_path, prepare):
    left = left_by(tmp_path, "spool.revive(B.id)", f"{prepare}; spool.bury(B, 'no')")

    found = [places(directory) for directory in left]
    assert all(place in (([A, B], []), ([A], [B])) for place in found)
    assert found[-1] == ([A, B], [])
    assert_decided(left, documents() if prepare == DECIDED else None)


def assert_decided(left: dict[Path, str], journal: tuple[Document, ...] | None) -> None:
    """What was decided about B is with it wherever it is, and nothing is left without it."""
    for directory in left:
        spool = spool_in(directory)
        assert spool.load().orphans == ()
        spool.revive(B.id)
        assert spool.journalled(B.id) == journal


def test_burial_of_what_only_memory_held_is_whole_or_nothing(tmp_path):
    left = left_by(tmp_path, "spool.bury(B, 'no')", "spool.journal(B.id, documents())")

    found = [places(directory) for directory in left]
    assert all(place in (([A], []), ([A], [B])) for place in found)
    assert found[-1] == ([A], [B])


def test_drop_that_is_killed_leaves_the_dead_event_or_nothing(tmp_path):
    left = left_by(tmp_path, "spool.drop_dead(B.id)", "spool.bury(B, 'no')")

    assert all(places(directory) in (([A], [B]), ([A], [])) for directory in left)


@pytest.mark.parametrize(
    ("act", "prepare"),
    [("spool.bury(B, 'no')", DECIDED), ("spool.revive(B.id)", f"{DECIDED}; spool.bury(B, 'no')")],
    ids=["burial", "revival"],
)
def test_load_that_is_killed_while_it_settles_is_settled_by_the_next(tmp_path, act, prepare):
    for state in distinct(left_by(tmp_path / "first", act, prepare)):
        script = f"""
import shutil
from tests.capture.test_spool import Path, spool_in
def prepare(directory):
    shutil.copytree({str(state)!r}, directory, dirs_exist_ok=True)
def act(directory):
    spool_in(Path(directory)).load()
"""
        left = killed_at_every_call(script, tmp_path / f"second-{state.name}")
        found = [places(directory) for directory in left]
        assert all(place in (([A, B], []), ([A], [B])) for place in found)
        assert_decided(left, documents())


def distinct(left: dict[Path, str]) -> list[Path]:
    """One directory of every kind that killed children left."""
    kinds = {}
    for directory in left:
        files = {place: [n for n in listed if n[0] != "."] for place, listed in names(directory).items()}
        kinds.setdefault(repr(files), directory)
    return list(kinds.values())
