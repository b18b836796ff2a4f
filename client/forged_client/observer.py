"""Report finished turns to the daemon from a background thread; the agent never waits.

The agent's thread only stores references to the texts of a window (message_snapshot.py). One background
thread reads and sends them, in slices between which the agent has the interpreter. It retries, more and more
slowly, until a reply settles the event (delivery_queue.py). The event's id makes a second attempt harmless.
There is no queue of all turns, which would grow behind a stopped daemon. At the end of the process the
pending events are delivered, in 300 ms for all observers together. The interpreter runs such functions while
background threads are still alive.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol
from weakref import WeakSet

from forged_client.capture_parts import SplitCapture
from forged_client.client import Client
from forged_client.delivery_queue import (
    DeliveryQueue,
    PendingEvent,
    Verdict,
    verdict_on_error,
    verdict_on_part,
)
from forged_client.errors import ClientError
from forged_client.exchange import failed_reply, reply_of_all_parts
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import Captured

EXIT_S = 0.3

# No caller waits for the background thread, so a slow disk has time.
SEND_TIMEOUT_S = 10.0
FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0

# Seconds for which the sender keeps the interpreter at a time, and then pauses.
_SLICE_S = 0.001
_PAUSE_S = 0.001


class BaseObserver:
    """Base of both observers: queues a session's events for capture; `on_...` never raise or wait."""

    def __init__(
        self,
        workspace: str,
        session_id: str,
        *,
        address: str | None = None,
        autostart: bool = False,
        agent: str = "",
    ) -> None:
        self._workspace = workspace
        self._session_id = session_id
        self._address = address
        self._autostart = autostart
        self._agent = agent
        self._set_up()

    def _set_up(self) -> None:
        raise NotImplementedError

    def _enqueue(self, kind: str, snapshot: MessageSnapshot) -> None:
        """Queue an event, to be sent without a wait of the caller; each subclass implements this."""
        raise NotImplementedError

    def on_turn_complete(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """Queue a turn's messages, as they are now, for capture; the caller may change them afterwards."""
        self._enqueue("turn", MessageSnapshot(messages, last_summary_index))

    def on_compaction(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """Queue the messages that a summary is about to replace, for capture."""
        self._enqueue("compaction", MessageSnapshot(messages, last_summary_index))

    def on_session_end(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """Queue the messages at a session's end for capture, in place of pending turns they begin with."""
        self._enqueue("session_end", MessageSnapshot(messages, last_summary_index))


class Observer(BaseObserver):
    """Hands over one session's events for capture by a thread; no method raises, and `on_...` never wait.

    `counts` is how often each outcome came back (`accepted`, `durable`, `rejected`, ... or the status of a
    failed call). It also counts windows that were `replaced` by newer ones with the same text, and events
    that are `waiting`. `dropped` events were too many: of 16 windows the oldest goes; of 16 compactions and
    ends the new one does. `given_up` events were refused for good by a daemon that could not give the
    reason. `repaired` texts held characters that cannot be sent, and `unread` messages held parts without
    text. `last_reply` is the newest reply, None before the first. `agent` is the name of the agent, for
    `forgectl captured`.
    """

    def _set_up(self) -> None:
        self._client = Client(
            self._address,
            timeout_s=SEND_TIMEOUT_S,
            autostart=self._autostart,
            strict=True,
            name="forged-observer",
        )
        self._reset()
        _observers.add(self)

    def _reset(self) -> None:
        """Create an empty queue and a lock, without a sender thread; also in a forked child."""
        self._queue = DeliveryQueue()
        self._changed = threading.Condition()
        self._sender: threading.Thread | None = None
        self._closing = False
        self._slice_ends = 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        """Return counts: of replies by outcome, and of events replaced, dropped, given up and waiting."""
        with self._changed:
            return self._queue.counts()

    @property
    def last_reply(self) -> Captured | None:
        """Return the newest reply to an event (for a failed call, one made here); None before the first."""
        return self._queue.last_reply

    def close(self, timeout_s: float = 2.0) -> bool:
        """Try once more to send pending events, for at most `timeout_s`; return True if none is left."""
        self.start_closing()
        if _ending.by is not None and self._sender is None:
            self._send_all()  # at the end of the interpreter no thread can start
        with self._changed:
            ended = self._changed.wait_for(lambda: self._sender is None, timeout_s)
            return ended and not self._queue.waiting

    def start_closing(self) -> None:
        """Ask the sender to try pending events once more and then stop; do not wait for it."""
        self._reset_after_fork()
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _enqueue(self, kind: str, snapshot: MessageSnapshot) -> None:
        """Add an event to the queue and wake the sender; at the end of the process send it at once."""
        self._reset_after_fork()
        with self._changed:
            self._queue.add(kind, snapshot)
            self._wake_sender()
        if _ending.by is not None:  # an event of the agent's own exit handler
            self.close(_ending.seconds())

    def _reset_after_fork(self) -> None:
        """Drop the parent's events and state in a forked child."""
        if self._queue.is_of_parent:  # a forked child has no sender thread, and the lock may be held
            self._reset()

    def _wake_sender(self) -> None:
        self._closing = False
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_all, name="forged-observer", daemon=True)
            try:
                self._sender.start()
            except RuntimeError:  # Python 3.12 starts none once its main program has ended
                self._sender = None
        self._changed.notify_all()

    # Runs in the background thread.

    def _send_all(self) -> None:
        """Send events as they are queued, with growing waits after failures, until the observer closes."""
        retry_s = FIRST_RETRY_S
        try:
            while (event := self._take_next()) is not None:
                if self._deliver(event):
                    retry_s = FIRST_RETRY_S
                elif self._wait_to_retry(retry_s):
                    retry_s = min(retry_s * 2, LAST_RETRY_S)
                else:
                    return
        finally:
            if self._sender is threading.current_thread():  # an error ended the loop
                self._end_sender()

    def _take_next(self) -> PendingEvent | None:
        """Wait for the next event; when closing with none left, end the sender and return None."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue.has_next or self._closing)
            if not self._queue.has_next:
                self._end_sender()
            return self._queue.take()

    def _deliver(self, event: PendingEvent) -> bool:
        """Send an event and count the reply; return False if the event has to be sent again."""
        request = event.request(self._workspace, self._session_id, self._agent)
        parts = SplitCapture(request, event.snapshot, meanwhile=self._yield_interpreter)
        reply, verdict = self._send_parts(parts)
        with self._changed:
            return self._queue.record_reply(event, reply, verdict, parts.repaired)

    def _send_parts(self, parts: SplitCapture) -> tuple[Captured, Verdict]:
        """Send an event's parts until one is refused or fails; return one reply for all, and the verdict."""
        replies: list[Captured] = []
        try:
            for part in parts:
                replies.append(self._client.ask(part, timeout_s=_ending.seconds()))
                if not replies[-1].is_taken:
                    break
        except ClientError as error:
            return failed_reply(part, error), verdict_on_error(error)
        reply = reply_of_all_parts(replies)
        return reply, verdict_on_part(part, reply)

    def _wait_to_retry(self, seconds: float) -> bool:
        """Wait `seconds` or until a close begins; if one had begun, end the sender and return False."""
        with self._changed:
            was_closing = self._closing
            self._changed.wait_for(lambda: self._closing, seconds)
            if was_closing:
                self._end_sender()
            return not was_closing

    def _yield_interpreter(self) -> None:
        """Sleep for a millisecond after each millisecond of work, so that the agent's threads can run."""
        if time.monotonic() > self._slice_ends and not self._closing:
            time.sleep(_PAUSE_S)
            self._slice_ends = time.monotonic() + _SLICE_S

    def _end_sender(self) -> None:
        """Close the client and note that the sender has ended, under the lock, so no event is missed."""
        with self._changed:
            self._client.close()
            self._sender = None
            self._changed.notify_all()


class PendingAtExit(Protocol):
    """Interface of an observer without a thread, whose pending events an `Observer` sends at exit."""

    def observer_for_exit(self) -> Observer | None:
        """Return an `Observer` that sends the pending events when the process ends; None without events."""


class _ProcessEnd:
    """Deadline of the last deliveries of all observers, which is set when the process begins to end."""

    by: float | None = None

    def seconds(self) -> float:
        return SEND_TIMEOUT_S if self.by is None else max(self.by - time.monotonic(), 0)


_ending = _ProcessEnd()
_observers: WeakSet[Observer] = WeakSet()
pending_at_exit: set[PendingAtExit] = set()


@atexit.register
def _deliver_at_exit() -> None:
    """Send the pending events of all observers when the process ends, within `EXIT_S` seconds."""
    _ending.by = time.monotonic() + EXIT_S
    observers = [*_observers, *filter(None, (each.observer_for_exit() for each in pending_at_exit))]
    for observer in observers:
        observer.start_closing()
    for observer in observers:
        observer.close(_ending.seconds())
