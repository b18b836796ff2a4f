"""Whether something that was typed should be judged at once, and not with the turns that follow.

What the local rules recognise, corrections and requests to remember in seven languages, is not to wait. Costs
milliseconds a message, and some 70 ms the first time: it is asked in a thread. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence


def is_urgent(typed: Sequence[str]) -> bool:
    """Whether one of these messages says by itself that it lasts, corrects, or asks to remember."""
    # Only a daemon with a model comes here.
    from forged.capture.rules.engine import asks_to_remember, proposals_in  # noqa: PLC0415
    from forged.capture.rules.lasting import corrects  # noqa: PLC0415
    from forged.capture.rules.prose import sentences  # noqa: PLC0415
    from forged.capture.rules.requests import asks  # noqa: PLC0415

    return any(
        asks_to_remember(text)
        or any(asks(each) or corrects(each) for each in sentences(text))
        or proposals_in(text)
        for text in typed
    )
