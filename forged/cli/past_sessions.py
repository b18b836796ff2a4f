"""Past sessions of agents for `forgectl learn`: find them, survey them, cut them into requests.

`survey` reads each session once and classifies it; only `new` ones are handed over. Sessions in which an
agent was forged's classifier are left out. A session that cannot be read raises nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from forged.transcripts import FORMATS, FoundSession, PastSession, TranscriptError, read, sessions
from forged_client import address
from forged_client.protocol import Learn, Message, PastSessions

# Characters of a request, and of one of its messages: of four bytes each they fit into a frame.
_MOST_CHARACTERS, _MOST_MESSAGE = 400_000, 200_000

Kind = Literal["new", "known", "empty", "ours", "unreadable"]


class SurveyedSession(msgspec.Struct, frozen=True):
    """A past session of an agent: its file, kind (new, known, empty ...), workspace, and size.

    `home` is the folder of its agent. It `is_homeless` if its workspace no longer exists.
    """

    found: FoundSession
    home: str
    kind: Kind
    session_id: str = ""
    workspace: str = ""
    is_homeless: bool = False
    said_at: float = 0.0
    messages: int = 0
    characters: int = 0
    tokens: int = 0


def changed_sessions(
    environ: Mapping[str, str], agents: Sequence[str], since: float
) -> list[tuple[FoundSession, str]]:
    """Return the files of these agents' sessions that changed since a time, each with its agent's folder."""
    homes = {agent: FORMATS[agent].home(environ, address.home(environ)) for agent in agents}
    return [(found, home) for agent, home in homes.items() for found in sessions(agent, home, since)]


def survey(
    found: FoundSession, home: str, known: PastSessions, environ: Mapping[str, str]
) -> SurveyedSession:
    """Read a past session and classify it for `learn`; an unreadable one becomes `unreadable`."""
    try:
        session = read(found, home)
    except TranscriptError:
        return SurveyedSession(found, home, "unreadable")
    workspace = session.workspace
    return SurveyedSession(
        found,
        home,
        _kind(session, known.marks.get(found.agent, {}), environ),
        session_id=session.session_id,
        workspace=workspace,
        is_homeless=not (os.path.isabs(workspace) and os.path.isdir(workspace)),
        said_at=max(session.times, default=0.0) or found.changed_at,
        messages=len(session.messages),
        characters=sum(len(each.text) for each in session.messages),
        tokens=session.tokens,
    )


def _kind(session: PastSession, marks: Mapping[str, str], environ: Mapping[str, str]) -> Kind:
    """Classify a past session: of forged's own classifier, empty, known by its mark, or new."""
    if os.path.join(session.workspace, "").startswith(os.path.join(address.state_dir(environ), "")):
        return "ours"
    if not (session.session_id and any(each.role == "user" for each in session.messages)):
        return "empty"
    return "known" if marks.get(session.session_id) == session.mark else "new"


def learn_requests(past: SurveyedSession, environ: Mapping[str, str]) -> Iterator[Learn]:
    """Yield the requests that send a past session to the daemon in parts; the mark is in the last.

    A session without its workspace is handed over for the home directory, which is in no repository. Only
    memories of the user can be proposed from it.
    """
    session = read(past.found, past.home)
    workspace = address.home(environ) if past.is_homeless else past.workspace
    parts = [*_split_messages(session)]
    for at, part in enumerate(parts):
        yield Learn(
            workspace=workspace,
            session_id=session.session_id,
            agent=past.found.agent,
            messages=tuple(message for message, _ in part),
            said_at=tuple(said_at for _, said_at in part),
            mark=session.mark if at == len(parts) - 1 else "",
            headless=session.headless,
        )


def _split_messages(session: PastSession) -> Iterator[list[tuple[Message, float]]]:
    """Yield a past session's messages and times in parts that fit into a request; long ones are split."""
    part: list[tuple[Message, float]] = []
    room = _MOST_CHARACTERS
    for message, at in zip(session.messages, session.times, strict=True):
        for start in range(0, len(message.text), _MOST_MESSAGE):
            text = message.text[start : start + _MOST_MESSAGE]
            if len(text) > room:
                yield part
                part, room = [], _MOST_CHARACTERS
            part.append((Message(message.role, text), at))
            room -= len(text)
    if part:
        yield part


def least_model_calls(past: SurveyedSession, known: PastSessions) -> int:
    """Estimate the model calls to judge a past session, at least; 0 for the built-in classifier."""
    return max(1, -(-past.characters // known.call_characters)) if known.classifier else 0
