"""What every message of the contract has: the base of all requests, and that of all replies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec.structs import replace

MAX_REQUEST_BYTES = 1 << 20

# `question` only reads, and nothing is lost when it is given up; `write` changes files or records on disk;
# `action` is all else. Each verb of the contract says which.
Effect = Literal["question", "write", "action"]


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

    `seen` says which directory or file each path of the request is for the client, as `identity_of` gives it.
    The daemon compares, because a path means another folder in another container. A client that says nothing
    is believed. `paths` are the fields that hold such paths.
    """

    effect: ClassVar[Effect]
    limit_bytes: ClassVar[int] = MAX_REQUEST_BYTES
    repeatable: ClassVar[bool] = True
    bypassable: ClassVar[bool] = False
    paths: ClassVar[tuple[str, ...]] = ("workspace",)

    id: int = 0
    seen: dict[str, str] = {}

    @property
    def only_shows(self) -> bool:
        """A write's request for what it would do, or for what there is to choose from."""
        return False

    @property
    def is_question(self) -> bool:
        return self.effect == "question" or self.only_shows

    @property
    def is_write(self) -> bool:
        return self.effect == "write" and not self.only_shows

    @classmethod
    def reply_type(cls) -> type[R]:
        kind: type[R] = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        return kind

    def with_seen(self) -> Request[R]:
        """The request with what this process sees at its paths; blocks for a look at each."""
        found = {path: identity_of(path) for path in self._named_paths() if os.path.isabs(path)}
        return replace(self, seen=found) if found and not self.seen else self

    def _named_paths(self) -> Iterator[str]:
        for name in self.paths:
            value = getattr(self, name, None)
            if isinstance(value, str):
                yield value
            elif isinstance(value, tuple):  # files of the repository, with the lines that are meant
                workspace = str(getattr(self, "workspace", ""))
                files = (each.partition(":")[0] for each in value if isinstance(each, str))
                yield from (os.path.join(workspace, each) for each in files)


def identity_of(path: str) -> str:
    """Device and inode at a path, as hexadecimal numbers; nothing where nothing can be seen."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{status.st_dev:x}:{status.st_ino:x}"
