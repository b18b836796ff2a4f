"""What the user has set, and of each value where it came from.

`values` says what there is, `loading` finds it, `keys` fetches secrets that stand as references,
`in_process` knows what a model needs that runs here, and `repository` is the little that a repo may set.
Outside this package, `address` and `__main__`, nothing reads the environment; pydantic-settings would do the
layering but costs 180 ms of start-up.
"""

from forged.config.in_process import Missing, missing, model_folder
from forged.config.keys import resolve_key, shown_url
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
    "CaptureConfig",
    "Config",
    "LlmConfig",
    "Loaded",
    "MemoryConfig",
    "Missing",
    "RepoConfig",
    "Setting",
    "apply",
    "config_path",
    "is_loopback",
    "is_usable_url",
    "load",
    "missing",
    "model_folder",
    "repo_identity",
    "repo_overrides",
    "resolve_key",
    "shown_url",
]
