"""Evidence of a memory: changes and removals are noticed, and no file outside is read."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

import pytest

from forged.files import EvidenceChecker, EvidenceError, with_hash
from forged.memory import Evidence, Memory, evidence_named


def standing_on(*evidence: Evidence) -> tuple[Memory, ...]:
    return (Memory("mem_1", "x", "", "", 1, "repo", "patterns", "", "explicit", evidence=evidence),)


def stale(grounds: EvidenceChecker, memories: tuple[Memory, ...], *, afresh: bool = True) -> tuple[str, ...]:
    return grounds.with_stale(memories, afresh=afresh, pause=lambda: None)[0].stale


def test_a_file_that_changes_or_goes_makes_a_memory_stale_until_it_is_back(tmp_path):
    file = tmp_path / "src" / "a.py"
    file.parent.mkdir()
    file.write_text("one\n")
    memories = standing_on(with_hash(str(tmp_path), evidence_named("src/a.py")))
    grounds = EvidenceChecker(str(tmp_path))

    assert grounds.with_stale(memories, afresh=True, pause=lambda: None) == memories
    file.write_text("two\n")
    assert stale(grounds, memories) == ("src/a.py",)
    file.unlink()
    assert stale(grounds, memories) == ("src/a.py",)
    file.write_text("one\n")
    assert stale(grounds, memories) == ()


def test_only_the_lines_that_are_named_count_and_the_form_of_line_ends_does_not(tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(b"one\ntwo\nthree\n")
    memories = standing_on(with_hash(str(tmp_path), evidence_named("a.py:2-3")))
    grounds = EvidenceChecker(str(tmp_path))

    file.write_bytes(b"ONE\r\ntwo\r\nthree\r\nfour\r\n")
    assert stale(grounds, memories) == ()
    file.write_bytes(b"one\ntwo\n3\n")
    assert stale(grounds, memories) == ("a.py",)


def test_what_was_looked_at_is_read_again_only_when_it_was_touched(tmp_path, monkeypatch):
    file = tmp_path / "a.py"
    file.write_text("one")
    memories = standing_on(with_hash(str(tmp_path), Evidence("a.py")))
    grounds = EvidenceChecker(str(tmp_path))
    first = grounds.with_stale(memories, afresh=True, pause=lambda: None)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("read although nothing changed"))

    assert stale(grounds, memories) == ()
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("looked at between two scans"))
    assert grounds.with_stale(memories, afresh=False, pause=lambda: None)[0] is first[0]


OUTSIDE = [
    "../secret",
    "/etc/hostname",
    "a/../../secret",
    "link",
    "folder/secret",
    "pipe",
    "folder",
    "",
    "./a",
    "a\0b",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_of_the_repository_is_opened_by_any_path(tmp_path, path):
    top = tmp_path / "repo"
    top.mkdir()
    (tmp_path / "secret").write_text("outside")
    (top / "link").symlink_to(tmp_path / "secret")
    (top / "folder").symlink_to(tmp_path)
    os.mkfifo(top / "pipe")

    with pytest.raises(EvidenceError):
        with_hash(str(top), Evidence(path))
    assert stale(EvidenceChecker(str(top)), standing_on(Evidence(path))) == (path,)


def test_what_lies_outside_is_as_stale_with_its_own_hash_as_with_any_other(tmp_path):
    """A repository that somebody else made cannot find out what a file of the person's says by guessing."""
    top = tmp_path / "repo"
    top.mkdir()
    (tmp_path / "secret").write_text("the password is walrus")
    (top / "link").symlink_to(tmp_path / "secret")
    (top / "folder").symlink_to(tmp_path)
    right = with_hash(str(tmp_path), Evidence("secret")).hash
    grounds = EvidenceChecker(str(top))
    for path in ("../secret", str(tmp_path / "secret"), "link", "folder/secret", "x/../../secret"):
        for guess in (right, "", "0" * 32):
            assert stale(grounds, standing_on(Evidence(path, hash=guess))) == (path,)


def test_devices_and_sockets_are_not_read_and_of_an_endless_file_no_more_than_its_beginning(
    tmp_path, monkeypatch
):
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
        listening.bind("socket")
    with open(tmp_path / "endless", "wb") as file:
        file.truncate(1 << 40)
    names = ["socket", "endless"]
    with contextlib.suppress(OSError):  # not everybody may make one
        os.mknod(tmp_path / "zeros", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        names.append("zeros")
    pread, read = os.pread, []
    monkeypatch.setattr(os, "pread", lambda *given: read.append(pread(*given)) or read[-1])
    for name in names:
        with pytest.raises(EvidenceError):
            with_hash(str(tmp_path), Evidence(name))
        assert stale(EvidenceChecker(str(tmp_path)), standing_on(Evidence(name, hash="0" * 32))) == (name,)
    assert {len(each) for each in read} == {(4 << 20) + 1}  # of the endless one
