"""Limits, defaults and guarantees that a person may rely on are in the manual, and the code agrees.

`tests/guarantees/PAGE.toml` has the rows of a page: `says`, a plain sentence; `needs`, texts that must all be
in one paragraph, list item or table row of the page; and, where a constant exists, `code` and its `value`.
`code` is `module:NAME`, where NAME may have dots, or `config:SECTION.KEY` for the default of a key.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from forged import config

REPO = Path(__file__).parents[1]
ROWS = REPO / "tests" / "guarantees"
PAGES = {
    "README": REPO / "README.md",
    "client-README": REPO / "client" / "README.md",
    **{page.stem: page for page in (REPO / "forged" / "docs").glob("*.md")},
}

FOR_DEVELOPERS = {"architecture", "decisions", "measured"}
LEAST = 250
"""Rows of all pages together."""


class Guarantee(NamedTuple):
    """One row of a file of guarantees."""

    page: str
    says: str
    needs: tuple[str, ...]
    code: str
    value: Any


def guarantees() -> Iterator[Guarantee]:
    """Yield the rows of all pages."""
    for file in sorted(ROWS.glob("*.toml")):
        for row in tomllib.loads(file.read_text(encoding="utf-8"))["guarantee"]:
            assert row.keys() <= {"says", "needs", "code", "value"}, row
            assert ("code" in row) == ("value" in row), row
            yield Guarantee(
                file.stem, row["says"], tuple(row["needs"]), row.get("code", ""), row.get("value")
            )


ALL = list(guarantees())


def plain(text: str) -> str:
    """Normalize whitespace and case."""
    return " ".join(text.split()).casefold()


def blocks(markdown: str) -> list[str]:
    """Return the paragraphs, list items, table rows and code blocks of a page, normalized."""
    found: list[list[str]] = [[]]
    fenced = False
    for line in markdown.splitlines():
        fence = line.lstrip().startswith("```")
        is_item = re.match(r"\s*([-*]|\d+\.)\s", line) is not None
        if fence or (not fenced and (not line.strip() or is_item or line.startswith(("|", "#")))):
            found.append([])
        if not line.startswith("#"):
            found[-1].append(line)
        fenced ^= fence
    return [plain("\n".join(each)) for each in found if each]


def constant(code: str) -> Any:
    """Return the value that the code has under a name."""
    module, _, name = code.partition(":")
    if module == "config":
        section, _, key = name.partition(".")
        (kind,) = (each.type for each in msgspec.structs.fields(config.Config) if each.name == section)
        return next(each.default for each in msgspec.structs.fields(kind) if each.name == key)
    return attrgetter(name)(importlib.import_module(module))


@pytest.mark.parametrize("row", ALL, ids=lambda row: f"{row.page}: {row.says}")
def test_the_page_gives_the_guarantee_and_the_code_keeps_it(row):
    known = blocks(PAGES[row.page].read_text(encoding="utf-8"))

    assert row.needs
    assert any(all(plain(need) in block for need in row.needs) for block in known), row.needs
    if row.code:
        value = constant(row.code)
        assert (list(value) if isinstance(value, tuple) else value) == row.value


def test_no_guarantee_is_listed_twice():
    assert len({(row.page, plain(row.says)) for row in ALL}) == len(ALL)
    assert len({(row.page, row.needs) for row in ALL}) == len(ALL)


def test_each_page_for_users_has_guarantees():
    assert {row.page for row in ALL} == PAGES.keys() - FOR_DEVELOPERS
    assert len(ALL) >= LEAST
