"""Why a request is not carried out, where no part of the daemon has failed: the errors of the handlers."""

from __future__ import annotations

from collections.abc import Sequence

from forged.errors import ForgedError


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """The request cannot be carried out as it is; the message says what to change."""

    code = "invalid"


class SecretFound(ForgedError):  # noqa: N818
    """What is to be written holds what looks like a secret, and nobody insisted."""

    code = "secret"


class ForgottenText(ForgedError):  # noqa: N818
    """A person forgot what an agent is about to write; only a person brings it back."""

    code = "forgotten"


class NotReady(ForgedError):  # noqa: N818
    """The answer is not known yet: a root is read for the first time, or an interrupted request finished."""

    code = "busy"


class Changed(ForgedError):  # noqa: N818
    """What a person was shown is not what is there now."""

    code = "conflict"


class Disabled(ForgedError):  # noqa: N818
    """Memory is off here. No failure: the reply says so in its `status`, with the message as `reason`."""


def insist(secrets: Sequence[str], *, allowed: bool) -> None:
    """Raises SecretFound for a secret that nobody insisted on."""
    if secrets and not allowed:
        raise SecretFound(
            f"this holds what looks like a secret ({', '.join(secrets)}) and was not written; leave it out, "
            "or insist with --allow-secret (allow_secret in the client library): agents will see it"
        )
