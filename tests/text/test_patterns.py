"""Patterns that every Python from 3.11 on matches alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("forged", "client")
    for suffix in ("py", "toml")
    for path in (REPO / folder).glob(f"**/*.{suffix}")
    if ".venv" not in path.parts
)
# A group that is repeated without going back: `(...)*+`. Of one character or class it is right everywhere.
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[0-9]+,?[0-9]*\})\+")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPO)))
def test_no_group_is_repeated_possessively(path):
    """Python 3.11.0 to 3.11.4, as in Debian 12, lose matches of these; `(?>(...)*)` is right in all."""
    found = [line for line in path.read_text("utf-8").splitlines() if _POSSESSIVE_GROUP.search(line)]

    assert found == []


@pytest.mark.parametrize("repeat", ["*+", "++", "?+", "{0,4}+", "{2}+"])
def test_each_form_is_seen(repeat):
    assert _POSSESSIVE_GROUP.search(f"(?:a|b){repeat}")
