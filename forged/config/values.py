"""Configuration as values: each key with its type, default and range, and its displayable form.

Ranges are defined here once, as types; error messages are derived from them. The repr of each section masks
secrets, so that no log line or traceback contains a key.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from forged.config.installed import resolve_auto
from forged.config.keys import OWN_KEY, shown_key, shown_url
from forged.config.known_models import BUILTIN_RULES, DEFAULT_MIN_SCORE, has_calibrated_scores, prefixes_of

OPENAI_URL = "https://api.openai.com/v1"

TopK = Annotated[int, msgspec.Meta(ge=1, le=100)]
HopDepth = Annotated[int, msgspec.Meta(ge=0, le=3)]
TokenBudget = Annotated[int, msgspec.Meta(ge=0)]


class Section(msgspec.Struct, frozen=True):
    """Base of the configuration's tables; its repr masks secrets."""

    def __repr__(self) -> str:
        """Return name and values of the section, with secrets masked."""
        pairs = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(f'{name}={shown(name, value)}' for name, value in pairs)})"


class MemoryConfig(Section, frozen=True):
    """`[memory]`: models, retrieval, token budgets of injection, and git handling. Times are in seconds."""

    enabled: bool = True
    embedding_model: str = "auto"
    embedding_model_dir: str = ""
    embedding_base_url: str = OPENAI_URL
    embedding_api_key: str = OWN_KEY
    query_prefix: str = ""
    passage_prefix: str = ""
    cjk_embedding_model: str = ""
    retrieval_model: str = ""
    retrieval_strategy: Literal["auto", "hyde", "direct"] = "auto"
    retrieval_lexical_weight: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.3
    retrieval_top_k: TopK = 10
    retrieval_hop_depth: HopDepth = 1
    retrieval_hypothesis_count: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5
    retrieval_min_score: Annotated[float, msgspec.Meta(ge=-1, le=1)] | None = None
    retrieval_timeout_s: Annotated[float, msgspec.Meta(ge=0.05, le=60)] = 2.0
    injection_token_budget: TokenBudget = 0
    pinned_token_budget: TokenBudget = 600
    classifier_model: str = ""
    daily_token_limit: Annotated[int, msgspec.Meta(ge=0)] = 0
    git: Literal["exclude", "commit"] = "exclude"


class LlmConfig(Section, frozen=True):
    """`[llm]`: endpoint and key of chat models, default model and program of the classifier.

    `command` is the path of a program used as classifier.
    """

    model: str = ""
    base_url: str = OPENAI_URL
    api_key: str = OWN_KEY
    command: str = ""


class CaptureConfig(Section, frozen=True):
    """`[capture]`: on or off, turns for each call of a classifier, reports of captures in replies."""

    enabled: bool = True
    batch_turns: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    tell: bool = True


class TrustConfig(Section, frozen=True):
    """`[trust]`: default mode of trusted repositories: follow their branch, or locked."""

    mode: Literal["follow", "locked"] = "follow"


class ScopesConfig(Section, frozen=True):
    """`[scopes]`: scopes that injections add, and limits for memories of sessions, agents and user.

    `retrieve` lists the scopes that injections include in addition, separated by blanks or commas.
    """

    retrieve: str = ""
    session_ttl_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 60
    session_max_memories: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    max_results: TopK = 10
    min_importance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5

    @property
    def retrieved(self) -> frozenset[str]:
        """Return the names in `retrieve`, as a set: scopes that injections include in addition."""
        return frozenset(words_of(self.retrieve))


_EXTRA = ("session", "agent", "org")
LISTS = {"scopes.retrieve": _EXTRA, "shared.scopes": ("user", *_EXTRA)}
"""Words that a setting may list."""


class KnowledgeConfig(Section, frozen=True):
    """`[knowledge]`: size and overlap of document chunks, in tokens."""

    chunk_size: Annotated[int, msgspec.Meta(ge=64, le=2048)] = 512
    overlap: Annotated[int, msgspec.Meta(ge=0, le=512)] = 50


class SharedConfig(Section, frozen=True):
    """`[shared]`: a team's PostgreSQL server and the shared scopes; nothing is shared without `url`.

    `scopes` lists shared scopes: session, user, agent and org, separated by blanks or commas. Sessions are
    read by a recall and never written by this daemon. `user_id` names the user on the server; the default is
    the login name. `team_agents` lists the agents that the team has in common; all others are the user's.
    `dimension` and `cjk_dimension` are the numbers in a vector of the two embedding models. `documents_mib`
    limits the copies of the team's documents on this machine, the newest first.
    """

    url: str = ""
    user: str = ""
    password: str = ""
    scopes: str = "org"
    user_id: str = ""
    team_agents: str = ""
    dimension: Annotated[int, msgspec.Meta(ge=1, le=4000)] = 384
    cjk_dimension: Annotated[int, msgspec.Meta(ge=1, le=4000)] = 512
    documents_mib: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 16

    @property
    def owner_id(self) -> str:
        """Return the name of the user on the server."""
        try:
            return self.user_id or pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return str(os.geteuid())

    @property
    def agents_of_team(self) -> frozenset[str]:
        """Return the names in `team_agents`, as a set."""
        return frozenset(self.team_agents.replace(",", " ").split())


class NetworkConfig(Section, frozen=True):
    """`[network]`: proxy, and hosts that may get keys by plain http, separated by blanks or commas."""

    proxy: str = ""
    plain_http_hosts: str = ""


class Config(msgspec.Struct, frozen=True):
    """The whole configuration by section, with values that depend on several keys, as `classifier`."""

    memory: MemoryConfig = MemoryConfig()
    llm: LlmConfig = LlmConfig()
    capture: CaptureConfig = CaptureConfig()
    trust: TrustConfig = TrustConfig()
    network: NetworkConfig = NetworkConfig()
    scopes: ScopesConfig = ScopesConfig()
    knowledge: KnowledgeConfig = KnowledgeConfig()
    shared: SharedConfig = SharedConfig()

    @property
    def embedder(self) -> str:
        """Return the name of the embedding model in use, with `auto` resolved for this machine."""
        return resolve_auto(self.memory.embedding_model)

    @property
    def cjk(self) -> Config | None:
        """Return a copy with the model for Chinese, Japanese and Korean as embedder, or None.

        None if no such model is set, or it is the general model. Prefixes are those of its family.
        """
        name = self.memory.cjk_embedding_model
        if not name or name == self.embedder:
            return None
        known = prefixes_of(name)
        memory = msgspec.structs.replace(
            self.memory,
            embedding_model=name,
            embedding_model_dir="",
            query_prefix=known.query_prefix,
            passage_prefix=known.passage_prefix,
        )
        return msgspec.structs.replace(self, memory=memory)

    @property
    def min_score(self) -> float:
        """Return the gate's strictness, set or default: share of unrelated messages without hits.

        At 0 or less all hits are injected. Without a setting it is 0.95 for a model that is known by name or
        needs no endpoint. It is 0 where no gate is possible: unknown models of an endpoint, strategy `hyde`
        (ADR-0047 has no gate), or a lexical weight of 0.
        """
        chosen = self.memory.retrieval_min_score
        if chosen is not None:
            return chosen
        return 0.0 if self.ungated_reason else DEFAULT_MIN_SCORE

    @property
    def ungated_reason(self) -> str:
        """Return why all hits are injected by default with these settings, without a gate; or ""."""
        if not self.embedder:
            return "retrieval is off"
        if self.memory.retrieval_strategy == "hyde":
            return "memory.retrieval_strategy is hyde"
        if self.memory.retrieval_lexical_weight == 0:
            return "memory.retrieval_lexical_weight is 0"
        return "" if has_calibrated_scores(self.embedder) else f"{self.embedder} is not a model known by name"

    @property
    def classifier(self) -> str:
        """Return the name of the classifier: a model of the `[llm]` endpoint, a program, or `builtin:rules`.

        A base URL or a key alone selects no model, so nothing is sent until a model is named.
        """
        memory = self.memory
        return memory.classifier_model or self.llm.model or memory.retrieval_model or BUILTIN_RULES


class Setting(msgspec.Struct, frozen=True):
    """One configuration key in displayable form, with secrets masked, and its origin.

    `origin` is default, file, environment or flag. A default that depends on other keys is shown with its
    effective value, and `origin` explains it.
    """

    key: str
    value: str
    origin: str


class Loaded(msgspec.Struct, frozen=True):
    """Result of `load`: the configuration, its displayable settings with origins, and warnings."""

    config: Config
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]


def is_loopback(url: str) -> bool:
    """Return True if an endpoint is on this machine, so that it needs no key and no TLS."""
    host = (urlsplit(url).hostname or "") if is_usable_url(url) else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def is_usable_url(url: str) -> bool:
    """Return True for an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url


def shown(key: str, value: object) -> str:
    """Return a configuration value in displayable form: no key, no user of a URL, no long text."""
    if key.endswith(("api_key", "password")):
        return shown_key(value) if isinstance(value, str) else "********"
    if key.endswith(("base_url", "proxy", "shared.url")) and value and isinstance(value, str):
        return shown_url(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = "none" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def words_of(value: object) -> list[str]:
    """Return the words of a list in text, separated by blanks or commas."""
    return str(value).replace(",", " ").split()


def allowed_values(kind: msgspec.inspect.Type) -> str:
    """Return in words which values a setting of a type may have."""
    match kind:
        case msgspec.inspect.UnionType():
            return allowed_values(next(t for t in kind.types if not isinstance(t, msgspec.inspect.NoneType)))
        case msgspec.inspect.LiteralType():
            return f"one of {', '.join(str(value) for value in kind.values)}"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            noun = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
            return f"{noun} from {kind.ge:g}" + ("" if kind.le is None else f" to {kind.le:g}")
        case msgspec.inspect.BoolType():
            return "true or false"
        case _:
            return "text in quotes"
