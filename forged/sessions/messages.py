"""Messages that hooks report of sessions, since the newest summary of each, in memory alone.

A turn is captured with its prompt, and before a compaction all messages since the last one. Private spans are
cut out. A turn is identified by its id, or by its prompt if its harness has none, so the end of a turn adds
nothing twice.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from forged.conversation import Utterance
from forged.hooks import HookEvent
from forged.sessions.transcript import text_of
from forged.stores import Workplace
from forged.text.tokens import BYTES_PER_TOKEN
from forged_client import protocol as wire
from forged_client.private_spans import cut_private, without_private

# Limits after which a conversation must have been compacted.
_GROWN_TURNS, _GROWN_BYTES = 30, 60_000 * BYTES_PER_TOKEN
# Messages of a retrieval for a prompt, with the prompt.
BEFORE = 8
_TURNS = 32
# Least seconds between two prompts.
_APART_S = 1e-5
# Messages that are kept at any length: a prompt and its reply.
_ALWAYS = 2


class ByteCount(msgspec.Struct):
    """Bytes of all messages that share one limit."""

    used: int = 0


class SessionMessages:
    """Messages of one session in one set of roots, with cursors up to which capture has them.

    `open_spans` counts private spans without an end. `refusal` is the reason why capture last took nothing.
    `lost` counts messages that were dropped before capture took them. `has_left`: they belong to no session
    any more.
    """

    def __init__(
        self, agent: str, session_id: str, workspace: str, place: Workplace, *, headless: bool = False
    ) -> None:
        self.agent, self.session_id = agent, session_id
        self.workspace, self.place = workspace, place
        self.is_headless = headless
        self.touched = 0.0
        self.refusal = ""
        self.lost = 0
        self.has_left = False
        self.turn_id = ""  # of the newest turn
        self.messages: list[wire.Message] = []
        self._turns_said = self._bytes_said = 0  # since the last compaction
        self.open_spans = 0
        self.asked_at = self._asked_last = 0.0  # Unix seconds of the newest prompt
        self.said = self._captured = self._compacted = 0  # messages, dropped ones included
        self._room, self._size = ByteCount(), 0
        self._turns: OrderedDict[str, None] = OrderedDict()
        self._newest = ("", 0)  # turn and hash of the newest prompt
        self._is_open = False  # True while the turn of the newest prompt has no end
        self._times: list[float] = []  # time of each message's prompt

    @property
    def prompt_hash(self) -> int:
        """Hash of the newest prompt."""
        return self._newest[1]

    @property
    def has_waiting(self) -> bool:
        """True if messages of the session wait for capture."""
        return self.said > self._captured

    @property
    def waiting(self) -> Sequence[wire.Message]:
        """Messages of the session that capture does not have yet."""
        return self.messages[-(self.said - self._captured) :] if self.has_waiting else ()

    @property
    def waiting_prompts(self) -> tuple[str, ...]:
        """Texts of the prompts that capture does not have yet."""
        return tuple(text_of(each) for each in self.waiting if each.role == "user")

    @property
    def exceeds_context(self) -> bool:
        """True after 30 turns or 60,000 tokens: the conversation must have been compacted by now."""
        return self._turns_said >= _GROWN_TURNS or self._bytes_said >= _GROWN_BYTES

    @property
    def newest(self) -> tuple[wire.Message, ...]:
        """The newest eight messages, for a retrieval."""
        return tuple(self.messages[-BEFORE:])

    def count_in(self, room: ByteCount) -> None:
        """Move the bytes of these messages to the total of another limit."""
        self._room.used -= self._size
        self._room = room
        room.used += self._size

    # --- reports of hooks -------------------------------------------------------------------------------

    def add_prompt(self, event: HookEvent, at: float | None = None) -> bool:
        """Add a prompt, sent now or `at`, unless it is repeated. Return False if all of it is private."""
        newest = (event.turn_id, hash(event.prompt))
        if event.turn_id and newest == self._newest:
            return self._is_open
        # Clocks are coarse, and may step back: `undo` knows a turn by its time.
        self._asked_last = max(time.time(), self._asked_last + _APART_S)
        self._newest, self.asked_at = newest, self._asked_last if at is None else at
        prompt, self.open_spans = cut_private(event.prompt, self.open_spans)
        self._is_open = bool(prompt.strip())
        if self._is_open:
            self._begin_turn(event.turn_id)
            self._add("user", prompt)
        return self._is_open

    def add_reply(self, event: HookEvent) -> bool:
        """Add the reply of a turn that ended, and its prompt if the event has it; False without a prompt."""
        if event.prompt and hash(event.prompt) != self.prompt_hash:
            self.add_prompt(event, self.asked_at if self._is_open else 0.0)
        reply = "" if self.open_spans else without_private(event.reply)
        newest = self.messages[-1] if self.messages else wire.Message("")
        if newest.role == "assistant" and text_of(newest).strip() == reply.strip():
            return True
        if not (event.turn_id in self._turns if event.turn_id else self._is_open):
            return False
        self._is_open = False
        if reply.strip():
            self._add("assistant", reply)
        return True

    def restore_turn(self, turn_id: str, said: Sequence[Utterance], asked_at: float) -> None:
        """Add the newest turn of a harness's transcript, begun at `asked_at`; earlier turns are left out."""
        self.asked_at = asked_at
        prompts = [at for at, each in enumerate(said) if each.role == "user"]
        if prompts:
            self._is_open = True
            self._begin_turn(turn_id)
        for each in said[prompts[-1] :] if prompts else ():
            self._add(each.role, each.text)

    def _begin_turn(self, turn_id: str) -> None:
        """Make a turn the newest one, and forget the oldest of more than 32."""
        self.turn_id = turn_id
        self._turns[turn_id] = None
        while len(self._turns) > _TURNS:
            self._turns.popitem(last=False)
        self._turns_said += 1

    def _add(self, role: str, text: str) -> None:
        """Add a message to the newest turn."""
        size = len(text.encode("utf-8", "surrogatepass"))
        self.said += 1
        self._bytes_said += size
        self.messages.append(wire.Message(role, text))
        self._times.append(self.asked_at)
        self._count_bytes(size)

    # --- capture ----------------------------------------------------------------------------------------

    def uncaptured(self, *, whole: bool) -> tuple[tuple[wire.Message, float], ...]:
        """Return new messages after up to 8 earlier ones, each with its prompt's time or 0; () if none new.

        Some older messages precede the new ones, so that capture recognises the session. `whole`: all
        messages, for a compaction.
        """
        new = self.said - (self._compacted if whole else self._captured)
        if not new:
            return ()
        held = list(zip(self.messages, self._times, strict=True))[0 if whole else -(new + BEFORE) :]
        return tuple((each, at) for each, at in held if text_of(each).strip())

    def mark_captured(self, upto: int, *, whole: bool = False) -> None:
        """Mark all messages up to number `upto` as taken by capture; `whole`: for a compaction."""
        self._captured = max(self._captured, upto)
        if whole:
            self._compacted = upto

    def drop_summarized(self) -> None:
        """Drop captured messages before the newest prompt: a summary replaced them."""
        prompts = [at for at, each in enumerate(self.messages) if each.role == "user"]
        start = prompts[-1] if prompts else len(self.messages)
        self._drop(min(start, self._captured_count))
        self._turns_said = self._bytes_said = 0

    def clear(self) -> None:
        """Drop all messages of the session; open private spans stay open."""
        self._drop(len(self.messages))

    def trim(self, most: int, most_waiting: int) -> None:
        """Drop the oldest messages above `most` bytes (waiting ones: `most_waiting`), except the last two."""
        while self._size > most and len(self.messages) > _ALWAYS:
            is_waiting = not self._captured_count
            if is_waiting and self._size <= most_waiting:
                break
            self.lost += is_waiting
            self._drop(1)

    def replace_texts(self, left: Mapping[int, str]) -> None:
        """Replace messages' texts, by their `id`; end the open turn if its prompt is now empty."""
        for at, each in enumerate(self.messages):
            if (text := left.get(id(each))) is not None:
                self._count_bytes(len(text.encode("utf-8", "surrogatepass")) - _size(each))
                self.messages[at] = wire.Message(each.role, text)
        prompts = [text_of(each) for each in self.messages if each.role == "user"]
        if self._is_open and prompts and not prompts[-1].strip():
            self._is_open = False
            self._turns.pop(self.turn_id, None)

    @property
    def _captured_count(self) -> int:
        """Number of the messages here that capture has taken."""
        return max(0, len(self.messages) - (self.said - self._captured))

    def _drop(self, count: int) -> None:
        """Drop the first `count` messages of the session, with their times and bytes."""
        self._count_bytes(-sum(map(_size, self.messages[:count])))
        del self.messages[:count], self._times[:count]

    def _count_bytes(self, size: int) -> None:
        """Add to the bytes of these messages, and of all that share their limit."""
        self._size += size
        self._room.used += size


def _size(message: wire.Message) -> int:
    """Return the bytes of a message's text."""
    return len(text_of(message).encode("utf-8", "surrogatepass"))
