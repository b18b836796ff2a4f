"""Identity of a root's directory: device, inode and birth time, of `.git` if there is one."""

from __future__ import annotations

import os
import sys

import pytest

from forged.trust import identity
from forged.trust.identity import identify


def test_it_is_that_of_git_and_of_the_folder_and_stays_the_same(repo):
    found = identify(str(repo))
    (repo / "file").touch()
    (repo / ".git/HEAD").touch()

    assert found.git
    assert found.folder
    assert found.git != found.folder
    assert identify(str(repo)) == found
    assert found.own == found.git
    repo.rename(repo.parent / "moved")
    assert identify(str(repo.parent / "moved")) == found


def test_without_git_it_is_the_folder_s_and_what_is_not_there_has_none(tmp_path):
    found = identify(str(tmp_path))

    assert (found.git, found.own) == ("", found.folder)
    assert identify(str(tmp_path / "nowhere")).own == ""


def test_another_birth_is_another_root_though_the_inode_is_the_same(repo, monkeypatch):
    before = identify(str(repo))
    monkeypatch.setattr(identity, "_birth_ns", lambda *_: 7)

    assert identify(str(repo)).git != before.git


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere Python knows it")
def test_the_birth_is_the_one_that_the_system_tells(repo):
    import subprocess

    reported = subprocess.run(
        ("stat", "-c", "%W", str(repo)), capture_output=True, check=True, text=True
    ).stdout
    if reported.strip() in ("0", "-", "?"):
        pytest.skip("this file system knows no birth times")
    assert identity._birth_ns(str(repo), os.stat(repo)) // 1_000_000_000 == int(reported)


def test_a_device_without_a_number_of_its_own_does_not_count(repo, monkeypatch):
    """The numbers of btrfs, NFS and overlays change with every mount."""
    before = identify(str(repo))
    monkeypatch.setattr(identity.os, "major", lambda _: 0)
    mounted = identify(str(repo))
    monkeypatch.setattr(identity.os, "major", lambda _: 8)

    assert mounted.git == f"0:{before.git.partition(':')[2]}"
