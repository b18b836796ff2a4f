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

Exceptions of libraries are translated once, in the adapter that catches them.
"""

from __future__ import annotations

# Reasons of a ProviderError for an unusable answer: refused by the model, held back by a filter, cut at its
# length limit, empty, or in the wrong form. The endpoint works, so none of these counts as its failure. The
# input waits for another attempt or is given up after too many.
ANSWERED = frozenset({"refused", "filtered", "cut", "empty", "unreadable"})


class ForgedError(Exception):
    """Base of all failures that forged explains to a person; `code` is its word in a reply."""

    code = "internal"


class ConfigError(ForgedError):
    """A configuration value is invalid; the message names key, value, allowed values and source."""

    code = "configuration"


class WorkspaceError(ForgedError):
    """A workspace, agent id or directory cannot be used; the message is a sentence that names it."""

    code = "invalid"


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """A request is invalid; the message says what to change."""

    code = "invalid"


class SecretFound(ForgedError):  # noqa: N818
    """A text to be written seems to contain a secret, and the request does not allow it."""

    code = "secret"


class ForgottenText(ForgedError):  # noqa: N818
    """An agent tries to write a text that a person forgot or forbade; only a person may do so."""

    code = "forgotten"


class NotReady(ForgedError):  # noqa: N818
    """Raised if an answer is not known yet: root or trust unread, or a request left unfinished."""

    code = "busy"


class MemoryFormatError(ForgedError):
    """A file is not a memory; the message is the reason, without the path."""


class NoText(MemoryFormatError):  # noqa: N818
    """A file is blank, so it is no memory, but nothing is lost if it is skipped."""


class InConflict(MemoryFormatError):  # noqa: N818 - reads as the state it names
    """A text contains the markers of an unresolved merge, so it is not read."""


class StoreError(ForgedError):
    """Data could not be stored, read or removed on disk; the message says why and what to do."""

    code = "storage_error"


class MemoryExists(StoreError):  # noqa: N818 - reads as the state it names
    """A memory of this id, or another file of its name, exists; files are never overwritten."""

    code = "conflict"


class Conflict(StoreError):  # noqa: N818
    """The base of a write is not the newest version, or its key belongs to another request."""

    code = "conflict"


class NoLongerWanted(StoreError):  # noqa: N818
    """A person has made forged forget the text of a write request, so it is not written."""


class MemoryNotFound(StoreError):  # noqa: N818
    """A request names a memory whose id is unknown in the roots that it sees."""

    code = "not_found"


class ProviderError(ForgedError):
    """A call of an embedding or chat endpoint failed or was held back, for the reason in `reason`.

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
    """An endpoint refused a request because of its size; half of it may pass.

    Its reason is bad_input, or rate_limited if one request exceeds the limit of a minute.
    """


class SharedError(ForgedError):
    """The PostgreSQL server of a team could not do a request, for the reason in `reason`.

    `reason` is one word: unreachable, timeout, busy, refused (no access), not_installed, pgvector, schema,
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
        return self.reason in {"unreachable", "timeout", "busy", "refused"}
