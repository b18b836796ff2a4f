"""What every message of the contract has: the base of all requests, and that of all replies."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar, get_args

import msgspec

MAX_REQUEST_BYTES = 1 << 20


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Anything the daemon may answer."""

    id: int = 0
    status: str = "ok"
    reason: str = ""


R = TypeVar("R", bound=Reply)


class Request(msgspec.Struct, Generic[R], frozen=True, kw_only=True, tag_field="type"):
    """Anything a client may ask; `R` is the reply it gets.

    One that is not `repeatable` could be carried out twice, so it is not sent again when the connection ends
    before its reply. One that is `bypassable` is not sent at all while FORGED_BYPASS is set.
    """

    limit_bytes: ClassVar[int] = MAX_REQUEST_BYTES
    repeatable: ClassVar[bool] = True
    bypassable: ClassVar[bool] = False

    id: int = 0

    @classmethod
    def reply_type(cls) -> type[R]:
        kind: type[R] = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        return kind
