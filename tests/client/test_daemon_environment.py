"""A hostile environment of a client, and the environment that a started program really gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from forged_client.autostart import prepare_start
from forged_client.dial import Deadline
from forged_client.errors import DaemonUnavailable
from tests.support.clock import PATIENCE_S
from tests.support.shebang import shebang

_PROGRAM = """{shebang} -I
with open("/proc/self/environ") as given, open({seen!r}, "w") as seen:
    seen.write(given.read())
"""
# Each is set alone; none may arrive.
_DROPPED = {
    "a setting": ("FORGED_MEMORY__EMBEDDING_BASE_URL", "http://127.0.0.1:1"),
    "another setting": ("FORGED_LLM__API_KEY", "k"),
    "a program": ("FORGED_EXECUTABLE", "{clone}/tools/run"),
    "bypass": ("FORGED_BYPASS", "1"),
    "a key": ("OPENAI_API_KEY", "sk-x"),
    "an endpoint": ("OPENAI_BASE_URL", "http://127.0.0.1:1"),
    "Python's path": ("PYTHONPATH", "{clone}"),
    "Python's home": ("PYTHONHOME", "{clone}"),
    "Python's start": ("PYTHONSTARTUP", "{clone}/a.py"),
    "a library": ("LD_PRELOAD", "{clone}/a.so"),
    "libraries": ("LD_LIBRARY_PATH", "{clone}"),
    "libraries of macOS": ("DYLD_INSERT_LIBRARIES", "{clone}/a.dylib"),
    "git": ("GIT_DIR", "{clone}/.git"),
    "git's configuration": ("GIT_CONFIG_GLOBAL", "{clone}/config"),
    "a shell's start": ("BASH_ENV", "{clone}/env"),
    "a proxy": ("HTTPS_PROXY", "http://127.0.0.1:1"),
    "certificates": ("SSL_CERT_FILE", "{clone}/ca.pem"),
    "a message bus": ("DBUS_SESSION_BUS_ADDRESS", "unix:path={clone}/bus"),
    "an inherited socket": ("LISTEN_FDS", "1"),
    "temporary files": ("TMPDIR", "{clone}"),
    "a zone that is a path": ("TZ", "{clone}/zone"),
    "a zone's file": ("TZ", ":zone"),
    "a zone out of its folder": ("TZ", "Europe/../../zone"),
    "a locale that is a path": ("LANG", "{clone}/locale"),
    "configuration of this clone": ("XDG_CONFIG_HOME", "{clone}/config"),
    "configuration of another clone": ("XDG_CONFIG_HOME", "{other}/config"),
    "state of a clone": ("XDG_STATE_HOME", "{clone}/state"),
    "a relative folder": ("XDG_CONFIG_HOME", "config"),
    "a folder by way of one above": ("XDG_CONFIG_HOME", "{clone}/../fine"),
    "a link into a clone": ("XDG_CONFIG_HOME", "{folder}/into"),
    "a link out of a clone": ("XDG_CONFIG_HOME", "{clone}/out"),
    "a link to nothing": ("XDG_CONFIG_HOME", "{folder}/dangling"),
    "a loop of links": ("XDG_CONFIG_HOME", "{folder}/loop/x"),
    "a file": ("XDG_CONFIG_HOME", "{folder}/program"),
    "a folder that others can write": ("XDG_CONFIG_HOME", "{shared}"),
    "a folder below one that others can write": ("XDG_CONFIG_HOME", "{shared}/mine"),
    "a new folder where others can make it first": ("XDG_CONFIG_HOME", "/tmp/forged-nobody-made-this"),
    "runtime of all": ("XDG_RUNTIME_DIR", "{shared}"),
    "no folder at all": ("XDG_SESSION_TYPE", "wayland"),
    "programs of a clone": ("PATH", "{clone}/bin:.::bin:{other}/bin:{shared}:{folder}/into"),
}
_KEPT = {
    "configuration of mine": ("XDG_CONFIG_HOME", "{folder}/fine", "{folder}/fine"),
    "one that is not there yet": ("XDG_DATA_HOME", "{home}/later/data", "{home}/later/data"),
    "one by a link of mine": ("XDG_CACHE_HOME", "{folder}/to-fine", "{folder}/to-fine"),
    "a list of root's folders": ("XDG_DATA_DIRS", "/usr/share:{clone}/share", "/usr/share"),
    "a zone": ("TZ", "America/Los_Angeles", "America/Los_Angeles"),
    "a rule of a zone": ("TZ", "<+0545>-5:45", "<+0545>-5:45"),
    "a locale": ("LANG", "de_DE.UTF-8@euro", "de_DE.UTF-8@euro"),
    "programs": ("PATH", "{clone}/bin:{folder}/fine::/usr/bin:{shared}:/bin", "{folder}/fine:/usr/bin:/bin"),
}
_REFUSED = {
    "in this clone": ("{clone}/home", "it is in the git work tree {clone};"),
    "this clone": ("{clone}", "it is in the git work tree {clone};"),
    "in another clone": ("{other}/home", "it is in the git work tree {other};"),
    "a work tree's .git is a file": ("{folder}/linked/home", "it is in the git work tree {folder}/linked;"),
    "a link into a clone": ("{folder}/into", "it is in the git work tree {clone};"),
    "a link out of a clone": ("{clone}/out", "it is in the git work tree {clone};"),
    "relative": ("home", "it is not a plain absolute path;"),
    "others can write there": ("{shared}", "others can write to {shared};"),
    "others can make it first": (
        "/tmp/forged-nobody-made-this",
        "others can write to /tmp;",
    ),
}

Given = Callable[[Mapping[str, str]], dict[str, str]]


@pytest.fixture
def places(folder: Path) -> dict[str, str]:
    """Two clones, a home, and links and folders of all kinds."""
    for name in ("clone", "other"):
        for below in (".git", "home", "config", "state", "bin", "share"):
            (folder / name / below).mkdir(parents=True)
    for name in ("home", "fine", "linked/home", "shared/mine"):
        (folder / name).mkdir(parents=True)
    (folder / "linked/.git").write_text("gitdir: /elsewhere\n")
    (folder / "shared").chmod(0o777)
    links = {
        "into": "clone/home",
        "clone/out": "../fine",
        "dangling": "none",
        "loop": "loop",
        "to-fine": "fine",
    }
    for link, target in links.items():
        (folder / link).symlink_to(target)
    (folder / "program").write_text(_PROGRAM.format(shebang=shebang(folder), seen=f"{folder}/seen"))
    (folder / "program").chmod(0o755)
    named = {name: str(folder / name) for name in ("clone", "other", "home", "shared")}
    return {**named, "folder": str(folder)}


@pytest.fixture
def given(places: dict[str, str], socket_file: str) -> Given:
    """Return the environment of a really started program for a client's environment."""

    def start_with(env: Mapping[str, str]) -> dict[str, str]:
        executable = f"{places['folder']}/program"
        starting = prepare_start(socket_file, executable, Deadline(20), env=env, systemctl=("/none",))
        starting.proceed()
        assert starting._process is not None
        assert starting._process.wait(PATIENCE_S) == 0
        variables = Path(places["folder"], "seen").read_text().split("\0")
        return dict(variable.partition("=")[::2] for variable in variables if variable)

    return start_with


@pytest.mark.parametrize(("name", "value"), _DROPPED.values(), ids=_DROPPED)
def test_nothing_reaches_a_started_daemon_but_folders_of_ours(places, given, socket_file, name, value):
    env = {"HOME": places["home"], name: value.format(**places)}

    assert given(env) == {"HOME": places["home"], "FORGED_SOCKET": socket_file}


@pytest.mark.parametrize("which", _KEPT)
def test_folders_of_ours_outside_every_clone_reach_it(places, given, socket_file, which):
    name, value, left = _KEPT[which]
    env = {"HOME": places["home"], name: value.format(**places)}

    expected = {"HOME": places["home"], "FORGED_SOCKET": socket_file, name: left.format(**places)}
    assert given(env) == expected


def test_a_user_whom_the_user_database_does_not_know_has_the_home_of_home(places, given, monkeypatch):
    """As in a container that was started with a number for its user."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)

    assert given({"HOME": places["home"]})["HOME"] == places["home"]


def test_a_home_that_is_kept_in_git_is_a_home_and_what_was_cloned_into_it_is_none(places, given, monkeypatch):
    Path(places["home"], ".git").mkdir()
    with pytest.raises(DaemonUnavailable, match="git work tree"):
        given({"HOME": places["home"]})
    Path(places["home"], "clone/.git").mkdir(parents=True)
    monkeypatch.setattr("forged_client.daemon_environment.home", lambda _: places["home"])

    kept = given({"HOME": places["home"], "XDG_CONFIG_HOME": f"{places['home']}/.config"})

    assert kept["XDG_CONFIG_HOME"] == f"{places['home']}/.config"
    with pytest.raises(DaemonUnavailable, match="git work tree"):
        given({"HOME": f"{places['home']}/clone"})


@pytest.mark.parametrize(("home", "reported"), _REFUSED.values(), ids=_REFUSED)
def test_a_home_that_would_be_dropped_is_refused_and_nothing_starts(places, given, home, reported):
    with pytest.raises(DaemonUnavailable) as refused:
        given({"HOME": home.format(**places), "XDG_STATE_HOME": f"{places['folder']}/fine"})

    sentence = str(refused.value)
    assert sentence.startswith(
        f"cannot start the daemon: HOME ({home.format(**places)}) must be a folder that only "
    )
    assert reported.format(**places) in sentence
    assert sentence.endswith("; set HOME to your own home directory, or run `forged serve` yourself")
    assert not Path(places["folder"], "seen").exists()
    assert os.listdir(places["folder"] + "/fine") == []


@pytest.mark.parametrize("where", ["{clone}/s", "{clone}/new/s", "{folder}/into/s", "{shared}/s", "/tmp/s"])
def test_a_socket_that_would_be_dropped_is_refused_and_nothing_starts(places, where):
    address = where.format(**places)

    with pytest.raises(DaemonUnavailable, match=r"the folder of the socket .*; set FORGED_SOCKET to"):
        prepare_start(
            address, f"{places['folder']}/program", Deadline(20), env={"HOME": places["home"]}
        ).proceed()

    assert not Path(places["folder"], "seen").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folders_of_another_user_do_not_count(places, given):
    foreign = Path(places["folder"], "foreign")
    (foreign / "mine").mkdir(parents=True)
    os.chown(foreign, 12345, 12345)

    env = {"HOME": places["home"], "XDG_CONFIG_HOME": str(foreign), "XDG_DATA_HOME": f"{foreign}/mine"}
    assert set(given(env)) == {"HOME", "FORGED_SOCKET"}
    with pytest.raises(DaemonUnavailable, match="belongs to another user"):
        given({"HOME": f"{foreign}/mine"})


def test_the_service_manager_is_asked_with_no_more(places, folder, socket_file):
    runtime = folder / "r"
    runtime.mkdir(mode=0o700)
    units = folder / "home/.config/systemd/user"
    units.mkdir(parents=True)
    (units / "forged.socket").write_text("[Socket]\n")
    env = {name: value.format(**places) for name, value in _DROPPED.values()}
    env |= {"HOME": places["home"], "XDG_RUNTIME_DIR": str(runtime)}

    address = f"{runtime}/forged/forged.sock"
    prepare_start(address, None, Deadline(20), env=env, systemctl=(f"{folder}/program",)).proceed()

    given = Path(places["folder"], "seen").read_text().split("\0")
    assert sorted(filter(None, given)) == [f"HOME={places['home']}", f"XDG_RUNTIME_DIR={runtime}"]
