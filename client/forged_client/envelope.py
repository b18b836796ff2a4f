"""Base of all requests and base of all replies of the contract."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec.structs import replace

MAX_REQUEST_BYTES = 1 << 20

# A `read` changes nothing and may be given up; a `write` may change something; a `stream` has many replies.
Effect = Literal["read", "write", "stream"]

# `workspace`: the daemon finds the roots of the request's workspace first, or where that may be left out the
# user's own. `memory` and `retrieval`: these are on. `state`: it is read, and no pause is on record.
Need = Literal["workspace", "memory", "retrieval", "state"]


def one_of(what: str, words: Iterable[str]) -> msgspec.Meta:
    """Annotate a text of a request: it is one of these, or its default. The daemon compares."""
    return msgspec.Meta(extra={"what": what, "words": tuple(words)})


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Anything the daemon may answer."""

    id: int = 0
    status: str = "ok"
    reason: str = ""


R = TypeVar("R", bound=Reply)


class Request(msgspec.Struct, Generic[R], frozen=True, kw_only=True, tag_field="type"):
    """Base of requests; `R` is the reply. The class says all that there is to know of a verb.

    Where something that a verb `needs` is off, its reply is `disabled`. One that is not `repeatable` could be
    carried out twice, so it is not sent again when the connection ends. One that is `bypassable` is not sent
    while FORGED_BYPASS is set. One that is answered `at_once` waits for no turn. One that `injects` puts
    memories into a session once its reply has reached the agent. `paths` are the fields that hold paths.

    `seen` is `identity_of` each path for the client. The daemon compares, because a path means another folder
    in another container; a client that says nothing is believed.
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
        """A write's request for what it would do, or for what there is to choose from."""
        return False

    @property
    def is_write(self) -> bool:
        """True unless nothing is lost when the request is given up."""
        return self.effect == "write" and not self.only_shows

    @classmethod
    def reply_type(cls) -> type[R]:
        for base in cls.__mro__:  # the first of them that names the reply, which one with its options may
            for named in vars(base).get("__orig_bases__", ()):
                if args := get_args(named):
                    kind: type[R] = args[0]
                    return kind
        raise TypeError(f"{cls.__name__} names no reply")

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
