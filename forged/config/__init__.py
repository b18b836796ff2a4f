"""What the user has set, and of each value where it came from.

`load` gives a checked `Loaded`, `resolve_key` the key that a reference stands for, `missing` what a model
lacks that runs in process, `repo_overrides` the little that a repository may set. A value that cannot be used
raises ConfigError. Outside this package, `address` and `__main__`, nothing reads the environment;
pydantic-settings would do the layering but costs 180 ms of start-up.

A name is fetched when it is first asked for: the capture worker needs one name of a model, and reading TOML,
paths and addresses would cost it 1.5 MB.
"""

from typing import TYPE_CHECKING

from forged import door

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

__getattr__ = door(
    __name__,
    {
        "Missing": "installed",
        "missing": "installed",
        "model_folder": "installed",
        "resolve_key": "keys",
        "shown_url": "keys",
        "BUILTIN_LEXICAL": "known_models",
        "BUILTIN_RULES": "known_models",
        "DEFAULT_MIN_SCORE": "known_models",
        "LOCAL": "known_models",
        "bare_name": "known_models",
        "known_model": "known_models",
        "runs_in_process": "known_models",
        "unusable": "known_models",
        "config_path": "loading",
        "load": "loading",
        "RepoConfig": "repository",
        "apply": "repository",
        "repo_identity": "repository",
        "repo_overrides": "repository",
        "CaptureConfig": "values",
        "Config": "values",
        "LlmConfig": "values",
        "Loaded": "values",
        "MemoryConfig": "values",
        "Setting": "values",
        "is_loopback": "values",
        "is_usable_url": "values",
    },
)
