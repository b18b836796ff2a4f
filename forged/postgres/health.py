"""Whether the server is worth a call: one `ServerHealth` for all who ask it.

A failure opens it at once, since a lost connection says more than an answer that was late. While it is open
everybody is refused without waiting, and one look at a time, beside them, asks whether the server is back,
first at once and then ever more seldom up to every five seconds. The first answer closes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from forged.errors import SharedError
from forged_client.protocol import SharedReport

_FIRST_S, _LONGEST_S = 0.1, 5.0
_REFUSED_S = 30.0  # a server that does not let us in wants a person, and counts who tries
# What says something about the server and not about what it was asked.
_COUNTS = frozenset({"unreachable", "timeout", "refused"})


class ServerHealth:
    """Of one server; belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._succeeded_at: float | None = None
        self._failing_since: float | None = None
        self._error: SharedError | None = None
        self._looks = 0

    @property
    def trouble(self) -> SharedError | None:
        """Why nobody should ask now, or None."""
        return None if self._error is None else SharedError(str(self._error), reason=self._error.reason)

    @property
    def next_look_s(self) -> float:
        """After how many seconds the next look should be."""
        if self._looks == 0:
            return 0.0
        refused = self._error is not None and self._error.reason == "refused"
        return _REFUSED_S if refused else min(_FIRST_S * 2 ** (self._looks - 1), _LONGEST_S)

    def succeeded(self) -> None:
        self._succeeded_at, self._failing_since, self._error, self._looks = self._clock(), None, None, 0

    def failed(self, error: SharedError) -> bool:
        """Take note; returns whether this opened it, so that somebody must look.

        An error about what was asked is an answer, and closes it.
        """
        if error.reason == "busy":
            return False
        if error.reason not in _COUNTS:
            self.succeeded()
            return False
        opened = self._error is None
        self._looks = 0 if opened else self._looks + 1
        self._failing_since = self._clock() if opened else self._failing_since
        self._error = error
        return opened

    def condition(self, server: str = "") -> SharedReport:
        """Return how the server fares, which a person knows by this name."""
        now, error = self._clock(), self._error
        untried = self._succeeded_at is None and error is None
        return SharedReport(
            server=server,
            state="untried" if untried else "ok" if error is None else "failing",
            last_success_s=None if self._succeeded_at is None else round(now - self._succeeded_at, 1),
            failing_s=None if self._failing_since is None else round(now - self._failing_since, 1),
            message="" if error is None else str(error),
            next_s=None if error is None else round(self.next_look_s, 1),
        )
