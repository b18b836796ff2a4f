"""Sessions through a daemon, turn by turn, as an agent of that person would have asked.

One daemon serves store after store: before each one its user's memories take the place of the last one's
in the scratch HOME. Settings are those that are shipped. An agent in mode `append` keeps every reply with the
turn that it came with; one in mode `block` has what the newest reply says and nothing else.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from forged_client import Client
from forged_client.protocol import Retrieved
from tests.evaluation import stores
from tests.evaluation.injected_text import Parts, Reader, beyond
from tests.evaluation.sessions import Session, SessionSet, Store, Turn
from tests.evaluation.settings import Prepared
from tests.evaluation.trial import (
    ANSWERED,
    PINNED,
    Failure,
    MeasurementFailed,
    Progress,
    asked_daemon,
    await_gate,
    build,
    indexes_of,
)

BLOCK, APPEND = "block", "append"


class TurnContext(msgspec.Struct, frozen=True):
    """One turn and what stands in its reply, what then stands before the agent (`context`), and what is new.

    `parts` are those of the text that the agent had not been sent before.
    """

    session: str
    store: str
    size: int
    turn: Turn
    reply: frozenset[str]
    context: frozenset[str]
    new: tuple[str, ...]
    pinned: frozenset[str]
    parts: Parts
    failure: str = ""


class SessionsResult(msgspec.Struct, frozen=True):
    """All turns of a set; seconds are of this machine and day."""

    indexes: tuple[str, ...]
    turns: tuple[TurnContext, ...]
    seconds: float

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why turns were not answered."""
        reasons = Counter(turn.failure for turn in self.turns if turn.failure)
        return tuple(Failure(reason, count) for reason, count in reasons.most_common())


def run(asked: SessionSet, prepared: Prepared, mode: str, progress: Progress) -> SessionsResult:
    """Ask every turn. Raises NotStarted, MeasurementFailed, and ClientError when the daemon is lost."""
    began = time.monotonic()
    contexts: list[TurnContext] = []
    indexes: tuple[str, ...] = ()
    with TemporaryDirectory(prefix="forged-eval-") as name:
        scratch = Path(name)
        (scratch / "home").mkdir()
        with asked_daemon(scratch, prepared.variables) as client:
            for store in asked.stores:
                workspace = _settle(scratch, store)
                build(client, [workspace], lambda *_: None)
                await_gate(client, progress)
                indexes = indexes_of(client, prepared.subject)
                for session in store.sessions:
                    contexts += _turns(client, workspace, store, session, mode)
                    progress("asking", len(contexts), asked.turns)
    return SessionsResult(indexes, tuple(contexts), round(time.monotonic() - began, 1))


class Opened(msgspec.Struct, frozen=True):
    """A session's first message in a store, and how many memories a search brought for it."""

    store: str
    size: int
    message: str
    searched: int


def opened(
    messages: Sequence[str], places: Sequence[Store], prepared: Prepared, progress: Progress
) -> tuple[Opened, ...]:
    """Begin a session with each message in each of these stores.

    Raises NotStarted, MeasurementFailed, and ClientError when the daemon is lost.
    """
    found: list[Opened] = []
    with TemporaryDirectory(prefix="forged-eval-") as name:
        scratch = Path(name)
        (scratch / "home").mkdir()
        with asked_daemon(scratch, prepared.variables) as client:
            for store in places:
                workspace = _settle(scratch, store)
                build(client, [workspace], lambda *_: None)
                await_gate(client, progress)
                for number, message in enumerate(messages):
                    said, named = [{"role": "user", "content": message}], f"first-{number}"
                    reply = client.retrieve(workspace, said, session_id=named, turn_id="0")
                    if failed := _failure(reply):
                        raise MeasurementFailed(f"{store.name} did not answer {message!r}: {failed}")
                    count = sum(hit.found.found_by != PINNED for hit in reply.memories if hit.found)
                    found.append(Opened(store.name, store.size, message, count))
                progress("beginning sessions", len(found), len(places) * len(messages))
    return tuple(found)


def _settle(scratch: Path, store: Store) -> str:
    """Write a store's files; those of the last one's user go."""
    shutil.rmtree(scratch / "home" / ".forge" / "memory", ignore_errors=True)
    stores.write(scratch / "home", store.user)
    top = scratch / "repos" / store.name
    (top / ".git").mkdir(parents=True)
    stores.write(top, store.items)
    return str(top)


def _turns(
    client: Client, workspace: str, store: Store, session: Session, mode: str
) -> Iterator[TurnContext]:
    reader = Reader((*store.user, *store.items))
    said: list[dict[str, str]] = []
    pinned: frozenset[str] = frozenset()
    context: frozenset[str] = frozenset()
    before = ""
    for number, turn in enumerate(session.turns):
        said.append({"role": "user", "content": turn.user})
        turn_id = f"{session.id}-{number}"
        reply = client.retrieve(workspace, said, session_id=session.id, turn_id=turn_id, mode=mode)
        said.append({"role": "assistant", "content": turn.assistant})
        pinned |= {hit.id for hit in reply.memories if hit.found.found_by == PINNED}
        sent = beyond(reply.text, before) if mode == BLOCK else reply.text
        before = reply.text
        here = reader.found(reply.text)
        kept = context if mode == APPEND else frozenset[str]()
        yield TurnContext(
            session=session.id,
            store=store.name,
            size=store.size,
            turn=turn,
            reply=frozenset(here),
            context=frozenset(here) | kept,
            new=tuple(name for name in here if name not in context),
            pinned=pinned,
            parts=reader.parts(sent, pinned),
            failure=_failure(reply),
        )
        context = frozenset(here) | kept


def _failure(reply: Retrieved) -> str:
    return "" if reply.status in ANSWERED else reply.reason or reply.status
