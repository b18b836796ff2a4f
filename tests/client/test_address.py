from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged_client.address import MAX_PATH_BYTES, checked, is_bypassed, socket_path
from forged_client.errors import AddressError


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state")}


def private_directory(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def path_in(env: dict[str, str], folder: Path) -> str:
    return socket_path(env, run_user=str(folder / "run"))


def fallback(folder: Path) -> str:
    return f"{folder}/state/forged/run/forged.sock"


@pytest.mark.parametrize("chosen", ["relative/s", "@abstract", "\0abstract"])
def test_forged_socket_must_be_an_absolute_path(chosen):
    with pytest.raises(AddressError, match="absolute"):
        socket_path({"FORGED_SOCKET": chosen})


def test_a_private_runtime_directory_is_used_the_variables_before_the_systems(env, folder):
    assert path_in(env, folder) == fallback(folder)

    (folder / "run").mkdir()
    mine = private_directory(folder / "run" / str(os.geteuid()))
    assert path_in(env, folder) == f"{mine}/forged/forged.sock"

    env["XDG_RUNTIME_DIR"] = str(private_directory(folder / "x"))
    assert path_in(env, folder) == f"{folder}/x/forged/forged.sock"


def test_a_runtime_directory_that_others_may_reach_or_that_is_none_is_not_used(env, folder):
    directory = private_directory(folder / "x")
    (folder / "link").symlink_to(directory)

    for runtime in ("", "relative", "/does/not/exist", "/dev/null", f"{folder}/link", f"{folder}/link/"):
        env["XDG_RUNTIME_DIR"] = runtime
        assert path_in(env, folder) == fallback(folder)
    for mode in (0o777, 0o755, 0o710, 0o500, 0o1777):
        directory.chmod(mode)
        env["XDG_RUNTIME_DIR"] = str(directory)
        assert path_in(env, folder) == fallback(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_not_used(env, folder):
    other = private_directory(folder / "x")
    os.chown(other, 12345, 12345)
    env["XDG_RUNTIME_DIR"] = str(other)

    assert path_in(env, folder) == fallback(folder)


def test_a_path_above_the_limit_of_bytes_is_refused_with_what_to_do():
    longest = "/" + "x" * (MAX_PATH_BYTES - 1)

    assert checked(longest) == longest
    for path in (longest + "x", "/" + "é" * (MAX_PATH_BYTES // 2 + 1)):
        with pytest.raises(AddressError, match="FORGED_SOCKET"):
            checked(path)


def test_any_value_that_does_not_say_no_is_a_bypass(monkeypatch):
    yes, no = ("1", "yes", "true", "anything", "00", " 1 "), ("", " ", "0", "false", "FALSE", "No")

    assert all(is_bypassed({"FORGED_BYPASS": value}) for value in yes)
    assert not any(is_bypassed({"FORGED_BYPASS": value}) for value in no)
    assert not is_bypassed({})
    monkeypatch.setenv("FORGED_BYPASS", "1")
    assert is_bypassed()
