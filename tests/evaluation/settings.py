"""Environment of a measured daemon: of the user's only the settings of a model's endpoint.

Figures must not depend on whose machine they were taken on, so everything else has its default unless it is
changed on purpose. A key is resolved here, because what it refers to (`file:~/...`) would mean something else
under a scratch HOME; it travels in the daemon's environment and is never written down.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from forged import config
from forged.config import BUILTIN_LEXICAL
from forged.errors import ConfigError

CONFIGURED = "configured"
"""Stands for the embedding model of the user's own configuration."""

TOP_K = 20
SHIPPED_TOP_K = config.MemoryConfig().retrieval_top_k
# What is measured is quality: a slow machine or model must not look like a bad one.
_PATIENCE_S = 30.0
_WITH_FOLDER = "fastembed:"
_NOT_CHANGED_BY_KEY = {
    "embedding_model": "say --model",
    "retrieval_strategy": "say --strategy",
    "enabled": "there would be nothing to measure",
}


class Subject(msgspec.Struct, frozen=True):
    """What is measured: an embedding model by name, how queries are made, and changed keys of `[memory]`.

    `strategy` is direct, caller (the set's recorded hypotheses) or hyde (the user's `retrieval_model`).
    `shipped` keeps the default of how many memories a request may bring; `by_search` asks for what a search
    ranks in place of what an agent is given; `in_session` begins a session with each query.
    """

    model: str
    strategy: str
    changes: tuple[tuple[str, str], ...] = ()
    shipped: bool = False
    by_search: bool = False
    in_session: bool = False

    @property
    def asks_off_topic(self) -> bool:
        """Whether messages that nothing helps with are asked: in their own words, where a gate stands."""
        return self.strategy != "caller" and not self.by_search

    @property
    def needs_vectors(self) -> bool:
        """Whether a store without vectors would mean that the model was not there."""
        return self.model != BUILTIN_LEXICAL


class Prepared(msgspec.Struct, frozen=True):
    """A subject and the variables of its daemon, without HOME and address; they may hold a key."""

    subject: Subject
    variables: dict[str, str]

    def __repr__(self) -> str:
        return f"Prepared({self.subject!r})"


def prepare(subject: Subject, env: Mapping[str, str]) -> Prepared:
    """Put a name for `configured` and `auto`, and find what the model needs; `env` is the user's environment.

    Raises ConfigError when there is no model to measure, when a changed key is unknown, out of range or not
    for changing, and when the user's configuration lacks what the model needs.
    """
    named = config.load(env).config if subject.model == CONFIGURED else _with_model(subject.model)
    if not named.embedder:
        raise ConfigError("memory.embedding_model is empty: retrieval is off, there is nothing to measure")
    subject = msgspec.structs.replace(subject, model=named.embedder)
    _check(subject)
    return Prepared(subject, _environment(subject, env))


def _with_model(name: str) -> config.Config:
    return config.Config(memory=config.MemoryConfig(embedding_model=name))


def _environment(subject: Subject, env: Mapping[str, str]) -> dict[str, str]:
    memory = {
        "embedding_model": subject.model,
        "retrieval_strategy": "hyde" if subject.strategy == "hyde" else "direct",
        **({} if subject.shipped else {"retrieval_top_k": str(TOP_K)}),
        "retrieval_timeout_s": str(_PATIENCE_S),
        **dict(subject.changes),
    }
    llm: dict[str, str] = {}
    if subject.needs_vectors and not config.runs_in_process(subject.model):
        memory |= _embedding_endpoint(subject, env)
    if subject.model.startswith(_WITH_FOLDER):
        memory["embedding_model_dir"] = _folder(subject, env)
    if subject.strategy == "hyde":
        memory["retrieval_model"], llm = _chat_endpoint(subject, env)
    return {
        "PATH": env.get("PATH", ""),
        "LANG": "C.UTF-8",
        "FORGED_CAPTURE__ENABLED": "false",
        **_variables("memory", memory),
        **_variables("llm", llm),
        **(_network(env) if llm or "embedding_base_url" in memory else {}),
    }


def _variables(section: str, values: Mapping[str, str]) -> dict[str, str]:
    return {f"FORGED_{section}__{key}".upper(): value for key, value in values.items()}


def _network(env: Mapping[str, str]) -> dict[str, str]:
    """By what way the user's endpoints are called."""
    return _variables("network", msgspec.structs.asdict(config.load(env).config.network))


def _embedding_endpoint(subject: Subject, env: Mapping[str, str]) -> dict[str, str]:
    loaded = config.load(env, _flags(subject)).config
    mine = loaded.memory
    found = {
        "embedding_base_url": mine.embedding_base_url,
        "embedding_api_key": config.endpoint_key("memory.embedding_api_key", loaded, env),
    }
    if subject.model == mine.embedding_model:  # of another model they would be the wrong ones
        found |= {"query_prefix": mine.query_prefix, "passage_prefix": mine.passage_prefix}
    return found


def _folder(subject: Subject, env: Mapping[str, str]) -> str:
    """Where the model's files lie for this user; the scratch HOME has none."""
    mine = config.load(env, _flags(subject)).config.memory
    own = subject.model == mine.embedding_model or "embedding_model_dir" in dict(subject.changes)
    return str(config.model_folder(subject.model, mine.embedding_model_dir if own else "", env))


def _chat_endpoint(subject: Subject, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    mine = config.load(env, _flags(subject)).config
    if not mine.memory.retrieval_model:
        raise ConfigError("memory.retrieval_model is not set: the strategy hyde has no model to ask")
    endpoint = {"base_url": mine.llm.base_url, "api_key": config.endpoint_key("llm.api_key", mine, env)}
    return mine.memory.retrieval_model, endpoint


def _flags(subject: Subject) -> dict[str, str]:
    return {f"memory.{key}": value for key, value in subject.changes}


def _check(subject: Subject) -> None:
    """Refuse here what would otherwise be a warning or an end in the log of a daemon that nobody reads."""
    known = config.MemoryConfig.__struct_fields__
    for key, _ in subject.changes:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise ConfigError(f"[memory] has no key {key!r}" + (f"; did you mean {near[0]}?" if near else ""))
        if key in _NOT_CHANGED_BY_KEY:
            raise ConfigError(f"memory.{key} is not for --set: {_NOT_CHANGED_BY_KEY[key]}")
    config.load({"HOME": "/nonexistent"}, {**_flags(subject), "memory.embedding_model": subject.model})
