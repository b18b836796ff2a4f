"""Documents on a team's server, for `ingest`, `list_documents` and `remove_document`.

Where org is shared, the server says which documents there are; files are what this machine has brought. New
pieces are on the server (or wait for it, on disk) before old ones go. A document that is taken away, or whose
source has another text by now, leaves a mark there, by which its files go on every machine. A server that
cannot be asked holds up nothing and is named in what is returned. StoreError is raised by `take_away` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from forged.attributes import Facts, FactsPatch
from forged.daemon.handlers.context import Daemon
from forged.errors import SharedError, StoreError
from forged.memory import Memory, Scope

if TYPE_CHECKING:
    from forged.postgres import ServerDocument, ServerDocuments, Shared, Stored

THERE, WAITS = "there", "waits"
_TICK = timedelta(microseconds=1)


def shared_of(daemon: Daemon) -> Shared | None:
    """The server, if documents are shared."""
    return daemon.shared if daemon.shared is not None and Scope.ORG in daemon.shared.scopes else None


def stock_of(shared: Shared) -> ServerDocuments:
    from forged.postgres import ServerDocuments  # noqa: PLC0415 - what it needs is an extra

    return ServerDocuments(shared)


async def bring(daemon: Daemon, pieces: Sequence[Memory], older: Collection[str], said: FactsPatch) -> str:
    """Have the server hold these pieces of one document, and then no other document of their source.

    `older` are such that are known here. Returns what the server has now: there, waits, or why not.
    """
    shared = shared_of(daemon)
    if shared is None or not pieces:
        return ""
    try:
        return await _brought(shared, pieces, older, said)
    except (SharedError, StoreError) as error:
        return str(error)


async def _brought(shared: Shared, pieces: Sequence[Memory], older: Collection[str], said: FactsPatch) -> str:
    first = pieces[0].piece
    assert first is not None, "it was cut out of a document"
    document, waiting = first.document_id, shared.outbox.pieces_of(first.document_id)
    others: dict[str, datetime | None] = dict.fromkeys(older)
    held: frozenset[str] = frozenset()
    since = None
    try:
        stock = stock_of(shared)
        held = await stock.pieces(document)
        since = (await stock.gone([document])).get(document)
        others |= {each.document_id: each.newest for each in await stock.named(first.source)}
    except SharedError as error:
        if not error.is_away and error.reason != "unusable":
            raise
    lacking = [each for each in pieces if each.id not in held and each.id not in waiting]
    if lacking:
        await shared.put([_row(each, said, since) for each in lacking])
    for other in others.keys() - {document}:
        await shared.remove_document(other, newest=others[other])
    return WAITS if shared.outbox.pieces_of(document) else THERE


def _row(memory: Memory, said: FactsPatch, since: datetime | None) -> Stored:
    """A piece as a row that is newer than the mark of when its document was taken away before."""
    from forged.postgres import Stored  # noqa: PLC0415 - as above

    assert memory.piece is not None
    created = datetime.fromisoformat(memory.created_at)
    return Stored(
        scope=Scope.ORG,
        owner="",
        id=memory.id,
        content=memory.content,
        facts=said.apply(Facts(source=memory.piece.source)),
        created_at=created if since is None else max(created, since + _TICK),
        document_id=memory.piece.document_id,
        chunk_index=memory.piece.index,
    )


async def held(daemon: Daemon, name: str = "") -> tuple[list[ServerDocument], str]:
    """The documents that the server has, all or those of a name; and why it could not be asked."""
    shared = shared_of(daemon)
    if shared is None:
        return [], ""
    try:
        stock = stock_of(shared)
        found = await (stock.named(name) if name else stock.all())
    except SharedError as error:
        return [], f"the shared server was not asked: {error}"
    leaving = shared.outbox.documents_leaving
    return [each for each in found if each.document_id not in leaving], ""


async def take_away(daemon: Daemon, documents: Collection[str], known: Sequence[ServerDocument]) -> bool:
    """Take documents from the server, durably; whether that waits for it. Raises StoreError."""
    shared = shared_of(daemon)
    if shared is None:
        return False
    newest = {each.document_id: each.newest for each in known}
    for each in documents:
        await shared.remove_document(each, newest=newest.get(each))
    return bool(shared.outbox.documents_leaving & set(documents))


async def forget_pieces(daemon: Daemon, ids: Sequence[str]) -> None:
    """Have these pieces gone from the server as well. Raises StoreError."""
    shared = shared_of(daemon)
    if shared is not None and ids:
        await shared.remove(Scope.ORG, "", ids)
