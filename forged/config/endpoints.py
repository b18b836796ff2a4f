"""Choose the API key and the proxy of each endpoint before any call.

A key of the environment belongs to one host: `EMBEDDING_API_KEY` to the host of `EMBEDDING_BASE_URL`,
`OPENAI_API_KEY` to OpenAI's or to that of `OPENAI_BASE_URL`. Another host gets it only if the configuration
names it for that endpoint. A key is sent in clear text only to this machine and to listed hosts. Plain http
bypasses the proxy. Raises ConfigError with the line that would allow the call.
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
# Environment variables with a key, in order of preference, and the variable with their base URL.
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_OF_ENVIRONMENT: dict[KeyName, tuple[tuple[str, str], ...]] = {
    "memory.embedding_api_key": (("EMBEDDING_API_KEY", "EMBEDDING_BASE_URL"), _OPENAI),
    "llm.api_key": (_OPENAI,),
}


def endpoint_key(name: KeyName, config: Config, env: Mapping[str, str]) -> str:
    """Return the API key of an endpoint, "" for none; refuses a wrong URL and a key in clear text.

    Blocks up to 5 s if a command prints the key. Raises ConfigError if the endpoint cannot be called.
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
    """Return the reference to an endpoint's key, configured or in the environment; "" if it needs none.

    Raises ConfigError for a host without a key of its own.
    """
    reference = config.llm.api_key if name == "llm.api_key" else config.memory.embedding_api_key
    return _own_key(name, endpoint_url(name, config), env) if reference == OWN_KEY else reference


def endpoint_url(name: KeyName, config: Config) -> str:
    """Return the configured base URL of the endpoint to which a key option belongs."""
    return config.llm.base_url if name == "llm.api_key" else config.memory.embedding_base_url


def _own_key(name: KeyName, url: str, env: Mapping[str, str]) -> str:
    """Return a reference to a URL's key in the environment, "" if unneeded. Raises ConfigError."""
    pairs = [(key, _base_urls(env, base)) for key, base in _OF_ENVIRONMENT[name]]
    for key, places in pairs:
        if env.get(key) and any(same_host(url, place) for place in places):
            return f"env:{key}"
    if is_loopback(url) or _has_user_info(url):
        return ""
    missing = [key for key, places in pairs if any(same_host(url, place) for place in places)]
    if missing:
        return f"env:{missing[0]}"  # not set; resolving it raises the error
    key = next((key for key, _ in pairs if env.get(key)), pairs[-1][0])
    raise ConfigError(
        f'{shown_url(url)} has no key of its own: name one by {name}, as in "file:PATH"; "env:{key}" sends '
        f'{key} there, which is for another host, and "" says that none is wanted'
    )


def proxy_for(url: str, key: str, network: NetworkConfig) -> str:
    """Return the proxy for calls to an endpoint, "" for none. Raises ConfigError for a key in clear text.

    Raises ConfigError if a key, or a secret in the URL, would travel in clear text.
    """
    if urlsplit(url).scheme == "https":
        return "" if is_loopback(url) else network.proxy
    is_secret = bool(key or _has_user_info(url) or urlsplit(url).query)
    if is_secret and not is_loopback(url) and not is_listed(url, network):
        raise ConfigError(
            f"{shown_url(url)} is plain http, and its key would go in clear text: use https, or name "
            f"{urlsplit(url).hostname} in network.plain_http_hosts"
        )
    return ""


def same_host(one: str, other: str) -> bool:
    """Return True if two URLs have the same scheme, host and port."""
    return is_usable_url(one) and is_usable_url(other) and _host_of(one) == _host_of(other)


def is_listed(url: str, network: NetworkConfig) -> bool:
    """Return True if `network.plain_http_hosts` lets this host get keys in clear text."""
    host, port = _host_of(url)[1:]
    return not {host, f"{host}:{port}"}.isdisjoint(network.plain_http_hosts.lower().replace(",", " ").split())


def _base_urls(env: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Return base URLs whose hosts may get a key: that in variable `base`, OpenAI's for its key."""
    return (env.get(base, ""), *([OPENAI_URL] if base == _OPENAI[1] else ()))


def _host_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL; the port is the scheme's if none is given."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]


def _has_user_info(url: str) -> bool:
    """Return True if a URL contains a user or a password."""
    return "@" in urlsplit(url).netloc
