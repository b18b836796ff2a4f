"""Decide which key goes to which endpoint, and by what way, before anything is called.

A key of the environment belongs to one host: `EMBEDDING_API_KEY` to that of `EMBEDDING_BASE_URL`,
`OPENAI_API_KEY` to OpenAI's or that of `OPENAI_BASE_URL`; to another only where the configuration names it
for that endpoint. No key travels in clear but on this machine and to listed hosts. Plain http never goes
through a proxy. Raises ConfigError, with the line that would allow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args
from urllib.parse import urlsplit

from forged.config.keys import OWN_KEY, resolve_key, shown_url
from forged.config.values import OPENAI_URL, Config, NetworkConfig, is_loopback, is_usable_url
from forged.errors import ConfigError

KeyName = Literal["memory.embedding_api_key", "llm.api_key"]
KEY_NAMES: tuple[KeyName, ...] = get_args(KeyName)

_PORTS = {"http": 80, "https": 443}
# Keys of the environment, in the order in which they are looked at, and what names their host.
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_OF_ENVIRONMENT: dict[KeyName, tuple[tuple[str, str], ...]] = {
    "memory.embedding_api_key": (("EMBEDDING_API_KEY", "EMBEDDING_BASE_URL"), _OPENAI),
    "llm.api_key": (_OPENAI,),
}


def endpoint_key(name: KeyName, config: Config, env: Mapping[str, str]) -> str:
    """Return the key that goes to this endpoint, "" where none does.

    Blocks up to 5 s when it comes from a command. Raises ConfigError when the endpoint cannot be called.
    """
    url = endpoint_url(name, config)
    if not is_usable_url(url):
        raise ConfigError(f"{shown_url(url)} is not an http or https URL")
    reference = key_reference(name, config, env)
    try:
        key = resolve_key(reference, env)
    except ConfigError as error:
        raise ConfigError(f"{shown_url(url)}: {error}") from error
    proxy_for(url, key, config.network)
    return key


def key_reference(name: KeyName, config: Config, env: Mapping[str, str]) -> str:
    """Return what stands for the key of an endpoint, "" where none is needed.

    Raises ConfigError for a host that has none of its own.
    """
    reference = config.llm.api_key if name == "llm.api_key" else config.memory.embedding_api_key
    return _own_key(name, endpoint_url(name, config), env) if reference == OWN_KEY else reference


def endpoint_url(name: KeyName, config: Config) -> str:
    """Return the base URL that the key of this name is for."""
    return config.llm.base_url if name == "llm.api_key" else config.memory.embedding_base_url


def _own_key(name: KeyName, url: str, env: Mapping[str, str]) -> str:
    pairs = [(key, _places(env, base)) for key, base in _OF_ENVIRONMENT[name]]
    for key, places in pairs:
        if env.get(key) and any(same_host(url, place) for place in places):
            return f"env:{key}"
    if is_loopback(url) or _carries_user(url):
        return ""
    missing = [key for key, places in pairs if any(same_host(url, place) for place in places)]
    if missing:
        return f"env:{missing[0]}"  # which is not set, and that will be said
    key = next((key for key, _ in pairs if env.get(key)), pairs[-1][0])
    raise ConfigError(
        f'{shown_url(url)} has no key of its own: name one by {name}, as in "file:PATH"; "env:{key}" sends '
        f'{key} there, which is for another host, and "" says that none is wanted'
    )


def proxy_for(url: str, key: str, network: NetworkConfig) -> str:
    """Return the proxy through which this endpoint is called, "" for none.

    Raises ConfigError where a key, or what a URL holds in its place, would go in clear text.
    """
    if urlsplit(url).scheme == "https":
        return "" if is_loopback(url) else network.proxy
    is_secret = bool(key or _carries_user(url) or urlsplit(url).query)
    if is_secret and not is_loopback(url) and not is_listed(url, network):
        raise ConfigError(
            f"{shown_url(url)} is plain http, and its key would go in clear text: use https, or name "
            f"{urlsplit(url).hostname} in network.plain_http_hosts"
        )
    return ""


def same_host(one: str, other: str) -> bool:
    """Whether two URLs have scheme, host and port in common."""
    return is_usable_url(one) and is_usable_url(other) and _place(one) == _place(other)


def is_listed(url: str, network: NetworkConfig) -> bool:
    """Whether the user allows plain http with a key to this host, or to this port of it."""
    host, port = _place(url)[1:]
    return not {host, f"{host}:{port}"}.isdisjoint(network.plain_http_hosts.lower().replace(",", " ").split())


def _places(env: Mapping[str, str], base: str) -> tuple[str, ...]:
    return (env.get(base, ""), *([OPENAI_URL] if base == _OPENAI[1] else ()))


def _place(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]


def _carries_user(url: str) -> bool:
    return "@" in urlsplit(url).netloc
