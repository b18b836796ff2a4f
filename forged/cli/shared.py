"""`forgectl shared`: the PostgreSQL of a team. Connects by itself; no daemon is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from forged import config
from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.exits import Stop
from forged.errors import ConfigError, SharedError

if TYPE_CHECKING:
    from forged.postgres import Connection, Settings

_T = TypeVar("_T")
_PATIENCE_S = 10.0
# What a person must change here, what the administrator of the server must, and what passes by itself.
_WORDS = {
    "not_installed": "configuration",
    "dimension": "configuration",
    "model": "configuration",
    "permission": "not_permitted",
    "timeout": "timeout",
    "busy": "busy",
}


@click.group("shared")
def shared_command() -> None:
    """Set up, check and open the PostgreSQL of a team."""


@shared_command.command("migrate", short_help="Bring its tables up to this program.")
@reads
def migrate_command(call: Invocation) -> None:
    """Create the tables in the database of shared.url, or bring them up to this program.

    Does nothing where they are, and may be run by several at once.
    """
    from forged.postgres import migrate  # noqa: PLC0415 - the extra may not be there

    settings = settings_of(call)
    done = with_connection(settings, lambda connection: migrate(connection, {"": settings.model}))
    lines = [f"migration {step.number} done" for step in done] or ["nothing to do: the tables are up to date"]
    show(call, {"applied": [step.number for step in done]}, lines)


def settings_of(call: Invocation) -> Settings:
    """How the server is reached that the configuration names. Raises Stop where it names none."""
    try:
        from forged import postgres  # noqa: PLC0415 - the extra may not be there

        settings = postgres.settings_of(config.load(call.environ).config, call.environ)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error
    if settings is None:
        raise Stop(
            "configuration", "no server is configured: set shared.url, as in postgresql://HOST/DATABASE"
        )
    return settings


def with_connection(settings: Settings, work: Callable[[Connection], Awaitable[_T]]) -> _T:
    """What `work` comes to with a connection of its own. Raises Stop for whatever is wrong there."""

    async def connected() -> _T:
        from forged.postgres import connect  # noqa: PLC0415 - the extra may not be there

        async with await connect(settings) as connection:
            return await work(connection)

    try:
        return asyncio.run(connected())
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error
    except SharedError as error:
        raise Stop(_WORDS.get(error.reason, "unavailable"), str(error)) from error
    except ModuleNotFoundError as error:
        told = "PostgreSQL needs the extra `postgres`: pip install 'forged-memory[postgres]'"
        raise Stop("configuration", told) from error
