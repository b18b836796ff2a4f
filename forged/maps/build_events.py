"""What a person who waits for a build sees of it, and who is told.

Listeners are called on the loop, in the order of the events; one that raises breaks the build it is told of.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class BuildEvent(msgspec.Struct, frozen=True):
    """Something that a person who waits for a rebuild wants to see.

    `rate` and `left_s` are those of the line in which texts wait to be embedded.
    """

    kind: str
    root: str
    done: int = 0
    total: int = 0
    generation: int = 0
    rate: float = 0.0
    left_s: float | None = None


class BuildEvents:
    """Those who listen to the builds of all roots."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[BuildEvent], None]] = set()

    def listen(self, listener: Callable[[BuildEvent], None]) -> Callable[[], None]:
        """Have `listener` called for every event; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def tell(self, event: BuildEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
