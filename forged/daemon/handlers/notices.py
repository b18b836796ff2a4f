"""What a person is told, and no model, about memories that are withheld: one sentence, one command."""

from __future__ import annotations

import shlex
from collections import OrderedDict

from forged.trust import KnownRoot

MOST_KEPT = 1024


class Notices:
    """Which session was told of which root; the newest 1,024."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def is_first(self, session_id: str, top: str) -> bool:
        """Whether the session was not told yet; it counts as told from now on. No session is told always."""
        if not session_id:
            return True
        is_first = (session_id, top) not in self._told
        self._told[session_id, top] = None
        self._told.move_to_end((session_id, top))
        while len(self._told) > MOST_KEPT:
            self._told.popitem(last=False)
        return is_first


def sentence(known: KnownRoot, count: int) -> str:
    """Why `count` memories of a root are not used, and the command that mends it."""
    if known.state == "unread":
        what = "1 memory" if count == 1 else f"{count:,} memories"
        return f"{what} in {known.top} cannot be used now: {known.reason}"
    what = "1 memory is" if count == 1 else f"{count:,} memories are"
    told, top = f"{what} withheld in {known.top}", shlex.quote(known.top)
    if known.state == "trusted":
        return f"{told}: what you trusted there does not cover them; `forgectl review {top}` shows them"
    if "`forgectl " in known.reason:  # it names what has to come first
        return f"{told}: {known.reason}"
    if known.reason:
        return f"{told}: {known.reason}; `forgectl trust {top}` shows them and asks"
    these = "it" if count == 1 else "these"
    if known.state == "own":
        return (
            f"{told}: no record that forged or you wrote {these}: brought by git, reinstalled or restored? "
            f"Yes is safe if you know who wrote {these}; `forgectl trust {top}` shows them and asks once"
        )
    return (
        f"{told}: no record that forged wrote {these}: reinstalled, restored or cloned? A repository that "
        "comes with memories, hand-written ones included, is asked about once. Yes is safe if you know who "
        "wrote in it, and `--under DIR` takes every repository below DIR; "
        f"`forgectl trust {top}` shows them and asks once"
    )
