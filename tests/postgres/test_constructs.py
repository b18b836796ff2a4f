"""forged's SQL avoids constructs that a distributed PostgreSQL such as Citus lacks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from forged.postgres.migrating import migration_texts
from tests.support.postgres import MODEL

PACKAGE = Path(__file__).parents[2] / "forged" / "postgres"

# A pattern over SQL without comments, and why it is refused.
REFUSED = {
    r"\bREFERENCES\b|\bFOREIGN\s+KEY\b": "a foreign key may not cross shards",
    r"\bCREATE\s+(OR\s+REPLACE\s+)?(CONSTRAINT\s+)?TRIGGER\b": "no triggers on distributed tables",
    r"\bCREATE\s+RULE\b": "no rules on distributed tables",
    r"\bINHERITS\s*\(": "only partitions may inherit",
    r"\b(BIG|SMALL)?SERIAL\b": "each shard would count by itself",
    r"\bGENERATED\s+(ALWAYS|BY\s+DEFAULT)\s+AS\s+IDENTITY\b": "and so it would here",
    r"\bDEFAULT\s+nextval\b": "each node hands out a range of its own, so that order would mean nothing",
    r"\bEXCLUDE\s+(USING|\()": "an exclusion must have the column of distribution, and none of ours could",
    r"\bPREPARE\s+TRANSACTION\b": "two-phase commit is the coordinator's",
    r"\bDECLARE\s+\w+\s+.*\bCURSOR\s+WITH\s+HOLD\b": "a cursor lives on one node",
    r"\bLOCK\s+TABLE\b": "it would lock every shard",
    r"\bTABLESAMPLE\b": "not over shards",
    r"\bGROUPING\s+SETS\b|\bCUBE\s*\(|\bROLLUP\s*\(": "only where one shard has it all",
    r"\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b": "locks rows of one shard only",
    r"\bMERGE\s+INTO\b": "its limits on shards differ by version",
    r"\bUNLOGGED\b": "lost by a failover",
    r"\bivfflat\b": "finds a sixth of what it should when it is made on an empty table",
    r"\bSECURITY\s+DEFINER\b": "runs past the policies",
    r"\bNOTIFY\b.*\bcontent\b|\bpg_notify\b[^;]*\bcontent\b": "every role of the database can listen",
}


def sql_of_migrations() -> str:
    text = "\n".join(migration_texts({"": MODEL, "cjk": MODEL}))
    return re.sub(r"--[^\n]*", "", text)


def sql_of_modules() -> str:
    """Every text in the package's modules that begins like a statement."""
    begins = re.compile(
        r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|GRANT|REVOKE|SET|COPY|LISTEN|NOTIFY)\b"
    )
    found = [
        node.value
        for file in sorted(PACKAGE.glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and begins.match(node.value)
    ]
    return ";\n".join(found)


@pytest.mark.parametrize("pattern", REFUSED, ids=REFUSED.values())
def test_no_sql_has(pattern):
    for text in (sql_of_migrations(), sql_of_modules()):
        found = re.search(pattern, text, re.IGNORECASE)
        assert found is None, f"{found[0]!r}: {REFUSED[pattern]}"


def test_a_policy_is_a_function_of_its_row():
    """A distributed table may have no policy with a subquery."""
    policies = re.findall(r"CREATE POLICY[^;]*", sql_of_migrations())
    assert len(policies) > 10
    assert [policy for policy in policies if "SELECT" in policy.replace("FOR SELECT", "")] == []


def test_every_unique_key_begins_with_the_owner_of_its_table():
    header = r"CREATE TABLE forged\.(\w+) \(.*?PRIMARY KEY \((\w+)"
    tables = re.findall(header, sql_of_migrations(), re.DOTALL)
    keys = {name: key for name, key in tables if "organizational" not in name}

    assert {key for name, key in keys.items() if "memories" in name} == {"session_id", "user_id", "agent_id"}
    assert {key for name, key in keys.items() if "memories" not in name} == {"owner"}
    assert not re.search(r"CREATE UNIQUE INDEX|\bUNIQUE\b", sql_of_migrations())


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TABLE t (a text REFERENCES b (id))",
        "id BIGSERIAL PRIMARY KEY",
        "CREATE TRIGGER t AFTER INSERT",
        "changed bigint DEFAULT nextval('s')",
        "USING ivfflat (embedding)",
    ],
)
def test_a_planted_construct_would_be_noticed(planted):
    assert any(re.search(pattern, planted, re.IGNORECASE) for pattern in REFUSED)
