"""Every rule of rules.toml by its own two examples, and the file as a whole."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from forged.capture.rules.engine import FILE, Flag, Patterns, proposals_in, without_lead_ins
from forged.capture.text_patterns import fill_in, word_patterns
from forged.memory import Category

# Tables whose patterns are looked for anywhere; those of the others have to match at the start.
ANYWHERE = {"trailing", "project", "local", "speech", "veto", "private", "mishap", "replaces", "denies"}
# In these the first that matches is the only one that counts.
ORDERED = {"lead_in", "statement", "replaces"}


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it stands in the file, with nothing left out and nothing else."""

    name: str
    pattern: str
    yes: str
    no: str
    flag: Flag = ""
    category: Category | None = None
    is_order: bool = False

    def matches(self, table: str, text: str) -> bool:
        pattern = re.compile(fill_in(self.pattern, WORDS), re.IGNORECASE)
        return bool(pattern.search(text) if table in ANYWHERE else pattern.match(text))


def entries() -> dict[str, list[Entry]]:
    return msgspec.convert(
        {name: table for name, table in CONTENT.items() if name not in {"words", "scope"}},
        dict[str, list[Entry]],
    )


CONTENT = tomllib.loads(Path(FILE).read_text(encoding="utf-8"))
WORDS = word_patterns(CONTENT["words"])
TABLES = entries()
RULES = [
    pytest.param(table, entry, id=f"{table}: {entry.name}") for table in TABLES for entry in TABLES[table]
]


@pytest.mark.parametrize(("table", "entry"), RULES)
def test_rule_takes_its_example_alone_and_not_its_near_miss(table, entry):
    assert entry.matches(table, entry.yes)
    assert not entry.matches(table, entry.no)
    matching = [other.name for other in TABLES[table] if other.matches(table, entry.yes)]
    assert (matching[:1] if table in ORDERED else matching) == [entry.name]
    if table not in ORDERED:  # of the others, none takes the near miss
        assert not [other.name for other in TABLES[table] if other.matches(table, entry.no)]
    match table:
        case "statement":
            assert len(proposals_in(entry.yes)) == 1
        case "veto" | "private" | "mishap":
            assert proposals_in(entry.yes) == []
        case "lead_in":
            text, flags = without_lead_ins(entry.yes)
            assert text != entry.yes
            assert flags == {entry.flag}


def test_names_are_unique_within_a_table():
    for table, found in TABLES.items():
        assert [name for name, count in Counter(entry.name for entry in found).items() if count > 1] == [], (
            table
        )


def test_fields_are_only_where_they_have_a_meaning():
    for table, found in TABLES.items():
        assert all((entry.category is not None) == (table == "statement") for entry in found)
        assert all(not entry.is_order or table == "statement" for entry in found)
        assert all(not entry.flag or table == "lead_in" for entry in found)


def test_every_table_is_used():
    assert {*TABLES, "scope"} == {field.encode_name for field in msgspec.structs.fields(Patterns)}


def test_every_word_is_used():
    written = Path(FILE).read_text(encoding="utf-8")
    assert [word for word in WORDS if f"{{{word}}}" not in written] == []
