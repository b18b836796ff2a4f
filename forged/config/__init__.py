"""What the user has set, and of each value where it came from.

`load` gives a checked `Loaded`, `resolve_key` the key that a reference stands for, `missing` what a model
lacks that runs in process, `repo_overrides` the little that a repository may set. A value that cannot be used
raises ConfigError. Outside this package, `address` and `__main__`, nothing reads the environment;
pydantic-settings would do the layering but costs 180 ms of start-up.
"""

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
    TrustConfig,
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
    "TrustConfig",
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
