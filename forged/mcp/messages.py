"""JSON-RPC 2.0 messages of MCP, one a line: parse a line, and encode an answer.

A line may come from any program, so it is validated. Raises MessageError, which is the answer to an invalid
line. Batches are refused: MCP had them in one version, and no client of it sends any.
"""

from __future__ import annotations

import json

Json = dict[str, object]

NOT_JSON, NO_REQUEST, NO_METHOD, WRONG_PARAMS, OUR_FAULT = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002


class MessageError(Exception):
    """Raised to answer a message with an error; `number` is the id of the message, if that is known."""

    def __init__(self, code: int, message: str, number: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.number = number


class JsonRpcMessage:
    """A request, a notification (`number` is None) or the answer to this server's request (no `method`)."""

    __slots__ = ("method", "number", "params", "result")

    def __init__(self, method: str, number: str | int | None, params: Json, result: object = None) -> None:
        self.method = method
        self.number = number
        self.params = params
        self.result = result


def parse_line(line: bytes) -> JsonRpcMessage:
    """Parse one line as a JSON-RPC request, notification or answer. Raises MessageError if invalid."""
    try:
        fields = json.loads(line, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise MessageError(NOT_JSON, "this line is no JSON in UTF-8") from None
    if isinstance(fields, list):
        raise MessageError(NO_REQUEST, "batches are not taken; send one message a line")
    if not isinstance(fields, dict) or fields.get("jsonrpc") != "2.0":
        raise MessageError(NO_REQUEST, "this is no message of JSON-RPC 2.0")
    number = _id_of(fields)
    if "method" not in fields and ("result" in fields or "error" in fields):
        return JsonRpcMessage("", number, {}, fields.get("result"))
    method, params = fields.get("method"), fields.get("params", {})
    if not isinstance(method, str) or not method:
        raise MessageError(NO_REQUEST, "there is no method in it", number)
    if not isinstance(params, dict):
        raise MessageError(WRONG_PARAMS, "params is no object", number)
    return JsonRpcMessage(method, number, params)


def answer_line(number: str | int, result: Json) -> bytes:
    """Encode the result of a request, with its id `number`, as a line of JSON-RPC."""
    return _encode_line({"id": number, "result": result})


def error_line(refused: MessageError) -> bytes:
    """Encode an error answer as a line of JSON-RPC."""
    return _encode_line({"id": refused.number, "error": {"code": refused.code, "message": str(refused)}})


def request_line(number: str, method: str) -> bytes:
    """Encode a request of this server to the agent as a line of JSON-RPC."""
    return _encode_line({"id": number, "method": method})


def _encode_line(fields: Json) -> bytes:
    """Encode a JSON-RPC message as one line of ASCII, which passes lone surrogates through."""
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode() + b"\n"


def _id_of(fields: Json) -> str | int | None:
    """Return the id of a JSON-RPC message, None for a notification. Raises MessageError if invalid."""
    number = fields.get("id")
    if isinstance(number, str) or (isinstance(number, int) and not isinstance(number, bool)):
        return number
    if "id" in fields:
        raise MessageError(NO_REQUEST, "an id is a text or a whole number")
    return None


def _reject_constant(name: str) -> object:
    """Raise ValueError for NaN and Infinity, which Python parses but JSON does not have."""
    raise ValueError(name)
