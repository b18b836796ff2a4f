"""What the writer takes and gives: drafts, what became of them, and receipts of removals."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.files import Root
from forged.memory import Memory
from forged.state import Intent


def _nobody_minds(_: Memory) -> bool:
    return False


class Draft(msgspec.Struct, frozen=True):
    """A memory as somebody wants it written; its version and what it replaces are the writer's to set.

    memory: with its id. Where a file of ours has that id it is done already. `supersedes` names any version
        of the chain that is meant.
    insisted: somebody wants the secret that it looks to hold.
    key: of the request; the same key with the same content is written once, however often it comes.
    base: the id that has to be the head of the chain, or nothing is written. Who names it has seen it, so the
        memory is taken whole; without it category, links and unknown keys that it leaves out are the head's.
    again: write it although the same text is there: a version that differs in something else.
    verbatim: version and link stay as they are: what is put back as it was.
    data, name: the bytes of the file and its name, where it is to be a copy of another one; `verbatim` then.
    said: change of its attributes against those of the version before it.
    unwanted: asked at the last moment, in any thread; what was forgotten meanwhile is not written.
    """

    memory: Memory
    insisted: bool = False
    key: str = ""
    base: str = ""
    again: bool = False
    verbatim: bool = False
    data: bytes = b""
    name: str = ""
    unwanted: Callable[[Memory], bool] = _nobody_minds
    said: FactsPatch = UNCHANGED


class Written(msgspec.Struct, frozen=True):
    """A memory as it was written, its file, and the generation in which it is visible.

    replaced: id of the version that it replaces, or nothing.
    base_moved: that is another one than the writer named.
    existed: nothing was written, as this memory says the same already.
    """

    memory: Memory
    path: str
    generation: int
    replaced: str = ""
    base_moved: bool = False
    existed: bool = False


class Gone(msgspec.Struct, frozen=True):
    """Receipt of a removal: ids, the trash directory (empty if erased), what forged cannot reach.

    `contents` are the texts that are gone, and `intent` is on record until all that belongs to it is done.
    """

    ids: tuple[str, ...]
    trash: str
    unreachable: tuple[str, ...]
    contents: tuple[str, ...] = ()
    intent: Intent | None = None


class Marks(Protocol):
    """Hears of what somebody takes away and brings back, before it is done: others may have it as well.

    Raises StoreError, and then it is not done.
    """

    async def gone(self, root: Root, ids: Collection[str], *, whole: bool) -> None:
        """These memories of a root go; `whole`: they are all versions, and none that is not here stays."""
        ...

    async def back(self, root: Root, ids: Collection[str]) -> None:
        """These memories of a root come back."""
        ...


class NoMarks:
    """Nobody else has it."""

    async def gone(self, root: Root, ids: Collection[str], *, whole: bool) -> None: ...

    async def back(self, root: Root, ids: Collection[str]) -> None: ...
