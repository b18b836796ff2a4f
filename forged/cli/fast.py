"""Fast path without click: `hook`, `mcp`, and plain `ping`, `status` and `retrieve`.

Command lines with any other option or a mistake go to click, which prints the same at more cost. `ping` does
not load the protocol: its frames are constants, which a test compares with the protocol. Any unexpected
reply sends the call to click.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from forged import __version__
from forged.build_id import build_id

HELLO = b"\x83\xa4type\xa5hello\xa2id\x01\xa6client\xa8forgectl"
PING = b"\x82\xa4type\xa4ping\xa2id\x02"
PROTOCOL = b"\xa8protocol\x01"
PONG = b"\x84\xa4type\xa4pong\xa2id\x02\xa6status\xa2ok\xa6reason\xa0"
PONG_JSON = '{"schema_version":1,"status":"ok","reason":""}'

_ABOUT = {"-h", "--help", "--version"}
_VERSION, _BUILD = b"\xa7version", b"\xa5build"
_SHORT = range(0xA0, 0xC0)  # how msgpack begins a text of less than 32 bytes; the rest is its length
_PATIENCE_S = 0.5
_MOST_BYTES = 4096


def parse(arguments: Sequence[str]) -> tuple[str, str, bool] | None:
    """Parse a plain ping, status or retrieve: command, message, `--json`; None if click must parse it."""
    if not arguments or arguments[0] not in {"ping", "status", "retrieve"}:
        return None
    words = [word for word in arguments[1:] if word != "--json"]
    if any(word.startswith("-") or not word.strip() for word in words):
        return None
    if len(words) != (arguments[0] == "retrieve"):
        return None
    return arguments[0], "".join(words), "--json" in arguments


def run(arguments: Sequence[str], directory: str, environ: Mapping[str, str]) -> int | None:
    """Run hook, mcp or plain ping, status, retrieve; return exit code, None if left to click."""
    if arguments[:1] == ["hook"] and not _ABOUT.intersection(arguments) and _is_piped():
        from forged_client import hook  # noqa: PLC0415 - its process needs nothing else

        hook.main(list(arguments[1:]))  # ends the process, also for a wrong argument, as the agent must go on
    if arguments[:1] == ["mcp"]:
        return _serve_mcp(arguments[1:])
    plain = parse(arguments)
    if plain is None:
        return None
    verb, message, as_json = plain
    if verb == "ping" and (daemon := _ping_daemon(environ))[0]:
        return _print_pong(*daemon, as_json)
    return _run_verb(verb, message, as_json, directory, environ)


def _is_piped() -> bool:
    """Return True if stdin is no terminal, as for an agent's hook; for a person click explains it."""
    return sys.stdin is None or not sys.stdin.isatty()


def _serve_mcp(arguments: Sequence[str]) -> int | None:
    """Run the MCP server until its input ends; return 0, None for arguments that click must explain."""
    from forged import mcp  # noqa: PLC0415 - no other command needs it

    place = mcp.parse_arguments(list(arguments))
    if place is None:
        return None
    mcp.serve(*place)
    return 0


def _run_verb(verb: str, message: str, as_json: bool, directory: str, environ: Mapping[str, str]) -> int:
    """Run ping, status or retrieve without click, print its errors; return the exit code."""
    import msgspec  # noqa: PLC0415 - costs more than all of the above

    from forged.cli import call, exits, plain_verbs  # noqa: PLC0415

    plain = msgspec.structs.replace(call.of_process(directory, environ), as_json=as_json)
    try:
        if verb == "ping":
            plain_verbs.ping(plain)
        elif verb == "status":
            plain_verbs.status(plain)
        else:
            plain_verbs.retrieve(plain, plain_verbs.user_message(message))
    except exits.Stop as stop:
        return call.report(stop, as_json=as_json)
    return exits.OK


def _print_pong(version: str, build: str, as_json: bool) -> int | None:
    """Print `pong`, and warn if the daemon's build differs; return 0, or None if stdout fails."""
    if sys.stdout is None:
        return None
    try:
        sys.stdout.write((PONG_JSON if as_json else "pong") + "\n")
        sys.stdout.flush()
    except OSError:
        return None  # click meets the error again and reports it
    if not as_json and (version != __version__ or (build and build != build_id())):
        from forged.cli.status import skew  # noqa: PLC0415
        from forged.cli.terminal import tell  # noqa: PLC0415

        if warning := skew(version, build):
            tell(f"forgectl: {warning}")
    return 0


def _ping_daemon(environ: Mapping[str, str]) -> tuple[str, str]:
    """Ping a daemon that runs already; return version and build, or empty texts if it fails."""
    from forged_client.address import socket_path  # noqa: PLC0415
    from forged_client.dial import try_connect  # noqa: PLC0415
    from forged_client.errors import ClientError  # noqa: PLC0415

    try:
        sock = try_connect(socket_path(environ))
        if sock is None:
            return "", ""
    except ClientError:
        return "", ""
    try:
        sock.settimeout(_PATIENCE_S)
        sock.sendall(b"".join(len(body).to_bytes(4, "big") + body for body in (HELLO, PING)))
        return _read_pong(sock.recv)
    except OSError:
        return "", ""
    finally:
        sock.close()


def _read_pong(receive: Callable[[int], bytes]) -> tuple[str, str]:
    """Read the daemon's replies to hello and ping; return version and build, "" if unexpected."""
    received, end = b"", time.monotonic() + _PATIENCE_S
    while len(received) < _MOST_BYTES and time.monotonic() < end:
        data = receive(_MOST_BYTES)
        received += data
        if not data:
            return "", ""
        if received.endswith(PONG):
            return (
                (_text_field(received, _VERSION), _text_field(received, _BUILD))
                if PROTOCOL in received
                else ("", "")
            )
    return "", ""


def _text_field(received: bytes, field: bytes) -> str:
    """Return the short text that follows a field's name in msgpack bytes, "" if there is none."""
    after = received.partition(field)[2]
    return after[1 : 1 + after[0] - _SHORT.start].decode() if after and after[0] in _SHORT else ""
