"""One function per request: wire type in, domain call, wire type out.

Only this package turns wire types into domain types and back (design.md section 2), so the domain may
change without a protocol bump. `context` is what is served and for whom; `retrieval`, `memories`,
`capturing` and `health` hold the functions; `translation` the conversions they share.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from forged.daemon.handlers import capturing, health, memories, retrieval
from forged.daemon.handlers.context import Context, Daemon, InvalidRequest, code_of
from forged.errors import ForgedError
from forged_client import protocol as wire

__all__ = ["Daemon", "Handlers"]


class Handlers:
    """Dispatch of requests; one instance for the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._context = Context(daemon)

    def handle(self, request: wire.AnyRequest) -> wire.Reply | Awaitable[wire.Reply]:
        """Carry out one request: a reply, or a coroutine of one. Either may raise ForgedError."""
        context = self._context
        context.daemon.metrics.requests += 1
        if isinstance(request, wire.Ping):  # the commonest, and the one that is timed
            return wire.Pong(id=request.id)
        context.daemon.woken()
        match request:
            case wire.Retrieve():
                return retrieval.retrieve(context, request)
            case wire.Search():
                return retrieval.search(context, request)
            case wire.Why():
                return retrieval.why(context, request)
            case wire.Remember():
                return memories.remember(context, request)
            case wire.Capture():
                return capturing.capture(context, request)
            case wire.GetMemories():
                return memories.get(context, request)
            case wire.ListMemories():
                return memories.list_page(context, request)
            case wire.History():
                return memories.history(context, request)
            case wire.Forget():
                return memories.forget(context, request)
            case wire.Undo():
                return capturing.undo(context, request)
            case wire.Pause():
                return capturing.pause(context, request)
            case wire.Dead():
                return capturing.dead(context, request)
            case wire.Cost():
                return capturing.cost(context, request)
            case wire.Rebuild():
                return health.rebuild(context, request)
            case wire.Status():
                return health.status(context, request)
            case wire.Hello():
                return health.hello(context, request)
            case wire.Events():
                raise InvalidRequest("events are streamed, not answered")

    def events(self, request: wire.Events) -> AsyncIterator[wire.Reply]:
        """The stream that an `events` request asks for."""
        return health.events(self._context, request)

    def code_of(self, error: ForgedError) -> str:
        """The wire code of a domain error."""
        return code_of(error)
