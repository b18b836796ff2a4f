"""What is done when a text is forgotten, wherever it stood: in a file, or in what a session remembers.

A memory of a session was never on a disk, so there is no trash to bring it back from: what is taken out is
gone at once. Raised is StoreError, for what of the daemon's own record could not be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from msgspec.structs import replace

from forged.daemon.handlers.context import Context, Daemon
from forged.daemon.handlers.refusals import InvalidRequest
from forged.memory import Scope
from forged.scopes import SessionMemory, View, root_of_session
from forged.state import CutCount, RootIds
from forged.text.forgetting import without_sentences, words_of
from forged_client import protocol as wire


async def purge(daemon: Daemon, contents: Collection[str]) -> CutCount:
    """Take these texts out of all that waits to become a memory, and out of what sessions remember."""
    texts = await asyncio.to_thread(lambda: [words for words in map(words_of, contents) if words])
    await daemon.talks.cut(texts)
    for row in daemon.session_memories.remove_saying(lambda text: without_sentences(text, texts)[1] > 0):
        await _drop_of_session(daemon, row, contents)
    cut = await daemon.capture.purge(texts)
    await daemon.state.erase_traces()
    return cut


async def forget_in_session(context: Context, request: wire.Forget) -> wire.Forgotten | None:
    """Forget a memory of a session, by its whole id; None if no session has it."""
    daemon = context.daemon
    row = daemon.session_memories.remove(request.memory_id) if request.scope in _SCOPES else None
    if row is None:
        return None
    contents = (row.memory.content,)
    for top in row.tops:
        await daemon.state.forgotten.add(top, contents)
    await _drop_of_session(daemon, row, contents)
    cut = await purge(daemon, contents)
    daemon.metrics.forgotten += 1
    return wire.Forgotten(ids=(row.id,), cut_sentences=cut.sentences, cut_events=cut.events)


async def _drop_of_session(daemon: Daemon, row: SessionMemory, contents: Collection[str]) -> None:
    top = root_of_session(row.session_id)
    await daemon.state.removal.forgotten(RootIds(top), (row.id,), contents)
    daemon.retriever.turns.forget(top, (row.id,))


def with_sessions(context: Context, view: View, ids: Collection[str], scope: str = "") -> View:
    """A view that shows the memories of sessions as well, if they are named by their whole id."""
    daemon = context.daemon
    rows = map(daemon.session_memories.find, ids) if scope in _SCOPES else ()
    sessions = dict.fromkeys(row.session_id for row in rows if row is not None)
    maps = (home for each in sessions for home in daemon.session_views.view(each).maps)
    return replace(view, maps=(*view.maps, *maps)) if sessions else view


def of_session(context: Context, view: View, request: wire.ListMemories) -> View:
    """A view with what one session remembers, if that is asked for. Raises InvalidRequest."""
    if request.scope != Scope.SESSION:
        return view
    if not request.session_id:
        raise InvalidRequest("which session's memories? Name it whole with --session (session_id)")
    return replace(view, maps=context.daemon.session_views.view(request.session_id).maps)


_SCOPES = frozenset({"", Scope.SESSION})
