"""Sessions of a state alone: no retriever, no capture; what a turn found is said by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

from forged.capture.notifications import Notifications
from forged.config import Config, MemoryConfig
from forged.files import Root
from forged.map import VectorMap, build_chains
from forged.memory import Memory, Scope
from forged.retrieval import Answer
from forged.sessions import Session, Sessions, Turn
from forged.sessions.turns import TurnReply
from forged.state import State
from forged.stores import Ranked, SessionMemories, Workplace
from forged_client import protocol as wire
from tests.data.maps import vector_map
from tests.data.memories import memory

ONE, TWO = memory("mem_one", "about one"), memory("mem_two", "about two")
STORE = (ONE, TWO)
TOPS = ("/repo", "/home")


class StandInFiles:
    """Maps, and empty ones of these generations."""

    def __init__(self, *maps: VectorMap, shown: tuple[int, ...] = ()) -> None:
        empty = (
            VectorMap(f"/{at}", Scope.REPO, each, (), (), build_chains(())) for at, each in enumerate(shown)
        )
        self._maps = (*maps, *empty)

    def maps(self) -> tuple[VectorMap, ...]:
        return self._maps


def workplace(
    *maps: VectorMap, shown: tuple[int, ...] = (), tops: tuple[str, ...] = TOPS, **settings: object
) -> Workplace:
    roots = tuple(Root(top, scope) for top, scope in zip(tops, (Scope.REPO, Scope.USER), strict=True))
    return Workplace(roots, StandInFiles(*maps, shown=shown), tops, MemoryConfig(**settings))


def sessions_of(state: State, clock: Callable[[], float]) -> Sessions:
    state.tried.set()
    capture = SimpleNamespace(notifications=Notifications(state.capture_log, classifier=""))
    rest = {each: SimpleNamespace() for each in ("retriever", "resolver", "metrics")}
    return Sessions(Config(), state, capture, SessionMemories(clock=clock), clock=clock, **rest)


class Story:
    """A session of an agent at a daemon that nothing is left of but this; `fields` are those of its turns."""

    def __init__(self, state: State, mode: str = "append", tops: tuple[str, ...] = TOPS) -> None:
        self.now = 1_000.0
        self.state, self.mode, self.tops = state, mode, tops
        self.sessions = sessions_of(state, lambda: self.now)

    def named(self, agent: str = "", session_id: str = "s") -> Session:
        return self.sessions.open(agent, session_id)

    async def asks(
        self,
        turn: str,
        found: Sequence[Memory] = STORE,
        *,
        whole: bool = True,
        late: bool = False,
        maps: Sequence[Sequence[Memory]] = (STORE, ()),
        speaks: bool = False,
        agent: str = "",
        session_id: str = "s",
        messages: tuple[wire.Message, ...] = (),
        tops: tuple[str, ...] = (),
        **fields: object,
    ) -> TurnReply:
        """One turn's reply, which is written `whole`, or `late`, or not."""
        tops = tops or self.tops
        there = tuple(
            vector_map(store, lexical=False, root=top) for store, top in zip(maps, tops, strict=False)
        )
        prompt = wire.Message("user", "What about walrus rules?" if speaks else "thanks")
        self.request, self.place = (
            {
                "turn_id": turn,
                "messages": (*messages, prompt),
                "mode": self.mode,
                "deadline": 0.0 if late else float("inf"),
                **fields,
            },
            workplace(*there, tops=tops),
        )
        of = Turn(self.named(agent, session_id), self.place, **self.request)
        if of.answer is None:
            await of.ask(4_000)
        ranked = tuple(Ranked(each, 0.5, root=tops[0]) for each in found)
        self.answer = Answer(status="ok" if found else "empty", ranked=ranked)
        if of.kept is not None:
            of.kept.put(self.answer)
        reply = of.compose_reply(self.answer, 4_000)
        request = wire.Retrieve(workspace=tops[0])
        self.sessions.expect_delivery(request, of)
        self.sessions.sent(request, whole=whole)
        return reply


def new(reply: TurnReply) -> list[str]:
    """Return what the session did not have."""
    return [each.memory.id for each in reply.new]
