"""What the user has set, and of each value where it came from.

`load` gives a checked `Loaded`, `resolve_key` the key that a reference stands for, `missing` what a model
lacks that runs in process, `repo_overrides` the little that a repository may set. A value that cannot be used
raises ConfigError. Outside this package, `address` and `__main__`, nothing reads the environment;
pydantic-settings would do the layering but costs 180 ms of start-up.

A name is fetched when it is first asked for: the capture worker needs one name of a model, and reading TOML,
paths and addresses would cost it 1.5 MB.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forged.config.installed import Missing, missing, model_folder
    from forged.config.keys import resolve_key, shown_url
    from forged.config.known_models import (
        BUILTIN_LEXICAL,
        BUILTIN_RULES,
        DEFAULT_MIN_SCORE,
        LOCAL,
        bare_name,
        known_model,
        runs_in_process,
        unusable,
    )
    from forged.config.loading import config_path, load
    from forged.config.repository import RepoConfig, apply, repo_identity, repo_overrides
    from forged.config.values import (
        CaptureConfig,
        Config,
        LlmConfig,
        Loaded,
        MemoryConfig,
        Setting,
        is_loopback,
        is_usable_url,
    )

__all__ = [
    "BUILTIN_LEXICAL",
    "BUILTIN_RULES",
    "DEFAULT_MIN_SCORE",
    "LOCAL",
    "CaptureConfig",
    "Config",
    "LlmConfig",
    "Loaded",
    "MemoryConfig",
    "Missing",
    "RepoConfig",
    "Setting",
    "apply",
    "bare_name",
    "config_path",
    "is_loopback",
    "is_usable_url",
    "known_model",
    "load",
    "missing",
    "model_folder",
    "repo_identity",
    "repo_overrides",
    "resolve_key",
    "runs_in_process",
    "shown_url",
    "unusable",
]

_MODULES = ("known_models", "values", "keys", "installed", "loading", "repository")


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"forged.config.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
