"""Notifications of capture: log entries, and sentences for a session's next reply.

Kept memories, refusals and requests to forget are entered in the capture log. The next reply reports kept
memories and refused requests; the rest is only in the log.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence

from forged.capture.values import Refused
from forged.files import Root
from forged.memory import Scope, time_ns
from forged.state import CaptureLog, CaptureLogEntry, DecidedMemory, Event

# Name of the classifier if no model is configured.
LOCAL = "builtin:rules"
AS_ASKED = "as you asked"
_FORGETTING = frozenset({"forget", "forgotten"})
NOT_THERE = "no memory here matches what you asked to forget"
_WHERE: dict[str, str] = {Scope.USER: "all your repositories", Scope.AGENT: "this agent"}


class Notifications:
    """Logs kept and refused texts, opt-outs and requests to forget, to report to their sessions.

    `classifier` names the configured model, or is empty.
    """

    def __init__(self, log: CaptureLog, *, classifier: str) -> None:
        self._log = log
        self._classifier = classifier

    def log_kept(self, event: Event, documents: Iterable[DecidedMemory]) -> None:
        """Log documents that were written or wait for review; those of past sessions are skipped."""
        if event.kind == "learned":
            return
        for document in documents:
            memory = document.memory
            entry = CaptureLogEntry(
                at=time_ns(memory.created_at) / 1e9,
                text=memory.content,
                memory_id="" if document.waits else memory.id,
                reason=f"waiting for you in `forgectl review`: {document.waits}" if document.waits else "",
                session_id=event.session_id,
                agent=event.agent,
                kind=event.kind,
                why=document.why,
                classifier=self._classifier_of(document.why),
                scope=memory.scope,
                category=memory.category,
                top=document.root.top,
                supersedes=memory.supersedes or "",
                unreported=True,
            )
            self._log.add(memory.id, entry)

    def log_refused(self, event: Event, refused: Iterable[Refused]) -> None:
        """Log refused statements; of a past session nothing, of a compaction nothing twice."""
        if event.kind == "learned":
            return
        for each in refused:
            if event.kind == "compaction" and self._log.is_refused(event.session_id, each.text):
                continue  # its session is classified again
            why = "request" if each.asked else ""
            entry = CaptureLogEntry(
                at=time.time(),
                text=each.text,
                reason=each.reason,
                session_id=event.session_id,
                agent=event.agent,
                kind=event.kind,
                why=why,
                classifier=self._classifier or LOCAL,
                top=event.roots[0].top if event.roots else "",
                unreported=each.asked,
            )
            said = hashlib.blake2b(f"{each.text}\n{each.reason}".encode(), digest_size=8).hexdigest()
            self._log.add(f"{event.id} {said}", entry)

    def log_off_record(self, session_id: str, agent: str, top: str, key: str) -> None:
        """Log that a message opts out, without its text, once for each message's `key`."""
        entry = CaptureLogEntry(
            at=time.time(),
            reason=AS_ASKED,
            session_id=session_id,
            agent=agent,
            why="refusal",
            classifier=LOCAL,
            top=top,
            unreported=True,
        )
        self._log.add(f"off record {key}", entry)

    def log_forget_request(
        self,
        session_id: str,
        agent: str,
        root: Root,
        key: str,
        *,
        memory_id: str = "",
        content: str = "",
        others: Sequence[str] = (),
        is_gone: bool = False,
    ) -> None:
        """Log a request to forget: the memory that it means, and if it is gone, or that there is none.

        `others` are ids of memories that it may mean as well.
        """
        entry = CaptureLogEntry(
            at=time.time(),
            text=content,
            memory_id=memory_id,
            reason=_reason_to_wait(memory_id, others) if memory_id else NOT_THERE,
            session_id=session_id,
            agent=agent,
            why="forgotten" if is_gone else "forget",
            classifier=LOCAL,
            scope=root.scope,
            top=root.top,
            unreported=True,
        )
        self._log.add(f"forget {key}", entry)

    def is_answered(self, key: str) -> bool:
        """Return True if a request to forget is logged already, by the key of its message."""
        return f"forget {key}" in self._log

    def log_forget_newest(self, session_id: str, key: str) -> bool:
        """Log an opt-out as a request to forget the session's newest memory; False if none."""
        of_session = (each for each in self._log.listed() if each.session_id == session_id)
        last = next((each for each in of_session if each.memory_id and each.why not in _FORGETTING), None)
        if last is None or not last.text:
            return False
        root = Root(last.top, Scope(last.scope))
        self.log_forget_request(
            session_id, last.agent, root, key, memory_id=last.memory_id, content=last.text
        )
        return True

    def unreported(self, session_id: str) -> tuple[str, ...]:
        """Return a sentence for each log entry that no reply has reported to its session yet."""
        return tuple(map(_sentence, self._log.unreported(session_id)))

    def mark_reported(self, session_id: str, count: int) -> None:
        """Mark the first `count` sentences of a session as reported."""
        self._log.mark_reported(session_id, count)

    def _classifier_of(self, why: str) -> str:
        """Return the classifier's name for a reason word: the model for `model`, else the built-in rules."""
        return self._classifier if self._classifier and why == "model" else LOCAL


def unanswered(
    event: Event, documents: Sequence[DecidedMemory], refused: Sequence[Refused]
) -> tuple[Refused, ...]:
    """Return a refusal for an explicit request that brought no document and no refusal, else nothing."""
    if event.kind != "explicit" or event.is_slice or documents or refused:
        return ()
    typed = [utterance.text for utterance in event.window if utterance.role == "user"]
    return (Refused(typed[-1] if typed else "", "nothing in it looks worth saving"),)


def _sentence(entry: CaptureLogEntry) -> str:
    """Return the sentence that reports a log entry to the session."""
    if entry.why == "refusal":
        return f"not saved, {entry.reason}"
    if entry.why == "forgotten":
        return f'forgotten: "{entry.text}"; undo within 7 days: `forgectl restore {entry.memory_id}`'
    if entry.why == "forget":
        return _sentence_on_forgetting(entry)
    if not entry.memory_id:
        what = f'"{entry.text}": ' if entry.text else ""
        return f"not saved: {what}{entry.reason}"
    where = _WHERE.get(entry.scope, "this repository")
    how = "replacing an older memory, " if entry.supersedes else ""
    back = f"undo: `forgectl forget {entry.memory_id}`"
    return f'saved, {how}for {where}: "{entry.text}"; {back}'


def _sentence_on_forgetting(entry: CaptureLogEntry) -> str:
    """Return the sentence on a request that nothing was forgotten for: the memories that it may mean."""
    if not entry.memory_id:
        return entry.reason
    if not entry.reason:
        return f'not forgotten yet: "{entry.text}"; `forgectl forget {entry.memory_id}` forgets it'
    return f'not forgotten: "{entry.text}" is {entry.reason}'


def _reason_to_wait(memory_id: str, others: Sequence[str]) -> str:
    """Return why a memory is not forgotten: other memories may be meant; "" without others."""
    commands = ", ".join(f"`forgectl forget {each}`" for each in (memory_id, *others))
    return f"one of several that may be meant; one of these forgets it: {commands}" if others else ""
