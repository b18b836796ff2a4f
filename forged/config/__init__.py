"""Configuration of the user, and of each value where it came from.

`load` gives a checked `Loaded`, `endpoint_key` an endpoint's key, `missing` what a model in process lacks,
`find_program` the classifier's program, `repo_overrides` what a repository may set. Raises ConfigError. Only
this package, `address` and `__main__` read the environment; pydantic-settings would cost 180 ms.
"""

from forged.config.endpoints import KeyName, endpoint_key, key_reference, proxy_for
from forged.config.installed import (
    data_folder,
    install_command,
    lacks_onnxruntime,
    made_folder,
    missing,
    model_folder,
)
from forged.config.keys import resolve_key, shown_url
from forged.config.known_models import (
    BUILTIN_LEXICAL,
    BUILTIN_RULES,
    LOCAL,
    bare_name,
    runs_in_process,
    unusable,
)
from forged.config.loading import config_path, load
from forged.config.program_names import AGENTS, is_program, parts_of
from forged.config.programs import find_program
from forged.config.repository import RepoConfig, apply, repo_identity, repo_overrides
from forged.config.values import (
    Config,
    KnowledgeConfig,
    Loaded,
    MemoryConfig,
    NetworkConfig,
    Setting,
    is_usable_url,
)

__all__ = [
    "AGENTS",
    "BUILTIN_LEXICAL",
    "BUILTIN_RULES",
    "LOCAL",
    "Config",
    "KeyName",
    "KnowledgeConfig",
    "Loaded",
    "MemoryConfig",
    "NetworkConfig",
    "RepoConfig",
    "Setting",
    "apply",
    "bare_name",
    "config_path",
    "data_folder",
    "endpoint_key",
    "find_program",
    "install_command",
    "is_program",
    "is_usable_url",
    "key_reference",
    "lacks_onnxruntime",
    "load",
    "made_folder",
    "missing",
    "model_folder",
    "parts_of",
    "proxy_for",
    "repo_identity",
    "repo_overrides",
    "resolve_key",
    "runs_in_process",
    "shown_url",
    "unusable",
]
