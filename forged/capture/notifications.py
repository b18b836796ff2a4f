"""Notifications of capture: sentences with a session's next reply, and records for who looks.

Kept memories, refusals and requests to forget go on record in the state, of which the sentences are made.
Told is what was kept, and what somebody asked for and is refused; the rest is on record only.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence

from forged.capture.values import Refused
from forged.files import Root
from forged.memory import Scope, time_ns
from forged.state import DecidedMemory, Event, Judgement, JudgementLog

# Who judges where no model does.
LOCAL = "builtin:rules"
AS_ASKED = "as you asked"
NOT_THERE = "no memory here matches what you asked to forget"
_WHERE: dict[str, str] = {Scope.USER: "all your repositories", Scope.AGENT: "this agent"}


class Notifications:
    """One for the daemon; lives in its event loop. `classifier` is the model that judges, or nothing."""

    def __init__(self, judged: JudgementLog, *, classifier: str) -> None:
        self._judged = judged
        self._classifier = classifier

    def kept(self, event: Event, documents: Iterable[DecidedMemory]) -> None:
        """Record documents on disk, or waiting for a person; of past sessions that person looks himself."""
        if event.kind == "learned":
            return
        for document in documents:
            memory = document.memory
            judgement = Judgement(
                at=time_ns(memory.created_at) / 1e9,
                text=memory.content,
                memory_id="" if document.waits else memory.id,
                reason=f"waiting for you in `forgectl review`: {document.waits}" if document.waits else "",
                session_id=event.session_id,
                agent=event.agent,
                kind=event.kind,
                why=document.why,
                classifier=self._judge(document.why),
                scope=memory.scope,
                category=memory.category,
                top=document.root.top,
                supersedes=memory.supersedes or "",
                untold=True,
            )
            self._judged.add(memory.id, judgement)

    def refused(self, event: Event, refused: Iterable[Refused]) -> None:
        """This is not kept."""
        if event.kind == "learned":
            return
        for each in refused:
            if event.kind == "compaction" and self._judged.is_refused(event.session_id, each.text):
                continue  # its session is judged once more
            why = "request" if each.asked else ""
            judgement = Judgement(
                at=time.time(),
                text=each.text,
                reason=each.reason,
                session_id=event.session_id,
                agent=event.agent,
                kind=event.kind,
                why=why,
                classifier=self._classifier or LOCAL,
                top=event.roots[0].top if event.roots else "",
                untold=each.asked,
            )
            said = hashlib.blake2b(f"{each.text}\n{each.reason}".encode(), digest_size=8).hexdigest()
            self._judged.add(f"{event.id} {said}", judgement)

    def off_record(self, session_id: str, agent: str, top: str, key: str) -> None:
        """Record a message that refuses to be remembered; by its `key` it is answered once."""
        judgement = Judgement(
            at=time.time(),
            reason=AS_ASKED,
            session_id=session_id,
            agent=agent,
            why="refusal",
            classifier=LOCAL,
            top=top,
            untold=True,
        )
        self._judged.add(f"off record {key}", judgement)

    def meant(
        self, session_id: str, agent: str, root: Root, key: str, *, memory_id: str = "", content: str = ""
    ) -> None:
        """Record that a message asks to forget a memory, or something that no memory says."""
        judgement = Judgement(
            at=time.time(),
            text=content,
            memory_id=memory_id,
            reason="" if memory_id else NOT_THERE,
            session_id=session_id,
            agent=agent,
            why="forget",
            classifier=LOCAL,
            scope=root.scope,
            top=root.top,
            untold=True,
        )
        self._judged.add(f"forget {key}", judgement)

    def point_back(self, session_id: str, key: str) -> bool:
        """Name the last memory of a session whose message refuses what came before; False if none."""
        of_session = (each for each in self._judged.listed() if each.session_id == session_id)
        last = next((each for each in of_session if each.memory_id and each.why != "forget"), None)
        if last is None or not last.text:
            return False
        root = Root(last.top, Scope(last.scope))
        self.meant(session_id, last.agent, root, key, memory_id=last.memory_id, content=last.text)
        return True

    def of(self, session_id: str) -> tuple[str, ...]:
        """What nobody was told yet."""
        return tuple(map(_sentence, self._judged.untold(session_id)))

    def told(self, session_id: str, count: int) -> None:
        """The first sentences were heard."""
        self._judged.told(session_id, count)

    def _judge(self, why: str) -> str:
        return self._classifier if self._classifier and why == "model" else LOCAL


def unanswered(
    event: Event, documents: Sequence[DecidedMemory], refused: Sequence[Refused]
) -> tuple[Refused, ...]:
    """The refusal of a request that came to nothing at all, whatever judged it; else nothing."""
    if event.kind != "explicit" or event.is_slice or documents or refused:
        return ()
    typed = [utterance.text for utterance in event.window if utterance.role == "user"]
    return (Refused(typed[-1] if typed else "", "nothing in it looks worth saving"),)


def _sentence(judgement: Judgement) -> str:
    if judgement.why == "refusal":
        return f"not saved, {judgement.reason}"
    if judgement.why == "forget":
        command = f"`forgectl forget {judgement.memory_id}` forgets it"
        return (
            f'not forgotten yet: "{judgement.text}"; {command}' if judgement.memory_id else judgement.reason
        )
    if not judgement.memory_id:
        what = f'"{judgement.text}": ' if judgement.text else ""
        return f"not saved: {what}{judgement.reason}"
    where = _WHERE.get(judgement.scope, "this repository")
    how = "replacing an older memory, " if judgement.supersedes else ""
    back = f"undo: `forgectl forget {judgement.memory_id}`"
    return f'saved, {how}for {where}: "{judgement.text}"; {back}'
