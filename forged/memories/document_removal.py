"""Remove documents: their pieces for good, or whole documents to the trash for 7 days.

Texts of documents do not count as forgotten: they may come back at any time. Raises StoreError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forged.attributes import UNKNOWN
from forged.documents import document_of
from forged.maps import RootIndex
from forged.memories.parts import MemoryParts
from forged.memories.removal import PRUNED, remove_files, with_rows
from forged.state import RootIds
from forged.writing import RemovalTerms

if TYPE_CHECKING:
    from forged.postgres import ServerDocument

ERASED = "document"
"""Reason of the removal of pieces for good, in the intents."""


async def remove_pieces(memories: MemoryParts, index: RootIndex, ids: Sequence[str]) -> int:
    """Erase pieces of documents with their rows; return the generation without them, not yet built."""
    is_known = _has_attributes(memories, index, ids)

    async def clean(_: Sequence[str], root: RootIds) -> None:
        await memories.state.removal.forget(root, ids)
        await _forget_files(memories, index, ids)
        if is_known:
            await memories.state.erase_traces()

    taking = RemovalTerms(erase=True, why=ERASED)
    return (await remove_files(memories, index, tuple(ids), taking, clean, waits=False))[1]


def _has_attributes(memories: MemoryParts, index: RootIndex, ids: Sequence[str]) -> bool:
    """Return True if the database has attributes of one of these memories, of which no trace may stay."""
    return any(memories.state.attributes.of(index.root.top, each) != UNKNOWN for each in ids)


async def _forget_files(memories: MemoryParts, index: RootIndex, ids: Collection[str]) -> None:
    """Erase the rows of ingested files whose documents have no piece left without these."""
    table = memories.state.ingested
    if known := table.of_documents(frozenset(map(document_of, ids))):
        snapshot, _ = await memories.trust.look(index.root)
        left = {document_of(each.id) for each in snapshot.memories}
        await table.forget({each.document_id for each in known.values()} - left)


async def trash_documents(
    memories: MemoryParts,
    index: RootIndex,
    documents: Collection[str],
    ids: Sequence[str],
    *,
    send: Callable[[Collection[str]], Awaitable[object]],
    batch: str = "",
) -> int:
    """Move documents with `ids`, all their pieces, to the trash; return the generation without them.

    `send` removes the documents from the team's server. After a kill all of it is done again.
    """
    is_known = _has_attributes(memories, index, ids)
    files = {each.document_id: each for each in memories.state.ingested.of_documents(documents).values()}
    taking = with_rows(memories, index.root.top, tuple(ids), RemovalTerms(why=PRUNED, batch=batch))
    rows = {each: replace(row, file=files.get(document_of(each))) for each, row in taking.rows.items()}

    async def clean(_: Sequence[str], root: RootIds) -> None:
        await send(documents)
        await memories.state.removal.forget(root, ids)
        await memories.state.ingested.forget(documents)
        if is_known:
            await memories.state.erase_traces()

    if not ids:
        await clean((), RootIds(index.root.top))
        return index.generations.visible
    return (await remove_files(memories, index, tuple(ids), replace(taking, rows=rows), clean, waits=False))[
        1
    ]


async def remove_from_server(
    memories: MemoryParts, documents: Collection[str], known: Sequence[ServerDocument] = ()
) -> None:
    """Remove documents from the server, now or when a run has one that answers. Raises StoreError."""
    newest = {each.document_id: each.newest for each in known}
    await memories.remove_from_server("document", documents, newest)
