"""`forgectl shared`: set up and check the PostgreSQL of a team, without the daemon."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from forged import config, postgres
from forged.cli.call import Invocation, show
from forged.cli.commands import with_json_option
from forged.cli.doctor.checks import FAIL, OK, WARN, Check
from forged.cli.doctor.summary import lines as finding_lines
from forged.cli.exits import NOT_DONE, Stop
from forged.cli.terminal import escape_line
from forged.errors import ConfigError, SharedError

if TYPE_CHECKING:
    from forged.postgres import Connection, Finding, Member, RowOwner, ServerInfo, Settings

_T = TypeVar("_T")
# Error codes for causes here, at the server, and temporary ones.
_WORDS = {
    "not_installed": "configuration",
    "dimension": "configuration",
    "model": "configuration",
    "permission": "not_permitted",
    "timeout": "timeout",
    "busy": "busy",
    "invalid": "invalid",
}
_LEVELS = {"ok": OK, "warn": WARN, "fail": FAIL}


@click.group("shared")
def shared_command() -> None:
    """Set up and check the PostgreSQL of a team, and grant access to it."""


@shared_command.command("migrate", short_help="Create or update its tables.")
@with_json_option
def migrate_command(call: Invocation) -> None:
    """Create the tables in the database of shared.url, or update them to this version.

    Does nothing if they are up to date. Several people may run it at once.
    """
    settings = _settings(call)
    done = _with_connection(settings, lambda there: postgres.migrate(there, settings.models))
    lines = [f"migration {step.number} done" for step in done] or ["nothing to do: the tables are up to date"]
    show(call, {"applied": [step.number for step in done]}, lines)


@shared_command.command("status", short_help="Show the server and the access of each role.")
@with_json_option
def status_command(call: Invocation) -> None:
    """Show the server, the scopes that it stores, and the rows that each role can access."""
    settings = _settings(call)

    async def read_server_and_members(there: Connection) -> tuple[ServerInfo, tuple[Member, ...]]:
        await postgres.require_current(there, {"": settings.model})
        return postgres.server_info(there), await postgres.members(there)

    server, members = _with_connection(settings, read_server_and_members)
    about = {
        "server": server.address,
        "version": server.version,
        "role": server.role,
        "user_id": settings.user_id,
        "scopes": sorted(settings.scopes),
        "model": settings.model.name,
        "dimension": settings.model.dimension,
        "second_model": settings.second.name if settings.second is not None else "",
        "members": [_member_as_json(member) for member in members],
    }
    show(call, about, map(escape_line, _status_lines(about, members)))


def _status_lines(about: dict[str, object], members: Sequence[Member]) -> Iterator[str]:
    """Yield the lines of `shared status`: server, shared scopes, model, and the rows of each role."""
    yield f"{about['server']}: PostgreSQL {about['version']}, as role {about['role']}"
    scopes = about["scopes"]
    assert isinstance(scopes, list)
    yield f"shared: {', '.join(scopes) or 'nothing'}; you are {about['user_id']} there"
    second = about["second_model"]
    others = f"; of {second} for Chinese, Japanese and Korean" if second else ""
    yield f"embeddings of {about['model']}, {about['dimension']} numbers each{others}"
    for member in members:
        yield f"role {member.role}: {', '.join(map(_owner_name, member.owners)) or 'reads documents'}"
    if not members:
        yield (
            f"no role was granted access: the password of {about['role']} "
            "gives access to the rows of all users"
        )


@shared_command.command("check", short_help="Compare its schema with this version.")
@with_json_option
def check_command(call: Invocation) -> None:
    """Compare tables, indexes, row level security and dimensions with this version; change nothing.

    Exit code 1 if something is wrong.
    """
    settings = _settings(call)
    _show_findings(call, _with_connection(settings, lambda there: postgres.check_schema(there, settings)))


@shared_command.command("doctor", short_help="Check the server, with a fix for each problem.")
@with_json_option
def doctor_command(call: Invocation) -> None:
    """Do what `check` does, and check rows, roles, TLS and settings; name a fix for each problem.

    Exit code 1 if something is wrong.
    """
    settings = _settings(call)
    _show_findings(call, _with_connection(settings, lambda there: postgres.examine(there, settings)))


_ROLE = click.option("--role", default="", metavar="ROLE", help="Role on the server (default: USER).")
_AGENTS = click.option("--agent", "agents", multiple=True, metavar="NAME", help="Agent; repeatable.")


@shared_command.command("grant", short_help="Give a role access to its own rows.")
@click.argument("user")
@_AGENTS
@click.option("--documents", is_flag=True, help="Also let it write and remove documents of the organization.")
@_ROLE
@with_json_option
def grant_command(call: Invocation, user: str, agents: tuple[str, ...], documents: bool, role: str) -> None:
    """Let a role read and write the rows of USER and of the named agents, and read documents."""
    owners = [_owner("user", user), *_owners(agents, documents=documents)]
    role = role or user
    _with_connection(_settings(call), lambda there: postgres.grant(there, role, owners))
    lines = [
        f"role {role} can read documents, and read and write rows of {', '.join(map(_owner_name, owners))}"
    ]
    show(call, {"role": role, "granted": [_owner_name(each) for each in owners]}, map(escape_line, lines))


@shared_command.command("revoke", short_help="Remove the access of a role.")
@click.argument("user")
@_AGENTS
@click.option("--documents", is_flag=True, help="Only remove the right to write documents.")
@_ROLE
@with_json_option
def revoke_command(call: Invocation, user: str, agents: tuple[str, ...], documents: bool, role: str) -> None:
    """Remove all access of USER's role, or only that to the named agents."""
    role = role or user
    owners = _owners(agents, documents=documents)
    gone = _with_connection(_settings(call), lambda there: postgres.revoke(there, role, owners))
    if not gone:
        raise Stop("not_found", f"role {role} has no such access: `forgectl shared status` shows its access")
    lines = [f"role {role} can no longer access rows of {', '.join(map(_owner_name, gone))}"]
    show(call, {"role": role, "revoked": [_owner_name(each) for each in gone]}, map(escape_line, lines))


def _owner(scope: str, id_: str = "") -> RowOwner:
    """Return user, agent or organization as owner of rows on the server. Raises Stop for an empty name."""
    if not id_ and scope != "org":
        raise Stop("usage", f"the {scope} has no name")
    return postgres.owner(scope, id_)


def _owners(agents: Iterable[str], *, documents: bool) -> list[RowOwner]:
    """Return agents and, with `documents`, the organization as owners of rows on the team's server."""
    return [*(_owner("agent", name) for name in agents), *([_owner("org")] if documents else [])]


def _owner_name(owner: RowOwner) -> str:
    """Name an owner of rows on the team's server: scope and id, or `the organization`."""
    return f"{owner.scope} {owner.id}" if owner.id else "the organization"


def _member_as_json(member: Member) -> dict[str, object]:
    """Convert a role on the team's server, and the owners of its rows, for JSON."""
    return {"role": member.role, "owners": [_owner_name(each) for each in member.owners]}


def _show_findings(call: Invocation, found: Sequence[Finding]) -> None:
    """Print findings on the team's server, each one by one; exit with code 1 if one failed."""
    checks = [Check(each.name, _LEVELS[each.level], each.detail, each.fix) for each in found]
    show(call, {"findings": found}, finding_lines(checks, call.paint, each=True))
    if any(each.level == "fail" for each in found):
        sys.exit(NOT_DONE)


def _settings(call: Invocation) -> Settings:
    """Return the settings of the team's server. Raises Stop if none is configured, or wrongly."""
    try:
        loaded = config.load(call.environ).config
        settings = postgres.settings_of(loaded, call.environ)
    except (ConfigError, SharedError) as error:
        raise Stop("configuration", str(error)) from error
    if settings is None:
        why = "no server is configured: set shared.url, for example to postgresql://HOST/DATABASE"
        raise Stop("configuration", why)
    return settings


def _with_connection(settings: Settings, work: Callable[[Connection], Awaitable[_T]]) -> _T:
    """Connect to the team's server, await `work` with the connection, return its result. Raises Stop."""

    async def connect_and_work() -> _T:
        async with await postgres.connect(settings) as connection:
            return await work(connection)

    try:
        return asyncio.run(connect_and_work())
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error
    except SharedError as error:
        raise Stop(_WORDS.get(error.reason, "unavailable"), str(error)) from error
