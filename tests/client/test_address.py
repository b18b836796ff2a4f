from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged_client.address import MAX_PATH_BYTES, bypassed, checked, socket_path, state_dir
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


def test_forged_socket_wins(env: dict[str, str], folder: Path) -> None:
    env |= {"FORGED_SOCKET": "/somewhere/s", "XDG_RUNTIME_DIR": str(private_directory(folder / "x"))}

    assert path_in(env, folder) == "/somewhere/s"


@pytest.mark.parametrize("chosen", ["relative/s", "@abstract", "\0abstract"])
def test_forged_socket_must_be_an_absolute_path(chosen: str) -> None:
    with pytest.raises(AddressError, match="absolute"):
        socket_path({"FORGED_SOCKET": chosen})


def test_a_private_runtime_directory_is_used(env: dict[str, str], folder: Path) -> None:
    env["XDG_RUNTIME_DIR"] = str(private_directory(folder / "x"))

    assert path_in(env, folder) == f"{folder}/x/forged/forged.sock"


def test_without_the_variable_the_systems_runtime_directory_is_used(
    env: dict[str, str], folder: Path
) -> None:
    (folder / "run").mkdir()
    mine = private_directory(folder / "run" / str(os.geteuid()))

    assert path_in(env, folder) == f"{mine}/forged/forged.sock"


def test_without_any_runtime_directory_it_is_the_state_directory(env: dict[str, str], folder: Path) -> None:
    assert path_in(env, folder) == fallback(folder)


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o500, 0o1777])
def test_a_runtime_directory_of_another_mode_is_not_used(
    env: dict[str, str], folder: Path, mode: int
) -> None:
    shared = private_directory(folder / "x")
    shared.chmod(mode)
    env["XDG_RUNTIME_DIR"] = str(shared)

    assert path_in(env, folder) == fallback(folder)


def test_a_symbolic_link_is_not_used(env: dict[str, str], folder: Path) -> None:
    private_directory(folder / "x")
    (folder / "link").symlink_to(folder / "x")

    for spelling in ("link", "link/"):
        env["XDG_RUNTIME_DIR"] = f"{folder}/{spelling}"
        assert path_in(env, folder) == fallback(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_not_used(env: dict[str, str], folder: Path) -> None:
    other = private_directory(folder / "x")
    os.chown(other, 12345, 12345)
    env["XDG_RUNTIME_DIR"] = str(other)

    assert path_in(env, folder) == fallback(folder)


@pytest.mark.parametrize("runtime", ["", "relative", "/does/not/exist", "/dev/null"])
def test_an_unusable_runtime_directory_is_passed_over(
    env: dict[str, str], folder: Path, runtime: str
) -> None:
    env["XDG_RUNTIME_DIR"] = runtime

    assert path_in(env, folder) == fallback(folder)


def test_a_path_above_the_limit_is_refused_with_what_to_do() -> None:
    longest = "/" + "x" * (MAX_PATH_BYTES - 1)

    assert checked(longest) == longest
    with pytest.raises(AddressError, match="FORGED_SOCKET"):
        checked(longest + "x")


def test_the_limit_counts_bytes() -> None:
    with pytest.raises(AddressError):
        checked("/" + "é" * (MAX_PATH_BYTES // 2 + 1))


def test_a_relative_state_home_is_ignored(folder: Path) -> None:
    state = state_dir({"HOME": str(folder), "XDG_STATE_HOME": "state"})

    assert state.startswith(f"{folder}/")
    assert state.endswith("/forged")


def test_without_home_the_user_database_is_asked() -> None:
    import pwd

    assert state_dir({}).startswith(pwd.getpwuid(os.getuid()).pw_dir)


@pytest.mark.parametrize("value", ["1", "yes", "true", "anything", "00", " 1 "])
def test_any_value_is_a_bypass(value: str) -> None:
    assert bypassed({"FORGED_BYPASS": value})


@pytest.mark.parametrize(
    "env", [{}, *({"FORGED_BYPASS": off} for off in ("", " ", "0", "false", "FALSE", "No"))]
)
def test_without_a_value_or_with_one_that_says_no_there_is_no_bypass(env: dict[str, str]) -> None:
    assert not bypassed(env)


def test_the_processs_own_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGED_BYPASS", "1")

    assert bypassed()
