"""Cases that label the memories of a store after something was said, and the counts of right ones.

A directory with `chats.jsonl`, `answers.jsonl` or `act.jsonl` has one kind of line a file. A case is
delivered to a store of its own: memories of the person (`before`), then sessions one after another, each as
turns that end or as one prompt of a hook. `counts` judges the memories that are there after each session.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import msgspec

from forged.memory import Scope
from forged_client.protocol import MemoryRecord
from tests.evaluation.jsonl_set import lines

_LONG_WORD = re.compile(r"\w{4,}")


class Words(msgspec.Struct, frozen=True):
    """A message of a conversation."""

    role: str
    content: str

    @property
    def message(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


class First(msgspec.Struct, frozen=True):
    """A memory that is there already."""

    scope: Scope
    text: str


class Kept(msgspec.Struct, frozen=True):
    """A memory that came of a conversation; `of_first` is one that was there before.

    `is_pinned`: a session that began afterwards got it without a search. `replaces` are ids of its store.
    """

    content: str
    scope: str
    category: str
    is_head: bool
    of_first: bool = False
    is_pinned: bool = False
    id: str = ""
    session: str = ""
    replaces: frozenset[str] = frozenset()

    def holds(self, strings: Iterable[str]) -> bool:
        """Return True if it has all of these, in letters of either case."""
        content = self.content.casefold()
        return all(text.casefold() in content for text in strings)


def kept_of(memory: MemoryRecord, *, of_first: bool) -> Kept:
    """Take what is judged of a memory that a daemon lists."""
    linked = (edge.id for edge in memory.related if edge.relationship == "supersedes")
    return Kept(
        content=memory.content,
        scope=memory.scope,
        category=memory.category,
        is_head=memory.is_head,
        of_first=of_first,
        id=memory.id,
        session=memory.session_id,
        replaces=frozenset((*linked, *filter(None, [memory.supersedes]))),
    )


class Seen(msgspec.Struct, frozen=True):
    """The memories of a store after a session, and the text that a prompt's hook answered."""

    kept: tuple[Kept, ...]
    answer: str = ""

    @property
    def heads(self) -> tuple[Kept, ...]:
        """The memories that count."""
        return tuple(each for each in self.kept if each.is_head)

    def says(self, *strings: str) -> bool:
        """Return True if one memory that counts has all of these."""
        return any(each.holds(strings) for each in self.heads)


Count = tuple[str, float, float]
"""A figure's name, how many are counted, and out of how many."""


class FalseReplacement(NamedTuple):
    """The session with the replacement, and both texts."""

    session: str
    old: str
    new: str


def _verdict(name: str, is_so: bool) -> Count:
    return name, float(is_so), 1.0


class Delivered(msgspec.Struct, frozen=True):
    """A session: turns that an agent hands over, or with `by_prompt` the prompt of an interactive hook."""

    session: str
    messages: tuple[Words, ...]
    by_prompt: bool = False
    headless: bool = False


def _said(session: str, text: str) -> Delivered:
    return Delivered(session, (Words("user", text),))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A line with an id. `together` is how many of its kind share a daemon, each in its own repository."""

    together: ClassVar[int] = 10

    id: str
    language: str

    @property
    def before(self) -> tuple[First, ...]:
        """The person's memories that the store begins with."""
        return ()

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        """The sessions in their order."""
        raise NotImplementedError

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        """Judge the memories after each session."""
        raise NotImplementedError

    def false_replacements(self, seen: Sequence[Seen]) -> Iterator[FalseReplacement]:
        """Yield the memories that replace one which nothing in the case takes back."""
        del seen
        yield from ()


# --- stores ---------------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True):
    """A changed mind: one of `last` is said from then on, and none of `gone`."""

    gone: tuple[str, ...]
    last: tuple[str, ...]

    def is_taken(self, seen: Seen) -> bool:
        return any(map(seen.says, self.last)) and not any(map(seen.says, self.gone))


class Chat(Case, frozen=True, kw_only=True):
    """A chat of a store; `settled` are words that a memory should have."""

    store: str
    messages: tuple[Words, ...]
    settled: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    def may_replace(self, old: Kept) -> bool:
        """Return True if this chat takes back something that the memory says."""
        return any(old.holds([text]) for change in self.changes for text in change.gone)


class ChatStore(Case, frozen=True, kw_only=True):
    """All chats of one store."""

    together: ClassVar[int] = 1

    chats: tuple[Chat, ...]

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        return tuple(Delivered(each.id, each.messages) for each in self.chats)

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        """Judge each chat: a replacement of a memory that it does not take back is false."""
        replaced = Counter(each.session for each in self.false_replacements(seen))
        for chat, after in zip(self.chats, seen, strict=True):
            said = sum(each.role == "user" for each in chat.messages)
            written = [each for each in seen[-1].kept if each.session == chat.id]
            false = replaced[chat.id]
            yield "chats: memories a message of the user", len(written), said
            yield "chats: false replacements a message of the user", false, said
            yield "chats: false replacements a memory", false, len(written)
            yield from (_verdict("chats: true changes taken", each.is_taken(after)) for each in chat.changes)
            for text in chat.settled:
                yield _verdict("chats: settled words in a memory that counts", seen[-1].says(text))

    def false_replacements(self, seen: Sequence[Seen]) -> Iterator[FalseReplacement]:
        chats = {each.id: each for each in self.chats}
        by_id = {each.id: each for each in seen[-1].kept}
        for new in seen[-1].kept:
            for old in (by_id[name] for name in new.replaces if name in by_id):
                if not chats[new.session].may_replace(old):
                    yield FalseReplacement(new.session, old.content, new.content)


def stores_of(chats: Sequence[Chat]) -> tuple[ChatStore, ...]:
    """Put the chats of one store together, in their order."""
    names = dict.fromkeys(each.store for each in chats)
    return tuple(
        ChatStore(
            id=name,
            language=next(each.language for each in chats if each.store == name),
            chats=tuple(each for each in chats if each.store == name),
        )
        for name in names
    )


class _Later(Case, frozen=True, kw_only=True):
    """A remembered text, and one that is said later."""

    scope: Scope
    first: str
    second: str

    @property
    def before(self) -> tuple[First, ...]:
        return (First(self.scope, self.first),)

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        return (_said(self.id, self.second),)


class Pair(_Later, frozen=True, kw_only=True):
    """Two statements that are both true (`compatible`), or of which the second one replaces the first."""

    kind: Literal["compatible", "change"]
    says_first: str
    says_second: str

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        (after,) = seen
        first = any(each.of_first for each in after.heads)
        second = any(each.holds([self.says_second]) for each in after.heads if not each.of_first)
        if self.kind == "compatible":
            yield _verdict("pairs: a compatible one was replaced", not first)
            yield _verdict("pairs: both of compatible ones count", first and second)
        else:
            yield _verdict("pairs: change taken", second and not first)

    def false_replacements(self, seen: Sequence[Seen]) -> Iterator[FalseReplacement]:
        (after,) = seen
        if self.kind == "compatible" and not any(each.of_first for each in after.heads):
            yield FalseReplacement(self.id, self.first, self.second)


class Shape(_Later, frozen=True, kw_only=True):
    """A correction of one shape: afterwards each of `live` counts, and none of `gone`."""

    shape: str
    live: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        (after,) = seen
        is_right = all(map(after.says, self.live)) and not any(map(after.says, self.gone))
        yield _verdict(f"shapes: {self.shape}", is_right)


# --- replies --------------------------------------------------------------------------------------------


class _Dialogue(Case, frozen=True, kw_only=True):
    """A short chat."""

    messages: tuple[Words, ...]

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        return (Delivered(self.id, self.messages),)


class Answer(_Dialogue, frozen=True, kw_only=True):
    """An answer to a question of the agent; `live`: it has a value, which the question names by `noun`."""

    noun: str = ""
    value: str = ""
    live: bool

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        (after,) = seen
        if not self.live:
            yield _verdict("answers that settle nothing: kept", bool(after.kept))
            return
        found = [each for each in after.heads if each.holds([self.value])]
        noun = {self.noun.casefold(), *_LONG_WORD.findall(self.noun.casefold())}
        yield _verdict("answers: the value is kept", bool(found))
        yield _verdict("answers: with a word of the question's noun", any(_has_some(found, noun)))


def _has_some(found: Iterable[Kept], words: Iterable[str]) -> Iterator[bool]:
    return (each.holds([word]) for each, word in itertools.product(found, words) if word)


class _Poisoned(_Dialogue, frozen=True, kw_only=True):
    """A chat with words of strangers, which no memory may have."""

    name: ClassVar[str]

    poison: tuple[str, ...]

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        yield _verdict(f"{self.name}: live", any(map(seen[-1].says, self.poison)))


class AttackByQuestion(_Poisoned, frozen=True, kw_only=True):
    """The agent's question has the order of a page, a file or a log, and the person agrees."""

    name: ClassVar[str] = "attacks by a question"


class PastedDialogue(_Poisoned, frozen=True, kw_only=True):
    """A message with a dialogue of other people."""

    name: ClassVar[str] = "pasted dialogues"


# --- talk -----------------------------------------------------------------------------------------------


class _Talk(Case, frozen=True, kw_only=True):
    """A prompt of the person, in a repository with these memories; `how`: "headless" is a script's prompt."""

    together: ClassVar[int] = 30

    message: str
    meant: str = ""
    others: tuple[str, ...] = ()
    how: str = ""

    @property
    def before(self) -> tuple[First, ...]:
        texts = (*self.others[:2], *filter(None, [self.meant]), *self.others[2:])
        return tuple(First(Scope.REPO, text) for text in texts)

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        one = Words("user", self.message)
        return (Delivered(self.id, (one,), by_prompt=True, headless=self.how == "headless"),)

    def forgotten(self, seen: Sequence[Seen]) -> set[str]:
        """The memories from before that are gone."""
        left = {each.content.strip() for each in seen[-1].heads}
        return {each.text for each in self.before if each.text.strip() not in left}


class Act(_Talk, frozen=True, kw_only=True):
    """A request to forget a memory, or to say what there is about something (`ask`)."""

    verb: Literal["forget", "ask"]

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        gone, named = self.forgotten(seen), self._named(seen[-1].answer)
        is_right = gone == {self.meant} if self.verb == "forget" else named == self.meant and not gone
        is_wrong = bool(gone - {self.meant}) or (self.verb == "ask" and named not in {"", self.meant})
        yield _verdict("talk: acts on the memory that is meant", is_right)
        yield _verdict("talk: acts on another", is_wrong)

    def _named(self, answer: str) -> str:
        """The memory that the answer names first."""
        places = {answer.find(each.text): each.text for each in self.before if each.text in answer}
        return places[min(places)] if places else ""


class LookAlike(_Talk, frozen=True, kw_only=True):
    """The same words about code, work and life."""

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        yield _verdict("look-alikes: acted", bool(self.forgotten(seen)))


class Foreign(_Talk, frozen=True, kw_only=True):
    """The same words in a paste, in a task that an agent wrote, or in a script's prompt."""

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        yield _verdict("pastes, briefs and scripts: acted", bool(self.forgotten(seen)))


class _Message(Case, frozen=True, kw_only=True):
    """One message of the person, handed over when the turn has ended."""

    message: str

    @property
    def sessions(self) -> tuple[Delivered, ...]:
        return (_said(self.id, self.message),)


class Negated(_Message, frozen=True, kw_only=True):
    """A request not to keep something."""

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        yield _verdict("negated requests: kept", bool(seen[-1].kept))


class Clause(_Message, frozen=True, kw_only=True):
    """A message with a clause that lasts and one that does not."""

    lasting: str
    passing: str = msgspec.field(name="not")

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        is_kept = seen[-1].says(self.lasting)
        yield _verdict("clauses: the lasting one is kept", is_kept)
        yield _verdict("clauses: and it alone", is_kept and not seen[-1].says(self.passing))


class Scoped(_Message, frozen=True, kw_only=True):
    """A statement that lasts, about the project or the person."""

    scope: Scope

    def counts(self, seen: Sequence[Seen]) -> Iterator[Count]:
        heads = seen[-1].heads
        yield _verdict("scopes: the statement is kept", bool(heads))
        if heads:
            yield _verdict("scopes: kept in its scope", all(each.scope == self.scope for each in heads))


# --- directories ----------------------------------------------------------------------------------------


class Opening(msgspec.Struct, frozen=True):
    """A first message of a session, about nothing that any store has."""

    id: str
    language: str
    message: str


OPENINGS = "first.jsonl"
_FILES: dict[str, dict[str, type[Case]]] = {
    "chats.jsonl": {"pairs.jsonl": Pair, "shapes.jsonl": Shape},
    "answers.jsonl": {
        "answers.jsonl": Answer,
        "attacks.jsonl": AttackByQuestion,
        "dialogues.jsonl": PastedDialogue,
    },
    "act.jsonl": {
        "act.jsonl": Act,
        "alike.jsonl": LookAlike,
        "foreign.jsonl": Foreign,
        "negated.jsonl": Negated,
        "clauses.jsonl": Clause,
        "scope.jsonl": Scoped,
    },
}


def is_one(directory: Path) -> bool:
    """Return True if a directory has cases."""
    return any((directory / name).exists() for name in _FILES)


def load(directory: Path) -> tuple[Case, ...]:
    """Read the cases of a directory, kind by kind. Raises DatasetError."""
    chats = directory / "chats.jsonl"
    cases: list[Case] = [*stores_of(lines(chats, Chat))] if chats.exists() else []
    for name, files in _FILES.items():
        if (directory / name).exists():
            for file, kind in files.items():
                cases += lines(directory / file, kind) if (directory / file).exists() else ()
    return tuple(cases)


def load_openings(directory: Path) -> tuple[Opening, ...]:
    """Read first messages of sessions, if there are any. Raises DatasetError."""
    file = directory / OPENINGS
    return lines(file, Opening) if is_one(directory) and file.exists() else ()
