"""Loop of the MCP server: lines from stdin, answers to stdout, until the agent hangs up.

Requests that need no daemon are answered at once, also while a tool runs. Each tool call has a thread of its
own, and the first one imports the client of the daemon. A call ends by the client's deadline; a cancelled
call is not answered. Only messages go to stdout, and no input, however wrong, ends the loop.
"""

from __future__ import annotations

import io
import posix
import re
import sys
import time
from _thread import LockType, allocate_lock, start_new_thread
from contextlib import suppress

from forged.mcp import messages, tools
from forged.mcp.messages import Json, JsonRpcMessage, MessageError

TYPE_CHECKING = False  # `typing` costs more than all of this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from forged.mcp.calls import Calls

# Bytes of a line; the daemon takes a request of 1 MiB, and its text may be escaped.
LONGEST = 8 << 20
# Concurrent calls, which take turns at the daemon. A client with more is defective.
_MOST_CALLS = 64
_LAST_CALLS_S = 1.0
_ROOTS = "forged-roots"
_ASK_FOR_ROOTS = {"notifications/initialized", "notifications/roots/list_changed"}
_HARNESS = re.compile(r"[a-z][a-z0-9-]{0,39}")


def parse_arguments(arguments: list[str]) -> tuple[str, str] | None:
    """Parse `[HARNESS] [--workspace DIR]` into harness and workspace, "" if left out; None if invalid."""
    words, workspace = list(arguments), ""
    if "--workspace" in words[:-1]:
        place = words.index("--workspace")
        workspace = words[place + 1]
        del words[place : place + 2]
    if len(words) > 1 or (words and not _HARNESS.fullmatch(words[0])):
        return None
    return "".join(words), workspace


def serve(harness: str = "", workspace: str = "") -> None:
    """Run the MCP server: answer messages on stdin until that ends or the agent stops reading stdout."""
    if sys.stdin is None or sys.stdout is None:
        return
    if sys.stdin.isatty():
        _log("this is for agents, which speak MCP on stdin; Ctrl-D ends it")
    lines, out = sys.stdin.buffer, _reserve_stdout(sys.stdout.fileno())
    bridge = Bridge(out, harness, workspace)
    while not bridge.is_over and (line := lines.readline(LONGEST + 1)):
        if len(line) > LONGEST:
            _skip_line(lines, line)
            bridge.refuse(MessageError(messages.NO_REQUEST, f"a line may have {LONGEST} bytes"))
        elif line.strip():
            bridge.handle_line(line)
    bridge.finish()


def _reserve_stdout(stdout: int) -> io.FileIO:
    """Return a file of stdout for messages; make all other output of the process go to stderr."""
    # An agent may have closed stderr, and the messages must not get its number.
    other = posix.open("/dev/null", posix.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    out = io.FileIO(posix.dup(stdout), "wb")
    posix.dup2(other, stdout)
    sys.stdout = sys.stderr
    return out


def _skip_line(lines: BinaryIO, line: bytes) -> None:
    """Read and drop the rest of a line that is too long."""
    while line and not line.endswith(b"\n"):
        line = lines.readline(LONGEST)


class Bridge:
    """Answers one agent's MCP messages, tool calls in threads; `is_over` once the agent stopped reading."""

    def __init__(self, out: io.FileIO, harness: str, workspace: str) -> None:
        self.is_over = False
        self._out = out
        self._place = harness, workspace
        self._writing, self._loading = allocate_lock(), allocate_lock()
        self._running: dict[str | int, LockType] = {}
        self._calls: Calls | None = None
        self._has_roots = False
        self._root = ""
        self._local: dict[str, Callable[[Json], Json]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": list(tools.TOOLS)},
            "prompts/list": lambda _: {"prompts": list(tools.PROMPTS)},
            "prompts/get": _get_prompt,
            "resources/list": lambda _: {"resources": []},
            "resources/templates/list": lambda _: {"resourceTemplates": list(tools.TEMPLATES)},
        }
        self._remote = {"tools/call": _check_tool_call, "resources/read": _check_resource}

    def handle_line(self, line: bytes) -> None:
        """Handle one message of the agent: answer it or start a thread; an invalid one gets an error."""
        try:
            self._dispatch(messages.parse_line(line))
        except MessageError as refused:
            self.refuse(refused)

    def refuse(self, refused: MessageError) -> None:
        """Send the agent an error answer in place of a result."""
        self._send(messages.error_line(refused))

    def finish(self) -> None:
        """Wait for the running tool calls after the agent has hung up, for one second at most."""
        end = time.monotonic() + _LAST_CALLS_S
        for done in list(self._running.values()):
            done.acquire(timeout=max(end - time.monotonic(), 0.0))

    def _dispatch(self, message: JsonRpcMessage) -> None:
        """Answer a request, start a thread for a tool call, or take a notification or answer."""
        number, method = message.number, message.method
        if not method:
            self._take_roots(message)
        elif number is None:
            self._take_notification(message)
        elif method in self._local:
            self._send(
                messages.answer_line(
                    number, self._work_for_request(number, self._local[method], message.params)
                )
            )
        elif method in self._remote:
            self._start_tool_thread(
                number, method, self._work_for_request(number, self._remote[method], message.params)
            )
        else:
            raise MessageError(messages.NO_METHOD, f"there is no method {method[:80]!r}", number)

    def _work_for_request(self, number: str | int, work: Callable[[Json], Json], params: Json) -> Json:
        """Return what `work` returns for a request's params. Raises MessageError with the request's id."""
        try:
            return work(params)
        except MessageError as refused:
            raise MessageError(refused.code, str(refused), number) from None

    def _initialize(self, params: Json) -> Json:
        """Return the answer to `initialize`; remember if the agent can list its folders (`roots`)."""
        able = params.get("capabilities")
        self._has_roots = isinstance(able, dict) and "roots" in able
        return tools.initialize_result(params.get("protocolVersion"))

    def _take_notification(self, message: JsonRpcMessage) -> None:
        """Leave a cancelled call unanswered, or ask for the agent's folders if they may differ."""
        if message.method == "notifications/cancelled":
            number = message.params.get("requestId")
            if isinstance(number, (str, int)):
                self._running.pop(number, None)
        elif self._has_roots and message.method in _ASK_FOR_ROOTS:
            self._send(messages.request_line(_ROOTS, "roots/list"))

    def _take_roots(self, message: JsonRpcMessage) -> None:
        """Store the first folder in the agent's answer to `roots/list`, as later calls' default workspace."""
        found = message.result.get("roots") if isinstance(message.result, dict) else None
        if message.number == _ROOTS and isinstance(found, list) and found and isinstance(found[0], dict):
            self._root = str(found[0].get("uri", ""))

    def _start_tool_thread(self, number: str | int, method: str, asked: Json) -> None:
        """Start a thread for a tool call or resource read. Raises MessageError for a used id, or over 64."""
        if number in self._running or len(self._running) >= _MOST_CALLS:
            why = "this id is in use" if number in self._running else "too many calls at once"
            raise MessageError(messages.NO_REQUEST, why, number)
        done = allocate_lock()
        done.acquire()
        self._running[number] = done
        try:
            start_new_thread(self._run_tool, (number, method, asked, done))
        except RuntimeError:
            del self._running[number]
            raise MessageError(messages.OUR_FAULT, "no thread could be started", number) from None

    def _run_tool(self, number: str | int, method: str, asked: Json, done: LockType) -> None:
        """Run a tool call or resource read in its thread; send result or error unless cancelled."""
        try:
            calls = self._daemon_calls()
            work = calls.run_tool if method == "tools/call" else calls.read_resource
            line = messages.answer_line(number, work(asked, self._root))
        except MessageError as refused:
            line = messages.error_line(MessageError(refused.code, str(refused), number))
        except Exception as error:  # noqa: BLE001 - without an answer the agent would wait
            _log(f"{method} failed: {type(error).__name__}")
            reason = f"memory failed ({type(error).__name__}); the user finds out why with `forgectl doctor`"
            line = messages.error_line(MessageError(messages.OUR_FAULT, reason, number))
        if self._running.get(number) is done:  # else it was cancelled
            self._send(line)
            self._running.pop(number, None)
        done.release()

    def _daemon_calls(self) -> Calls:
        """Return the object that asks the daemon; made at the first tool call, which imports its module."""
        with self._loading:
            if self._calls is None:
                if sys.flags.no_site:
                    import site  # noqa: PLC0415 - finds where msgspec is; only calls need it

                    site.main()
                from forged.mcp.calls import Calls  # noqa: PLC0415

                self._calls = Calls(*self._place)
            return self._calls

    def _send(self, line: bytes) -> None:
        """Write a line to the agent, one thread at a time; set `is_over` if the agent has stopped reading."""
        with self._writing:
            try:
                while line:
                    line = line[self._out.write(line) :]
            except OSError:
                self.is_over = True


def _log(sentence: str) -> None:
    """Write a sentence to stderr, if possible; an agent may log, close, or ignore it."""
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"forgectl: {sentence}\n")
        sys.stderr.flush()


def _get_prompt(params: Json) -> Json:
    """Answer `prompts/get`: return the prompt `recall` for a topic. Raises MessageError."""
    given = params.get("arguments")
    topic = given.get("topic") if isinstance(given, dict) else None
    if params.get("name") != tools.PROMPT:
        raise MessageError(messages.WRONG_PARAMS, f"there is one prompt, {tools.PROMPT}")
    if not isinstance(topic, str) or not topic.strip():
        raise MessageError(messages.WRONG_PARAMS, "topic is missing: what to recall")
    return tools.recall_prompt(topic)


def _check_tool_call(params: Json) -> Json:
    """Return the params of a `tools/call` as they are, if the tool exists. Raises MessageError."""
    name = params.get("name")
    if not isinstance(name, str) or name not in tools.BY_NAME:
        known = ", ".join(tools.BY_NAME)
        raise MessageError(messages.WRONG_PARAMS, f"there is no tool {str(name)[:80]!r}, only {known}")
    return params


def _check_resource(params: Json) -> Json:
    """Return the params of a `resources/read` as they are, if the URI is a memory's. Raises MessageError."""
    uri = params.get("uri")
    if not isinstance(uri, str) or not uri.startswith(tools.URI) or uri == tools.URI:
        raise MessageError(messages.NO_RESOURCE, f"there is no such resource; memories are {tools.URI}ID")
    return params
