"""Verbs of both clients, one line each: a request class, or a function that makes a request.

Required fields of a request come by position and options by name; `protocol` says what they mean. `Client`
answers when it is asked, `AsyncClient` when it is awaited. Messages are read with tolerance (`messages`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from forged_client import protocol
from forged_client.address import checked, socket_path
from forged_client.dial import Deadline
from forged_client.messages import RETRIEVE_BYTES, public, window
from forged_client.protocol import (
    Capture,
    Document,
    Edge,
    Edit,
    Ingest,
    R,
    Rebuild,
    Recall,
    Remember,
    Reply,
    Request,
    Retrieve,
    Search,
    Try,
    Why,
)

if TYPE_CHECKING:
    from inspect import Signature

DEFAULT_TIMEOUT_S = 2.5
# How much longer than a retrieve's own time limit the client waits for its answer.
GRACE_S = 0.5

P = ParamSpec("P")
A = TypeVar("A", bound=Reply)
# A request, one with the seconds that its call may take, or several that are one turn's parts.
Made = Request[A] | tuple[Request[A], float | None] | Iterator[Request[A]]


class _Blocking(Protocol):
    def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R: ...


class _Awaited(Protocol):
    async def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R: ...


class verb(Generic[P, A]):  # noqa: N801 - read as a declaration
    """A method of both clients that takes what makes a request and returns its reply."""

    def __init__(self, make: Callable[P, Made[A]]) -> None:
        self._make, self.__doc__ = make, make.__doc__
        self._many: frozenset[str] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__, self.__qualname__ = name, f"{owner.__qualname__}.{name}"

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: _Blocking, owner: type) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: _Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, A]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self if client is None else MethodType(self, client)

    def __call__(self, client: Any, /, *args: P.args, **named: P.kwargs) -> Any:
        """Ask. Raises TypeError for a field that is missing or unknown, and for a text instead of several."""
        if self._many is None:
            hints = get_type_hints(self._make)
            self._many = frozenset(name for name, hint in hints.items() if _is_of_many(hint))
        given = dict(zip(_fields(self._make), args, strict=False), **named)
        if wrong := [name for name in given.keys() & self._many if isinstance(given[name], str)]:
            raise TypeError(f"{self.__name__}: {wrong[0]} takes several, such as a tuple, and not a str")
        return self._ask(client, self._make(*args, **named))

    def _ask(self, client: Any, made: Any) -> Any:
        if isinstance(made, Request):
            return client.ask(made)
        return client.ask(made[0], timeout_s=made[1]) if isinstance(made, tuple) else client._hand_over(made)

    @property
    def request(self) -> type[Request[A]]:
        """The class of the request that is made, which says all else of the verb."""
        made = get_type_hints(self._make).get("return", self._make)
        kind: type[Request[A]] = next(iter(get_args(made)), made)
        return kind

    @property
    def __signature__(self) -> Signature:
        """The request's own fields and its reply, for `help` and editors."""
        from inspect import Parameter, signature  # noqa: PLC0415 - costs more than a call

        hints, told = get_type_hints(self._make), signature(self._make)
        own = (each for name, each in told.parameters.items() if name not in Request.__struct_fields__)
        fields = [each.replace(annotation=hints[each.name]) for each in own]
        me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        return told.replace(parameters=[me, *fields], return_annotation=self.request.reply_type())


def _is_of_many(hint: object) -> bool:
    """Return True for a parameter of several texts or values, which a `str` would be taken for by mistake."""
    kinds = (hint, *get_args(hint))
    return any(get_origin(each) in {tuple, Iterable} and get_args(each)[0] is not object for each in kinds)


def _fields(make: Any) -> tuple[str, ...]:
    """Return the names of what comes by position, in order, with some behind them that never do."""
    names: tuple[str, ...] = getattr(make, "__struct_fields__", ()) or make.__code__.co_varnames
    return names


# --- what is made by hand: what a caller may hold is turned into what a request has --------------------


def _remember(
    workspace: str,
    content: str,
    *,
    scope: str = "",
    category: str = "",
    supersedes: str = "",
    related: Iterable[Edge] = (),
    session_id: str = "",
    allow_secret: bool = False,
    key: str = "",
    cues: Iterable[str] = (),
    evidence: Iterable[str] = (),
    agent_id: str = "",
    user_id: str = "",
    memory_type: str = "",
    importance: float | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Remember:
    """Write one memory; the reply comes when it is safe on disk.

    Scope and category that are left out are those of what it supersedes, else repo and a default. A text with
    a secret is refused, unless `allow_secret`: agents will see it. `cues`: up to five short lines that say
    when it should come back; `evidence`: files of the repository, as PATH, PATH:LINE or PATH:FIRST-LAST. With
    scope `agent` it is for `agent_id` alone, with scope `session` for a session and an hour.
    """
    return Remember(
        workspace=workspace,
        content=content,
        scope=scope,
        category=category,
        supersedes=supersedes,
        related=tuple(related),
        session_id=session_id,
        allow_secret=allow_secret,
        key=key,
        cues=tuple(cues),
        evidence=tuple(evidence),
        agent_id=agent_id,
        user_id=user_id,
        memory_type=memory_type,
        importance=importance,
        metadata=dict(metadata or {}),
    )


def _edit(
    workspace: str,
    memory_id: str,
    content: str | None = None,
    *,
    category: str = "",
    base: str = "",
    scope: str = "",
    session_id: str = "",
    allow_secret: bool = False,
    key: str = "",
    cues: Iterable[str] | None = None,
    evidence: Iterable[str] | None = None,
    relate: Iterable[Edge] = (),
    unrelate: Iterable[str] = (),
    agent_id: str = "",
) -> Edit:
    """Write a new version with another text, category, cues or evidence; what is None stays.

    `relate` adds links, and `unrelate` takes links to these ids away. With `base`, the version that the text
    was made from, it is refused if there is a newer one by now.
    """
    return Edit(
        workspace=workspace,
        memory_id=memory_id,
        content=content,
        category=category,
        base=base,
        scope=scope,
        session_id=session_id,
        allow_secret=allow_secret,
        key=key,
        cues=None if cues is None else tuple(cues),
        evidence=None if evidence is None else tuple(evidence),
        relate=tuple(relate),
        unrelate=tuple(unrelate),
        agent_id=agent_id,
    )


def _retrieve(
    workspace: str,
    messages: Iterable[object] = (),
    *,
    session_id: str = "",
    turn_id: str = "",
    last_summary_index: int = 0,
    hypotheses: Iterable[str] = (),
    token_budget: int | None = None,
    timeout_s: float | None = None,
    min_generation: str = "",
    known_digest: str = "",
    mode: str = "block",
    agent: str = "",
) -> Retrieve:
    """Return the injection for one turn, as `text`.

    With a session a memory comes once: `block` returns what the session has and then what is new, for a
    prompt that is built anew each turn; `append` only what is new; `plain` forgets that there is a session.

    `messages` are `protocol.Message`s, dicts in OpenAI, Anthropic or Gemini form, or objects with such
    fields. `timeout_s` limits the daemon's work (2.0 s otherwise); the call ends at most 0.5 s later.
    """
    return Retrieve(
        workspace=workspace,
        session_id=session_id,
        turn_id=turn_id,
        messages=window(messages, last_summary_index, RETRIEVE_BYTES),
        last_summary_index=last_summary_index,
        hypotheses=tuple(map(public, hypotheses)),
        token_budget=token_budget,
        timeout_s=timeout_s,
        min_generation=min_generation,
        known_digest=known_digest,
        mode=mode,
        agent=agent,
    )


def _search(
    workspace: str,
    query: str,
    *,
    limit: int = 10,
    min_generation: str = "",
    rated: bool = False,
    hypotheses: Iterable[str] = (),
    agent: str = "",
    session_id: str = "",
) -> Search:
    """Rank memories for a query text; with `rated` each says in a word what speaks for it.

    `hypotheses` are sentences that they may hold, looked for with the query or without one.
    """
    return Search(
        workspace=workspace,
        query=public(query),
        limit=limit,
        min_generation=min_generation,
        rated=rated,
        hypotheses=tuple(map(public, hypotheses)),
        agent=agent,
        session_id=session_id,
    )


def _why(workspace: str, *, session_id: str = "", query: str = "", agent: str = "") -> Why:
    """Explain how the last injection of a session came about, or what a query would find now."""
    return Why(workspace=workspace, session_id=session_id, query=public(query), agent=agent)


def _recall(
    query: str,
    session_id: object = "",
    user_id: object = "",
    agent_id: object = "",
    filters: Mapping[str, Any] | None = None,
    *,
    workspace: str = "",
    scopes: Iterable[str] = (),
    timeout_s: float | None = None,
    token_budget: int | None = None,
) -> Recall:
    """Recall what a session, the user, an agent and the organization remember about a query, as one list.

    Ids are texts or UUIDs. `filters` are values that a memory's metadata must have; `scopes` are those to
    search instead of all four. `text` of the reply is one injection for a prompt.
    """
    return Recall(
        workspace=workspace,
        query=public(query),
        session_id=_id(session_id),
        user_id=_id(user_id),
        agent_id=_id(agent_id),
        filters=dict(filters or {}),
        scopes=tuple(scopes),
        timeout_s=timeout_s,
        token_budget=token_budget,
    )


def _capture(
    workspace: str,
    messages: Iterable[object],
    session_id: str,
    *,
    kind: str = "turn",
    last_summary_index: int = 0,
    agent: str = "",
) -> Iterator[Capture]:
    """Hand over a finished turn, or another `kind` of event, to be turned into memories.

    What one frame cannot hold goes out in several, within the one deadline. `agent` is the name that
    `retrieve` gets, too.
    """
    from forged_client.parts import Parts  # noqa: PLC0415 - most processes only ask
    from forged_client.said import MessageSnapshot  # noqa: PLC0415

    request = Capture(workspace=workspace, session_id=session_id, kind=kind, event_id=new_key(), agent=agent)
    return iter(Parts(request, MessageSnapshot(messages, last_summary_index)))


def _ingest(
    documents: Iterable[Document],
    *,
    agent_id: object = "",
    metadata: Mapping[str, Any] | None = None,
    preview: bool = False,
    allow_secret: bool = False,
    timeout_s: float | None = None,
) -> tuple[Ingest, float | None]:
    """Cut documents into pieces that all agents may search; a later text of a source replaces the former.

    All of them together have at most 900 KiB. With `preview` nothing is written, and what would become of
    each is told.
    """
    request = Ingest(
        documents=tuple(documents),
        agent_id=_id(agent_id),
        metadata=dict(metadata or {}),
        preview=preview,
        allow_secret=allow_secret,
    )
    return request, timeout_s


def _rebuild(
    workspace: str, *, full: bool = False, wait: bool = False, timeout_s: float | None = None
) -> tuple[Rebuild, float | None]:
    """Rescan the roots; with `wait`, give it a `timeout_s` that a first build of the root can meet."""
    return Rebuild(workspace=workspace, full=full, wait=wait), timeout_s


def _try(*, timeout_s: float = 60.0) -> tuple[Try, float | None]:
    """Make one real call to each model that is asked at an endpoint."""
    return Try(), timeout_s


def _id(given: object) -> str:
    return "" if given is None else str(given)


def new_key() -> str:
    """A name for a request that nobody else has, by which a daemon knows it again."""
    return os.urandom(16).hex()


# --- the clients ---------------------------------------------------------------------------------------


class Verbs:
    """The settings of a client, and its verbs. It connects when it is first asked, not before.

    `address` is a socket path (default: `socket_path()`), `timeout_s` the total seconds of one call. With
    `autostart` a missing daemon is started, from `executable` or as autostart.py says. `strict` raises
    ClientError where otherwise a reply would say `unavailable`, `timeout` or `error`. `name` is what the
    daemon's log calls this client. While FORGED_BYPASS is set in the environment, what carries a person's
    text is answered `disabled` at once, without a daemon.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        autostart: bool = False,
        executable: str | None = None,
        strict: bool = False,
        name: str = "forged-client",
    ) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._autostart = autostart
        self._executable = executable
        self._strict = strict
        self._name = name
        self._start_disconnected()

    ping = verb(protocol.Ping)
    status = verb(protocol.Status)
    retrieve = verb(_retrieve)
    search = verb(_search)
    why = verb(_why)
    recall = verb(_recall)
    remember = verb(_remember)
    edit = verb(_edit)
    get = verb(protocol.GetMemories)
    list = verb(protocol.ListMemories)
    history = verb(protocol.History)
    move = verb(protocol.Move)
    forget = verb(protocol.Forget)
    restore = verb(protocol.Restore)
    capture = verb(_capture)
    captured = verb(protocol.ListCaptured)
    undo = verb(protocol.Undo)
    pause = verb(protocol.Pause)
    dead = verb(protocol.Dead)
    trust = verb(protocol.Trust)
    review = verb(protocol.Review)
    ingest = verb(_ingest)
    documents = verb(protocol.ListDocuments)
    remove_document = verb(protocol.RemoveDocument)
    cost = verb(protocol.Cost)
    outbound = verb(protocol.Outbound)
    rebuild = verb(_rebuild)
    try_endpoints = verb(_try)

    def _start_disconnected(self) -> None:
        """What a new client has to hold, by its kind."""
        raise NotImplementedError

    def _socket_path(self) -> str:
        return socket_path() if self._address is None else checked(self._address)

    def _deadline(self, request: Request[R], timeout_s: float | None) -> Deadline:
        """The end of the call: as told, else after a retrieve's own limit, else as the client is set."""
        if timeout_s is None and isinstance(request, Retrieve | Recall) and request.timeout_s is not None:
            timeout_s = request.timeout_s + GRACE_S
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)
