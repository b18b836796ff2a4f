"""Translate errors of psycopg into a SharedError whose message names the remedy.

Messages contain only a primary message or the class of an error: details of PostgreSQL quote rows.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import psycopg

from forged.errors import SharedError

_DIMENSIONS = re.compile(r"expected (\d+) dimensions, not (\d+)")
# Messages of a server that refuses access; such an error has no code.
_REFUSALS = (
    ("password authentication failed", "the password is wrong: set shared.password or PGVECTOR_PASSWORD"),
    ("no password supplied", "it needs a password: set shared.password or PGVECTOR_PASSWORD"),
    ("does not support SSL", "it has no TLS: turn it on there, or add sslmode=disable to shared.url"),
    (
        "does not match host name",
        "its certificate is of another host: use the host's name in it, or sslmode=verify-ca",
    ),
    ("invalid sslmode value", "sslmode in shared.url is none of disable, require, verify-ca, verify-full"),
    ("invalid connection option", "shared.url has an option that libpq does not know"),
    ("certificate verify failed", "its certificate is not signed by sslrootcert of shared.url"),
    ("root certificate file", "the file of sslrootcert in shared.url is missing"),
    ("no pg_hba.conf entry", "its pg_hba.conf does not allow this role from this machine"),
)
# Messages of a server that has as many connections as it allows; the error of a new connection has no code.
_FULL = ("too many connections", "too many clients", "remaining connection slots are reserved")
# Messages of a server that starts or stops; after a kill there are several.
_PASSING = (
    *("starting up", "shutting down", "in recovery mode", "not yet accepting connections"),
    "terminating connection",
)
_MISSING = re.compile(r'(database|role) "([^"]*)" does not exist')
# Messages about the login itself and not about the way to the server: the role has no access any more.
_NO_ROLE = ("password authentication failed", "is not permitted to log in", "eer authentication failed")
_SCHEMA = ("42P01", "3F000", "42703", "42883", "42704")  # unknown table, schema, column, function, type
_AWAY = ("57P01", "57P02", "57P03")
# Errors that are final for a row: its data (22), a constraint (23), a limit of PostgreSQL. All others pass.
_FINAL_CLASSES, _FINAL = ("22", "23"), "54000"
_SERVER_SAYS = {
    "25006": "it is read-only now",
    "40001": "another transaction was faster",
    "40P01": "a deadlock stopped the transaction",
    "53100": "its disk is full",
    "53200": "it has no memory left",
    "55P03": "a lock is held there by another program",
}


@contextlib.contextmanager
def translated(permission: str = "") -> Iterator[None]:
    """Context that turns psycopg and OS errors into SharedError, with `permission` if denied."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SharedError(permission, reason="permission") if permission else shared_error(error) from error
    except (psycopg.Error, OSError) as error:
        raise shared_error(error) from error


def shared_error(error: Exception) -> SharedError:
    """Return the SharedError, with reason and remedy, for an error of psycopg or the network."""
    if isinstance(error, SharedError):
        return error
    if isinstance(error, TimeoutError):
        return SharedError("the shared PostgreSQL did not answer in time", reason="timeout")
    if not isinstance(error, psycopg.Error):
        return SharedError(
            f"the shared PostgreSQL cannot be asked: {type(error).__name__}", reason="unreachable"
        )
    return _error_with_code(error) if error.sqlstate else _error_without_code(error)


def _error_with_code(error: psycopg.Error) -> SharedError:
    """Return the SharedError for an error with a SQLSTATE code."""
    state, message = error.sqlstate or "", error.diag.message_primary or ""
    if found := _DIMENSIONS.search(message):
        return wrong_dimension(int(found[1]), int(found[2]))
    if state == "57014":
        return SharedError("the shared PostgreSQL did not answer in time", reason="timeout")
    if state in _AWAY or state.startswith("08"):
        return SharedError("the shared PostgreSQL has ended the connection", reason="unreachable")
    if state == "53300":
        return _full_error()
    if state.startswith("28") or state == "3D000":
        return _access_error(message)
    if state == "42501":
        return SharedError(
            "the role may not do that in the shared PostgreSQL:"
            " its administrator runs `forgectl shared grant`",
            reason="permission",
        )
    if state in _SCHEMA:
        return SharedError(
            "the shared PostgreSQL has no such table: run `forgectl shared migrate`", reason="schema"
        )
    answered = f"the shared PostgreSQL answered {type(error).__name__} ({state})"
    if state.startswith(_FINAL_CLASSES) or state == _FINAL:
        return SharedError(answered, reason="invalid")
    says = f"the shared PostgreSQL could not do it: {_SERVER_SAYS[state]}" if state in _SERVER_SAYS else ""
    return SharedError(says or answered, reason="server")


def _error_without_code(error: psycopg.Error) -> SharedError:
    """Return the SharedError for an error without a SQLSTATE code, by its message."""
    message = str(error)
    if any(words in message for words in _FULL):
        return _full_error()
    if isinstance(error, psycopg.errors.ConnectionTimeout) or "timeout expired" in message:
        return SharedError("the shared PostgreSQL did not answer in time", reason="timeout")
    if "FATAL:" in message or any(words in message for words, _ in _REFUSALS):
        return _access_error(message)
    return SharedError(
        "the shared PostgreSQL cannot be reached: check that it runs,"
        " and that shared.url has its host and port",
        reason="unreachable",
    )


def _full_error() -> SharedError:
    """Return the SharedError for a server without a free connection, which a request may wait for."""
    return SharedError(
        "the shared PostgreSQL has no connection left: raise its max_connections, or the role's limit",
        reason="busy",
    )


def _access_error(message: str) -> SharedError:
    """Return the SharedError for a connection that the server refused, by its message."""
    if any(words in message for words in _PASSING):
        return SharedError("the shared PostgreSQL is starting or stopping", reason="unreachable")
    missing = _MISSING.search(message)
    is_role = (missing is not None and missing[1] == "role") or any(words in message for words in _NO_ROLE)
    if missing:
        key = "url" if missing[1] == "database" else "user"
        what = f"it has no {missing[1]} {missing[2]!r}: create it there, or fix shared.{key}"
    else:
        what = next((mends for words, mends in _REFUSALS if words in message), "it rejects this role")
    return SharedError(f"the shared PostgreSQL refuses: {what}", reason="role" if is_role else "refused")


def wrong_dimension(expected: int, given: int) -> SharedError:
    """Return the SharedError for a vector of `given` numbers where `expected` are needed."""
    return SharedError(
        f"vectors of the shared PostgreSQL have {expected} numbers, and this one has {given}: "
        "set memory.embedding_model to the model that its vectors are of",
        reason="dimension",
    )
