"""Log of statements that capture kept or refused, for a person and for the session's next reply.

A `CaptureLogEntry` holds the beginning of a statement, without secrets; forgetting removes it here, too.
Refused entries expire after 7 days, kept ones after 30; beyond the limit the oldest go. Reads use memory.
`save` runs before an event ends, so an entry is as durable as its event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from forged.files import Root
from forged.state.database import Database, Row
from forged.state.rows import Rows
from forged.text.forgetting import without_sentences, words_of
from forged.text.injected_text import one_line
from forged.text.redaction import redact

MOST = 2000
KEPT_S, REFUSED_S = 30 * 24 * 3600.0, 7 * 24 * 3600.0
# Most unreported entries of a session; the newest count.
MOST_UNREPORTED = 8
_GIST = 120
FORGOTTEN = "saved, and removed since"
_KEY_BYTES = 8
# Characters: longest secret, and longest text that can be within an excerpt.
_SECRET, _SAME = 16_000, 2_000
_TIDY_EVERY_S = 60.0


class CaptureLogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Log entry of a statement or request in capture: a `memory_id` if saved, else a `reason`.

    `at` is Unix seconds. `agent` and `kind` are those of the capture. `why` is request, rule, linear or
    model; `classifier` names the classifier that decided. `unreported`: the session's next reply should
    report it.
    """

    at: float
    text: str = ""
    memory_id: str = ""
    reason: str = ""
    session_id: str = ""
    agent: str = ""
    kind: str = ""
    why: str = ""
    classifier: str = ""
    scope: str = ""
    category: str = ""
    top: str = ""
    supersedes: str = ""
    unreported: bool = False

    @property
    def until(self) -> float:
        """Return the Unix time when the entry expires: `at` plus 30 days with a memory, else 7."""
        return self.at + (KEPT_S if self.memory_id else REFUSED_S)


class CaptureLog(Rows[CaptureLogEntry]):
    """Table of statements that capture kept or refused, for a person and for reports in replies.

    `due` has the keys of each session's unreported entries, oldest first.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """Register the table in `database`; `clock` gives Unix seconds."""
        super().__init__(database, "capture_log", CaptureLogEntry, most=MOST, clock=clock)
        self.due: dict[str, list[str]] = {}
        self._tidied_at = 0.0

    def restore(self, found: Iterable[Row[CaptureLogEntry]]) -> None:
        """Take over the file's entries at open, queue their reports, and drop expired ones."""
        super().restore(found)
        self.due = {}
        for key, each in self.items():
            self._queue_report(key, each)
        self._drop_expired()

    def listed(self) -> tuple[CaptureLogEntry, ...]:
        """Return all entries that have not expired, newest first."""
        self._drop_expired()
        return tuple(sorted(self.values(), key=lambda each: -each.at))

    def unreported(self, session_id: str) -> tuple[CaptureLogEntry, ...]:
        """Return the entries that a session's next reply should report, oldest first."""
        return tuple(self[key] for key in self.due.get(session_id, ()))

    def is_refused(self, session_id: str, text: str) -> bool:
        """Return True if the log has an entry of this session with this text that was not saved."""
        said = gist(text)
        return any(
            each.reason and each.text == said and each.session_id == session_id for each in self.values()
        )

    def add(self, key: str, entry: CaptureLogEntry) -> None:
        """Add an entry, redacted and cut, unless its key exists; queue its report if unreported."""
        if key in self:
            return
        entry = replace(entry, text=gist(entry.text))
        self.update({key: entry}, at=entry.at)
        self._queue_report(key, entry)

    def decide(
        self, key: str, text: str, *, memory_id: str = "", reason: str = "", root: Root | None = None
    ) -> None:
        """Update a proposal's log entry by a person's decision: the memory saved, or a reason."""
        if (waited := self.get(key)) is not None:
            if root is not None:
                waited = replace(waited, top=root.top, scope=root.scope)
            self._put(key, replace(waited, text=gist(text), memory_id=memory_id, reason=reason))

    def mark_reported(self, session_id: str, count: int) -> None:
        """Mark the first `count` unreported entries of a session as reported, after a reply with them.

        The text of a forgotten memory leaves the log.
        """
        waiting = self.due.get(session_id, [])
        for key in waiting[:count]:
            text = "" if self[key].why == "forgotten" else self[key].text
            self._put(key, replace(self[key], text=text, unreported=False))
        self.due[session_id] = waiting[count:]
        if not self.due[session_id]:
            del self.due[session_id]

    async def forget(self, memory_ids: Collection[str], contents: Collection[str]) -> None:
        """Erase the ids and texts of these memories from all entries, and texts that say the same; durable.

        The fact that a statement was kept and forgotten stays. Raises StoreError.
        """
        short = (each for each in contents if len(each) <= _SAME)
        unwanted = [words for words in map(words_of, short) if words]
        gists = set(map(gist, contents))

        def says_unwanted(each: CaptureLogEntry) -> bool:
            is_gist = not each.memory_id and each.text in gists
            return is_gist or without_sentences(each.text, unwanted)[1] > 0

        for key, each in self.items():
            if each.memory_id and each.memory_id in memory_ids:
                gone = replace(each, text="", memory_id="", supersedes="", reason=FORGOTTEN, unreported=False)
                self._rename(key, token_hex(_KEY_BYTES), gone)
            elif each.text and says_unwanted(each):
                self._put(key, replace(each, text="", unreported=False))
        await self._finish_removal(memory_ids)

    async def record_move(self, memory_ids: Collection[str], memory_id: str, top: str, scope: str) -> None:
        """Give entries of moved memories the new id and root, durably on return. Raises StoreError."""
        for key, each in self.items():
            if each.memory_id and each.memory_id in memory_ids:
                there = replace(each, memory_id=memory_id, top=top, scope=scope)
                self._rename(key, token_hex(_KEY_BYTES), there)
        await self._finish_removal(memory_ids)

    async def save(self) -> None:
        """Drop expired entries and write changes. Raises nothing; failed writes are repeated later."""
        self._drop_expired()
        await super().save()

    def _put(self, key: str, entry: CaptureLogEntry) -> None:
        """Replace the entry of a key, in place and with its old time."""
        self.update({key: entry}, renew=False)

    def _rename(self, key: str, name: str, entry: CaptureLogEntry) -> None:
        """Put a changed entry under a new key in place of the old one, also in the queue of reports."""
        self.update({key: None, name: entry}, at=entry.at)
        for keys in self.due.values():
            keys[:] = [name if each == key else each for each in keys]

    async def _finish_removal(self, gone: Collection[str]) -> None:
        """Clear `supersedes` of removed memories, renew the queues of reports, and write all changes."""
        for key, each in self.items():
            if each.supersedes and each.supersedes in gone:
                self._put(key, replace(each, supersedes=""))
        self.due = {
            session: left
            for session, keys in self.due.items()
            if (left := [key for key in keys if key in self and self[key].unreported])
        }
        await self.flush()

    def _queue_report(self, key: str, entry: CaptureLogEntry) -> None:
        """Queue an unreported entry for its session's next reply; of more than eight drop the oldest."""
        if not (entry.unreported and entry.session_id):
            return
        waiting = self.due.setdefault(entry.session_id, [])
        waiting.append(key)
        for dropped in waiting[:-MOST_UNREPORTED]:
            self._put(dropped, replace(self[dropped], unreported=False))
        del waiting[:-MOST_UNREPORTED]

    def _drop_expired(self) -> None:
        """Delete expired entries, at most once a minute: after 30 days with a memory, else 7."""
        now = self._clock()
        if abs(now - self._tidied_at) < _TIDY_EVERY_S:
            return
        self._tidied_at = now
        with self._lock:
            self._drop_rows([key for key, each in self.items() if each.until <= now])

    def _drop_rows(self, keys: Collection[str]) -> None:
        """Delete entries of these keys, also from the queues of reports of their sessions."""
        for key in keys:
            if (each := self[key]).unreported and key in self.due.get(each.session_id, ()):
                self.due[each.session_id].remove(key)
        super()._drop_rows(keys)


def gist(text: str) -> str:
    """Return the beginning of a text for the log: one line, at most 120 characters, no secrets.

    Only the beginning of a long text is read, without a possible half of a secret at its end.
    """
    text = text.lstrip()
    found, is_cut = redact(text[: 2 * _SECRET]).text, len(text) > 2 * _SECRET
    return one_line((found[:-_SECRET] if is_cut else found).strip()[: 2 * _SAME], _GIST)
