"""The user's configuration: checked values, and the source of each.

`load` returns a checked `Loaded`. `endpoint_key` returns the key of an endpoint, `find_program` the program
of the classifier. `missing` names the files or packages that a local model needs. `repo_overrides` reads the
keys that a repository may set. Functions raise ConfigError.

Only this package, `address` and `__main__` read the environment. pydantic-settings was rejected: it costs 180
ms at the start.
"""

from forged.config.endpoints import KeyName, endpoint_key, key_reference, proxy_for
from forged.config.installed import (
    data_folder,
    derived_files_folder,
    install_command,
    lacks_onnxruntime,
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
    unusable_reason,
)
from forged.config.loading import config_path, load
from forged.config.program_names import AGENTS, is_program, split_program_name
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
    "derived_files_folder",
    "endpoint_key",
    "find_program",
    "install_command",
    "is_program",
    "is_usable_url",
    "key_reference",
    "lacks_onnxruntime",
    "load",
    "missing",
    "model_folder",
    "proxy_for",
    "repo_identity",
    "repo_overrides",
    "resolve_key",
    "runs_in_process",
    "shown_url",
    "split_program_name",
    "unusable_reason",
]
