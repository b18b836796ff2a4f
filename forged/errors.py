"""The daemon's exceptions.

ForgedError
├── ConfigError          a key has a wrong type or range; the process exits with 78
├── WorkspaceError       a request names a workspace that is no directory here
├── InvalidRequest       a request cannot be carried out as it is
├── SecretFound          what is to be written holds what looks like a secret
├── ForgottenText        a person forgot what an agent is about to write
├── NotReady             the answer is not known yet
├── MemoryFormatError    one file is not a memory; loaders turn it into a problem value
│   └── InConflict       it holds both sides of a merge
├── StoreError           a write or removal did not happen
│   ├── MemoryExists     the id is taken; files are never overwritten
│   ├── Conflict         what it was based on has moved, or its key was used for something else
│   ├── NoLongerWanted   it was forgotten before it could be written
│   └── MemoryNotFound   no memory of that id is visible to the request
├── ProviderError        an embedding or chat endpoint failed
│   └── SizeRefused      a request was too large for it; half of it may pass
└── SharedError          the PostgreSQL server of a team gave no answer, or one that says no

Foreign exceptions are translated once, in the adapter that met them.
"""

from __future__ import annotations

# Reasons of a ProviderError for an answer that came and is of no use: refused by the model, held back by a
# filter, cut at its length limit, empty, or not in the form that was asked for. The endpoint is alive, so
# none of these counts against it; whatever was asked about waits or is given up by its own attempts.
ANSWERED = frozenset({"refused", "filtered", "cut", "empty", "unreadable"})


class ForgedError(Exception):
    """Any failure that forged itself explains. `code` is the word for it in a reply."""

    code = "internal"


class ConfigError(ForgedError):
    """A configuration value is unusable: says the key, the value, what is allowed and where it came from."""

    code = "configuration"


class WorkspaceError(ForgedError):
    """A workspace cannot be used; the message is a sentence that names it."""

    code = "invalid"


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """A request cannot be carried out as it is; the message says what to change."""

    code = "invalid"


class SecretFound(ForgedError):  # noqa: N818
    """A text to write holds what looks like a secret, and the request does not insist."""

    code = "secret"


class ForgottenText(ForgedError):  # noqa: N818
    """A person forgot what an agent is about to write; only a person brings it back."""

    code = "forgotten"


class NotReady(ForgedError):  # noqa: N818
    """The answer is not known yet: a root is read for the first time, or an interrupted request finished."""

    code = "busy"


class MemoryFormatError(ForgedError):
    """A file is not a memory; the message is the reason, without the path."""


class NoText(MemoryFormatError):  # noqa: N818
    """A file says nothing at all, so nothing is lost with it."""


class InConflict(MemoryFormatError):  # noqa: N818 - reads as the state it names
    """A text holds the markers of a merge that nobody has resolved."""


class StoreError(ForgedError):
    """A memory could not be written or removed."""

    code = "storage_error"


class MemoryExists(StoreError):  # noqa: N818 - reads as the state it names
    """A memory of this id is already on disk."""

    code = "conflict"


class Conflict(StoreError):  # noqa: N818
    """What a write was based on is not what is there; the message names that."""

    code = "conflict"


class NoLongerWanted(StoreError):  # noqa: N818
    """What was to be written is no longer wanted: it was forgotten meanwhile."""


class MemoryNotFound(StoreError):  # noqa: N818
    """No memory of this id is visible to the request."""

    code = "not_found"


class ProviderError(ForgedError):
    """An endpoint failed.

    `reason` is one word for replies and counters: unreachable, timeout, auth, rate_limited, bad_input,
    server, bad_reply; limit for one of our own, held where no text may leave; or one of `ANSWERED`.
    `status` is the HTTP status or 0. `retry_after_s` is what the endpoint asked for. The message never holds
    a key or the text that was sent.
    """

    def __init__(
        self, message: str, *, reason: str, status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s


class SizeRefused(ProviderError):  # noqa: N818 - reads as what happened
    """The endpoint says that a request was too large; half of it may pass.

    Its reason is bad_input, or rate_limited where one request exceeds what a minute allows.
    """


class SharedError(ForgedError):
    """The PostgreSQL server of a team could not do what was asked.

    `reason` is one word: unreachable, timeout, busy, refused (it does not let us in), not_installed,
    pgvector, schema, dimension, model, permission, invalid. The message is a sentence that says what mends
    it, with no password and no text of any row in it.
    """

    code = "unavailable"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def is_away(self) -> bool:
        """Whether the server may do it when it is asked again later, unchanged."""
        return self.reason in {"unreachable", "timeout", "busy", "refused"}
