"""What a person is told of a session's capture with its next reply: what was kept or refused, in sentences.

In go the documents that an event left and the requests that were refused; out come sentences by session,
until somebody was `told`. In memory only and bounded: it is for the next turn, and the newest count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from forged.capture.values import Refused
from forged.memory import Scope
from forged.state import Document
from forged.text.quoted import one_line
from forged.text.redaction import redact

SESSIONS, SENTENCES = 256, 8
_GIST = 120


class News:
    """One for the daemon; lives in its event loop."""

    def __init__(self) -> None:
        self._sentences: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def kept(self, session_id: str, documents: Iterable[Document]) -> None:
        """These are on disk now, or wait for a person."""
        self._add(session_id, map(_kept, documents))

    def refused(self, session_id: str, refused: Iterable[Refused]) -> None:
        """This was asked for and is not kept."""
        self._add(session_id, (f'not kept: "{_gist(each.text)}": {each.reason}' for each in refused))

    def of(self, session_id: str) -> tuple[str, ...]:
        """What nobody was told yet."""
        return self._sentences.get(session_id, ()) if session_id else ()

    def told(self, session_id: str, count: int) -> None:
        """The first sentences were heard."""
        if left := self.of(session_id)[count:]:
            self._sentences[session_id] = left
        else:
            self._sentences.pop(session_id, None)

    def _add(self, session_id: str, sentences: Iterable[str]) -> None:
        if not (session_id and (new := tuple(sentences))):
            return
        self._sentences[session_id] = (*self.of(session_id), *new)[-SENTENCES:]
        self._sentences.move_to_end(session_id)
        while len(self._sentences) > SESSIONS:
            self._sentences.popitem(last=False)


def _kept(document: Document) -> str:
    memory = document.memory
    if document.waits:
        return f'waits for you: "{_gist(memory.content)}": {document.waits}; see `forgectl review`'
    where = "you in all projects" if memory.scope == Scope.USER else "this repository"
    how = "in place of an older one, " if memory.supersedes else ""
    return f'kept, {how}for {where}: "{_gist(memory.content)}"; `forgectl forget {memory.id}` takes it back'


def _gist(text: str) -> str:
    return one_line(redact(text).text.strip(), _GIST)
