"""A server's error becomes a sentence with the remedy, and a time for the next attempt."""

from __future__ import annotations

import psycopg
import psycopg.errors
import pytest

from forged.errors import SharedError
from forged.postgres.failures import shared_error

PASSING = [
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
    "the database system is not yet accepting connections\nDETAIL:  Consistent recovery state ...",
    "terminating connection due to unexpected postmaster exit",
]


@pytest.mark.parametrize("reported", PASSING)
def test_a_server_that_starts_or_stops_is_gone_for_a_moment_and_refuses_no_one(reported):
    """It is looked for again soon: a refusal is thought to last."""
    error = shared_error(psycopg.OperationalError(f"connection failed: FATAL:  {reported}"))

    assert error.reason == "unreachable"


@pytest.mark.parametrize("reported", ['role "ada" is not permitted to log in', 'role "ada" does not exist'])
def test_a_role_that_is_not_let_in_has_no_access_any_more(reported):
    error = shared_error(psycopg.OperationalError(f"connection failed: FATAL:  {reported}"))

    assert error.reason == "role"


CODES = {
    each.sqlstate: each
    for each in vars(psycopg.errors).values()
    if isinstance(each, type) and issubclass(each, psycopg.Error) and each.sqlstate
}


@pytest.mark.parametrize("code", sorted(CODES))
def test_only_listed_errors_are_final_for_a_row_and_all_others_pass(code):
    """Of all errors that PostgreSQL has: a full disk or a read-only server is mended one day."""
    error = shared_error(CODES[code]("text of the server"))

    is_final = code.startswith(("22", "23")) or code == "54000"
    assert error.kind == ("permission" if code == "42501" else "final" if is_final else "passing")
    assert "text of the server" not in str(error), "a message may quote a row"


def test_another_model_or_length_of_vectors_is_the_error_of_a_model():
    for reason in ("model", "dimension"):
        assert SharedError("", reason=reason).kind == "model"


@pytest.mark.parametrize(
    ("reported", "reason", "remedy"),
    [
        ('server certificate for "db.example" does not match host name "10.0.0.1"', "refused", "verify-ca"),
        ('invalid sslmode value: "on"', "refused", "verify-full"),
        ('FATAL:  too many connections for role "ada"', "busy", "max_connections"),
        ("FATAL:  sorry, too many clients already", "busy", "max_connections"),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER", "busy", "limit"),
    ],
)
def test_an_error_before_a_connection_names_what_to_do(reported, reason, remedy):
    error = shared_error(psycopg.OperationalError(f"connection failed: {reported}"))

    assert error.reason == reason
    assert remedy in str(error)
