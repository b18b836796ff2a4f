"""Merge all sources of configuration into one checked `Config`.

Sources, later ones win key by key: defaults, variables shared with other tools (`OPENAI_*`), `config.toml`,
`FORGED_<SECTION>__<KEY>`, flags. A wrong value raises ConfigError. Unknown keys of newer files are warnings.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import platformdirs

from forged.config.endpoints import KEY_NAMES, endpoint_url, is_listed, key_reference
from forged.config.keys import OWN_KEY, is_reference, shown_url
from forged.config.known_models import LOCAL, prefixes_of, unusable_reason
from forged.config.programs import command_problem
from forged.config.values import (
    LISTS,
    Config,
    Loaded,
    NetworkConfig,
    Setting,
    allowed_values,
    is_loopback,
    is_usable_url,
    shown,
    words_of,
)
from forged.errors import ConfigError
from forged_client.typed import resolved

_MAX_FILE_BYTES = 1 << 20


class _RawValue(msgspec.Struct, frozen=True):
    """Unchecked configuration value with its origin; `is_shared`: from other tools' variables."""

    value: object
    origin: str
    is_text: bool = False
    is_shared: bool = False


_SECTIONS = {section.name: section.type for section in msgspec.structs.fields(Config)}
_FIELDS = {
    f"{section}.{field.name}": field
    for section, kind in _SECTIONS.items()
    for field in msgspec.structs.fields(kind)
}
_DEFAULTS = {key: _RawValue(field.default, "default") for key, field in _FIELDS.items()}
_MODEL_KEYS = {
    "memory.embedding_model": "embedder",
    "memory.cjk_embedding_model": "cjk",
    "memory.retrieval_model": "chat",
    "memory.classifier_model": "classifier",
    "llm.model": "classifier",
}
# Variables shared with other tools, in order of preference.
_SHARED = {
    "memory.embedding_base_url": ("EMBEDDING_BASE_URL", "OPENAI_BASE_URL"),
    "llm.base_url": ("OPENAI_BASE_URL",),
    "shared.url": ("PGVECTOR_URL",),
    "shared.user": ("PGVECTOR_USER",),
    "shared.password": ("PGVECTOR_PASSWORD",),
}
# Renamed keys. If an old name was only ignored, its value would silently have no effect.
_RENAMED = {"memory.standing_token_budget": "memory.pinned_token_budget"}
# Endings of keys with a secret, or with a reference to one.
_SECRET = ("api_key", "password")


def load(env: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Loaded:
    """Merge and check this user's configuration; `overrides` are flags, as `{"memory.enabled": "false"}`.

    Raises ConfigError with the key, its value, the allowed values and the source.
    """
    warnings: list[str] = []
    sources = (
        _shared_values(env),
        _file_values(config_path(env), warnings),
        _environment_values(env),
        ((key, _RawValue(value, "flag", is_text=True)) for key, value in (overrides or {}).items()),
    )
    given: dict[str, _RawValue] = {}
    for source in sources:
        given |= _known_keys(source, warnings)
    given = _DEFAULTS | _prefix_defaults(given) | given
    values = {key: _checked(key, field.type, given[key]) for key, field in _FIELDS.items()}
    tables = {
        name: {each.name: values[f"{name}.{each.name}"] for each in msgspec.structs.fields(kind)}
        for name, kind in _SECTIONS.items()
    }
    config = msgspec.convert(tables, resolved(Config))
    _require_usable_models(given)
    _require_own_prefixes(given)
    settings = (Setting(key, shown(key, value), given[key].origin) for key, value in values.items())
    return Loaded(
        config=config,
        settings=tuple(_shown_setting(each, config, env) for each in settings),
        warnings=(*warnings, *_warnings_of(config, given)),
    )


def _require_usable_models(given: Mapping[str, _RawValue]) -> None:
    """Raise ConfigError for an unusable model name; names of an endpoint's models are not checked."""
    for key, role in _MODEL_KEYS.items():
        found = given[key]
        if why := unusable_reason(role, str(found.value)):
            raise ConfigError(f"{key} = {shown(key, found.value)} ({found.origin}): {why}")


def _require_own_prefixes(given: Mapping[str, _RawValue]) -> None:
    """Raise ConfigError if the local model is configured with prefixes that differ from its own."""
    if given["memory.embedding_model"].value != LOCAL:
        return
    own = prefixes_of(LOCAL)
    for key, prefix in (("query_prefix", own.query_prefix), ("passage_prefix", own.passage_prefix)):
        found = given[f"memory.{key}"]
        if found.value != prefix:
            raise _invalid(f"memory.{key}", found, f"left out: {LOCAL} always writes its own, {prefix!r}")


def config_path(env: Mapping[str, str]) -> Path:
    """Return the path of the user's `config.toml`; it may not exist."""
    base = env.get("XDG_CONFIG_HOME", "")
    home = env.get("HOME", "")
    if os.path.isabs(base):
        folder = Path(base, "forged")
    elif os.path.isabs(home) and sys.platform != "darwin":
        folder = Path(home, ".config", "forged")
    else:
        folder = platformdirs.user_config_path("forged", appauthor=False)
    return folder / "config.toml"


# --- sources -----------------------------------------------------------------------------------------


def _shared_values(env: Mapping[str, str]) -> Iterator[tuple[str, _RawValue]]:
    for key, names in _SHARED.items():
        name = next((name for name in names if env.get(name)), None)
        if name is not None:
            value = f"env:{name}" if key.endswith(_SECRET) else env[name]
            yield key, _RawValue(value, f"environment {name}", is_shared=True)


def _file_values(path: Path, warnings: list[str]) -> Iterator[tuple[str, _RawValue]]:
    for section, table in _read_toml(path).items():
        if section not in _SECTIONS:
            known = (*_SECTIONS, *_FIELDS)
            warnings.append(f"unknown {section!r} in {path} is ignored{_spelling_hint(section, known)}")
        elif not isinstance(table, dict):
            raise ConfigError(f"{section} must be a section, [{section}], in file {path}")
        else:
            for name, value in table.items():
                yield f"{section}.{name}", _RawValue(value, f"file {path}")


def _environment_values(env: Mapping[str, str]) -> Iterator[tuple[str, _RawValue]]:
    for name in sorted(env):
        section, separator, key = name.removeprefix("FORGED_").lower().partition("__")
        if not (name.startswith("FORGED_") and separator):
            continue
        value = env[name]
        if key.endswith(_SECRET) and _is_literal(value):
            value = f"env:{name}"  # store a reference, not the key
        yield f"{section}.{key}", _RawValue(value, f"environment {name}", is_text=True)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is not a regular file")
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _known_keys(source: Iterator[tuple[str, _RawValue]], warnings: list[str]) -> dict[str, _RawValue]:
    """Return a source's values of known keys, warn of others. Raises ConfigError if renamed."""
    kept: dict[str, _RawValue] = {}
    for key, found in source:
        if key in _RENAMED:
            raise ConfigError(f"{key} ({found.origin}) is named {_RENAMED[key]}; rename it there")
        if key not in _FIELDS:
            warnings.append(f"unknown key {key} ({found.origin}) is ignored{_spelling_hint(key, _FIELDS)}")
        elif not (key.endswith("base_url") and found.value == ""):  # empty means not set
            kept[key] = found
    return kept


def _spelling_hint(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - 0.2 MB, needed for a typo only

    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _prefix_defaults(given: dict[str, _RawValue]) -> dict[str, _RawValue]:
    known = prefixes_of(str((_DEFAULTS | given)["memory.embedding_model"].value))
    return {
        "memory.query_prefix": _RawValue(known.query_prefix, "default"),
        "memory.passage_prefix": _RawValue(known.passage_prefix, "default"),
    }


# --- values ------------------------------------------------------------------------------------------


def _checked(key: str, kind: object, found: _RawValue) -> object:
    """Return a value converted to its key's type, after a check of range and form. Raises ConfigError."""
    try:
        value: object = msgspec.convert(found.value, resolved(kind), strict=not found.is_text)
    except msgspec.ValidationError as error:
        raise _invalid(key, found, allowed_values(msgspec.inspect.type_info(kind))) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid(key, found, allowed_values(msgspec.inspect.type_info(kind)))
    if key.endswith("base_url") and not found.is_shared and not is_usable_url(str(value)):
        raise _invalid(key, found, "a URL such as http://localhost:11434/v1")
    if key == "network.proxy" and value and not is_usable_url(str(value)):
        raise _invalid(key, found, "a URL such as http://proxy.example:3128")
    if key in LISTS and (odd := set(words_of(value)) - set(LISTS[key])):
        why = "; memories of a repository travel with git, never by the server" if "repo" in odd else ""
        raise _invalid(key, found, f"words of {', '.join(LISTS[key])}, separated by commas{why}")
    if key == "llm.command" and (allowed := command_problem(str(value))):
        raise _invalid(key, found, allowed)
    if key.endswith("model_dir") and value and not (os.path.isabs(str(value)) or str(value).startswith("~/")):
        raise _invalid(key, found, "an absolute path or start with ~/")
    return value


def _shown_setting(setting: Setting, config: Config, env: Mapping[str, str]) -> Setting:
    if setting.value == OWN_KEY and setting.key in KEY_NAMES:  # the environment's key for this host
        name = next(name for name in KEY_NAMES if name == setting.key)
        try:
            found = key_reference(name, config, env)
        except ConfigError:
            found = ""
        return Setting(name, found, f"{setting.origin}, for {shown_url(endpoint_url(name, config))}")
    if setting.key != "memory.retrieval_min_score" or config.memory.retrieval_min_score is not None:
        return setting
    why = f"as {config.ungated_reason}" if config.ungated_reason else f"for {config.embedder}"
    return Setting(setting.key, shown(setting.key, config.min_score), f"default, {why}")


def _is_literal(value: str) -> bool:
    return value not in {"", OWN_KEY} and not is_reference(value)


def _clear_text_warnings(url: str, network: NetworkConfig) -> Iterator[str]:
    allowed = is_listed(url, network)
    yield "key and text are sent unencrypted" if allowed else "text is sent unencrypted, no key is sent"
    if network.proxy:
        yield "network.proxy is not used for it"


def _invalid(key: str, found: _RawValue, allowed: str) -> ConfigError:
    return ConfigError(f"{key} = {shown(key, found.value)} ({found.origin}) must be {allowed}")


def _warnings_of(config: Config, given: Mapping[str, _RawValue]) -> Iterator[str]:
    for key, found in given.items():
        value = str(found.value)
        if key.endswith(_SECRET) and _is_literal(value):
            yield f"{key} ({found.origin}) contains the key itself; env:NAME, file:PATH and cmd:... are safer"
        if key.endswith("base_url") and not is_usable_url(value):
            yield f"{key} ({found.origin}) is not an http or https URL"
        elif key.endswith("base_url") and value.startswith("http:") and not is_loopback(value):
            risks = "; ".join(_clear_text_warnings(value, config.network))
            yield f"{key} ({found.origin}) is plain http: {risks}"
    if config.shared.url and "session" in words_of(config.shared.scopes):
        yield (
            "shared.scopes names session: session rows of the server are only read; programs of yours write"
            " them, and sessions of this machine stay in its memory"
        )
    if config.memory.retrieval_strategy == "hyde" and not config.memory.retrieval_model:
        yield "memory.retrieval_strategy is hyde but memory.retrieval_model is not set: nothing is retrieved"
