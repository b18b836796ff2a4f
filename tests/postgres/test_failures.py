"""A server's error becomes a sentence with the remedy, and a time for the next attempt."""

from __future__ import annotations

import psycopg
import pytest

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
def test_a_role_that_is_not_let_in_is_refused(reported):
    assert (
        shared_error(psycopg.OperationalError(f"connection failed: FATAL:  {reported}")).reason == "refused"
    )
