"""Where the user has told forged to stop: everywhere, or in single repositories; it outlives a restart.

A pause is a promise about privacy, so every doubt is decided for it. A file that cannot be read means paused
everywhere, because nobody knows any more what it said. A pause holds at once even if it cannot be written, a
resumption only once it is. And resuming everywhere leaves the repositories paused that were paused by name:
who silenced one project long ago must not have it speak because of something else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

import msgspec

from forged.files import atomic

logger = logging.getLogger(__name__)

EVERYWHERE = "*"
_TOLD = {
    True: "paused only until the daemon ends, because {} cannot be written",
    False: "still paused, because {} cannot be written",
}


class _State(msgspec.Struct, frozen=True):
    """No field has a default: a file that says less than this is damaged."""

    everywhere: bool
    tops: frozenset[str]


_DECODER = msgspec.json.Decoder(_State)


class Pauses:
    """What is paused, kept in one small file. `reason` and `listed` never block."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changing = threading.Lock()
        self._damage = ""
        self._state = self._load()

    def set(self, top: str | None, paused: bool) -> None:
        """Pause or resume the repo of this top, or with None everything; durable on return.

        Blocks for an fsync. Raises StoreError: a pause then holds until the daemon ends, a resumption not.
        """
        with self._changing:
            wanted = _changed(self._state, top, paused)
            if paused:
                self._state = wanted
            with atomic.explained(_TOLD[paused].format(self._path)):
                atomic.replace(self._path, msgspec.json.encode(wanted, order="deterministic"))
            self._state = wanted
            if top is None:
                self._damage = ""

    def reason(self, tops: Collection[str]) -> str:
        """Why capture and injection stop for whoever sees these tops, or nothing."""
        state = self._state
        if state.everywhere:
            return self._damage or "paused everywhere; `forgectl resume --all` ends it"
        return "" if state.tops.isdisjoint(tops) else "paused; `forgectl resume` ends it"

    def listed(self) -> tuple[str, ...]:
        """What is paused: `*` for everything, then the tops of repositories."""
        state = self._state
        tops = tuple(sorted(state.tops))
        return (EVERYWHERE, *tops) if state.everywhere else tops

    def _load(self) -> _State:
        try:
            with open(self._path, "rb") as file:
                return _DECODER.decode(file.read())
        except FileNotFoundError:
            return _State(everywhere=False, tops=frozenset())
        except OSError as error:
            return self._doubt(f"cannot be read ({atomic.why(error)})")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._doubt("is damaged")

    def _doubt(self, trouble: str) -> _State:
        logger.warning("paused everywhere path=%s problem=%s", self._path, trouble)
        self._damage = (
            f"paused everywhere, because {self._path} {trouble} and nobody knows what was paused; "
            "`forgectl resume --all` ends it and writes the file anew"
        )
        return _State(everywhere=True, tops=frozenset())


def _changed(state: _State, top: str | None, paused: bool) -> _State:
    if top is None:
        return _State(everywhere=paused, tops=state.tops)
    tops = state.tops | {top} if paused else state.tops - {top}
    return _State(everywhere=state.everywhere, tops=tops)
