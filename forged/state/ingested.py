"""Table of files that this machine ingested as documents, by source.

It tells which documents come from a folder, so that a prune takes no others. A row goes with its document.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows

_MOST, _MOST_IN_ALL = 1 << 17, 64 << 20


class IngestedFile(msgspec.Struct, frozen=True):
    """File of a document: the document's id and text digest, and the file's real path and its disk."""

    document_id: str
    digest: str
    path: str
    disk: str


class IngestedFiles(Rows[IngestedFile]):
    """Table of ingested files by source, durable; beyond 131,072 rows or 64 MiB the oldest ones go."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database, "ingested_files", IngestedFile, durable=True, most=_MOST, most_bytes=_MOST_IN_ALL
        )

    def below(self, path: str) -> dict[str, IngestedFile]:
        """Return the rows of files at or below a real path, by source."""
        start = path.rstrip("/") + "/"
        return {source: each for source, each in self.items() if f"{each.path}/".startswith(start)}

    def of_documents(self, ids: Collection[str]) -> dict[str, IngestedFile]:
        """Return the rows of these documents, by source."""
        return {source: each for source, each in self.items() if each.document_id in ids}

    async def forget(self, documents: Collection[str]) -> None:
        """Erase the rows of these documents, durably on return. Raises StoreError."""
        await self.store(dict.fromkeys(self.of_documents(documents)))
