"""Tells the daemon about finished turns without the agent ever waiting for it.

The agent's own thread only takes a snapshot of the window; one background thread sends. A turn replaces the
one still waiting if its window starts at the same message, since it then contains it; across a summary both
wait. Compactions and the session's end are different: that text is about to disappear from the conversation,
so they queue in order, before the turns, and are never replaced. What could not be delivered stays waiting
and is tried again. The alternative, a queue of all turns, would grow behind a stopped daemon and then hand it
the same text many times.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from forged_client.client import Client
from forged_client.messages import capture_request
from forged_client.protocol import Capture, Captured

MAX_LASTING = 16
MAX_WINDOWS = 16

# Nobody waits for the background thread, so a slow disk may have its time.
_SEND_TIMEOUT_S = 10.0
_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0

_TURN, _END = "turn", "session_end"


class Observer:
    """Observes one session of an agent; no method raises, `on_...` never wait.

    `counts` tells how often each outcome came back (`accepted`, `durable`, `rejected`, ... or the status of a
    failed call), how many windows were `replaced` by newer ones and how many events were `dropped` because
    too many were waiting: of 16 windows the oldest goes, of 16 compactions and ends none, so the new one
    does. `last_reply` is the newest reply, None before the first.
    """

    def __init__(
        self, workspace: str, session_id: str, *, address: str | None = None, autostart: bool = False
    ) -> None:
        self._workspace = workspace
        self._session_id = session_id
        self._client = Client(address, timeout_s=_SEND_TIMEOUT_S, autostart=autostart, name="forged-observer")
        self.last_reply: Captured | None = None
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._turns: dict[str, Capture] = {}  # by window, oldest first
        self._lasting: deque[Capture] = deque()
        self._counts: Counter[str] = Counter()
        self._sender: threading.Thread | None = None
        self._closing = False

    @property
    def counts(self) -> Mapping[str, int]:
        with self._changed:
            return dict(self._counts)

    def on_turn_complete(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The window as it is now; `messages` may be changed afterwards."""
        event = self._event(_TURN, messages, last_summary_index)
        self._revive_after_fork()
        with self._changed:
            self._drop_replaced(event.window_id)
            self._turns[event.window_id] = event
            self._drop_oldest_windows()
            self._wake_sender()

    def on_compaction(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The messages that are about to be replaced by a summary."""
        self._queue(self._event("compaction", messages, last_summary_index))

    def on_session_end(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The window as the session leaves it; the turn that waits of the same window is part of it."""
        self._queue(self._event("session_end", messages, last_summary_index))

    def close(self, timeout_s: float = 2.0) -> bool:
        """Try once more to send what waits, for at most `timeout_s`; whether nothing waits any more."""
        self._revive_after_fork()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._sender is None, timeout_s)
            return ended and not self._waits()

    def _event(self, kind: str, messages: Iterable[object], last_summary_index: int) -> Capture:
        # All conversion is done here: in the background it would hold the interpreter against the agent.
        return capture_request(
            self._workspace,
            self._session_id,
            messages,
            kind=kind,
            last_summary_index=last_summary_index,
        )

    def _queue(self, event: Capture) -> None:
        self._revive_after_fork()
        with self._changed:
            if len(self._lasting) >= MAX_LASTING:
                self._counts["dropped"] += 1
                return
            self._lasting.append(event)
            if event.kind == _END:
                self._drop_replaced(event.window_id)
            self._wake_sender()

    def _revive_after_fork(self) -> None:
        # A forked child has neither the thread nor, perhaps, an open lock; its parent sends what waited.
        if self._pid != os.getpid():
            self._begin()

    def _waits(self) -> bool:
        return bool(self._turns or self._lasting)

    def _drop_replaced(self, window_id: str) -> None:
        if self._turns.pop(window_id, None) is not None:
            self._counts["replaced"] += 1

    def _drop_oldest_windows(self) -> None:
        while len(self._turns) > MAX_WINDOWS:
            del self._turns[next(iter(self._turns))]
            self._counts["dropped"] += 1

    def _wake_sender(self) -> None:
        self._closing = False
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_all, name="forged-observer", daemon=True)
            self._sender.start()
        self._changed.notify_all()

    # In the background thread.

    def _send_all(self) -> None:
        retry_s = _FIRST_RETRY_S
        while (event := self._taken()) is not None:
            if self._is_settled(event, self._client.ask(event)):
                retry_s = _FIRST_RETRY_S
                continue
            if not self._may_retry_after(retry_s):
                return
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    def _taken(self) -> Capture | None:
        """The next event, turns last; None when closed with nothing left: the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waits() or self._closing)
            if self._lasting:
                return self._lasting.popleft()
            if self._turns:
                return self._turns.pop(next(iter(self._turns)))
            self._end()
            return None

    def _is_settled(self, event: Capture, reply: Captured) -> bool:
        """Count the reply; an event that never reached the daemon (`unavailable`) waits again."""
        with self._changed:
            self.last_reply = reply
            self._counts[reply.outcome if reply.status == "ok" else reply.status] += 1
            if reply.status != "unavailable":
                return True
            self._put_back(event)
            return False

    def _put_back(self, event: Capture) -> None:
        window_id = event.window_id
        if event.kind != _TURN:
            self._lasting.appendleft(event)
        elif window_id in self._turns or any(
            other.kind == _END and other.window_id == window_id for other in self._lasting
        ):
            self._counts["replaced"] += 1
        else:
            self._turns = {window_id: event, **self._turns}
            self._drop_oldest_windows()

    def _may_retry_after(self, seconds: float) -> bool:
        """Wait before the next attempt; a closing observer makes none."""
        with self._changed:
            was_closing = self._closing
            self._changed.wait_for(lambda: self._closing, seconds)
            if was_closing:
                self._end()
            return not was_closing

    def _end(self) -> None:
        self._client.close()
        self._sender = None
        self._changed.notify_all()
