"""Files that root makes in another user's folder belong to that user."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forged.cli.configuration import _write_new
from forged.cli.exporting import _write_text
from forged.cli.ui.verb import _write_page
from forged.files import MemoryStore, Root, atomic, make_org_root, root_of_agent, root_owned_files, scan
from forged.importing import export, read_root
from forged.memory import Scope
from tests.data.memories import memory

UID, GID = 12345, 23456
CHECKOUT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository of a person who is not root, whom nothing keeps from entering it."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if str(folder) not in {"/", "/tmp"}:
            folder.chmod(folder.stat().st_mode | 0o055)
    place = tmp_path / "repo"
    place.mkdir()
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    subprocess.run(["chown", "-R", f"{UID}:{GID}", str(place)], check=True)
    return place


@pytest.fixture(params=["without a name", "named"])
def files(request, monkeypatch):
    """Both ways to write a file before it has its name."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", 0)


def owner(path: Path | str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_uid, found.st_gid


def owners(top: Path) -> set[tuple[int, int]]:
    return {owner(path) for path in top.rglob("*") if ".git" not in path.parts}


def as_person(top: Path, script: str) -> None:
    """What the person does there at a shell."""
    env = {"PATH": os.environ["PATH"], "HOME": str(top)}
    ids = {"user": UID, "group": GID, "extra_groups": []}
    subprocess.run(["/bin/sh", "-ec", script], cwd=top, env=env, check=True, **ids)


def store(top: Path, scope: Scope = Scope.REPO) -> MemoryStore:
    return MemoryStore(Root(str(top), scope))


def test_the_person_reads_adds_edits_and_deletes_what_root_wrote(top, files):
    for number in range(2):  # the second one on the way that is known
        store(top).write(memory(f"mem_{number}", "text"))
    as_person(top, "cat .forge/memory/mem_0.md; git add .forge; git ls-files --error-unmatch .forge")
    as_person(top, "echo more >> .forge/memory/mem_0.md; rm -r .forge/memory; mkdir .forge/memory")

    assert owners(top) == {(UID, GID)}


def _writes(top: Path) -> None:
    store(top).write(memory("mem_a", "text"))


def _puts_back(top: Path) -> None:
    store(top).put_back(".forge/memories", "old.md", b"text")


def _user(top: Path) -> None:
    store(top, Scope.USER).write(memory("mem_a", "text"))


def _agent(top: Path) -> None:
    MemoryStore(root_of_agent(str(top), "codex", make=True)).write(memory("mem_a", "text"))


def _org(top: Path) -> None:
    MemoryStore(make_org_root(str(top))).write(memory("mem_a", "text"))


def _exports(top: Path) -> None:
    source = top.parent / "source"
    (source / ".forge/memory").mkdir(parents=True, exist_ok=True)
    (source / ".forge/memory/one.md").write_text("text")
    for _ in range(2):
        export(str(top / "docs/out"), (read_root(str(source), "repo"),), replace=True)


def _exports_json(top: Path) -> None:
    _write_text(str(top / "all.json"), "{}", force=False)


def _page(top: Path) -> None:
    _write_page(str(top / "pages/ui.html"), b"page")


def _configuration(top: Path) -> None:
    _write_new(top / ".config/forged/config.toml", "[memory]\n")


WRITERS = (_writes, _puts_back, _user, _agent, _org, _exports, _exports_json, _page, _configuration)


@pytest.mark.parametrize("write", WRITERS)
def test_whatever_root_makes_there_is_the_owners(top, files, write):
    write(top)

    assert owners(top) == {(UID, GID)}
    assert owner(top.parent) == (0, 0)


@pytest.mark.parametrize("write", WRITERS)
def test_where_root_owns_the_top_all_stays_roots(tmp_path, write):
    (tmp_path / "repo").mkdir()
    write(tmp_path / "repo")

    assert owners(tmp_path / "repo") == {(0, 0)}


def test_a_changed_link_keeps_its_owner_and_its_mode(top):
    path = store(top).write(memory("mem_a", "text"))
    os.chmod(path, 0o4644)
    digest = atomic.hashlib.sha256(Path(path).read_bytes()).hexdigest()
    store(top).rewrite(path, b"other", expected=digest)

    assert owner(path) == (UID, GID)
    assert os.stat(path).st_mode & 0o7777 == 0o644  # no set-user bit on what another user may have put there


def test_a_folder_of_roots_that_was_there_stays_as_it_is_and_status_says_whose_it_is(top):
    (top / ".forge").mkdir(mode=0o700)
    path = store(top).write(memory("mem_a", "text"))

    assert owner(top / ".forge") == (0, 0)
    assert owner(path) == owner(top / ".forge/memory") == (UID, GID)
    assert f"{top}/.forge belongs to root, not to user {UID}" in root_owned_files(Root(str(top), Scope.REPO))


def test_a_link_within_the_repository_is_followed_and_what_it_leads_to_keeps_its_owner(top):
    (top / "sub").mkdir()
    (top / "sub/mine").write_text("root's")
    (top / ".forge").symlink_to("sub")
    store(top).write(memory("mem_a", "text"))

    assert owner(top / "sub") == owner(top / "sub/mine") == (0, 0)
    assert owner(top / "sub/memory") == owner(top / "sub/memory/mem_a.md") == (UID, GID)


def test_a_link_that_leads_out_gives_nothing_away(top, tmp_path):
    (tmp_path / "outside").mkdir()
    (top / ".forge").symlink_to(tmp_path / "outside")
    with pytest.raises(atomic.StoreError, match="leads out"):
        _writes(top)

    assert owner(tmp_path / "outside") == (0, 0)
    assert list((tmp_path / "outside").iterdir()) == []


def _a_link(top: Path, away: Path) -> None:
    (top / ".forge").symlink_to(away)


def _a_full_folder(top: Path, away: Path) -> None:
    away.rename(top / ".forge")


def _a_folder_of_a_third_user(top: Path, _: Path) -> None:
    (top / ".forge").mkdir(mode=0o700)
    os.chown(top / ".forge", 999, 999)


def _an_open_folder(top: Path, _: Path) -> None:
    (top / ".forge").mkdir()
    (top / ".forge").chmod(0o755)


@pytest.mark.parametrize("swap", [_a_link, _a_full_folder, _a_folder_of_a_third_user, _an_open_folder])
def test_what_is_swapped_in_after_a_folder_was_made_is_not_given_away(top, tmp_path, monkeypatch, swap):
    away = tmp_path / "away"
    away.mkdir(mode=0o700)
    (away / "secret").write_text("root's")
    before, made = {owner(away), (999, 999)}, os.mkdir

    def swapped(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        made(name, mode, dir_fd=dir_fd)
        if name == ".forge":
            monkeypatch.undo()
            (top / ".forge").rmdir()
            swap(top, away)

    monkeypatch.setattr(os, "mkdir", swapped)
    with contextlib.suppress(OSError, atomic.StoreError):
        _writes(top)
    place = away if swap is _a_link else top / ".forge"

    assert owner(place) in before
    assert not (away / "secret").exists() or owner(away / "secret") == (0, 0)
    assert not (place / "secret").exists() or owner(place / "secret") == (0, 0)


def test_a_hard_link_of_roots_under_the_name_of_a_memory_stays_roots(top, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root's")
    store(top).write(memory("mem_other", "text"))
    os.link(secret, top / ".forge/memory/mem_a.md")
    with pytest.raises(atomic.StoreError):
        _writes(top)

    assert owner(secret) == (0, 0)
    assert secret.read_text() == "root's"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_owner_cannot_be_given_the_write_counts_and_status_says_whose_it_is(
    top, files, monkeypatch, code
):
    """As a user namespace answers, or a server of NFS that takes root for nobody."""

    def refused(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fchown", refused)
    _writes(top)
    root = Root(str(top), Scope.REPO)

    assert [seen.memory.content for each in scan(root).listings for seen in each.files.values()] == ["text"]
    assert owners(top) == {(0, 0)}
    assert f"`chown -R {UID}:{GID} {top}/.forge`" in root_owned_files(root)


IN_NAMESPACE = """
import sys
from forged.files import MemoryStore, Root, root_owned_files
from forged.memory import Scope
from tests.data.memories import memory
root = Root(sys.argv[1], Scope.REPO)
MemoryStore(root).write(memory("mem_a", "text"))
print(root_owned_files(root))
"""


def test_in_a_user_namespace_that_does_not_know_the_owner_the_write_counts(top):
    """The kernel's own refusal, and what can be said there of an owner who has no number."""
    if subprocess.run(["unshare", "-U", "-r", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace can be made here")
    top.chmod(0o777)
    command = ["unshare", "-U", "-r", sys.executable, "-c", IN_NAMESPACE, str(top)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=CHECKOUT)

    assert done.returncode == 0, done.stderr
    assert owners(top) == {(0, 0)}
    assert f"`chown -R --reference={top} {top}/.forge`" in done.stdout
    subprocess.run(["chown", "-R", f"--reference={top}", str(top / ".forge")], check=True)
    as_person(top, "cat .forge/memory/mem_a.md")


def test_one_file_of_roots_among_the_owners_is_named_and_none_is_not(top):
    _writes(top)
    assert root_owned_files(Root(str(top), Scope.REPO)) == ""

    (top / ".forge/memory/mine.md").write_text("text")
    assert "mine.md belongs to root" in root_owned_files(Root(str(top), Scope.REPO))


def test_no_one_but_root_gives_anything_away(top, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: UID)
    _writes(top)

    assert owners(top) == {(0, 0)}
    assert root_owned_files(Root(str(top), Scope.REPO)) == ""


def test_an_export_over_a_file_that_is_there_leaves_it_its_owner(top):
    path = top / "all.json"
    path.write_text("old")
    _write_text(str(path), "new", force=True)

    assert (owner(path), path.read_text()) == ((0, 0), "new")
