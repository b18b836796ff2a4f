"""Root in a container works in a person's repository; outside, the person's forged goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL, Shell, running

pytestmark = pytest.mark.long

UID, GID = 12345, 23456
PERSON = ("setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups")


def _way_to_run() -> tuple[str, ...] | None:
    """What the person says before forgectl, which may lie where only root can read; None: they cannot run it.

    With the capability to read everything they still write as the person alone.
    """
    starts = "import subprocess, sys; subprocess.run([sys.executable, '--version'], check=True)"
    caps = "+dac_read_search"
    for way in (PERSON, (*PERSON, f"--inh-caps={caps}", f"--ambient-caps={caps}")):
        command = [*way, sys.executable, "-c", starts]
        done = subprocess.run(command, capture_output=True, check=False, env={"HOME": "/"})
        if done.returncode == 0:
            return way
    return None


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A person's HOME with a repository in it, in a folder that everybody may enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    with tempfile.TemporaryDirectory(prefix="fo") as name:
        os.chmod(name, 0o755)
        home = Path(name, "person")
        (home / "repo").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(home / "repo")], check=True)
        subprocess.run(["chown", "-R", f"{UID}:{GID}", str(home)], check=True)
        yield home


def _person(home: Path, *command: str, way: Sequence[str] = PERSON) -> str:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(
        [*way, *command],
        cwd=home / "repo",
        env={**env, "FORGED_SOCKET": f"{home}/run/forged.sock"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def test_what_roots_daemon_kept_is_the_persons_to_commit_and_to_change(home, theirs):
    repo = theirs / "repo"
    with running(home) as daemon, daemon.client() as client:
        kept = client.remember(str(repo), "Releases are cut with make dist.")
        report = client.status(str(repo))
    path = Path(kept.path)
    _person(theirs, "git", "add", "-f", ".forge")
    _person(theirs, "sh", "-ec", f"echo '- and signed' >> {path}; cp {path} {path}.md; rm {path}.md")

    assert _person(theirs, "git", "ls-files", ".forge").strip() == str(path.relative_to(repo))
    assert [root.owner for root in report.roots] == ["", ""]


def test_status_of_roots_daemon_names_what_it_may_not_give_away(home, theirs):
    """A folder that root made before; the write stands, and what is new is the person's."""
    repo = theirs / "repo"
    (repo / ".forge").mkdir(mode=0o700)
    with running(home) as daemon, daemon.client() as client:
        kept = client.remember(str(repo), "Releases are cut with make dist.")
        reported = Shell(home, daemon.socket, repo).run("status", "--all").out
        doctor = Shell(home, daemon.socket, repo).run("doctor").out

    assert os.lstat(kept.path).st_uid == UID
    assert f"owner: {repo}/.forge belongs to root, not to user {UID}" in reported
    assert f"chown -R {UID}:{GID} {repo}/.forge" in doctor


def test_a_forged_of_the_person_goes_on_where_roots_wrote(home, theirs):
    way = _way_to_run()
    if way is None:
        pytest.skip("this checkout or its interpreter lies where only root can read it")
    repo = theirs / "repo"
    with running(home) as daemon, daemon.client() as client:
        client.remember(str(repo), "Releases are cut with make dist.")
    try:
        _person(theirs, FORGECTL, "remember", "Releases are signed with minisign.", way=way)
        _person(theirs, FORGECTL, "trust", "--yes", way=way)
        listed = eventually(
            lambda: found if "make dist" in (found := _person(theirs, FORGECTL, "list", way=way)) else "",
            PATIENCE_S,
        )
    finally:
        _person(theirs, FORGECTL, "stop", way=way)

    assert "minisign" in listed
    assert {os.lstat(path).st_uid for path in (repo / ".forge").rglob("*")} == {UID}
