"""What was said in the sessions that hooks tell of, as it comes: a prompt, then the reply to it.

A hook tells one thing at a time, and a prompt may lean on what was said before it ("yes, do that"); a turn is
captured with its prompt, and before a compaction all that was said since the last one. So each session's
messages are held here, in memory alone, and bounded: 64 sessions, 128,000 characters of each or its newest
two messages, oldest gone first. What stands between `<private>` tags is not among them. Nothing that a
turn's end tells again is new: a turn is known by its id, or by its prompt where the harness has none.

Messages that capture has not taken do not go with a bound, nor when their session continues in other roots:
they are `due` until hook.py has handed them over. Sessions that are silent for an hour are due as well.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence

from forged.conversation import Utterance
from forged.hooks import HookEvent
from forged.scopes import Workplace
from forged.text.forgetting import Words, without_sentences
from forged.text.private import private_left
from forged_client import protocol as wire

SESSIONS, CHARACTERS = 64, 128_000
# Seconds without an event after which a session is taken for one that ended without a word.
SILENT_S = 3600.0
# Characters of one session, and sessions that are over: more is lost while capture takes nothing.
_MOST_UNTOLD, _MOST_LEAVING = 4 * CHARACTERS, SESSIONS
_EARLY = (
    f"{{}} turns were captured before their end, because at most {SESSIONS} sessions and {CHARACTERS} "
    "characters of one are held"
)
_LOST = "{} messages were lost, because capture refused them for too long"
# Messages that a prompt is asked about together with, itself included.
BEFORE = 8
_TURNS = 32
# Seconds between two prompts at least.
_APART_S = 1e-5
# Messages that are held however long they are: a prompt and the reply to it.
_ALWAYS = 2


class Talk:
    """One session. `workspace` and `place` are those of its prompts, `turn_id` is the newest turn's.

    `open_spans` is how many private spans its person has begun and not ended. `asked_at` is when its newest
    prompt was sent, in Unix seconds, 0 where that is unknown. `refusal` is why capture last took nothing of
    it, `touched` when its newest event came, and `lost` how many messages were dropped that capture never
    saw.
    """

    def __init__(self, agent: str, session_id: str, workspace: str, place: Workplace) -> None:
        self.agent = agent
        self.session_id = session_id
        self.workspace = workspace
        self.place = place
        self.is_headless = False
        self.touched = 0.0
        self.refusal = ""
        self.lost = 0
        self.turn_id = ""
        self.messages: list[wire.Message] = []
        self.since_compaction = 0  # turns
        self.bytes_since_compaction = 0
        self.was_told_of_version = False
        self._turns: OrderedDict[str, None] = OrderedDict()
        self._told = ("", 0)  # turn and hash of the prompt that was told last
        self._is_open = False  # whether what ends now may be the turn of the newest prompt
        self.open_spans = 0
        self.asked_at = self._asked_last = 0.0
        self._times: list[float] = []  # of each message, when its prompt was sent
        self.said = self._captured = self._compacted = 0  # messages, those that are gone included

    @property
    def prompt(self) -> int:
        """The hash of the prompt that was told last."""
        return self._told[1]

    @property
    def waits(self) -> bool:
        """Return True if capture has not taken all messages."""
        return self.said > self._captured

    @property
    def waiting(self) -> Sequence[wire.Message]:
        """The messages that capture has not taken."""
        return self.messages[-(self.said - self._captured) :] if self.waits else ()

    @property
    def waiting_prompts(self) -> tuple[str, ...]:
        """The prompts that capture has not taken."""
        return tuple(_text(each) for each in self.waiting if each.role == "user")

    @property
    def is_full(self) -> bool:
        """Return True if the waiting messages leave no room for another one."""
        return sum(len(_text(each)) for each in self.waiting) > CHARACTERS

    @property
    def newest(self) -> tuple[wire.Message, ...]:
        """What a prompt is to be understood by."""
        return tuple(self.messages[-BEFORE:])

    def asked(self, event: HookEvent, at: float | None = None) -> bool:
        """Add a prompt, sent now or `at`, unless it comes again. Return False if all of it is private."""
        told = (event.turn_id, hash(event.prompt))
        if event.turn_id and told == self._told:
            return self._is_open
        # Clocks are coarse, and may step back: `undo` knows a turn by its time.
        self._asked_last = max(time.time(), self._asked_last + _APART_S)
        self._told, self.asked_at = told, self._asked_last if at is None else at
        prompt, self.open_spans = private_left(event.prompt, self.open_spans)
        self._is_open = bool(prompt.strip())
        if self._is_open:
            self._begin(event.turn_id)
            self._add("user", prompt)
        return self._is_open

    def answered(self, event: HookEvent) -> bool:
        """A turn ended; whether its prompt is known, from before or because the harness says it again."""
        if event.prompt and hash(event.prompt) != self._told[1]:
            self.asked(event, self.asked_at if self._is_open else 0.0)
        reply = "" if self.open_spans else private_left(event.reply, 0)[0]
        newest = self.messages[-1] if self.messages else wire.Message("")
        if newest.role == "assistant" and _text(newest).strip() == reply.strip():
            return True
        if not (event.turn_id in self._turns if event.turn_id else self._is_open):
            return False
        self._is_open = False
        if reply.strip():
            self._add("assistant", reply)
        return True

    def recalled(self, turn_id: str, said: Sequence[Utterance], asked_at: float) -> None:
        """Take over the newest turn of what a harness has written down, without the turns before it."""
        self.asked_at = asked_at
        places = [at for at, each in enumerate(said) if each.role == "user"]
        if places:
            self._is_open = True
            self._begin(turn_id)
        for each in said[places[-1] :] if places else ():
            self._add(each.role, each.text)

    def untold(self, *, whole: bool) -> tuple[tuple[wire.Message, float], ...]:
        """Return the messages to capture, each with the time its prompt was sent at; 0 where it is unknown.

        These are the new ones and a few before, by which the session is known again; or nothing. `whole`: for
        a compaction all that is held, if something was said since the last one.
        """
        new = self.said - (self._compacted if whole else self._captured)
        if not new:
            return ()
        held = list(zip(self.messages, self._times, strict=True))[0 if whole else -(new + BEFORE) :]
        return tuple((each, at) for each, at in held if _text(each).strip())

    def captured(self, said: int, *, whole: bool) -> None:
        """The first so many messages were taken; `whole`: for a compaction."""
        self._captured = max(self._captured, said)
        if whole:
            self._compacted = said

    def compacted(self) -> None:
        """Drop messages before the newest prompt that capture has taken: a summary replaced them."""
        places = [at for at, each in enumerate(self.messages) if each.role == "user"]
        start = places[-1] if places else len(self.messages)
        start = max(0, min(start, len(self.messages) - (self.said - self._captured)))
        self.messages, self._times = self.messages[start:], self._times[start:]
        self.since_compaction = self.bytes_since_compaction = 0

    def without(self, left: Mapping[int, str]) -> None:
        """Put what is left of messages, by the `id` of each, in their places; they count as said before.

        A turn of whose prompt nothing is left is none.
        """
        self.messages = [
            each if (text := left.get(id(each))) is None else wire.Message(each.role, text)
            for each in self.messages
        ]
        prompts = [_text(each) for each in self.messages if each.role == "user"]
        if self._is_open and prompts and not prompts[-1].strip():
            self._is_open = False
            self._turns.pop(self.turn_id, None)

    def _begin(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self._turns[turn_id] = None
        while len(self._turns) > _TURNS:
            self._turns.popitem(last=False)
        self.since_compaction += 1

    def _add(self, role: str, text: str) -> None:
        self.said += 1
        self.bytes_since_compaction += len(text.encode())
        self.messages.append(wire.Message(role, text))
        self._times.append(self.asked_at)
        size = sum(len(_text(each)) for each in self.messages)
        while size > CHARACTERS and len(self.messages) > _ALWAYS:
            is_untold = len(self.messages) <= self.said - self._captured
            if is_untold and size <= _MOST_UNTOLD:
                break
            self.lost += is_untold
            size -= len(_text(self.messages.pop(0)))
            self._times.pop(0)


class Talks:
    """One for the daemon; lives in its event loop. `began` is when it was made, in Unix seconds.

    `early` counts the sessions that were handed over because others needed their place, `lost` the messages
    that no bound left room for while capture refused them.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.began = clock()
        self.early = 0
        self._lost = 0
        self._talks: OrderedDict[tuple[str, str], Talk] = OrderedDict()
        self._silenced: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._leaving: list[Talk] = []  # of no session any more, with messages that capture has not taken

    def silence(self, agent: str, session_id: str, prompt: int) -> None:
        """Know by its hash a prompt that must not be held when the end of its turn says it again."""
        self._silenced[agent, session_id] = prompt
        self._silenced.move_to_end((agent, session_id))
        while len(self._silenced) > SESSIONS:
            self._silenced.popitem(last=False)

    def is_silenced(self, agent: str, session_id: str, prompt: str) -> bool:
        """Tell whether a prompt that a turn's end says again is the one that must not be held."""
        return bool(prompt) and self._silenced.get((agent, session_id)) == hash(prompt)

    @property
    def lost(self) -> int:
        return self._lost + sum(each.lost for each in self._all())

    def of(self, agent: str, session_id: str) -> Talk | None:
        """The session's talk, which an event of it has just touched."""
        talk = self._talks.get((agent, session_id))
        if talk is not None:
            talk.touched = self.clock()
        return talk

    def begin(
        self, agent: str, session_id: str, workspace: str, place: Workplace, *, headless: bool = False
    ) -> Talk:
        """The session's talk; what is private there goes on being so.

        It starts anew in other roots, and where a person goes on with what a script began.
        """
        talk = known = self.of(agent, session_id)
        if talk is None or (talk.place.tops, talk.is_headless) != (place.tops, headless):
            talk = Talk(agent, session_id, workspace, place)
            talk.is_headless = headless
            talk.open_spans = known.open_spans if known is not None else 0
        talk.workspace, talk.place = workspace, place
        self.put(talk)
        return talk

    def put(self, talk: Talk) -> None:
        """Hold a talk as its session's; the one before it and the one that has no room are due."""
        key = (talk.agent, talk.session_id)
        known = self._talks.get(key)
        if known is not None and known is not talk:
            self._leave(known)
        self._talks[key] = talk
        self._talks.move_to_end(key)
        talk.touched = self.clock()
        while len(self._talks) > SESSIONS:
            others = (each for each in self._talks.values() if each is not talk)
            oldest = min(others, key=lambda each: (each.open_spans > 0, each.waits))
            self.early += oldest.waits
            self._leave(self._talks.pop((oldest.agent, oldest.session_id)))

    def due(self, *, all_of_them: bool = False, again: bool = False) -> tuple[Talk, ...]:
        """The talks to hand over now: of no session any more, or silent; `again`: also what was refused."""
        silent_since = self.clock() - SILENT_S
        return tuple(
            each
            for each in self._all()
            if each.waits
            and (all_of_them or again or not each.refusal)
            and (all_of_them or each in self._leaving or each.touched <= silent_since)
        )

    def settled(self, talk: Talk) -> None:
        """Let go of a talk of which nothing waits any more, or which is unwanted."""
        if talk in self._leaving:
            self._leaving.remove(talk)
            self._lost += talk.lost

    def held(self, tops: Collection[str]) -> tuple[Talk, ...]:
        """Return the talks of all sessions in which one of these roots counts."""
        return tuple(talk for talk in self._all() if not set(tops).isdisjoint(talk.place.tops))

    def drop(self, agent: str, session_id: str) -> None:
        """Begin the session anew; what waits of it is due."""
        if (talk := self._talks.pop((agent, session_id), None)) is not None:
            self._leave(talk)

    def empty(self, agent: str, session_id: str, tops: tuple[str, ...] | None = None) -> None:
        """Hold nothing of what was said in a session, which goes on; what is private in it stays so.

        With `tops` what was said in other roots is due.
        """
        talk = self._talks.pop((agent, session_id), None)
        if talk is not None:
            self.silence(agent, session_id, talk.prompt)
        if talk is not None and tops is not None and talk.place.tops != tops:
            self._leave(talk)
        if talk is not None and talk.open_spans:
            left = self._talks[agent, session_id] = Talk(agent, session_id, talk.workspace, talk.place)
            left.open_spans = talk.open_spans

    async def cut(self, unwanted: Sequence[Words]) -> None:
        """Take the sentences that hold an unwanted text out of all that is held; what else was said stays."""
        held = [each for talk in self._all() for each in talk.messages]

        def left() -> dict[int, str]:
            cut = ((each, without_sentences(_text(each), unwanted)) for each in held)
            return {id(each): text for each, (text, count) in cut if count}

        if changed := await asyncio.to_thread(left):
            for talk in self._all():
                talk.without(changed)

    def clear(self, top: str | None = None) -> None:
        """Hold nothing of what was said where this root counts, or anywhere."""
        for key, talk in list(self._talks.items()):
            if top is None or top in talk.place.tops:
                self.empty(*key)
        for talk in list(self._leaving):
            if top is None or top in talk.place.tops:
                self.settled(talk)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for `status` about bounds that were reached."""
        refused = [each.refusal for each in self._leaving if each.refusal]
        return (
            *([f"{len(refused)} sessions that are over wait for capture: {refused[-1]}"] if refused else ()),
            *([_EARLY.format(self.early)] if self.early else ()),
            *([_LOST.format(self.lost)] if self.lost else ()),
        )

    def _all(self) -> tuple[Talk, ...]:
        return (*self._leaving, *self._talks.values())

    def _leave(self, talk: Talk) -> None:
        if not talk.waits:
            self._lost += talk.lost
            return
        self._leaving.append(talk)
        while len(self._leaving) > _MOST_LEAVING:
            oldest = self._leaving.pop(0)
            self._lost += oldest.lost + len(oldest.waiting)


def _text(message: wire.Message) -> str:
    return message.content if isinstance(message.content, str) else ""
