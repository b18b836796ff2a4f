"""The manual page on scale names the existing statements and their partitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forged.memory import Scope
from forged.postgres import schema, statements

PAGE = (Path(statements.__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
OWNED = (Scope.SESSION, Scope.USER, Scope.AGENT)
_NO_STATEMENT = {"CHANNEL", "found_columns"}


def reported() -> dict[str, str]:
    """Where a statement goes, by its name; of a statement that two rows are about, the first."""
    table = PAGE.partition("| statement | used by | goes to |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| .*? \| (.*) \|$", table, re.MULTILINE)
    named = [(name, where) for names, where in rows for name in re.findall(r"`(\w+)`", names)]
    return dict(reversed(named))


def made() -> set[str]:
    """Statements, and functions that make one."""
    here = {
        name
        for name, each in vars(statements).items()
        if getattr(each, "__module__", "") == statements.__name__
    }
    texts = {name for name in vars(statements) if name.isupper()} - {"TABLES", *vars(schema)}
    return {name for name in here | texts if name[0] != "_"} - _NO_STATEMENT


def text_of(name: str, scope: Scope) -> str:
    """The statement for a scope; not every function asks for one."""
    maker = getattr(statements, name)
    if isinstance(maker, str):
        return maker
    if name == "search":
        return maker(scope, dimension=3)
    return maker(scope)


def test_every_statement_is_reported_and_no_other():
    assert set(reported()) == made()


@pytest.mark.parametrize(
    "name", [name for name, where in reported().items() if where.startswith("one shard")]
)
def test_a_statement_that_goes_to_one_shard_names_whose_rows_it_wants(name: str):
    for scope in OWNED:
        text = " ".join(text_of(name, scope).split())
        column = "session_id" if name == "KEEP_NEWEST" else schema.owner_column(scope)
        by_owner = (
            rf"\b({column}|owner) = (%\(owner\)s|i\.{column})|\(scope, owner, |INTO \S+ AS t \({column}, "
        )

        assert re.search(by_owner, text), text


def test_a_statement_that_goes_to_all_shards_names_no_owner():
    everywhere = [name for name, where in reported().items() if where.startswith("all shards")]

    assert everywhere == ["SWEEP"]
    assert "session_id" not in statements.SWEEP
