"""Exceptions of the daemon.

ForgedError
├── ConfigError          a key has a wrong type or range; the process exits with 78
├── WorkspaceError       the workspace of a request is not a directory here
├── InvalidRequest       a request is invalid
├── SecretFound          a text to be written seems to contain a secret
├── ForgottenText        a text to be written was forgotten by a person
├── NotReady             the answer is not known yet
├── MemoryFormatError    one file is not a memory; loaders turn it into a problem value
│   └── InConflict       it contains both sides of a merge
├── StoreError           a write or removal did not happen
│   ├── MemoryExists     the id exists; files are never overwritten
│   ├── Conflict         the base version changed, or the key belongs to another request
│   ├── NoLongerWanted   it was forgotten before it could be written
│   └── MemoryNotFound   no memory of that id is visible to the request
├── ProviderError        an embedding or chat endpoint failed
│   └── SizeRefused      a request was too large for it; half of it may pass
└── SharedError          the PostgreSQL server of a team failed or refused
    └── NotAsked         it is known to be away, so that it was not asked

Exceptions of libraries are translated once, in the adapter that catches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ErrorKind = Literal["final", "permission", "model", "passing"]
"""Class of a server's error: final for this write, until a right or a model changes, or passing."""
_KINDS: Mapping[str, ErrorKind] = {
    "invalid": "final",
    "permission": "permission",
    "dimension": "model",
    "model": "model",
}

# Reasons of a ProviderError for an unusable answer: refused by the model, held back by a filter, cut at its
# length limit, empty, or in the wrong form. The endpoint works, so none of these counts as its failure. The
# input waits for another attempt or is given up after too many.
ANSWERED = frozenset({"refused", "filtered", "cut", "empty", "unreadable"})


class ForgedError(Exception):
    """Base of the exceptions that forged explains to a person; `code` names one in a reply."""

    code = "internal"


class ConfigError(ForgedError):
    """Raised for an invalid configuration; the message names key, value, allowed values, source."""

    code = "configuration"


class WorkspaceError(ForgedError):
    """Raised if a workspace, agent id, directory or path cannot be used; the message names it."""

    code = "invalid"


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised for an invalid request; the message says what to change."""

    code = "invalid"


class SecretFound(ForgedError):  # noqa: N818
    """Raised if a text to be written seems to contain a secret that the request does not allow."""

    code = "secret"


class ForgottenText(ForgedError):  # noqa: N818
    """Raised if an agent writes a text that a person forgot or forbade; a person may write it."""

    code = "forgotten"


class NotReady(ForgedError):  # noqa: N818
    """Raised if an answer is not known yet: root or trust unread, or a request left unfinished."""

    code = "busy"


class MemoryFormatError(ForgedError):
    """Raised for a file that cannot be read as a memory or imported; the message is the reason."""


class NoText(MemoryFormatError):  # noqa: N818
    """Raised for a blank file, which is no memory; nothing is lost if it is skipped."""


class InConflict(MemoryFormatError):  # noqa: N818 - reads as the state it names
    """Raised for a text with the markers of an unresolved merge, which is not read."""


class StoreError(ForgedError):
    """Raised if data cannot be stored, read or removed; the message says why, often what to do."""

    code = "storage_error"


class MemoryExists(StoreError):  # noqa: N818 - reads as the state it names
    """Raised by a write if its id or file name exists already; files are never overwritten."""

    code = "conflict"


class Conflict(StoreError):  # noqa: N818
    """Raised if the base of a write is not the newest version, or its key is of another request."""

    code = "conflict"


class NoLongerWanted(StoreError):  # noqa: N818
    """Raised for a write request whose text a person has made forged forget; it is not written."""


class MemoryNotFound(StoreError):  # noqa: N818
    """Raised if a request names a memory, link, proposal or document that it cannot find."""

    code = "not_found"


class ProviderError(ForgedError):
    """Raised if a call of an embedding or chat endpoint failed or was held back; `reason` says why.

    `reason` is one word for replies and counters: unreachable, timeout, auth, rate_limited, bad_input,
    server, bad_reply; limit for a limit of forged, held while no text may leave; or one of `ANSWERED`.
    `status` is the HTTP status or 0. `retry_after_s` is the pause that the endpoint asked for. The message
    never contains a key or the text that was sent.
    """

    def __init__(
        self, message: str, *, reason: str, status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s


class SizeRefused(ProviderError):  # noqa: N818 - reads as what happened
    """Raised if an endpoint refused a request because of its size; half of it may pass.

    Its reason is bad_input, or rate_limited if one request exceeds the limit of a minute.
    """


class SharedError(ForgedError):
    """Raised if a team's PostgreSQL server could not do a request; `reason` says why.

    `reason` is one word: unreachable, timeout, busy, refused (no access), role (no such login), pooler
    (it is not in session mode), server (an error of its own that passes), not_installed, pgvector, schema,
    dimension, model, permission, invalid. The message is a sentence with the remedy, without a password or
    the text of a row.
    """

    code = "unavailable"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def is_away(self) -> bool:
        """Return True if the same request may succeed later."""
        return self.reason in {"unreachable", "timeout", "busy", "refused", "role", "pooler", "server"}

    @property
    def kind(self) -> ErrorKind:
        """Return the class of the error, which decides when the same write is tried again."""
        return _KINDS.get(self.reason, "passing")


class NotAsked(SharedError):  # noqa: N818 - reads as what happened
    """Raised at once instead of asking a server that is known to be away."""
