"""An export on disk: whole or not there, under names that are none of this machine's paths."""

from __future__ import annotations

import json
import os
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import StoreError
from forged.importing import ReadOptions, export, new_file, read_path, read_root
from tests.data.memories import memory, put


def test_repositories_of_one_name_get_distinct_names_and_no_path_is_exported(tmp_path):
    tops = [tmp_path / folder / "my shop" for folder in "ab"] + [tmp_path / ".dist", tmp_path / "build"]
    for number, top in enumerate(tops):
        put(top, memory(f"mem_{number}", f"text {number}"))

    reported = export(str(tmp_path / "out"), [read_root(str(top), "repo") for top in tops], replace=False)

    assert [part.name for part in reported.parts] == ["my_shop", "my_shop-2", "_dist", "build"]
    assert str(tmp_path) not in (tmp_path / "out/forged-export.json").read_text()
    found = read_path(str(tmp_path / "out"), ReadOptions(home=str(tmp_path)))
    assert {(item.repo, item.memory_id) for item in found.items} == {
        ("my_shop", "mem_0"),
        ("my_shop-2", "mem_1"),
        ("_dist", "mem_2"),
        ("build", "mem_3"),
    }


def test_a_failed_export_leaves_the_older_one_and_no_other_file(tmp_path, monkeypatch):
    put(tmp_path / "repo", memory("mem_1", "text"))
    copies = [read_root(str(tmp_path / "repo"), "repo")]
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

    copy = read_root(str(tmp_path / "repo"), "repo")

    assert copy.files == ()
    assert {left.where for left in copy.left} == {".forge/memory", ".forge/memories"}


@given(withheld=st.sets(st.sampled_from(["mem_0.md", "mem_1.md", "mem_2.md", "by hand.md", "gone.md"])))
def test_what_is_withheld_is_copied_in_no_form_and_named(tmp_path_factory, withheld):
    top = tmp_path_factory.mktemp("repo")
    put(top, *(memory(f"mem_{number}", f"text {number}") for number in range(3)))
    folder = top / ".forge/memory"
    (folder / "by hand.md").write_text("text by hand")
    names = {path.name for path in folder.iterdir()}

    copy = read_root(str(top), "repo", {str(folder / name) for name in withheld})
    out = top / "out"
    export(str(out), [copy], replace=False)

    assert {path.name for path in out.rglob("*.md")} == names - withheld
    assert {os.path.basename(left.where) for left in copy.left} == names & withheld
    written = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    for name in names & withheld:
        text = f"text {name[4]}" if name.startswith("mem_") else "text by hand"
        assert text.encode() not in written


def _link(place, mine):
    place.symlink_to(mine)


def _link_to_nothing(place, mine):
    place.symlink_to(mine.with_name("not there yet"))


def _hard_link(place, mine):
    os.link(mine, place)


def _file(place, mine):
    place.write_bytes(mine.read_bytes())


def _folder(place, mine):
    place.mkdir()


def _pipe(place, mine):
    os.mkfifo(place)


@pytest.mark.parametrize("below", ["repos/repo/.forge/memory/mem_1.md", "forged-export.json"])
@pytest.mark.parametrize("lays", [_link, _link_to_nothing, _hard_link, _file, _folder, _pipe])
def test_an_export_overwrites_and_follows_nothing_that_is_laid_in_its_way(tmp_path, monkeypatch, lays, below):
    put(tmp_path / "repo", memory("mem_1", "text"))
    copies = [read_root(str(tmp_path / "repo"), "repo")]
    (mine := tmp_path / "mine").write_text("mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    place = tmp_path / "out.known.part" / below
    place.parent.mkdir(parents=True)
    lays(place, mine)

    with pytest.raises(StoreError, match="cannot write"):
        export(str(tmp_path / "out"), copies, replace=False)

    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "repo"]


@pytest.mark.parametrize("part", ["", "repos", "repos/repo", "repos/repo/.forge", "repos/repo/.forge/memory"])
def test_an_export_goes_through_no_folder_that_is_a_link(tmp_path, monkeypatch, part):
    put(tmp_path / "repo", memory("mem_1", "text"))
    copies = [read_root(str(tmp_path / "repo"), "repo")]
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    place = tmp_path / "out.known.part" / part
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)

    with pytest.raises(StoreError, match="cannot write"):
        export(str(tmp_path / "out"), copies, replace=False)

    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lays", [_link, _link_to_nothing, _hard_link, _file, _folder, _pipe])
def test_a_new_file_is_none_that_is_there(tmp_path, lays):
    (mine := tmp_path / "mine").write_text("mine")
    lays(tmp_path / "out.json", mine)

    with pytest.raises(FileExistsError):
        new_file(str(tmp_path / "out.json"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out.json"]
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("there", ["an empty folder", "a full folder", "an export", "nothing", "a file"])
def test_an_export_to_a_link_is_refused_with_the_reason_and_the_link_stays(tmp_path, there):
    real, link = tmp_path / "real", tmp_path / "link"
    if there == "a file":
        real.write_text("x")
    elif there != "nothing":
        real.mkdir()
    if there == "a full folder":
        (real / "a.txt").write_text("x")
    if there == "an export":
        export(str(real), (), replace=False)
    link.symlink_to(real)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(StoreError, match=f"link is a link to {real}; give that folder itself"):
        export(str(link), (), replace=True)

    assert link.is_symlink()
    assert sorted(tmp_path.rglob("*")) == before
