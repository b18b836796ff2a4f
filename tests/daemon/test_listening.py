"""One daemon per address, and an address that is ours alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from forged.daemon import listening
from forged.daemon.listening import AddressUnusable, AlreadyRunning
from forged_client.address import checked
from forged_client.dial import try_connect
from forged_client.errors import AddressError, DaemonAbsent, DaemonUnavailable


@pytest.fixture
def directory():
    """A short path: socket names have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="fg") as path:
        yield Path(path)


@pytest.fixture(params=["short", "longer than an address"])
def path(request, directory):
    return str(directory / ("s" if request.param == "short" else "ü" * 100) / "forged.sock")


@pytest.fixture
def held(path):
    descriptor = listening.lock(path)
    yield descriptor
    os.close(descriptor)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


# --- the directory ------------------------------------------------------------------------------------


def test_the_directory_is_made_for_us_alone_under_any_umask(directory):
    before = os.umask(0)
    try:
        listening.ensure_private_directory(str(directory / "a"))
    finally:
        os.umask(before)

    assert mode(directory / "a") == 0o700


@pytest.mark.parametrize("open_to_others", [0o750, 0o705, 0o777, 0o710])
def test_a_directory_that_is_open_to_others_is_refused_with_what_to_do(directory, open_to_others):
    (directory / "a").mkdir()
    (directory / "a").chmod(open_to_others)

    with pytest.raises(AddressUnusable, match=f"chmod 700 {directory}/a"):
        listening.ensure_private_directory(str(directory / "a"))


@pytest.mark.parametrize("socket_obstacle", ["file", "link", "dangling link", "file above"])
def test_what_is_no_directory_is_refused_with_what_to_do(directory, socket_obstacle):
    place = directory / "a"
    if socket_obstacle == "link":
        (directory / "real").mkdir(mode=0o700)
        place.symlink_to(directory / "real")
    elif socket_obstacle == "dangling link":
        place.symlink_to(directory / "nowhere")
    else:
        place.write_text("")
    asked = place / "below" if socket_obstacle == "file above" else place

    with pytest.raises(AddressUnusable, match="FORGED_SOCKET"):
        listening.ensure_private_directory(str(asked))


# --- the lock -----------------------------------------------------------------------------------------


def test_a_second_lock_names_who_has_the_first_and_leaves_it_alone_until_it_is_closed(path):
    held = listening.lock(path)
    assert not os.get_inheritable(held), "children do not hold it"
    for _ in range(3):
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"):
            listening.lock(path)
    os.close(held)

    os.close(listening.lock(path))


# --- the socket ---------------------------------------------------------------------------------------


def test_the_socket_is_closed_to_others_under_any_umask_and_the_umask_stays(path, held):
    before = os.umask(0)
    try:
        listening.bind(path).close()
        assert os.umask(0) == 0
    finally:
        os.umask(before)

    assert mode(path) & 0o077 == 0


@pytest.mark.parametrize("kind", ["a directory", "a symbolic link", "a named pipe", "a file"])
def test_what_no_daemon_left_is_not_replaced(path, held, kind):
    make = {
        "a directory": os.mkdir,
        "a symbolic link": lambda place: os.symlink("nowhere", place),
        "a named pipe": os.mkfifo,
        "a file": lambda place: Path(place).write_text("somebody's"),
    }
    make[kind](path)
    before = os.lstat(path)

    with pytest.raises(AddressUnusable, match=f"{path} is {kind}, not a socket: remove it, or set"):
        listening.bind(path)
    assert os.lstat(path).st_ino == before.st_ino


@pytest.mark.parametrize("odd", ["~", ".lock"])
def test_a_directory_under_a_name_that_the_daemon_needs_is_a_sentence(directory, odd):
    path = str(directory / "s" / "forged.sock")
    (directory / "s").mkdir(mode=0o700)
    os.mkdir(f"{path[:-1]}~" if odd == "~" else f"{path}{odd}")

    with pytest.raises(AddressUnusable, match="set FORGED_SOCKET to another place"):
        listening.bind(path) if odd == "~" else listening.lock(path)


def test_a_bind_that_fails_leaves_the_umask_as_it_was(directory):
    before = os.umask(0o022)
    try:
        with pytest.raises(AddressUnusable):
            listening.bind(str(directory / "nowhere" / "forged.sock"))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


# --- is it still ours? --------------------------------------------------------------------------------


def test_identity_tells_our_socket_from_none_and_from_another(path, held):
    assert listening.identity(path) is None
    with listening.bind(path):
        ours = listening.identity(path)
        with listening.bind(path):
            assert ours is not None
            assert listening.identity(path) not in (None, ours)
    os.unlink(path)
    assert listening.identity(path) is None


# --- a path that no address holds ----------------------------------------------------------------------


@pytest.fixture
def long(directory):
    return str(directory / ("ü" * 100) / "forged.sock")


def _descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


def test_a_thousand_connections_leave_no_descriptor_open(long):
    os.close(listening.lock(long))
    before = _descriptors()
    with listening.bind(long) as server:
        for _ in range(1000):
            try_connect(long).close()
            server.accept()[0].close()
    with pytest.raises(DaemonAbsent):
        try_connect(long)

    assert _descriptors() == before


def _open_to_others(folder: Path) -> None:
    folder.chmod(0o750)


def _of_another_user(folder: Path) -> None:
    os.chown(folder, 12345, 12345)


def _a_link(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


@pytest.mark.parametrize("spoil", [_open_to_others, _of_another_user, _a_link])
def test_a_directory_that_is_not_ours_alone_is_neither_bound_in_nor_connected_to(long, spoil):
    if spoil is _of_another_user and os.geteuid() != 0:
        pytest.skip("only root gives a directory away")
    os.close(listening.lock(long))
    listening.bind(long).close()
    spoil(Path(long).parent)
    before = _descriptors()
    with pytest.raises(DaemonUnavailable) as client:
        try_connect(long)
    with pytest.raises(AddressUnusable, match="FORGED_SOCKET"):
        listening.bind(long)

    assert isinstance(client.value, DaemonAbsent) == (spoil is _a_link)
    assert _descriptors() == before


def test_a_path_is_refused_where_nothing_shortens_it_and_where_even_that_does_not_help(long, monkeypatch):
    assert checked(long) == long
    for other, reported in ((f"/{'a' * 4000}", "may have 4000"), (f"{long}{'x' * 90}", "name has 101 bytes")):
        with pytest.raises(AddressError, match=reported):
            checked(other)

    monkeypatch.setattr("forged_client.address._DESCRIPTORS", "/nowhere/fd")
    with pytest.raises(AddressError, match="may have 107, as there is no /proc/self/fd: set FORGED_SOCKET"):
        checked(long)
