"""The team's server as a part of the daemon: made of the configuration, or a sentence why there is none."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forged.config import Config
from forged.errors import ConfigError
from forged.models import Door, Embedder
from forged.state import State

if TYPE_CHECKING:
    from forged.postgres import Shared

_EXTRA = "the shared server needs an extra that is not installed: pip install 'forged-memory[postgres]'"


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
        return None, f"nothing is shared: {_EXTRA}"
    except ConfigError as error:
        return None, f"nothing is shared: {error}"
