"""Training data of the linear model: written sentences, and the development sets.

These are labelled messages, a third of them with something to keep, and the turns of agents' lives, which
hardly ever have: those that may have are left out, by a list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from forged.capture.authorship import clause_runs, statements
from forged.capture.linear_model import MESSAGE_CHARS, Passage, passages
from forged.conversation import Utterance

DATA = Path(__file__).parents[1] / "data"
STATEMENTS, NEAR, PLAIN = DATA / "statements", DATA / "statements" / "near", DATA / "statements" / "plain"
TYPED, ASKING = DATA / "typed", DATA / "said" / "asking" / "said.jsonl"
REQUESTS = DATA / "requests"
FIRST_WORDS = DATA / "first_words"
SAID = DATA / "said" / "dev" / "said.jsonl"
SESSIONS, LASTING = DATA / "sessions" / "dev" / "sessions.jsonl", DATA / "sessions" / "dev" / "lasting.tsv"
# What a turn of an agent's life counts: of a day they are by far the most, and of the data they are few.
_TURN = 3.0
# The same of what asks not to be kept, and of a request to forget.
REFUSED = {"refuse": 0.7, "forget": 0.2}
KEPT = ("explicit", "rule", "decision", "correction", "fact")
OTHERS = (
    *("one_off", "question", "progress", "chat", "hypothetical"),
    *("pasted", "quote", "assistant_says", "sarcasm"),
)


class Note(msgspec.Struct, frozen=True):
    """What is to be kept of a message; `says` stands in it."""

    says: tuple[str, ...]
    scope: str
    category: str
    explicit: bool

    def is_in(self, text: str) -> bool:
        return all(part.lower() in text.lower() for part in self.says)


class Message(msgspec.Struct, frozen=True):
    """A conversation whose last message of the user is judged; of a turn `store` says whose life it is of."""

    id: str
    language: str
    kind: str
    messages: tuple[dict[str, str], ...]
    keep: tuple[Note, ...]
    store: str = ""

    @property
    def text(self) -> str:
        return [each["content"] for each in self.messages if each["role"] == "user"][-1]

    @property
    def window(self) -> tuple[Utterance, ...]:
        return tuple(
            Utterance("user" if one["role"] == "user" else "assistant", one["content"])
            for one in self.messages
        )

    def passages(self) -> tuple[Passage, ...]:
        """Those of the message that is judged."""
        last = max(place for place, each in enumerate(self.window) if each.role == "user")
        return passages([each for each in statements(self.window) if each.message == last])

    def texts(self) -> list[str]:
        """All whose vectors the worker asks for."""
        said = statements(self.window)
        runs = (text for each in said for text in clause_runs(each).values())
        return [*(text for passage in passages(said) for text in passage.texts()), *runs]


class Session(msgspec.Struct, frozen=True):
    """What a person typed and an agent answered, turn by turn."""

    id: str
    store: str
    turns: tuple[dict[str, object], ...]

    def messages(self) -> Iterator[Message]:
        """Each turn with the answer before it."""
        before: tuple[dict[str, str], ...] = ()
        for number, turn in enumerate(self.turns):
            typed = {"role": "user", "content": str(turn["user"])}
            yield Message(f"{self.id}\t{number}", "", "turn", (*before, typed), (), self.store)
            before = ({"role": "assistant", "content": str(turn["assistant"])},)


class Example(NamedTuple):
    """A text and what is known of it; `None` where nobody knows. `message`: of which it is, or -1."""

    text: str
    keep: bool | None
    weight: float
    kind: str
    scope: str = "-"
    category: str = "-"
    message: int = -1

    def asks(self) -> tuple[bool, bool] | None:
        """Whether it asks to be kept; nobody knows it of what is to be kept all the same."""
        if self.keep is None or (self.keep and self.kind != "explicit"):
            return None
        return self.keep, not self.keep

    def kinds(self) -> frozenset[str]:
        """Those that it may be of: a part of a message is not always of the message's kind."""
        possible = frozenset(KEPT if self.keep else OTHERS)
        return possible & {self.kind} or possible


def messages(half: str = "dev") -> tuple[Message, ...]:
    """What people say: `dev`, `asking`; `more`, of which nothing is learnt; or `sealed`, to close with."""
    lines = (DATA / "said" / half / "said.jsonl").read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Message) for line in lines)


def turns() -> tuple[Message, ...]:
    """What agents are told all day and nobody needs again."""
    lasting = {tuple(line.split("\t")[:2]) for line in LASTING.read_text().splitlines()}
    sessions = (msgspec.json.decode(line, type=Session) for line in SESSIONS.read_bytes().splitlines())
    every = (message for session in sessions for message in session.messages())
    return tuple(each for each in every if tuple(each.id.split("\t")) not in lasting)


def typed() -> Iterator[Message]:
    """What was written to learn from, message by message, with the words of each that say what to keep."""
    for file in sorted(TYPED.glob("*/*.tsv")):
        for place, line in enumerate(file.read_text().splitlines()):
            kind, scope, category, text, says = line.replace("\\n", "\n").split("\t")
            words = tuple(each.strip() for each in says.split(" | "))
            keep = (Note(words, scope, category, explicit=kind == "explicit"),) if kind in KEPT else ()
            name = f"{file.parent.name}-{file.stem}-{place}"
            yield Message(name, file.stem, kind, ({"role": "user", "content": text},), keep)


def refused() -> Iterator[Example]:
    """Messages that ask not to be kept, and those that ask the memory to forget: nothing of them is kept."""
    for file in files(REQUESTS):
        for line in file.read_text().splitlines():
            kind, text, _ = line.split("\t")
            if kind in REFUSED:
                yield Example(text, False, REFUSED[kind], kind)


def first_words() -> tuple[Message, ...]:
    """The plainest things that people say, to judge by alone; any memory of what is to be kept counts."""
    return tuple(
        Message(
            f"{file.stem}-{place}",
            file.stem,
            kind,
            ({"role": "user", "content": text},),
            (Note((), scope, category, explicit=False),) if kind in KEPT else (),
        )
        for file in files(FIRST_WORDS)
        for place, line in enumerate(file.read_text().splitlines())
        for kind, scope, category, text, _ in (line.split("\t"),)
    )


def sentences(folder: Path = STATEMENTS) -> list[Example]:
    rows = [line.split("\t") for file in files(folder) for line in file.read_text().splitlines()]
    return [
        Example(text, kind in KEPT, 1.0, kind, scope, category) for kind, scope, category, text, _ in rows
    ]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tsv"))


def examples(said: Sequence[Message]) -> list[Example]:
    """All of them: sentences, near misses, plain ones, then messages whole, and each of their sentences.

    Those of `said` first, by their places, and then all that nobody is judged by.
    """
    found = [*sentences(), *sentences(NEAR), *sentences(PLAIN), *refused()]
    others = [*messages("asking"), *typed()]
    for place, message in (*enumerate(said), *((-1, each) for each in others)):
        first, weight = message.keep[0] if message.keep else None, _TURN if message.store else 1.0
        scope, category = (first.scope, first.category) if first else ("-", "-")
        found.append(
            Example(
                message.text.strip()[:MESSAGE_CHARS],
                bool(first),
                1.5 * weight,
                message.kind,
                scope,
                category,
                place,
            )
        )
        parts = dict.fromkeys(each.text for passage in message.passages() for each in passage.sentences)
        found.extend(
            Example(text, is_kept(text, message.keep), 0.7 * weight, message.kind, message=place)
            for text in parts
        )
    return found


def is_kept(text: str, notes: tuple[Note, ...]) -> bool | None:
    """Whether a part of a message holds what is to be kept of it; None if it holds some of its words."""
    if any(note.is_in(text) for note in notes):
        return True
    return None if any(part.lower() in text.lower() for note in notes for part in note.says) else False


def digest() -> str:
    """Return a hash of all the data."""
    read = [*files(STATEMENTS), *files(NEAR), *files(PLAIN), *files(REQUESTS)]
    read += [SAID, SESSIONS, LASTING, ASKING]
    read += sorted(TYPED.glob("*/*.tsv"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in read)).hexdigest()
