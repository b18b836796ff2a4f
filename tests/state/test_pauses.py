"""A pause holds at once and for ever; every doubt is decided for it."""

from __future__ import annotations

import logging
import os

import pytest

from forged.errors import StoreError
from forged.state.pauses import Pauses
from tests.support import syscalls
from tests.support.syscalls import needs_seccomp

REPO, OTHER, HOME = "/w/repo", "/w/other", "/home/me"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "paused.json"


@pytest.fixture
def pauses(path):
    return Pauses(str(path))


def again(path):
    return Pauses(str(path))


def test_without_a_file_nothing_is_paused(pauses, path):
    assert (pauses.reason((REPO, HOME)), pauses.listed()) == ("", ())
    assert not path.exists()


def test_a_paused_repo_stops_those_who_see_it_and_nobody_else(pauses):
    pauses.set(REPO, True)

    assert pauses.reason((REPO, HOME)) == "paused; `forgectl resume` ends it"
    assert pauses.reason((OTHER, HOME)) == ""
    assert pauses.reason(()) == ""
    assert pauses.listed() == (REPO,)


def test_paused_everywhere_stops_everybody(pauses):
    pauses.set(None, True)

    assert pauses.reason((REPO, HOME)) == "paused everywhere; `forgectl resume --all` ends it"
    assert pauses.reason(()) != ""
    assert pauses.listed() == ("*",)


def test_pauses_survive_a_restart(pauses, path):
    pauses.set(REPO, True)
    pauses.set(OTHER, True)
    pauses.set(None, True)
    assert again(path).listed() == ("*", OTHER, REPO)

    pauses.set(None, False)
    pauses.set(OTHER, False)
    assert again(path).listed() == (REPO,)


def test_resuming_everywhere_leaves_a_repo_paused_that_was_paused_by_name(pauses):
    pauses.set(REPO, True)
    pauses.set(None, True)

    pauses.set(None, False)

    assert pauses.listed() == (REPO,)


def test_resuming_a_repo_does_not_end_a_pause_of_everything(pauses):
    pauses.set(None, True)
    pauses.set(REPO, False)

    assert pauses.reason((REPO,)) != ""


def test_resuming_what_is_not_paused_changes_nothing(pauses):
    pauses.set(REPO, False)
    pauses.set(None, False)

    assert pauses.listed() == ()


def test_the_file_is_private_and_alone(pauses, path):
    for paused in (True, False, True):
        pauses.set(REPO, paused)

    assert os.listdir(path.parent) == ["paused.json"]
    assert path.stat().st_mode & 0o777 == 0o600


DAMAGED = [
    b"",
    b"{",
    b"{}",
    b"[]",
    b"\xff",
    b'{"tops":["/w"]}',
    b'{"everywhere":false}',
    b'{"everywhere":"no","tops":[]}',
    b'{"x":' + b"[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: content[:30].decode(errors="replace"))
def test_a_damaged_file_means_paused_everywhere_and_the_reason_says_how_to_mend_it(path, caplog, content):
    path.parent.mkdir()
    path.write_bytes(content)

    doubtful = again(path)

    assert doubtful.listed() == ("*",)
    assert str(path) in doubtful.reason((REPO,))
    assert "`forgectl resume --all` ends it" in doubtful.reason(())
    assert path.read_bytes() == content  # or the next start would know nothing of the doubt
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_file_that_cannot_be_read_means_paused_everywhere(path):
    path.mkdir(parents=True)

    assert f"{path} cannot be read" in again(path).reason((REPO,))


def test_resuming_everywhere_mends_a_damaged_file(path):
    path.parent.mkdir()
    path.write_bytes(b"{")
    doubtful = again(path)

    doubtful.set(None, False)

    assert (doubtful.listed(), again(path).listed()) == ((), ())


def test_a_change_to_one_repo_leaves_the_doubt_about_everything(path):
    path.parent.mkdir()
    path.write_bytes(b"{")
    doubtful = again(path)

    doubtful.set(REPO, False)

    assert str(path) in doubtful.reason((REPO,))
    assert again(path).listed() == ("*",)


def unwritable(pauses, path):
    path.unlink()
    path.mkdir()
    return pauses


def test_a_pause_that_cannot_be_written_holds_all_the_same_and_says_so(pauses, path):
    pauses.set(OTHER, True)

    with pytest.raises(StoreError, match="paused only until the daemon ends") as caught:
        unwritable(pauses, path).set(REPO, True)

    assert str(path) in str(caught.value)
    assert pauses.reason((REPO,)) != ""


def test_a_resumption_that_cannot_be_written_does_not_happen(pauses, path):
    pauses.set(REPO, True)

    with pytest.raises(StoreError, match="still paused"):
        unwritable(pauses, path).set(REPO, False)

    assert pauses.reason((REPO,)) != ""


SET = """
import errno, sys
from forged.state.pauses import Pauses
from tests.support.syscalls import fail
pauses = Pauses(sys.argv[1])
fail(fsync=errno.EIO)
try:
    pauses.set("/w/repo", False)
except Exception as error:
    sys.stdout.write(f"{type(error).__name__} {pauses.listed()}")
"""


@needs_seccomp
def test_a_disk_that_refuses_to_sync_is_a_failed_write(pauses, path):
    pauses.set(REPO, True)

    child = syscalls.run(SET, str(path))

    assert child.stdout == f"StoreError {(REPO,)}", child.stderr
    assert again(path).listed() == (REPO,)
