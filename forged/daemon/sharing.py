"""The team's server as a part of the daemon: made of the configuration, or a sentence why there is none."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from forged.config import Config, install_command
from forged.errors import ConfigError
from forged.maps import Indexer, RootIndex
from forged.memory import Scope
from forged.models import Door, Embedder
from forged.state import State
from forged.trust import TrustRegistry
from forged.writing import Writer

if TYPE_CHECKING:
    from forged.postgres import Machines, OwnMarks, Shared

_EXTRA = "the shared server needs packages that are not installed"


def make_shared(
    config: Config, env: Mapping[str, str], *, state: State, door: Door, embedder: Embedder | None, epoch: str
) -> tuple[Shared | None, str]:
    """What `[shared]` names, if it does; or why there is none."""
    if not config.shared.url:
        return None, ""
    try:
        from forged.postgres import Shared, settings_of  # noqa: PLC0415 - what it needs is an extra

        settings = settings_of(config, env)
        assert settings is not None
        name = f"{platform.node().split('.')[0] or 'machine'}/{epoch}"
        return Shared(settings, state=state, door=door, embedder=embedder, daemon=name), ""
    except ImportError:
        return None, f"nothing is shared: {_EXTRA}: {install_command('postgres')}"
    except ConfigError as error:
        return None, f"nothing is shared: {error}"


def make_marks(shared: Shared | None, state: State) -> OwnMarks | None:
    """What has other machines hear of what is forgotten here."""
    if shared is None:
        return None
    from forged.postgres import OwnMarks  # noqa: PLC0415 - as above

    return OwnMarks(state.replicas, shared.scopes, shared.settings.user_id)


def make_machines(
    shared: Shared | None,
    home: str,
    *,
    state: State,
    indexer: Indexer,
    writer: Writer,
    trust: TrustRegistry,
    take_away: Callable[[RootIndex, tuple[str, ...]], Awaitable[object]],
) -> Machines | None:
    """What keeps the files of users and agents in step with the server, where they are shared."""
    if shared is None or not shared.scopes & {Scope.USER, Scope.AGENT}:
        return None
    from forged.postgres import Machines  # noqa: PLC0415 - as above

    return Machines(
        shared, home=home, state=state, indexer=indexer, writer=writer, trust=trust, take_away=take_away
    )
