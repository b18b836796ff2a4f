"""Refusals that only handlers know: what a person was shown has changed, or memory is off."""

from __future__ import annotations

from forged.errors import ForgedError


class Changed(ForgedError):  # noqa: N818 - reads as the state it names
    """What a person was shown is not what is there now."""

    code = "conflict"


class Disabled(ForgedError):  # noqa: N818
    """Memory is off here. No failure: the reply says so in its `status`, with the message as `reason`."""
