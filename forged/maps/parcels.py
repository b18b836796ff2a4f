"""Parcels that wait for their roots, from one daemon to the next.

A daemon that starts has what another one packed (`put`), and each root takes its own when it is opened
(`take`); one that ends leaves all that is here (`descriptors`). What no root took within a day is dropped:
its memory is needed, and texts may have been forgotten that it has vectors of.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from forged.files import Root
from forged.maps.parcel import Parcel

KEPT_S = 24 * 3600.0
# As many as a unit's FileDescriptorStoreMax= allows, and fewer than one message of a socket takes.
MOST_PARCELS = 64


class Parcels:
    """By root; of too many the oldest go. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[Parcel, float]] = {}

    def put(self, parcel: Parcel) -> None:
        """Keep a parcel for its root, in place of an older one."""
        self._waiting.pop(parcel.label.root, None)
        self._waiting[parcel.label.root] = (parcel, self._clock())
        while len(self._waiting) > MOST_PARCELS:
            del self._waiting[next(iter(self._waiting))]

    def take(self, root: Root) -> Parcel | None:
        """The parcel of a root, once."""
        return self._waiting.pop(name_of(root), (None, 0.0))[0]

    def drop_old(self) -> None:
        """Drop what waited for a day."""
        since = self._clock() - KEPT_S
        self._waiting = {name: each for name, each in self._waiting.items() if each[1] > since}

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the roots that have not taken theirs."""
        return tuple(self._waiting)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Of all that is here, to be handed on; they stay open as long as this has them."""
        return tuple(parcel.descriptor for parcel, _ in self._waiting.values())


def name_of(root: Root) -> str:
    """What a parcel calls its root."""
    return f"{root.scope}:{root.top}"
