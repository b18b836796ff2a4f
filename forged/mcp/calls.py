"""Carry out an agent's tool calls by requests to the daemon, and return text. Lazily imported.

A failed call is a result with the problem and the next step, because a model reads results and not protocol
errors. A memory that an agent saves has the origin `agent`. An agent cannot insist on saving a secret. No
result names a command that would put memories of other people into use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from forged.mcp import rendering, tools
from forged.mcp.messages import NO_RESOURCE, Json, MessageError
from forged_client.address import environment, is_bypassed, working_directory
from forged_client.client import Client
from forged_client.errors import ClientError, DaemonUnavailable, DeadlineExceeded, RequestFailed
from forged_client.protocol import (
    Forget,
    Forgotten,
    Found,
    GetMemories,
    ListMemories,
    Memories,
    R,
    Remember,
    Reply,
    Request,
    Status,
    Trust,
)

TIMEOUT_S = 10.0
# Variable with the folder of the session; other harnesses start this server in that folder.
_FOLDERS = {"claude": "CLAUDE_PROJECT_DIR", "gemini": "GEMINI_PROJECT_DIR"}
_PAGE = 20
_HITS = 10


class CallError(Exception):
    """Raised if a tool call fails; the message tells the agent why. `off`: memory is switched off."""

    def __init__(self, message: str, *, off: bool = False) -> None:
        super().__init__(message)
        self.off = off


class Calls:
    """Carries out an agent's tool calls and resource reads by requests to the daemon; thread-safe."""

    def __init__(self, harness: str = "", workspace: str = "") -> None:
        """Set up calls for the agent `harness`; `workspace`, if given, replaces detected folders."""
        self._workspace = workspace
        self._harness = harness
        self._written = ""  # the generation with this agent's own changes; it sees no older one
        self._client = Client(
            timeout_s=TIMEOUT_S,
            autostart=True,
            executable=_daemon_executable(),
            strict=True,
            name=f"mcp {harness}".strip(),
        )
        self._tools: dict[str, Callable[..., str]] = {
            "search_memories": self._search_memories,
            "get_memories": self._get_memories,
            "list_memories": self._list_memories,
            "remember": self._remember,
            "forget": self._forget_memories,
            "memory_status": self._memory_status,
        }

    def run_tool(self, params: Json, root: str) -> Json:
        """Run a tool and return its MCP result, also for an error; `root` is the agent's first folder."""
        name = str(params["name"])
        try:
            given = tools.checked_arguments(tools.BY_NAME[name], params.get("arguments", {}))
            return _make_result(self._run_in_workspace(self._tools[name], root, **given))
        except tools.WrongToolArgument as wrong:
            return _make_result(str(wrong), failed=True)
        except CallError as why:
            return _make_result(str(why), failed=not why.off)

    def read_resource(self, params: Json, root: str) -> Json:
        """Return the memory of a `memory://` URI as an MCP resource. Raises MessageError."""
        uri = str(params["uri"])
        try:
            text = self._run_in_workspace(
                self._get_memories, root, ids=[unquote(uri.removeprefix(tools.URI))]
            )
        except CallError as why:
            raise MessageError(NO_RESOURCE, str(why)) from None
        return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}

    def _run_in_workspace(self, tool: Callable[..., str], root: str, **given: object) -> str:
        """Run a tool for the agent's workspace; return its text. Raises CallError, also if bypassed."""
        if is_bypassed():
            raise CallError("Memory is off here: FORGED_BYPASS is set.", off=True)
        try:
            return tool(self._resolve_workspace(root), **given)
        except ClientError as error:
            raise CallError(_error_sentence(error)) from None

    def _resolve_workspace(self, root: str) -> str:
        """Return the workspace: the option, the agent's variable, its first folder, or the current one."""
        folder = environment().get(_FOLDERS.get(self._harness, ""), "")
        here = working_directory()
        named = self._workspace or folder or _path_of_uri(root)
        place = os.path.join(here, named) if named else here
        if not place.startswith("/"):
            raise CallError("The folder where this server was started is gone; memory has no workspace.")
        return place

    def _ask(self, request: Request[R]) -> R:
        """Send a request; return its reply. Raises ClientError, or CallError for a failed reply."""
        return _checked_reply(self._client.ask(request))

    # --- the tools; arguments are as in tools.py ---------------------------------------------------------

    def _search_memories(self, place: str, hypotheses: list[str], query: str = "", limit: int = _HITS) -> str:
        options: dict[str, Any] = {"rated": True, "min_generation": self._written, "agent": self._harness}
        search = self._client.search
        found = _checked_reply(search(place, query, hypotheses=hypotheses, limit=limit, **options))
        if not found.memories:
            return _no_results(found, "No memory fits.")
        head = f"{rendering.counted(len(found.memories))}, best first; get_memories has them whole."
        return _frame_entries(head + _degraded_note(found), map(rendering.list_entry, found.memories))

    def _get_memories(self, place: str, ids: list[str]) -> str:
        wanted = tuple(dict.fromkeys(ids))
        request = GetMemories(workspace=place, ids=wanted, min_generation=self._written)
        found = self._ask(request)
        if found.missing and self._harness:
            own = self._ask(msgspec.structs.replace(request, ids=found.missing, **self._agent_scope()))
            found = msgspec.structs.replace(
                found, memories=(*found.memories, *own.memories), missing=own.missing
            )
        gone = _missing_sentence(found)
        if not found.memories:
            raise CallError(f"{gone} search_memories and list_memories say which ids there are.")
        count = rendering.fitting(found.memories)
        later = [each.id for each in found.memories[count:]]
        text = _frame_entries(
            f"{rendering.counted(count)}.", map(rendering.full_entry, found.memories[:count])
        )
        more = f"No room for {', '.join(later)}: ask for them in another call." if later else ""
        return "\n".join(filter(None, (text, gone, more)))

    def _list_memories(
        self, place: str, scope: str = "", category: str = "", limit: int = _PAGE, cursor: str = "0"
    ) -> str:
        if not cursor.isascii() or not cursor.isdecimal():
            raise CallError("This cursor is invalid; leave it out for the first page.")
        start = int(cursor)
        request = ListMemories(workspace=place, scope=scope, category=category, limit=limit, offset=start)
        own = {"min_generation": self._written, "agent_id": self._agent(scope)}
        found = self._ask(msgspec.structs.replace(request, **own))
        if not found.memories:
            there = "memories to show" if found.reason else "memories yet"
            none = "more memories" if start else "such memories" if scope or category else there
            return _no_results(found, f"There are no {none}.")
        end = start + len(found.memories)
        total = rendering.counted(found.total)
        head = f"{start + 1} to {end} of {total}, newest first; get_memories has the rest."
        text = _frame_entries(head + _degraded_note(found), map(rendering.list_entry, found.memories))
        return f'{text}\nThe next page: cursor "{end}".' if end < found.total else text

    def _remember(self, place: str, text: str, **options: Any) -> str:
        cues, evidence = (tuple(options.pop(field, ())) for field in ("cues", "evidence"))
        request = Remember(workspace=place, content=text, origin="agent", cues=cues, evidence=evidence)
        request = msgspec.structs.replace(request, **options, agent_id=self._agent(options.get("scope", "")))
        reply = self._ask(request)
        self._written = reply.generation
        return rendering.remembered(reply)

    def _forget_memories(self, place: str, ids: list[str], scope: str = "") -> str:
        lines, failed = list[str](), False
        for each in dict.fromkeys(ids):
            try:
                reply = self._forget_one(Forget(workspace=place, memory_id=each, scope=scope))
                self._written = reply.generation
                lines.append(rendering.forgotten(reply))
            except ClientError as error:
                lines.append(f"{each[:80]}: {_error_sentence(error)}")
                failed = True
                if not isinstance(error, RequestFailed):  # the next one would fail too
                    break
        if failed:
            raise CallError("\n".join(lines))
        return "\n".join(lines)

    def _forget_one(self, request: Forget) -> Forgotten:
        """Forget a memory of the repository or user or, if none has this id, one in the agent's own scope."""
        try:
            return self._ask(request)
        except RequestFailed as failed:
            if failed.code != "not_found" or not self._harness:
                raise
            try:
                return self._ask(msgspec.structs.replace(request, **self._agent_scope()))
            except RequestFailed:
                raise failed from None

    def _agent_scope(self) -> dict[str, str]:
        return {"scope": "agent", "agent_id": self._agent("agent")}

    def _agent(self, scope: str) -> str:
        """Return the agent's name if the scope is `agent`, else "". Raises CallError if it is unknown."""
        if scope != "agent":
            return ""
        if not self._harness:
            raise CallError("This server does not know which agent you are; use scope repo or user.")
        return self._harness

    def _memory_status(self, place: str) -> str:
        report = self._ask(Status(workspace=place))
        try:
            (repository,) = self._ask(Trust(workspace=place)).roots
        except RequestFailed:  # the workspace has no repository
            return rendering.status(report, "")
        return rendering.status(report, repository.root)


_Answer = TypeVar("_Answer", bound=Reply)


def _checked_reply(reply: _Answer) -> _Answer:
    """Return the daemon's reply if its status is ok or empty. Raises CallError with the reason otherwise."""
    if reply.status == "disabled":
        raise CallError(f"Memory is off here: {reply.reason}.", off=True)
    if reply.status == "not_ready":
        raise CallError(f"Memory is not ready yet ({reply.reason}); try again in some seconds.")
    if reply.status not in {"ok", "empty"}:
        raise CallError(f"Memory could not answer: {reply.reason or reply.status}.")
    return reply


def _make_result(text: str, *, failed: bool = False) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _frame_entries(head: str, entries: Iterable[str]) -> str:
    return rendering.framed(os.urandom(8).hex(), head, entries)


def _no_results(reply: Found | Memories, message: str) -> str:
    return f"{message} ({reply.reason})" if reply.reason else message


def _missing_sentence(reply: Memories) -> str:
    """Return a sentence for the agent on ids that were not found, and why; empty if all were."""
    names = ", ".join(each[:80] for each in reply.missing)
    if not names:
        return ""
    return f"Not shown: {names} ({reply.reason})." if reply.reason else f"Not there: {names}."


def _degraded_note(reply: Found | Memories) -> str:
    return f" Answered, though not in full: {reply.reason}." if reply.reason else ""


def _error_sentence(error: ClientError) -> str:
    """Return a sentence for the agent on a client error: why its call failed, and what to do."""
    if isinstance(error, RequestFailed):
        return _refusal_sentence(error)
    if isinstance(error, DeadlineExceeded):
        return f"Memory did not answer: {error}. Go on without it; the user can run `forgectl doctor`."
    if isinstance(error, DaemonUnavailable):
        return f"Memory is not running and could not be started: {error}. The user can run `forgectl doctor`."
    return f"Memory failed: {error}. The user can run `forgectl doctor`."


def _refusal_sentence(error: RequestFailed) -> str:
    if error.code == "unknown_verb":
        return f"Not done: {error.message}. It is of an older forged; the user can run `forgectl restart`."
    if error.code == "forgotten":
        what = error.message.partition(",")[0]  # the rest is advice for a person
        return (
            f"Not kept: {what}. Leave it out; only the user can have it kept again, with `forgectl remember`."
        )
    if error.code != "secret":
        return f"Not done: {error.message.partition('; `forgectl review')[0]}."
    what = error.message.partition(";")[0]  # the rest is advice for a person
    return f"Not kept: {what}. Say it without the secret; only the user can insist, with `forgectl remember`."


def _path_of_uri(uri: str) -> str:
    """Return the path of a file URI of this machine; empty for another URI."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in {"", "localhost"} else ""


def _daemon_executable() -> str | None:
    """Return the program `forged` next to this interpreter; None if missing, then the recorded one starts."""
    path = os.path.join(os.path.dirname(sys.executable), "forged")
    return path if os.path.exists(path) else None
