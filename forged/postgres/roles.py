"""Roles of a database and their row level security: each role sees the rows of its owners.

A role with a grant is a member of the members' role, which may use the tables, and of the role of each owner
whose rows it may use: `forged.role_of(scope, owner)` in the database names it. These roles cannot log in.
Other roles have no access; a superuser and the owner of the tables have all.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from psycopg import sql

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import Connection
from forged.postgres.failures import translated

_ADMINISTRATOR = "only the owner of the tables who has CREATEROLE, or a superuser, may grant and revoke"


class RowOwner(msgspec.Struct, frozen=True, order=True):
    """Owner of rows: a user, an agent, or the organization, which has the id ""."""

    scope: Scope
    id: str = ""


def owner(scope: str, id_: str = "") -> RowOwner:
    """Return the RowOwner for the name of a scope and an id. Raises ValueError for an unknown scope."""
    return RowOwner(Scope(scope), id_)


class Member(msgspec.Struct, frozen=True):
    """A login role with a grant, and the owners of the rows that it may use."""

    role: str
    owners: tuple[RowOwner, ...]


async def grant(connection: Connection, role: str, owners: Sequence[RowOwner]) -> None:
    """Let a login role use the rows of these owners; create the group roles that are missing.

    Raises SharedError, also for a role that bypasses row level security.
    """
    with translated(_ADMINISTRATOR):
        await _require_ordinary(connection, role)
        await _grant(connection, role, owners)


async def _grant(connection: Connection, role: str, owners: Sequence[RowOwner]) -> None:
    """Create missing group roles, and make the login role a member of the owners' and the members'."""
    async with connection.transaction():
        members = await _members_role(connection)
        await _create_role(connection, members, "forged: members")
        await refresh_members(connection)
        await _add_member(connection, members, role)
        for owner in owners:
            name = await _role_of(connection, owner)
            await _create_role(connection, name, f"forged: {owner.scope} {owner.id}".rstrip())
            await _add_member(connection, name, role)


async def revoke(connection: Connection, role: str, owners: Sequence[RowOwner] = ()) -> tuple[RowOwner, ...]:
    """Revoke a role's right to the rows of these owners, by default of all; return the revoked owners.

    Raises SharedError.
    """
    with translated(_ADMINISTRATOR):
        gone = await _revoke(connection, role, owners)
        left = await _owners_of(connection, role)
    if set(gone) & set(left):
        raise SharedError(
            f"another administrator has granted {role} what is still there: revoke it as that one",
            reason="permission",
        )
    return gone


async def _revoke(connection: Connection, role: str, owners: Sequence[RowOwner]) -> tuple[RowOwner, ...]:
    """Remove a role from owners' roles (or all), the members' if none left; return the owners."""
    had = await _owners_of(connection, role)
    gone = tuple(owner for owner in had if not owners or owner in owners)
    async with connection.transaction():
        for owner in gone:
            await _remove_member(connection, await _role_of(connection, owner), role)
        if len(gone) == len(had):
            await _remove_member(connection, await _members_role(connection), role)
    return gone


async def _owners_of(connection: Connection, role: str) -> tuple[RowOwner, ...]:
    """Return the owners of the rows that a role may use."""
    return next((member.owners for member in await _all_members(connection) if member.role == role), ())


async def members(connection: Connection) -> tuple[Member, ...]:
    """Return every login role with a grant, and its owners, sorted by name. Raises SharedError."""
    with translated():
        return await _all_members(connection)


async def _all_members(connection: Connection) -> tuple[Member, ...]:
    """Read every login role with a grant, and its owners, from the server; sorted by name."""
    cursor = await connection.execute(_MEMBERS)
    found: dict[str, list[RowOwner]] = {}
    for role, comment in await cursor.fetchall():
        scope, _, id_ = str(comment or "").removeprefix("forged: ").partition(" ")
        owners = found.setdefault(role, [])
        if scope in (Scope.USER, Scope.AGENT, Scope.ORG):
            owners.append(RowOwner(Scope(scope), id_))
    return tuple(Member(role, tuple(sorted(owners))) for role, owners in sorted(found.items()))


async def access_digest(connection: Connection) -> str:
    """Return a digest of what decides about refused writes: the role's rights, and the server's models."""
    found = await (await connection.execute(_ACCESS)).fetchone()
    return "" if found is None else str(found[0])


_ACCESS = """
SELECT md5(concat_ws(' ', current_user,
    (SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_roles WHERE pg_has_role(oid, 'usage')),
    (SELECT string_agg(concat(relname, relacl), ' ' ORDER BY relname) FROM pg_class
    WHERE relnamespace = 'forged'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition),
    (SELECT string_agg(concat(name, ' ', model, ' ', dimension), ' ' ORDER BY name)
    FROM forged.models)
))
"""
_MEMBERS = """
SELECT member.rolname, shobj_description(owner.oid, 'pg_authid')
FROM pg_auth_members m
JOIN pg_roles owner ON owner.oid = m.roleid
JOIN pg_roles member ON member.oid = m.member
WHERE starts_with(owner.rolname, forged.realm() || '_') AND NOT m.admin_option
"""


async def refresh_members(connection: Connection) -> None:
    """Grant the members' role its rights on all current tables, if that role exists."""
    name = await _members_role(connection)
    if not await _role_exists(connection, name):
        return
    role, space = sql.Identifier(name), sql.Identifier(await _extension_schema(connection))
    for statement in _PRIVILEGES:
        await connection.execute(sql.SQL(statement).format(role=role, space=space))
    for table in await _tables(connection):
        rights = sql.SQL("SELECT" if table in _READ_ONLY else "SELECT, INSERT, UPDATE, DELETE")
        named = sql.Identifier("forged", table)
        await connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(rights, named, role))


_PRIVILEGES = (
    "GRANT USAGE ON SCHEMA forged TO {role}",
    "GRANT USAGE ON SCHEMA {space} TO {role}",
    "GRANT USAGE ON SEQUENCE forged.changes TO {role}",
)
_READ_ONLY = ("migrations", "models")


async def _tables(connection: Connection) -> list[str]:
    """Return the names of all tables in the schema `forged`, without partitions."""
    cursor = await connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'forged'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname"
    )
    return [str(name) for (name,) in await cursor.fetchall()]


async def _require_ordinary(connection: Connection, role: str) -> None:
    """Raise SharedError for a role that is missing, inherits nothing or is exempt from row level security."""
    cursor = await connection.execute(
        "SELECT rolsuper, rolbypassrls, rolinherit, rolname = (SELECT pg_get_userbyid(nspowner)::text"
        " FROM pg_namespace WHERE nspname = 'forged') FROM pg_roles WHERE rolname = %s",
        (role,),
    )
    found = await cursor.fetchone()
    if found is None:
        comment = (
            f"there is no role {role} on the server: create it with `CREATE ROLE ... LOGIN PASSWORD ...`"
        )
        raise SharedError(f"{comment}, or name another with --role", reason="invalid")
    is_super, bypasses, inherits, owns = found
    if is_super or bypasses or owns:
        why = "owns the tables" if owns else "is a superuser" if is_super else "bypasses row level security"
        raise SharedError(
            f"the role {role} {why}, so row level security does not limit it: name another role",
            reason="invalid",
        )
    if not inherits:
        raise SharedError(
            f"the role {role} inherits nothing: run `ALTER ROLE {role} INHERIT`", reason="invalid"
        )


async def _create_role(connection: Connection, name: str, comment: str) -> None:
    """Create a role without login, with a comment, unless it exists."""
    if await _role_exists(connection, name):
        return
    role = sql.Identifier(name)
    await connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
    await connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, sql.Literal(comment)))


async def _add_member(connection: Connection, group: str, role: str) -> None:
    """Make a role a member of a group role."""
    statement = sql.SQL("GRANT {} TO {}")
    await connection.execute(statement.format(sql.Identifier(group), sql.Identifier(role)))


async def _remove_member(connection: Connection, group: str, role: str) -> None:
    """End a role's membership in a group role."""
    statement = sql.SQL("REVOKE {} FROM {}")
    await connection.execute(statement.format(sql.Identifier(group), sql.Identifier(role)))


async def _members_role(connection: Connection) -> str:
    """Return the name of the group role that every login role with a grant belongs to."""
    found = await (await connection.execute("SELECT forged.realm() || '_members'")).fetchone()
    assert found is not None
    return str(found[0])


async def _role_of(connection: Connection, owner: RowOwner) -> str:
    """Return the name of the group role that opens an owner's rows."""
    cursor = await connection.execute("SELECT forged.role_of(%s, %s)", (str(owner.scope), owner.id))
    found = await cursor.fetchone()
    assert found is not None
    return str(found[0])


async def _role_exists(connection: Connection, role: str) -> bool:
    """Return True if the server has this role."""
    cursor = await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,))
    return await cursor.fetchone() is not None


async def _extension_schema(connection: Connection) -> str:
    """Return the schema that contains the extension pgvector."""
    cursor = await connection.execute(
        "SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace"
        " WHERE extname = 'vector'"
    )
    found = await cursor.fetchone()
    assert found is not None
    return str(found[0])
