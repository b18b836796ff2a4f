"""Tell the daemon about finished turns without the agent ever waiting for it.

The agent's thread only takes the texts of a window by reference (said.py). One background thread reads and
sends them, in slices between which the agent has the interpreter. It asks again, more and more slowly, until
a reply ends the matter (backlog.py); the event's id makes that harmless. A queue of all turns would grow
behind a stopped daemon. At the end of the process what waits is delivered, in 300 ms for all observers
together: the interpreter runs such functions while background threads still live.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol
from weakref import WeakSet

from forged_client.backlog import Backlog, BacklogItem, Verdict, of_error, of_part
from forged_client.client import Client
from forged_client.errors import ClientError
from forged_client.exchange import failed_reply, of_all_parts
from forged_client.parts import Parts
from forged_client.protocol import Captured
from forged_client.said import MessageSnapshot

EXIT_S = 0.3

# Nobody waits for the background thread, so a slow disk may have its time.
SEND_TIMEOUT_S = 10.0
FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0

# How long the sender keeps the interpreter at a time, and how long it then leaves it alone.
_SLICE_S = 0.001
_PAUSE_S = 0.001


class Observing:
    """The session of an agent, with what both kinds of observers take of it; no method raises or waits."""

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
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _add(self, kind: str, said: MessageSnapshot) -> None:
        raise NotImplementedError

    def on_turn_complete(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The window as it is now; `messages` may be changed afterwards."""
        self._add("turn", MessageSnapshot(messages, last_summary_index))

    def on_compaction(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The messages that are about to be replaced by a summary."""
        self._add("compaction", MessageSnapshot(messages, last_summary_index))

    def on_session_end(self, messages: Iterable[object], last_summary_index: int = 0) -> None:
        """The window as the session leaves it; a turn that waits and is part of it is not sent besides."""
        self._add("session_end", MessageSnapshot(messages, last_summary_index))


class Observer(Observing):
    """Observes one session of an agent; no method raises, `on_...` never wait.

    `counts` tells how often each outcome came back (`accepted`, `durable`, `rejected`, ... or the status of a
    failed call), how many windows were `replaced` by newer ones that hold them, and how many events are
    `waiting`. `dropped` were too many: of 16 windows the oldest goes, of 16 compactions and ends none, so the
    new one does. `given_up` were refused for good by a daemon that could not say why. `repaired` texts held
    something that cannot be sent, `unread` messages something that is no text. `last_reply` is the newest
    reply, None before the first. `agent` says whose session it is, for `forgectl captured`.
    """

    def _start(self) -> None:
        self._client = Client(
            self._address,
            timeout_s=SEND_TIMEOUT_S,
            autostart=self._autostart,
            strict=True,
            name="forged-observer",
        )
        self._begin()
        _observers.add(self)

    def _begin(self) -> None:
        self._backlog = Backlog()
        self._changed = threading.Condition()
        self._sender: threading.Thread | None = None
        self._closing = False
        self._slice_ends = 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        with self._changed:
            return self._backlog.counts()

    @property
    def last_reply(self) -> Captured | None:
        return self._backlog.last_reply

    def close(self, timeout_s: float = 2.0) -> bool:
        """Try once more to send what waits, for at most `timeout_s`; whether nothing waits any more."""
        self.hurry()
        if _ending.by is not None and self._sender is None:
            self._send_all()  # an interpreter that ends may start no thread
        with self._changed:
            ended = self._changed.wait_for(lambda: self._sender is None, timeout_s)
            return ended and not self._backlog.waiting

    def hurry(self) -> None:
        """Begin to close, and do not wait."""
        self._revive_after_fork()
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _add(self, kind: str, said: MessageSnapshot) -> None:
        self._revive_after_fork()
        with self._changed:
            self._backlog.add(kind, said)
            self._wake_sender()
        if _ending.by is not None:  # an agent's own last act, after ours
            self.close(_ending.seconds())

    def _revive_after_fork(self) -> None:
        if self._backlog.is_of_parent:  # it has neither the thread nor, perhaps, an open lock
            self._begin()

    def _wake_sender(self) -> None:
        self._closing = False
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_all, name="forged-observer", daemon=True)
            try:
                self._sender.start()
            except RuntimeError:  # Python 3.12 starts none once its main program has ended
                self._sender = None
        self._changed.notify_all()

    # In the background thread.

    def _send_all(self) -> None:
        retry_s = FIRST_RETRY_S
        try:
            while (event := self._taken()) is not None:
                if self._is_settled(event):
                    retry_s = FIRST_RETRY_S
                elif self._may_retry_after(retry_s):
                    retry_s = min(retry_s * 2, LAST_RETRY_S)
                else:
                    return
        finally:
            if self._sender is threading.current_thread():  # broken off
                self._end()

    def _taken(self) -> BacklogItem | None:
        """The next event, turns last; None when closed with nothing left: the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._backlog.has_next or self._closing)
            if not self._backlog.has_next:
                self._end()
            return self._backlog.take()

    def _is_settled(self, event: BacklogItem) -> bool:
        """Send an event and count the reply; one that may be taken another time waits again."""
        request = event.request(self._workspace, self._session_id, self._agent)
        parts = Parts(request, event.said, meanwhile=self._breathe)
        reply, verdict = self._answer(parts)
        with self._changed:
            return self._backlog.answered(event, reply, verdict, parts.repaired)

    def _answer(self, parts: Parts) -> tuple[Captured, Verdict]:
        """The reply that ended it: the last part's, or the first that is a refusal."""
        replies: list[Captured] = []
        try:
            for part in parts:
                replies.append(self._client.ask(part, timeout_s=_ending.seconds()))
                if not replies[-1].is_taken:
                    break
        except ClientError as error:
            return failed_reply(part, error), of_error(error)
        reply = of_all_parts(replies)
        return reply, of_part(part, reply)

    def _may_retry_after(self, seconds: float) -> bool:
        """Wait before the next attempt; a closing observer makes none."""
        with self._changed:
            was_closing = self._closing
            self._changed.wait_for(lambda: self._closing, seconds)
            if was_closing:
                self._end()
            return not was_closing

    def _breathe(self) -> None:
        """Leave the interpreter to the agent, now and then."""
        if time.monotonic() > self._slice_ends and not self._closing:
            time.sleep(_PAUSE_S)
            self._slice_ends = time.monotonic() + _SLICE_S

    def _end(self) -> None:
        """The thread ends; under the lock, so that no event comes between."""
        with self._changed:
            self._client.close()
            self._sender = None
            self._changed.notify_all()


class Held(Protocol):
    """An observer that has no thread, as long as something of it waits."""

    def at_exit(self) -> Observer | None:
        """Who sends what waits when the process ends."""


class _Ending:
    """The end of the process: when it has to be over with, once it has begun."""

    by: float | None = None

    def seconds(self) -> float:
        """How long a call may take."""
        return SEND_TIMEOUT_S if self.by is None else max(self.by - time.monotonic(), 0)


_ending = _Ending()
_observers: WeakSet[Observer] = WeakSet()
held: set[Held] = set()


@atexit.register
def _deliver_at_exit() -> None:
    _ending.by = time.monotonic() + EXIT_S
    observers = [*_observers, *filter(None, (each.at_exit() for each in held))]
    for observer in observers:
        observer.hurry()
    for observer in observers:
        observer.close(_ending.seconds())
