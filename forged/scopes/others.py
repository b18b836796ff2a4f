"""The scopes that a request may search beside the roots of its workspace: a session, an agent, the documents.

Each is a source of its own, merged by rank with what the workspace's roots hold; one that is not read yet, or
is late, is named in the answer and keeps nobody waiting. An `OtherScope` is only ever in the place of a
request that names its session or its agent.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Protocol

import msgspec

from forged.errors import ForgedError
from forged.map import VectorMap
from forged.memory import Scope
from forged.scopes.file_source import FileSource
from forged.scopes.session_views import SessionViews
from forged.scopes.source import Question, Rows, Source
from forged.scopes.view import View

# What is there shows itself within such a moment; nobody waits for a first build of what lies beside.
_MOMENT_S = 0.05


class NotRead(ForgedError):  # noqa: N818 - reads as the state it names
    """A scope has not been read for the first time yet."""


class Seen(Protocol):
    """Where a scope's memories are seen, as those of file roots are (`FileRoots`)."""

    def shown(self) -> tuple[int, ...]:
        """What stands for the maps that are there now."""
        ...

    def maps(self) -> tuple[VectorMap, ...]:
        """The maps that are there now."""
        ...

    async def see(self, generation: int, deadline: float) -> View:
        """What is visible of a generation, after waiting for that until `deadline`."""
        ...


class OneSession:
    """What one session remembers, as it is seen; nobody has to wait for it."""

    def __init__(self, views: SessionViews, session_id: str) -> None:
        self._views = views
        self._session_id = session_id

    def shown(self) -> tuple[int, ...]:
        return tuple(each.generation for each in self.maps())

    def maps(self) -> tuple[VectorMap, ...]:
        return self._views.view(self._session_id).maps

    async def see(self, generation: int, deadline: float) -> View:
        del generation, deadline
        return self._views.view(self._session_id)


class OtherScope(msgspec.Struct, frozen=True, eq=False):
    """One of them; `root` is that of its memories."""

    scope: Scope
    root: str
    files: Seen


class OtherSource:
    """A scope as a source. `see` yields what is visible of it, after waiting until a time.

    `whole` is given the search of what is visible, and may ask a second model beside it.
    """

    def __init__(
        self,
        name: str,
        see: Callable[[float], Awaitable[View]],
        *,
        lexical_weight: float,
        thread: Executor,
        whole: Callable[[Source, View], Source] = lambda files, _: files,
    ) -> None:
        self.name = name
        self._see = see
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._whole = whole

    async def search(self, question: Question) -> Rows:
        """What answers a question. Raises NotRead."""
        view = await self._see(min(time.monotonic() + _MOMENT_S, question.deadline))
        if view.waiting and not len(view):
            raise NotRead("is read for the first time")
        if not len(view):
            return Rows()
        source = FileSource(view, lexical_weight=self._lexical_weight, thread=self._thread)
        return await self._whole(source, view).search(question)
