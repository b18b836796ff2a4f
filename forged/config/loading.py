"""Make one checked `Config` of all places where a key can be set.

Defaults, the environment that other tools share (`OPENAI_*`), `config.toml`, `FORGED_<SECTION>__<KEY>`,
flags: a later source wins key by key. A wrong value raises ConfigError, because a daemon that guesses is
found out weeks later; an unknown key is only a warning, because the file may be newer than the daemon.
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
from forged.config.known_models import LOCAL, known_model, unusable
from forged.config.programs import bad_command
from forged.config.values import (
    BESIDE,
    Config,
    Loaded,
    NetworkConfig,
    Setting,
    is_loopback,
    is_usable_url,
    shown,
)
from forged.errors import ConfigError

_MAX_FILE_BYTES = 1 << 20


class _Given(msgspec.Struct, frozen=True):
    """A value as it was found. Text is converted to the key's type; a shared value may be unusable."""

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
_DEFAULTS = {key: _Given(field.default, "default") for key, field in _FIELDS.items()}
_MODEL_KEYS = {
    "memory.embedding_model": "embedder",
    "memory.cjk_embedding_model": "cjk",
    "memory.retrieval_model": "chat",
    "memory.classifier_model": "classifier",
    "llm.model": "classifier",
}
# Shared variables in the order in which they are looked at.
_SHARED = {
    "memory.embedding_base_url": ("EMBEDDING_BASE_URL", "OPENAI_BASE_URL"),
    "llm.base_url": ("OPENAI_BASE_URL",),
    "shared.url": ("PGVECTOR_URL",),
    "shared.user": ("PGVECTOR_USER",),
    "shared.password": ("PGVECTOR_PASSWORD",),
}
# Keys whose value is a secret, or says where one is.
_SECRET = ("api_key", "password")


def load(env: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Loaded:
    """Return this user's configuration; `overrides` are flags, as `{"memory.retrieval_top_k": "3"}`.

    Raises ConfigError with the key, the value, what is allowed and where it came from.
    """
    warnings: list[str] = []
    sources = (
        _from_shared(env),
        _from_file(config_path(env), warnings),
        _from_environment(env),
        ((key, _Given(value, "flag", is_text=True)) for key, value in (overrides or {}).items()),
    )
    given: dict[str, _Given] = {}
    for source in sources:
        given |= _known(source, warnings)
    given = _DEFAULTS | _of_model(given) | given
    values = {key: _checked(key, field.type, given[key]) for key, field in _FIELDS.items()}
    tables: dict[str, dict[str, object]] = {section: {} for section in _SECTIONS}
    for key, value in values.items():
        section, _, name = key.partition(".")
        tables[section][name] = value
    config = msgspec.convert(tables, Config)
    _require_usable_models(given)
    _require_own_prefixes(given)
    settings = (Setting(key, shown(key, value), given[key].origin) for key, value in values.items())
    return Loaded(
        config=config,
        settings=tuple(_come_to(each, config, env) for each in settings),
        warnings=(*warnings, *_remarks(config, given)),
    )


def _require_usable_models(given: Mapping[str, _Given]) -> None:
    """Stop at a model name that can mean nothing: only an endpoint's own names are taken on trust."""
    for key, role in _MODEL_KEYS.items():
        found = given[key]
        if why := unusable(role, str(found.value)):
            raise ConfigError(f"{key} = {shown(key, found.value)} ({found.origin}): {why}")


def _require_own_prefixes(given: Mapping[str, _Given]) -> None:
    """Stop at prefixes for the local model: it writes its own, and others would do nothing, silently."""
    if given["memory.embedding_model"].value != LOCAL:
        return
    own = known_model(LOCAL)
    for key, prefix in (("query_prefix", own.query_prefix), ("passage_prefix", own.passage_prefix)):
        found = given[f"memory.{key}"]
        if found.value != prefix:
            raise _refusal(f"memory.{key}", found, f"left out: {LOCAL} always writes its own, {prefix!r}")


def config_path(env: Mapping[str, str]) -> Path:
    """Return where the user's file is, whether or not there is one."""
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


def _from_shared(env: Mapping[str, str]) -> Iterator[tuple[str, _Given]]:
    for key, names in _SHARED.items():
        name = next((name for name in names if env.get(name)), None)
        if name is not None:
            value = f"env:{name}" if key.endswith(_SECRET) else env[name]
            yield key, _Given(value, f"environment {name}", is_shared=True)


def _from_file(path: Path, warnings: list[str]) -> Iterator[tuple[str, _Given]]:
    for section, table in _read_toml(path).items():
        if section not in _SECTIONS:
            known = (*_SECTIONS, *_FIELDS)
            warnings.append(f"unknown {section!r} in {path} is ignored{_suggestion(section, known)}")
        elif not isinstance(table, dict):
            raise ConfigError(f"{section} must be a section, [{section}], in file {path}")
        else:
            for name, value in table.items():
                yield f"{section}.{name}", _Given(value, f"file {path}")


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[str, _Given]]:
    for name in sorted(env):
        section, separator, key = name.removeprefix("FORGED_").lower().partition("__")
        if not (name.startswith("FORGED_") and separator):
            continue
        value = env[name]
        if key.endswith(_SECRET) and _is_literal(value):
            value = f"env:{name}"  # the key itself stays where it is
        yield f"{section}.{key}", _Given(value, f"environment {name}", is_text=True)


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


def _known(source: Iterator[tuple[str, _Given]], warnings: list[str]) -> dict[str, _Given]:
    kept: dict[str, _Given] = {}
    for key, found in source:
        if key not in _FIELDS:
            warnings.append(f"unknown key {key} ({found.origin}) is ignored{_suggestion(key, _FIELDS)}")
        elif not (key.endswith("base_url") and found.value == ""):  # "" means: not set
            kept[key] = found
    return kept


def _suggestion(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - 0.2 MB that only a slip of the pen needs

    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _of_model(given: dict[str, _Given]) -> dict[str, _Given]:
    known = known_model(str((_DEFAULTS | given)["memory.embedding_model"].value))
    return {
        "memory.query_prefix": _Given(known.query_prefix, "default"),
        "memory.passage_prefix": _Given(known.passage_prefix, "default"),
    }


# --- values ------------------------------------------------------------------------------------------


def _checked(key: str, kind: object, found: _Given) -> object:
    """Return the value as the key's type, or raise ConfigError."""
    try:
        value: object = msgspec.convert(found.value, kind, strict=not found.is_text)
    except msgspec.ValidationError as error:
        raise _refusal(key, found, _allowed(msgspec.inspect.type_info(kind))) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(key, found, _allowed(msgspec.inspect.type_info(kind)))
    if key.endswith("base_url") and not found.is_shared and not is_usable_url(str(value)):
        raise _refusal(key, found, "a URL such as http://localhost:11434/v1")
    if key == "network.proxy" and value and not is_usable_url(str(value)):
        raise _refusal(key, found, "a URL such as http://proxy.example:3128")
    if key == "scopes.retrieve" and not set(str(value).replace(",", " ").split()) <= set(BESIDE):
        raise _refusal(key, found, f"words of {', '.join(BESIDE)}, separated by commas")
    if key == "llm.command" and (allowed := bad_command(str(value))):
        raise _refusal(key, found, allowed)
    if key.endswith("model_dir") and value and not (os.path.isabs(str(value)) or str(value).startswith("~/")):
        raise _refusal(key, found, "an absolute path or start with ~/")
    return value


def _come_to(setting: Setting, config: Config, env: Mapping[str, str]) -> Setting:
    """The setting with the value that holds, where the default is a matter of other keys."""
    if setting.value == OWN_KEY and setting.key in KEY_NAMES:  # the environment's key for the endpoint's host
        name = next(name for name in KEY_NAMES if name == setting.key)
        try:
            found = key_reference(name, config, env)
        except ConfigError:
            found = ""
        return Setting(name, found, f"{setting.origin}, for {shown_url(endpoint_url(name, config))}")
    if setting.key != "memory.retrieval_min_score" or config.memory.retrieval_min_score is not None:
        return setting
    why = f"as {config.ungated}" if config.ungated else f"for {config.embedder}"
    return Setting(setting.key, shown(setting.key, config.min_score), f"default, {why}")


def _is_literal(value: str) -> bool:
    return value not in {"", OWN_KEY} and not is_reference(value)


def _in_clear(url: str, network: NetworkConfig) -> Iterator[str]:
    allowed = is_listed(url, network)
    yield "key and text are sent unencrypted" if allowed else "text is sent unencrypted, no key is sent"
    if network.proxy:
        yield "network.proxy is not used for it"


def _refusal(key: str, found: _Given, allowed: str) -> ConfigError:
    return ConfigError(f"{key} = {shown(key, found.value)} ({found.origin}) must be {allowed}")


def _allowed(kind: msgspec.inspect.Type) -> str:
    """Say in words what a type takes, so that no range is written down twice."""
    match kind:
        case msgspec.inspect.UnionType():
            return _allowed(next(t for t in kind.types if not isinstance(t, msgspec.inspect.NoneType)))
        case msgspec.inspect.LiteralType():
            return f"one of {', '.join(str(value) for value in kind.values)}"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            noun = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
            return f"{noun} from {kind.ge:g}" + ("" if kind.le is None else f" to {kind.le:g}")
        case msgspec.inspect.BoolType():
            return "true or false"
        case _:
            return "text in quotes"


def _remarks(config: Config, given: Mapping[str, _Given]) -> Iterator[str]:
    for key, found in given.items():
        value = str(found.value)
        if key.endswith(_SECRET) and _is_literal(value):
            yield f"{key} ({found.origin}) contains the key itself; env:NAME, file:PATH and cmd:... are safer"
        if key.endswith("base_url") and not is_usable_url(value):
            yield f"{key} ({found.origin}) is not an http or https URL"
        elif key.endswith("base_url") and value.startswith("http:") and not is_loopback(value):
            yield f"{key} ({found.origin}) is plain http: {'; '.join(_in_clear(value, config.network))}"
    if config.memory.retrieval_strategy == "hyde" and not config.memory.retrieval_model:
        yield "memory.retrieval_strategy is hyde but memory.retrieval_model is not set: nothing is retrieved"
