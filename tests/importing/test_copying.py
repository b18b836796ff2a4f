"""An export on disk: whole or not there, under names that are none of this machine's paths."""

from __future__ import annotations

import json
import os

import pytest

from forged.errors import StoreError
from forged.importing import Asked, copied, export, taken
from tests.data.memories import memory, put


def test_repositories_of_one_name_have_names_of_their_own_and_no_path_is_told(tmp_path):
    tops = [tmp_path / folder / "my shop" for folder in "ab"] + [tmp_path / ".dist", tmp_path / "build"]
    for number, top in enumerate(tops):
        put(top, memory(f"mem_{number}", f"text {number}"))

    told = export(str(tmp_path / "out"), [copied(str(top), "repo") for top in tops], replace=False)

    assert [part.name for part in told.parts] == ["my_shop", "my_shop-2", "_dist", "build"]
    assert str(tmp_path) not in (tmp_path / "out/forged-export.json").read_text()
    found = taken(str(tmp_path / "out"), Asked(home=str(tmp_path)))
    assert {(item.repo, item.memory_id) for item in found.items} == {
        ("my_shop", "mem_0"),
        ("my_shop-2", "mem_1"),
        ("_dist", "mem_2"),
        ("build", "mem_3"),
    }


def test_an_export_that_fails_leaves_the_older_one_and_nothing_beside_it(tmp_path, monkeypatch):
    put(tmp_path / "repo", memory("mem_1", "text"))
    copies = [copied(str(tmp_path / "repo"), "repo")]
    export(str(tmp_path / "out"), copies, replace=False)
    before = json.loads((tmp_path / "out/forged-export.json").read_text())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="no space left on the device"):
        export(str(tmp_path / "out"), copies, replace=True)

    assert json.loads((tmp_path / "out/forged-export.json").read_text()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "repo"]


def test_a_folder_that_leads_out_of_its_root_is_named_and_not_copied(tmp_path):
    put(tmp_path / "elsewhere", memory("mem_1", "text"))
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/.forge").symlink_to(tmp_path / "elsewhere/.forge")

    copy = copied(str(tmp_path / "repo"), "repo")

    assert copy.files == ()
    assert {left.where for left in copy.left} == {".forge/memory", ".forge/memories"}


def test_a_file_that_is_no_memory_is_named(tmp_path):
    put(tmp_path, memory("mem_1", "text"))
    (tmp_path / ".forge/memory/bad.md").write_bytes(b"---\nid: a\n---\n\xff")

    copy = copied(str(tmp_path), "repo")

    assert [below for below, _ in copy.files] == [".forge/memory/mem_1.md"]
    assert [left.where for left in copy.left] == [".forge/memory/bad.md"]
