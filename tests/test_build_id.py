"""A build is known by its files, whether they lie in a checkout or were installed."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from forged.build_id import file_hashes

FILES = {"forged/__init__.py": b"one", "forged/cli/a.py": b"two", "forged/text/w.txt": b"three"}


def checkout(top: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return top / "forged"


def installed(top: Path, files: dict[str, bytes] = FILES) -> Path:
    """Install files with an installer's record, of which the files next to the code are none."""
    record = top / "forged_memory-0.1.0.dist-info/RECORD"
    record.parent.mkdir(parents=True)
    rows = [
        "../../../bin/forgectl,sha256=xyz,12",
        "forged/__pycache__/a.pyc,,",
        "forged/units/a.service,sha256=x,1",
    ]
    for name, data in files.items():
        reported = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={reported},{len(data)}")
    record.write_text("\n".join(rows) + "\n")
    return checkout(top, files)


def reported(top: Path) -> list[str]:
    return sorted(file_hashes("forged_memory", str(top)))


def test_the_same_files_are_the_same_build_installed_or_not(tmp_path):
    one = checkout(tmp_path / "one")
    (one / "__pycache__").mkdir()
    (one / "__pycache__/a.cpython-311.pyc").write_bytes(b"x")

    assert reported(one) == reported(installed(tmp_path / "two")) == reported(checkout(tmp_path / "three"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [checkout, installed])
def test_another_byte_or_another_file_is_another_build(tmp_path, place, name):
    before = reported(checkout(tmp_path / "before"))

    assert reported(place(tmp_path / "changed", {**FILES, name: b"else"})) != before
    assert reported(place(tmp_path / "more", {**FILES, "forged/more.py": b""})) != before
