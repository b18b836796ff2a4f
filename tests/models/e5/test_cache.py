"""Cached model files are complete and unchanged, or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged.models.e5 import cache
from forged.models.e5.cache import ModelFiles

OF = "model 1"


def fill(folder: Path, of: str = OF, text: bytes = b"bytes of ") -> ModelFiles:
    names = {
        name: cache.store(str(folder), name, text + name.encode()) for name in ("graph", "weights", "words")
    }
    made = ModelFiles(of, **names)
    cache.publish(str(folder), made)
    return made


@pytest.mark.parametrize("change", ["a byte", "cut", "gone", "longer"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_that_is_not_as_it_was_made_is_never_used(tmp_path, change, number):
    file = tmp_path / fill(tmp_path).files[number]
    data = file.read_bytes()
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes({"a byte": b"B" + data[1:], "cut": data[:-1], "longer": data + b"x"}[change])

    assert cache.load(str(tmp_path), OF) is None


def test_files_of_another_list_go_when_the_new_one_is_there_and_nothing_of_theirs_is_used(tmp_path):
    before = fill(tmp_path, "model 0", b"older bytes of ")
    assert cache.load(str(tmp_path), OF) is None

    after = fill(tmp_path)

    assert cache.load(str(tmp_path), "model 0") is None
    assert cache.load(str(tmp_path), OF) == after
    assert not set(before.files) & set(os.listdir(tmp_path))
