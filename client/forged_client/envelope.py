"""Base classes of all requests and all replies of the wire contract."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec.structs import replace

MAX_REQUEST_BYTES = 1 << 20

# A `read` changes nothing and may be given up. A `write` may change something. A `stream` has many replies.
Effect = Literal["read", "write", "stream"]

# `workspace`: the daemon first resolves the roots of the request's workspace, or the user's root if it is
# left out. `memory` and `retrieval`: these are on. `state`: the pauses have been read.
Need = Literal["workspace", "memory", "retrieval", "state"]


def one_of(what: str, words: Iterable[str]) -> msgspec.Meta:
    """Return the annotation of a request's text field with its allowed words; the daemon checks them."""
    return msgspec.Meta(extra={"what": what, "words": tuple(words)})


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all replies: the id of the request, a status, and the reason for it."""

    id: int = 0
    status: str = "ok"
    reason: str = ""


R = TypeVar("R", bound=Reply)


class Request(msgspec.Struct, Generic[R], frozen=True, kw_only=True, tag_field="type"):
    """Base of requests, with the facts about a verb: effect, needs, limits, paths and type of reply `R`.

    If something that a verb `needs` is off, its reply is `disabled`. A verb that is not `repeatable` could
    be carried out twice, so it is not sent again when the connection ends. A `bypassable` verb is not sent
    while FORGED_BYPASS is set. A verb that is answered `at_once` does not wait in the fair queue. A verb
    that `injects` puts memories into a session once its reply has reached the agent. `paths` are the fields
    that hold paths.

    `seen` is `identity_of` each path for the client. The daemon compares it, because a path can be another
    folder in another container. A client that sends no `seen` is believed.
    """

    effect: ClassVar[Effect]
    needs: ClassVar[tuple[Need, ...]] = ()
    limit_bytes: ClassVar[int] = MAX_REQUEST_BYTES
    repeatable: ClassVar[bool] = True
    bypassable: ClassVar[bool] = False
    at_once: ClassVar[bool] = False
    injects: ClassVar[bool] = False
    paths: ClassVar[tuple[str, ...]] = ("workspace",)

    id: int = 0
    seen: dict[str, str] = {}

    @property
    def only_shows(self) -> bool:
        """Return True for a write that, by its options, only shows its effect or choices; here False."""
        return False

    @property
    def is_write(self) -> bool:
        """Return True for a request that may change something, so that giving it up may lose it."""
        return self.effect == "write" and not self.only_shows

    @classmethod
    def reply_type(cls) -> type[R]:
        """Return the class of replies to this verb, from its generic base. Raises TypeError without one."""
        for base in cls.__mro__:  # the first base that names the reply, for a verb with options
            for named in vars(base).get("__orig_bases__", ()):
                if args := get_args(named):
                    kind: type[R] = args[0]
                    return kind
        raise TypeError(f"{cls.__name__} names no reply")

    def with_seen(self) -> Request[R]:
        """Return the request with `seen` (device and inode by path); unchanged if it has one."""
        found = {path: identity_of(path) for path in self._named_paths() if os.path.isabs(path)}
        return replace(self, seen=found) if found and not self.seen else self

    def _named_paths(self) -> Iterator[str]:
        """Yield the request's paths, from the fields in `paths`; files become paths in the workspace."""
        for name in self.paths:
            value = getattr(self, name, None)
            if isinstance(value, str):
                yield value
            elif isinstance(value, tuple):  # files of the repository, with lines
                workspace = str(getattr(self, "workspace", ""))
                files = (each.partition(":")[0] for each in value if isinstance(each, str))
                yield from (os.path.join(workspace, each) for each in files)


def identity_of(path: str) -> str:
    """Return device and inode of a path as hexadecimal numbers; empty if it cannot be read."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{status.st_dev:x}:{status.st_ino:x}"
