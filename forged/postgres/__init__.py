"""A PostgreSQL server with pgvector, where a team keeps what outgrows one machine.

`settings_of` says how it is reached, `Pool` lends connections inside deadlines, `migrate` brings its tables
up to this program, `grant` opens them to a role, `examine` says how they are, `Stored` is one row. Whatever
fails is a SharedError whose message says what mends it. Needs the extra `postgres`; nothing of it is imported
before a name that needs it is asked for.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.postgres.connecting import Connection, connect
    from forged.postgres.documents import ServerDocument, ServerDocuments
    from forged.postgres.inspecting import Finding, ServerInfo, check, examine, server
    from forged.postgres.migrating import migrate, require_current
    from forged.postgres.relating import ReachedRow
    from forged.postgres.roles import Member, RowOwner, grant, members, owner, revoke
    from forged.postgres.shared import SharedServer
    from forged.postgres.store import stores_of
    from forged.postgres.sync import OwnRemovalMarks, RootSync
    from forged.postgres.values import Settings, Stored, settings_of

__all__ = [
    "Connection",
    "Finding",
    "Member",
    "OwnRemovalMarks",
    "ReachedRow",
    "RootSync",
    "RowOwner",
    "ServerDocument",
    "ServerDocuments",
    "ServerInfo",
    "Settings",
    "SharedServer",
    "Stored",
    "check",
    "connect",
    "examine",
    "grant",
    "members",
    "migrate",
    "owner",
    "require_current",
    "revoke",
    "server",
    "settings_of",
    "stores_of",
]

__getattr__ = door(
    __name__,
    connecting=("Connection", "connect"),
    inspecting=("Finding", "ServerInfo", "check", "examine", "server"),
    roles=("Member", "RowOwner", "grant", "members", "owner", "revoke"),
    migrating=("migrate", "require_current"),
    relating=("ReachedRow",),
    sync=("RootSync", "OwnRemovalMarks"),
    shared=("SharedServer",),
    documents=("ServerDocument", "ServerDocuments"),
    store=("stores_of",),
    values=("Settings", "Stored", "settings_of"),
)
