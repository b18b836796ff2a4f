"""A team's PostgreSQL server with pgvector: shared documents and memories.

`settings_of` reads its settings, `Pool` lends connections with deadlines, `migrate` updates its tables,
`grant` gives a role access, `examine` checks it, `Stored` is one row. Every failure is a SharedError whose
message names the remedy. Needs the extra `postgres`, whose packages are imported on use.
"""

from typing import TYPE_CHECKING

from forged import lazy_exports

if TYPE_CHECKING:
    from forged.postgres.connecting import Connection, ServerInfo, connect, server_info
    from forged.postgres.copies import DocumentCopies
    from forged.postgres.documents import ServerDocument, ServerDocuments
    from forged.postgres.inspecting import Finding, check_schema, examine
    from forged.postgres.migrating import migrate, require_current
    from forged.postgres.roles import Member, RowOwner, grant, members, owner, revoke
    from forged.postgres.shared import SharedServer
    from forged.postgres.store import CopiesStore, stores_of
    from forged.postgres.sync import RootSync
    from forged.postgres.values import Settings, Stored, settings_of

__all__ = [
    "Connection",
    "CopiesStore",
    "DocumentCopies",
    "Finding",
    "Member",
    "RootSync",
    "RowOwner",
    "ServerDocument",
    "ServerDocuments",
    "ServerInfo",
    "Settings",
    "SharedServer",
    "Stored",
    "check_schema",
    "connect",
    "examine",
    "grant",
    "members",
    "migrate",
    "owner",
    "require_current",
    "revoke",
    "server_info",
    "settings_of",
    "stores_of",
]

__getattr__ = lazy_exports(
    __name__,
    connecting=("Connection", "ServerInfo", "connect", "server_info"),
    copies=("DocumentCopies",),
    inspecting=("Finding", "check_schema", "examine"),
    roles=("Member", "RowOwner", "grant", "members", "owner", "revoke"),
    migrating=("migrate", "require_current"),
    sync=("RootSync",),
    shared=("SharedServer",),
    documents=("ServerDocument", "ServerDocuments"),
    store=("CopiesStore", "stores_of"),
    values=("Settings", "Stored", "settings_of"),
)
