"""Whether something that was typed should be judged at once, and not with the turns that follow.

What the local rules recognise, corrections and requests to remember in seven languages, is not to wait. Of
a long message both ends are read, where the person's own words are. Costs milliseconds a message, and some
0.3 s the first time: it is asked in a thread. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Characters of each end of a message that are read: a pattern keeps the interpreter while it is at work.
_END = 3_000


def is_urgent(typed: Sequence[str]) -> bool:
    """Whether one of these messages says by itself that it lasts, corrects, or asks to remember."""
    # Only a daemon with a model comes here.
    from forged.capture.rules.engine import is_led_in, proposals_in  # noqa: PLC0415
    from forged.capture.rules.lasting import corrects  # noqa: PLC0415
    from forged.capture.rules.prose import sentences  # noqa: PLC0415
    from forged.capture.rules.requests import asks  # noqa: PLC0415

    said = [(end, [*sentences(end)]) for text in typed for end in _ends(text)]
    return any(
        any(is_led_in(each) or asks(each) or corrects(each) for each in told) or proposals_in(text, told)
        for text, told in said
    )


def _ends(text: str) -> Iterator[str]:
    yield from (text,) if len(text) <= 2 * _END else (text[:_END], text[-_END:])
