"""Verbs of both clients, one line each: a request class, or a function that builds a request.

Required fields of a request are positional and options are keywords; `protocol` documents them. `Client`
returns the reply, `AsyncClient` has to be awaited. Any form of messages is read (`messages`).
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
from forged_client.messages import RETRIEVE_BYTES, public_text, window
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
# Seconds that the client waits beyond a retrieve's own time limit.
GRACE_S = 0.5

P = ParamSpec("P")
A = TypeVar("A", bound=Reply)
# A request, one with the seconds of its call, or the several captures of one turn.
Made = Request[A] | tuple[Request[A], float | None] | Iterator[Request[A]]


class _Blocking(Protocol):
    """Interface of a client whose `ask` blocks until the reply, such as `Client`."""

    def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R: ...


class _Awaited(Protocol):
    """Interface of a client whose `ask` is awaited for the reply, such as `AsyncClient`."""

    async def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R: ...


class verb(Generic[P, A]):  # noqa: N801 - reads as a declaration
    """Descriptor of a method of both clients that makes a request, sends it and returns the reply."""

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
        """Build and send the request; return the reply. Raises TypeError for wrong fields."""
        if self._many is None:
            hints = get_type_hints(self._make)
            self._many = frozenset(name for name, hint in hints.items() if _takes_several(hint))
        given = dict(zip(_parameter_names(self._make), args, strict=False), **named)
        if wrong := [name for name in given.keys() & self._many if isinstance(given[name], str)]:
            raise TypeError(f"{self.__name__}: {wrong[0]} takes several, such as a tuple, and not a str")
        return self._ask(client, self._make(*args, **named))

    def _ask(self, client: Any, made: Any) -> Any:
        """Send a built request, with its own time limit or as several captures, by the client."""
        if isinstance(made, Request):
            return client.ask(made)
        return client.ask(made[0], timeout_s=made[1]) if isinstance(made, tuple) else client._send_parts(made)

    @property
    def request(self) -> type[Request[A]]:
        """Return the class of the request, which has all other facts about the verb."""
        made = get_type_hints(self._make).get("return", self._make)
        kind: type[Request[A]] = next(iter(get_args(made)), made)
        return kind

    @property
    def __signature__(self) -> Signature:
        """Return the method's signature, of the request's fields and its reply, for `help`."""
        from inspect import Parameter, signature  # noqa: PLC0415 - costs more than a call

        hints, made = get_type_hints(self._make), signature(self._make)
        own = (each for name, each in made.parameters.items() if name not in Request.__struct_fields__)
        fields = [each.replace(annotation=hints[each.name]) for each in own]
        me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        return made.replace(parameters=[me, *fields], return_annotation=self.request.reply_type())


def _takes_several(hint: object) -> bool:
    """Return True for a parameter of several texts or values, where a `str` would be a mistake."""
    kinds = (hint, *get_args(hint))
    return any(get_origin(each) in {tuple, Iterable} and get_args(each)[0] is not object for each in kinds)


def _parameter_names(make: Any) -> tuple[str, ...]:
    """Return the fields of a request class or parameters of a function, in order; others may follow."""
    names: tuple[str, ...] = getattr(make, "__struct_fields__", ()) or make.__code__.co_varnames
    return names


# --- request builders: convert a caller's values to the fields of a request ----------------------------


def remember_request(
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
    """Make a request to write one memory; the reply comes when it is safe on disk.

    Scope and category default to those of the memory that it supersedes, else to repo and a default. A text
    with a secret is refused, unless `allow_secret`, because agents will see it. `cues` are up to five short
    lines about when it should come back. `evidence` are files of the repository, as PATH, PATH:LINE or
    PATH:FIRST-LAST. A memory of scope `agent` is for `agent_id` alone, one of scope `session` for a session
    and an hour.
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


def edit_request(
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
    """Make a request for a new version with another text, category, cues, evidence or links.

    None keeps a field. `relate` adds links, `unrelate` removes links to ids. With `base`, the version that it
    is made from, the edit is refused if there is a newer version by now.
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


def retrieve_request(
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
    """Make a request for the memories to inject into one turn; the reply has them as `text`.

    In a session each memory is injected once. `block` returns the memories of the session and then the new
    ones, for a prompt that is built anew each turn. `append` returns only the new ones. `plain` ignores the
    session.

    `messages` are `protocol.Message`s, dicts in OpenAI, Anthropic or Gemini form, or objects with such
    fields. `timeout_s` limits the daemon's work (2.0 s otherwise); the call ends at most 0.5 s later.
    """
    return Retrieve(
        workspace=workspace,
        session_id=session_id,
        turn_id=turn_id,
        messages=window(messages, last_summary_index, RETRIEVE_BYTES),
        last_summary_index=last_summary_index,
        hypotheses=tuple(map(public_text, hypotheses)),
        token_budget=token_budget,
        timeout_s=timeout_s,
        min_generation=min_generation,
        known_digest=known_digest,
        mode=mode,
        agent=agent,
    )


def search_request(
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
    """Make a request to rank memories for a query; with `rated` each hit has a confidence label.

    `hypotheses` are sentences that such memories may contain; they are searched with the query or without
    one.
    """
    return Search(
        workspace=workspace,
        query=public_text(query),
        limit=limit,
        min_generation=min_generation,
        rated=rated,
        hypotheses=tuple(map(public_text, hypotheses)),
        agent=agent,
        session_id=session_id,
    )


def why_request(workspace: str, *, session_id: str = "", query: str = "", agent: str = "") -> Why:
    """Make a request to explain the last injection of a session, or the results of a query now."""
    return Why(workspace=workspace, session_id=session_id, query=public_text(query), agent=agent)


def recall_request(
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
    """Make a request to search session, user, agent and organization memories as one list.

    Ids are texts or UUIDs. `filters` are values that a memory's metadata must have. `scopes` are those to
    search instead of all four. `text` of the reply is one injection for a prompt.
    """
    return Recall(
        workspace=workspace,
        query=public_text(query),
        session_id=_text_id(session_id),
        user_id=_text_id(user_id),
        agent_id=_text_id(agent_id),
        filters=dict(filters or {}),
        scopes=tuple(scopes),
        timeout_s=timeout_s,
        token_budget=token_budget,
    )


def capture_requests(
    workspace: str,
    messages: Iterable[object],
    session_id: str,
    *,
    kind: str = "turn",
    last_summary_index: int = 0,
    agent: str = "",
) -> Iterator[Capture]:
    """Make the requests (several for a long one) that hand over a turn or other event for capture.

    A window that is too large for one frame is sent in several, within the one deadline. `agent` is the same
    name as for `retrieve`.
    """
    from forged_client.capture_parts import SplitCapture  # noqa: PLC0415 - most processes only ask
    from forged_client.message_snapshot import MessageSnapshot  # noqa: PLC0415

    request = Capture(workspace=workspace, session_id=session_id, kind=kind, event_id=new_key(), agent=agent)
    return iter(SplitCapture(request, MessageSnapshot(messages, last_summary_index)))


def ingest_request(
    documents: Iterable[Document],
    *,
    agent_id: object = "",
    metadata: Mapping[str, Any] | None = None,
    preview: bool = False,
    allow_secret: bool = False,
    timeout_s: float | None = None,
) -> tuple[Ingest, float | None]:
    """Make a request, with a time limit, to store documents in pieces that all agents may search.

    A later text of a source replaces the former. With `preview` nothing is written, and the reply lists the
    outcome for each document. All documents together have at most 900 KiB.
    """
    request = Ingest(
        documents=tuple(documents),
        agent_id=_text_id(agent_id),
        metadata=dict(metadata or {}),
        preview=preview,
        allow_secret=allow_secret,
    )
    return request, timeout_s


def rebuild_request(
    workspace: str, *, full: bool = False, wait: bool = False, timeout_s: float | None = None
) -> tuple[Rebuild, float | None]:
    """Make a request, with a time limit, to rescan the roots; with `wait` it must cover a first build."""
    return Rebuild(workspace=workspace, full=full, wait=wait), timeout_s


def try_request(*, timeout_s: float = 60.0) -> tuple[Try, float | None]:
    """Make a request, with a time limit, for one real call to each model at an endpoint."""
    return Try(), timeout_s


def _text_id(given: object) -> str:
    return "" if given is None else str(given)


def new_key() -> str:
    """Return a unique key for a request, by which the daemon recognizes a repetition."""
    return os.urandom(16).hex()


# --- the clients ---------------------------------------------------------------------------------------


class Verbs:
    """Base of both clients: settings, and a method for each verb. They connect at the first call.

    `address` is a socket path (default: `socket_path()`), `timeout_s` the total seconds of one call. With
    `autostart` a missing daemon is started, from `executable` or as autostart.py documents. `strict` raises
    ClientError where otherwise a reply would be `unavailable`, `timeout` or `error`. `name` is this client's
    name in the daemon's log. While FORGED_BYPASS is set in the environment, requests with a person's text
    get the reply `disabled` at once, without a daemon.
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
    retrieve = verb(retrieve_request)
    search = verb(search_request)
    why = verb(why_request)
    recall = verb(recall_request)
    remember = verb(remember_request)
    edit = verb(edit_request)
    get = verb(protocol.GetMemories)
    list = verb(protocol.ListMemories)
    history = verb(protocol.History)
    move = verb(protocol.Move)
    forget = verb(protocol.Forget)
    restore = verb(protocol.Restore)
    capture = verb(capture_requests)
    captured = verb(protocol.ListCaptured)
    undo = verb(protocol.Undo)
    pause = verb(protocol.Pause)
    dead = verb(protocol.Dead)
    trust = verb(protocol.Trust)
    review = verb(protocol.Review)
    ingest = verb(ingest_request)
    documents = verb(protocol.ListDocuments)
    remove_document = verb(protocol.RemoveDocument)
    cost = verb(protocol.Cost)
    egress = verb(protocol.Egress)
    rebuild = verb(rebuild_request)
    try_endpoints = verb(try_request)

    def _start_disconnected(self) -> None:
        raise NotImplementedError

    def _socket_path(self) -> str:
        """Return the socket path given to the client, or the user's own. Raises AddressError."""
        return socket_path() if self._address is None else checked(self._address)

    def _deadline(self, request: Request[R], timeout_s: float | None) -> Deadline:
        """Return a call's deadline: as given, else 0.5 s after a retrieve's or recall's, else the default."""
        if timeout_s is None and isinstance(request, Retrieve | Recall) and request.timeout_s is not None:
            timeout_s = request.timeout_s + GRACE_S
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)
