"""Why a request is not carried out: the errors of the handlers, and the wire code of every domain error."""

from __future__ import annotations

from forged.errors import ConfigError, ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """The request cannot be carried out as it is; the message says what to change."""


class NotReady(ForgedError):  # noqa: N818
    """The answer is not known yet, because a root is being read for the first time."""


class Disabled(ForgedError):  # noqa: N818
    """Memory is off here. No failure: the reply says so in its `status`, with the message as `reason`."""


def code_of(error: ForgedError) -> str:
    """The wire code of a domain error."""
    match error:
        case MemoryNotFound():
            return "not_found"
        case MemoryExists():
            return "conflict"
        case StoreError():
            return "storage_error"
        case InvalidRequest() | WorkspaceError():
            return "invalid"
        case NotReady():
            return "busy"
        case ConfigError():
            return "configuration"
    return "internal"
