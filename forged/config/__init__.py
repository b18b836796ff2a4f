"""What the user has set, and of each value where it came from.

`load` gives a checked `Loaded`, `endpoint_key` the key that goes to an endpoint, `missing` what a model
lacks that runs in process, `find_program` the program that is a
classifier, `repo_overrides` the little that a repository may set. A value that cannot be used
raises ConfigError. Outside this package, `address` and `__main__`, nothing reads the environment;
pydantic-settings would do the layering but costs 180 ms of start-up.
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
