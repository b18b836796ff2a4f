"""Texts with the markers of a merge: no memory, named as what they are, wherever they lie."""

from __future__ import annotations

import os

import pytest

from forged.errors import StoreError
from forged.files import MemoryStore, Root, agent_root, scan
from forged.files.frontmatter import IN_CONFLICT as IN_CONFLICT_REASON
from forged.files.frontmatter import parse
from forged.memory import Scope
from tests.data.memories import memory

OURS, MIDDLE, THEIRS, BASE = "<<<<<<< HEAD", "=======", ">>>>>>> pr", "||||||| base"
SIMPLE = f"{OURS}\na\n{MIDDLE}\nb\n{THEIRS}\n"
DIFF3 = f"{OURS}\na\n{BASE}\nq\n{MIDDLE}\nb\n{THEIRS}\n"
FRONT = f"---\nid: mem_1\n{OURS}\nversion: 2\n{MIDDLE}\nversion: 3\n{THEIRS}\n---\ntext\n"

IN_CONFLICT = {
    "simple": SIMPLE,
    "between other text": f"text\n\n{SIMPLE}\nmore text\n",
    "diff3": DIFF3,
    "crlf": SIMPLE.replace("\n", "\r\n"),
    "no line end behind": SIMPLE.rstrip(),
    "front matter": FRONT,
    "front matter with crlf": FRONT.replace("\n", "\r\n"),
    "byte order mark": f"\ufeff{SIMPLE}",
    "after a fence": f"```\ncode\n```\n{SIMPLE}",
    "behind a fence that is never closed": f"```\ncode\n{SIMPLE}",
    "a side opens a fence": f"{OURS}\na\n{MIDDLE}\n```\nb\n{THEIRS}\n```\n",
    "a fence is closed by another kind": f"```\n{SIMPLE}~~~\n",
    "a fence is closed by a shorter one": f"````\n{SIMPLE}```\n",
    "two": SIMPLE + SIMPLE,
    "labels without words": SIMPLE.replace(" HEAD", "").replace(" pr", ""),
}
NOT_IN_CONFLICT = {
    "in a fence": f"```\n{SIMPLE}```\n",
    "in a fence with a language": f"```diff\n{SIMPLE}```\n",
    "in a fence of tildes": f"~~~\n{SIMPLE}~~~\n",
    "in a longer fence": f"````\n```\n{SIMPLE}````\n",
    "in a fence that is set in": f"  ```\n{SIMPLE}  ```\n",
    "not at line starts": "".join(f"  {line}\n" for line in SIMPLE.splitlines()),
    "a heading": f"Title\n{MIDDLE}\ntext\n",
    "words behind the middle": SIMPLE.replace(MIDDLE, f"{MIDDLE} x"),
    "longer markers": SIMPLE.replace("<<<<<<<", "<<<<<<<<"),
    "quoted mail": ">>>>>>> she said\n",
}


@pytest.mark.parametrize("name", IN_CONFLICT)
def test_a_file_in_conflict_is_no_memory_and_is_named_as_one(tmp_path, name):
    roots = (Root(str(tmp_path / "repo"), Scope.REPO), Root(str(tmp_path / "home"), Scope.USER))
    for root in (*roots, agent_root(str(tmp_path), "critic")):
        os.makedirs(root.top, exist_ok=True)
        path = MemoryStore(root).write(memory("mem_1", "good", scope=root.scope))
        before = scan(root)
        with open(path, "wb") as file:
            file.write(IN_CONFLICT[name].encode())
        found = scan(root, before, clock=lambda: 1e12)  # long after the change
        assert found.memories == ()
        assert [each.reason for each in found.problems] == [IN_CONFLICT_REASON]
        assert found.problems[0].reason.startswith("unresolved merge conflict: it contains both sides")
        with open(path, "wb") as file:
            file.write(b"resolved")
        assert [each.content for each in scan(root, found, clock=lambda: 2e12).memories] == ["resolved"]


@pytest.mark.parametrize("name", NOT_IN_CONFLICT)
def test_what_only_looks_like_a_conflict_is_a_memory(name):
    assert parse(NOT_IN_CONFLICT[name].encode(), "repo", "mem_1").content == NOT_IN_CONFLICT[name]


@pytest.mark.parametrize("name", ["simple", "diff3", "crlf", "between other text"])
def test_a_text_in_conflict_is_not_written(tmp_path, name):
    store = MemoryStore(Root(str(tmp_path), Scope.REPO))
    with pytest.raises(StoreError, match="unresolved merge conflict"):
        store.write(memory("mem_1", IN_CONFLICT[name]))
    assert scan(store.root).memories == ()
