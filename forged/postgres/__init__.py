"""A PostgreSQL server with pgvector, where a team keeps what outgrows one machine.

`settings_of` says how it is reached, `Pool` lends connections inside deadlines, `migrate` brings its tables
up to this program, `Stored` is one row. Whatever fails is a SharedError whose message says what mends it.
Needs the extra `postgres`; nothing of it is imported before a name that needs it is asked for.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.postgres.connecting import Connection, Pool, connect
    from forged.postgres.listening import Change
    from forged.postgres.migrating import Step, migrate
    from forged.postgres.scratch import ScratchServer
    from forged.postgres.shared import LIMITS, Shared, SharedCondition
    from forged.postgres.values import EmbeddingModel, Settings, Stored, settings_of

__all__ = [
    "LIMITS",
    "Change",
    "Connection",
    "EmbeddingModel",
    "Pool",
    "ScratchServer",
    "Settings",
    "Shared",
    "SharedCondition",
    "Step",
    "Stored",
    "connect",
    "migrate",
    "settings_of",
]

__getattr__ = door(
    __name__,
    connecting=("Connection", "Pool", "connect"),
    listening=("Change",),
    migrating=("Step", "migrate"),
    scratch=("ScratchServer",),
    shared=("LIMITS", "Shared", "SharedCondition"),
    values=("EmbeddingModel", "Settings", "Stored", "settings_of"),
)
