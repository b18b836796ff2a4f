"""One function per request: wire type in, domain call, wire type out.

Only this module turns wire types into domain types and back (design.md section 2), so the domain may
change without a protocol bump. A handler returns a reply, or a coroutine of one; what it raises as a
`ForgedError` becomes a typed `failed` reply in the server's guard.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from forged_client import protocol as wire

from forged import __version__, config, memory, roots
from forged.conversation import Utterance
from forged.errors import ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError
from forged.indexer import Event, Indexer, RootIndex, problems
from forged.memory import Category, Memory, Related, Relationship, Scope, Trigger
from forged.metrics import Metrics
from forged.retrieval.answer import Answer, Ask, Ranked
from forged.retrieval.ledger import Ledger
from forged.retrieval.retriever import Retriever
from forged.roots import Root
from forged.vector_map import VectorMap
from forged.view import View
from forged.writer import Writer

_TEXT_PARTS = {"text", "input_text", "output_text"}
_ROOTS_TTL_S = 5.0
_MOST_IN_REPLY = 1000
# Waiting for a map where no deadline comes with the request.
_PATIENCE_S = 5.0
_REBUILD_PATIENCE_S = 600.0


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """What the handlers serve: the parts that `daemon` wired."""

    epoch: str
    home: str
    socket: str
    config: config.Config
    warnings: tuple[str, ...]
    disabled: str  # why retrieval is off, or nothing
    metrics: Metrics
    indexer: Indexer
    retriever: Retriever
    writer: Writer
    ledger: Ledger
    started_at: float
    connections: Callable[[], int]
    watch_state: Callable[[], str]
    watch_count: Callable[[str], int]
    woken: Callable[[], None]  # called when an agent is at work


class Workplace(msgspec.Struct, frozen=True):
    """A workspace, resolved: its roots (repo before user) and the settings that hold in it."""

    roots: tuple[Root, ...]
    settings: config.MemoryConfig

    @property
    def tops(self) -> tuple[str, ...]:
        return tuple(root.top for root in self.roots)


class Handlers:
    """Dispatch of requests; one instance for the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._workplaces: dict[str, tuple[Workplace, float]] = {}

    def handle(self, request: wire.AnyRequest) -> wire.Reply | Awaitable[wire.Reply]:
        """Carry out one request. Raises ForgedError, or returns a coroutine that may."""
        self._daemon.metrics.requests += 1
        if isinstance(request, wire.Ping):  # the commonest, and the one that is timed
            return wire.Pong(id=request.id)
        self._daemon.woken()
        match request:
            case wire.Retrieve():
                return self._retrieve(request)
            case wire.Search():
                return self._search(request)
            case wire.Why():
                return self._why(request)
            case wire.Remember():
                return self._remember(request)
            case wire.Capture():
                self._daemon.metrics.captures_rejected += 1
                return wire.Captured(id=request.id, outcome="rejected", reason="capture_not_available")
            case wire.GetMemories():
                return self._get(request)
            case wire.ListMemories():
                return self._list(request)
            case wire.History():
                return self._history(request)
            case wire.Forget():
                return self._forget(request)
            case wire.Rebuild():
                return self._rebuild(request)
            case wire.Status():
                return self._status(request)
            case wire.Hello():
                return self._hello(request)
            case wire.Events() | wire.Ping():
                raise InvalidRequest("events are streamed by the server")

    # --- connection and health ---

    def _hello(self, request: wire.Hello) -> wire.Reply:
        if not request.protocol_min <= wire.PROTOCOL_VERSION <= request.protocol_max:
            return wire.Failed(
                id=request.id,
                status="error",
                code="protocol_mismatch",
                message=f"this daemon speaks protocol {wire.PROTOCOL_VERSION}, the client "
                f"{request.protocol_min} to {request.protocol_max}; upgrade the older of the two",
            )
        return wire.Welcome(
            id=request.id, version=__version__, pid=os.getpid(), epoch=self._daemon.epoch
        )

    def _status(self, request: wire.Status) -> wire.StatusReport:
        daemon = self._daemon
        if request.workspace and not daemon.disabled:
            for root in self._workplace(request.workspace).roots:
                daemon.indexer.open(root)
        reports = tuple(self._report(index) for index in daemon.indexer.indexes())
        return wire.StatusReport(
            id=request.id,
            reason=daemon.disabled,
            state=_health(daemon, reports),
            version=__version__,
            pid=os.getpid(),
            epoch=daemon.epoch,
            uptime_s=round(time.monotonic() - daemon.started_at, 3),
            socket=daemon.socket,
            strategy=daemon.config.memory.retrieval_strategy,
            embedding_model=daemon.config.memory.embedding_model,
            retrieval_model=daemon.config.memory.retrieval_model,
            roots=reports,
            connections=daemon.connections(),
            counters=msgspec.structs.asdict(daemon.metrics),
            warnings=daemon.warnings,
        )

    def _report(self, index: RootIndex) -> wire.RootReport:
        progress, found = index.progress, problems(index)
        legs = View((index.map,)).legs if index.map is not None else ()
        return wire.RootReport(
            root=index.root.top,
            scope=index.root.scope,
            state=progress.state,
            memories=len(index.map.memories) if index.map is not None else 0,
            generation=self._token(index.visible),
            legs=legs,
            problems=tuple(wire.FileProblem(p.path, p.reason) for p in found[:_MOST_IN_REPLY]),
            quarantined=len(index.builder.quarantined),
            embedded=progress.embedded,
            to_embed=progress.to_embed,
            build_ms=round(progress.build_ms, 3),
            built_age_s=round(time.monotonic() - progress.built_at, 3) if progress.built_at else 0.0,
            last_error=progress.error,
            watch=self._daemon.watch_state(),
            watches=self._daemon.watch_count(index.root.top),
        )

    async def events(self, request: wire.Events) -> AsyncIterator[wire.Progress]:
        """Progress of every build that the workspace can see, until the caller stops listening."""
        tops = self._workplace(request.workspace).tops if request.workspace else None
        waiting: asyncio.Queue[Event] = asyncio.Queue(1024)

        def heard(event: Event) -> None:
            if (tops is None or event.root in tops) and not waiting.full():
                waiting.put_nowait(event)

        stop = self._daemon.indexer.listen(heard)
        try:
            while True:
                event = await waiting.get()
                yield wire.Progress(
                    id=request.id,
                    event=event.kind,
                    root=event.root,
                    done=event.done,
                    total=event.total,
                    generation=self._token(event.generation),
                )
        finally:
            stop()

    # --- retrieval ---

    async def _retrieve(self, request: wire.Retrieve) -> wire.Retrieved:
        started = time.monotonic()
        place = self._workplace(request.workspace)
        off = self._daemon.disabled or _disabled(place.settings)
        if off:
            return wire.Retrieved(id=request.id, status="disabled", reason=off)
        answer, cached = await self._answer(request, place, started)
        self._daemon.ledger.note(request.session_id, request.turn_id, place.tops, answer)
        self._count(answer, cached=cached)
        unchanged = bool(answer.digest) and answer.digest == request.known_digest
        return wire.Retrieved(
            id=request.id,
            status=answer.status,
            reason=answer.reason,
            text="" if unchanged else answer.text,
            memories=tuple(_hit(r) for r in answer.ranked[: answer.included]),
            included=answer.included,
            omitted=answer.omitted,
            digest=answer.digest,
            unchanged=unchanged,
            strategy=answer.strategy,
            legs=answer.legs,
            generation=self._token(answer.generation),
            cached=cached,
            elapsed_ms=round((time.monotonic() - started) * 1000, 3),
        )

    async def _answer(
        self, request: wire.Retrieve, place: Workplace, started: float
    ) -> tuple[Answer, bool]:
        settings = place.settings
        limit = settings.retrieval_timeout_s
        budget = settings.injection_token_budget if request.token_budget is None else request.token_budget
        ask = Ask(
            session_id=request.session_id,
            turn_id=request.turn_id,
            window=_utterances(request.messages, request.last_summary_index),
            hypotheses=tuple(h for h in request.hypotheses if h.strip()),
            top_k=settings.retrieval_top_k,
            hop_depth=settings.retrieval_hop_depth,
            budget_tokens=max(budget, 0),
            deadline=started + min(request.timeout_s or limit, limit),
            min_generation=self._generation(request.min_generation),
        )

        async def see(deadline: float) -> View:
            return await self._daemon.indexer.view(place.roots, ask.min_generation, deadline)

        return await self._daemon.retriever.retrieve(ask, place.tops, see)

    def _count(self, answer: Answer, *, cached: bool) -> None:
        metrics = self._daemon.metrics
        metrics.retrieves += 1
        metrics.turn_cache_hits += cached
        metrics.retrieve_hits += answer.status == "ok"
        metrics.retrieve_empty += answer.status == "empty"
        metrics.retrieve_timeouts += answer.status == "timeout"
        metrics.retrieve_errors += answer.status == "error"

    async def _search(self, request: wire.Search) -> wire.Found:
        started = time.monotonic()
        place = self._workplace(request.workspace)
        off = self._daemon.disabled or _disabled(place.settings)
        if off:
            return wire.Found(id=request.id, status="disabled", reason=off)
        if not request.query.strip():
            raise InvalidRequest("the query is empty; say what to look for")
        answer = await self._look_up(place, request.query, request.limit, request.min_generation)
        return wire.Found(
            id=request.id,
            status=answer.status,
            reason=answer.reason,
            memories=tuple(_hit(ranked) for ranked in answer.ranked if ranked.via == "search"),
            legs=answer.legs,
            generation=self._token(answer.generation),
            elapsed_ms=round((time.monotonic() - started) * 1000, 3),
        )

    async def _look_up(self, place: Workplace, text: str, limit: int, token: str) -> Answer:
        deadline = time.monotonic() + place.settings.retrieval_timeout_s
        generation = self._generation(token)
        ask = Ask(
            session_id="",
            turn_id="",
            window=(Utterance("user", text),),
            hypotheses=(),
            top_k=min(max(limit, 1), 100),
            hop_depth=place.settings.retrieval_hop_depth,
            budget_tokens=place.settings.injection_token_budget,
            deadline=deadline,
            min_generation=generation,
        )
        view = await self._daemon.indexer.view(place.roots, generation, deadline)
        return await self._daemon.retriever.search(ask, view, text)

    async def _why(self, request: wire.Why) -> wire.Explained:
        place = self._workplace(request.workspace)
        if request.query.strip():
            answer = await self._look_up(
                place, request.query, place.settings.retrieval_top_k, token=""
            )
            return self._explained(request, answer, at=memory.utc_now())
        found = self._daemon.ledger.last(request.session_id, place.tops)
        if found is None:
            return wire.Explained(
                id=request.id, status="empty", reason="nothing was injected into this session yet"
            )
        return self._explained(
            request, found.answer, at=found.at, session_id=found.session_id, turn_id=found.turn_id
        )

    def _explained(
        self, request: wire.Why, answer: Answer, *, at: str, session_id: str = "", turn_id: str = ""
    ) -> wire.Explained:
        return wire.Explained(
            id=request.id,
            status=answer.status,
            reason=answer.reason,
            session_id=session_id,
            turn_id=turn_id,
            at=at,
            strategy=answer.strategy,
            legs=answer.legs,
            hypotheses=answer.hypotheses,
            memories=tuple(_hit(ranked) for ranked in answer.ranked),
            included=answer.included,
            omitted_ids=tuple(r.memory.id for r in answer.ranked[answer.included :]),
            generation=self._token(answer.generation),
        )

    # --- memories ---

    async def _remember(self, request: wire.Remember) -> wire.Remembered:
        place = self._workplace(request.workspace)
        if not place.settings.enabled:
            return wire.Remembered(id=request.id, status="disabled", reason=_disabled(place.settings))
        index = self._daemon.indexer.open(_root_of_scope(place, request.scope))
        draft = _draft(request, index.root)
        written, path = await self._daemon.writer.add(index, draft)
        self._daemon.metrics.remembered += 1
        return wire.Remembered(
            id=request.id,
            memory_id=written.id,
            version=written.version,
            path=path,
            generation=self._token(index.mark()),
        )

    async def _forget(self, request: wire.Forget) -> wire.Forgotten:
        place = self._workplace(request.workspace)
        view = await self._view(place, "")
        home, _ = _must_find(view, request.memory_id)
        index = self._daemon.indexer.open(next(r for r in place.roots if r.top == home.root))
        ids = home.chains.chain(request.memory_id)
        gone = await self._daemon.writer.remove(
            index, (request.memory_id,) if request.version_only else ids, erase=request.erase_now
        )
        self._daemon.retriever.cache.purge()
        self._daemon.ledger.purge()
        generation = index.mark()
        await index.reach(generation, time.monotonic() + _PATIENCE_S)
        self._daemon.metrics.forgotten += len(gone.ids)
        return wire.Forgotten(
            id=request.id,
            ids=gone.ids,
            trash=gone.trash,
            unreachable=gone.unreachable,
            generation=self._token(generation),
        )

    async def _get(self, request: wire.GetMemories) -> wire.Memories:
        view = await self._view(self._workplace(request.workspace), request.min_generation)
        found = [(i, view.find(i)) for i in request.ids[:_MOST_IN_REPLY]]
        return wire.Memories(
            id=request.id,
            status="ok" if any(item for _, item in found) else "empty",
            memories=tuple(_record(*item) for _, item in found if item is not None),
            total=sum(item is not None for _, item in found),
            missing=tuple(i for i, item in found if item is None),
            generation=self._token(view.generation),
        )

    async def _list(self, request: wire.ListMemories) -> wire.Memories:
        view = await self._view(self._workplace(request.workspace), request.min_generation)
        chosen = [
            (home, found)
            for home in view.maps
            for found in home.memories
            if (not request.scope or home.scope == request.scope)
            and (not request.category or found.category == request.category)
            and (request.all_versions or home.chains.is_head(found.id))
        ]
        chosen.sort(key=lambda item: (-memory.time_ns(item[1].created_at), item[1].id))
        start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_IN_REPLY)
        page = _fitting([_record(*item) for item in chosen[start : start + count]])
        return wire.Memories(
            id=request.id,
            status="ok" if page else "empty",
            reason=view.problem,
            memories=page,
            total=len(chosen),
            generation=self._token(view.generation),
        )

    async def _history(self, request: wire.History) -> wire.Chain:
        view = await self._view(self._workplace(request.workspace), request.min_generation)
        home, _ = _must_find(view, request.memory_id)
        head = home.chains.head(request.memory_id)
        return wire.Chain(
            id=request.id,
            memories=_fitting([_record(home, found) for found in view.chain(home, head)]),
            flags=home.chains.flags.get(head, ()),
            generation=self._token(view.generation),
        )

    async def _rebuild(self, request: wire.Rebuild) -> wire.Rebuilt:
        place = self._workplace(request.workspace)
        indexes = [self._daemon.indexer.open(root) for root in place.roots]
        for index in indexes:
            if request.full:
                index.builder.forget_vectors()
            index.builder.retry_quarantined()
        goals = [index.mark() for index in indexes]
        if request.wait:
            deadline = time.monotonic() + _REBUILD_PATIENCE_S
            await asyncio.gather(*(i.reach(g, deadline) for i, g in zip(indexes, goals, strict=True)))
        failed = next((i.progress.error for i in indexes if i.progress.error), "")
        done = all(index.visible >= goal for index, goal in zip(indexes, goals, strict=True))
        return wire.Rebuilt(
            id=request.id,
            status="ok" if done else "error" if request.wait and failed else "not_ready",
            reason=failed if request.wait else "",
            generation=self._token(max(goals)),
            roots=tuple(self._report(index) for index in indexes),
        )

    # --- shared steps ---

    def _workplace(self, workspace: str) -> Workplace:
        """Resolve a workspace; kept for 5 s, because every request names one and each costs some stats."""
        known, expires = self._workplaces.get(workspace, (None, 0.0))
        now = time.monotonic()
        if known is not None and now < expires:
            return known
        found = roots.resolve(workspace, self._daemon.home)
        settings = self._daemon.config.memory
        repo = next((root for root in found if root.scope is Scope.REPO), None)
        if repo is not None:
            settings = config.apply(self._daemon.config, config.repo_overrides(repo.top)[0])
        if len(self._workplaces) > 1024:
            self._workplaces.clear()
        place = Workplace(found, settings)
        self._workplaces[workspace] = (place, now + _ROOTS_TTL_S)
        return place

    async def _view(self, place: Workplace, token: str) -> View:
        deadline = time.monotonic() + _PATIENCE_S
        return await self._daemon.indexer.view(place.roots, self._generation(token), deadline)

    def _token(self, generation: int) -> str:
        return f"{self._daemon.epoch}:{generation}"

    def _generation(self, token: str) -> int:
        """The number in a token; one of another epoch counts as reached after the first scan."""
        epoch, _, number = token.partition(":")
        return int(number) if epoch == self._daemon.epoch and number.isdecimal() else 0


class InvalidRequest(ForgedError):
    """The request cannot be carried out as it is; the message says what to change."""


def code_of(error: ForgedError) -> str:
    """The wire code of a domain error."""
    match error:
        case MemoryNotFound():
            return "not_found"
        case MemoryExists():
            return "conflict"
        case StoreError():
            return "storage_error"
        case InvalidRequest() | WorkspaceError():
            return "invalid"
    return "internal"


def _health(daemon: Daemon, reports: Sequence[wire.RootReport]) -> str:
    if daemon.disabled:
        return "disabled"
    broken = any(r.last_error or r.quarantined or r.problems for r in reports)
    return "degraded" if broken or daemon.watch_state() not in {"", "inotify"} else "ok"


def _disabled(settings: config.MemoryConfig) -> str:
    return "" if settings.enabled else "memory.enabled is false"


def _utterances(messages: Sequence[wire.Message], start: int) -> tuple[Utterance, ...]:
    """User and assistant text since the summary; tool content and empty texts are left out (B46, B47)."""
    found = []
    for message in messages[max(start, 0) :]:
        text = _text(message)
        if message.role in {"user", "assistant"} and text.strip():
            found.append(Utterance("user" if message.role == "user" else "assistant", text))
    return tuple(found)


def _text(message: wire.Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return "\n".join(part.text for part in message.content if part.type in _TEXT_PARTS)


def _root_of_scope(place: Workplace, scope: str) -> Root:
    for root in place.roots:
        if root.scope == scope:
            return root
    if scope == Scope.REPO:
        raise InvalidRequest("this workspace has no repository root; remember it with scope user")
    raise InvalidRequest(f"unknown scope {scope!r}; use repo or user")


def _draft(request: wire.Remember, root: Root) -> Memory:
    """The new memory as the caller wants it; the writer sets its version and links."""
    if not request.content.strip():
        raise InvalidRequest("the content is blank; say what to remember")
    if request.category not in set(Category):
        raise InvalidRequest(f"unknown category {request.category!r}; use one of {', '.join(Category)}")
    for edge in request.related:
        if edge.relationship not in set(Relationship):
            raise InvalidRequest(
                f"unknown relationship {edge.relationship!r}; use one of {', '.join(Relationship)}"
            )
    now = memory.utc_now()
    return Memory(
        id=memory.new_id(),
        content=request.content,
        created_at=now,
        updated_at=now,
        version=1,
        scope=root.scope,
        category=request.category,
        session_id=request.session_id or "explicit",
        trigger=Trigger.EXPLICIT,
        supersedes=request.supersedes or None,
        related=tuple(Related(edge.id, edge.relationship) for edge in request.related),
    )


def _must_find(view: View, memory_id: str) -> tuple[VectorMap, Memory]:
    found = view.find(memory_id)
    if found is None:
        raise MemoryNotFound(f"no memory {memory_id!r} in this workspace; `forgectl list` shows what is there")
    return found


def _hit(ranked: Ranked) -> wire.Hit:
    found = ranked.memory
    return wire.Hit(
        id=found.id,
        scope=found.scope,
        category=found.category,
        version=found.version,
        content=found.content,
        created_at=found.created_at,
        score=ranked.score,
        cosine=ranked.cosine,
        lexical=ranked.lexical,
        via=ranked.via,
        older=tuple(
            wire.Version(older.id, older.version, older.created_at, older.first_line)
            for older in ranked.older
        ),
    )


def _record(home: VectorMap, found: Memory) -> wire.MemoryRecord:
    return wire.MemoryRecord(
        id=found.id,
        scope=found.scope,
        category=found.category,
        version=found.version,
        content=found.content,
        created_at=found.created_at,
        updated_at=found.updated_at,
        session_id=found.session_id,
        trigger=found.trigger,
        root=home.root,
        supersedes=found.supersedes,
        related=tuple(wire.Edge(edge.id, edge.relationship) for edge in found.related),
        is_head=home.chains.is_head(found.id),
    )


def _fitting(records: Sequence[wire.MemoryRecord]) -> tuple[wire.MemoryRecord, ...]:
    """As many records as a reply frame surely holds; the caller pages on."""
    room = wire.MAX_REPLY_BYTES // 2
    kept = []
    for record in records:
        room -= len(record.content.encode()) + 512
        if room < 0:
            break
        kept.append(record)
    return tuple(kept)
