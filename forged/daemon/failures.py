"""The replies to requests that were not carried out: in goes what went wrong, out comes a `Failed`."""

from __future__ import annotations

from forged_client import framing, protocol
from forged_client.errors import MalformedFrame
from forged_client.protocol import Failed


def failed(number: int, code: str, message: str) -> Failed:
    return Failed(id=number, status="error", reason=f"{code}: {message}", code=code, message=message)


def undecodable(body: memoryview, error: MalformedFrame) -> Failed:
    """A frame of an unknown verb still gets its id back; anything else is only called invalid."""
    try:
        head = framing.decode_head(body)
    except MalformedFrame:
        head = framing.Head()
    known = {struct_.__struct_config__.tag for struct_ in protocol.REQUESTS}
    if head.type and head.type not in known:
        return failed(head.id, "unknown_verb", f"this daemon does not know {head.type[:64]!r}")
    return failed(head.id, "invalid", str(error))
