"""Keys and hosts: every key of the environment goes to its own host only."""

from __future__ import annotations

import itertools

import pytest

from forged.config import Config, MemoryConfig, NetworkConfig, endpoint_key, load, proxy_for
from forged.config.values import LlmConfig
from forged.errors import ConfigError

OPENAI = "https://api.openai.com/v1"
OTHER = "https://models.example/v1"
HERE = "http://127.0.0.1:11434/v1"
KEYS = {"OPENAI_API_KEY": "of-openai", "EMBEDDING_API_KEY": "of-embedding"}
EMBEDDING, LLM = "memory.embedding_api_key", "llm.api_key"


def config(url: str, key: str = "auto", **network: str) -> Config:
    return Config(
        memory=MemoryConfig(embedding_base_url=url, embedding_api_key=key),
        llm=LlmConfig(base_url=url, api_key=key),
        network=NetworkConfig(**network),
    )


def refused(name: str, url: str, env: dict[str, str], **network: str) -> str:
    with pytest.raises(ConfigError) as caught:
        endpoint_key(name, config(url, **network), env)
    assert not any(key in str(caught.value) for key in KEYS.values())
    return str(caught.value)


# --- the environment's keys ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "url", "bases", "key"),
    [
        (EMBEDDING, OPENAI, {}, "of-openai"),
        (LLM, OPENAI, {}, "of-openai"),
        (LLM, "https://API.openai.com.:443/v2", {}, "of-openai"),
        (EMBEDDING, OTHER, {"EMBEDDING_BASE_URL": OTHER}, "of-embedding"),
        (EMBEDDING, OTHER, {"OPENAI_BASE_URL": OTHER}, "of-openai"),
        (LLM, OTHER, {"OPENAI_BASE_URL": f"{OTHER}/else"}, "of-openai"),
        (EMBEDDING, OPENAI, {"OPENAI_BASE_URL": OTHER, "EMBEDDING_BASE_URL": OTHER}, "of-openai"),
        (EMBEDDING, OPENAI, {"EMBEDDING_BASE_URL": OPENAI}, "of-embedding"),
        (EMBEDDING, HERE, {"EMBEDDING_BASE_URL": HERE}, "of-embedding"),
        (EMBEDDING, HERE, {}, ""),
        (LLM, HERE, {}, ""),
        (LLM, "https://me:word@models.example/v1", {}, ""),
    ],
)
def test_a_key_of_the_environment_goes_to_its_own_host(name, url, bases, key):
    assert endpoint_key(name, config(url), KEYS | bases) == key


@pytest.mark.parametrize(
    ("name", "url", "bases"),
    [
        (EMBEDDING, OTHER, {}),
        (LLM, OTHER, {}),
        (LLM, OTHER, {"EMBEDDING_BASE_URL": OTHER}),
        (LLM, "https://api.openai.com.evil.example/v1", {}),
        (LLM, "https://api.openai.com:8443/v1", {}),
        (LLM, "https://openai.com/v1", {}),
        (LLM, "http://api.openai.com/v1", {}),
        (EMBEDDING, "https://models.example:444/v1", {"EMBEDDING_BASE_URL": OTHER}),
        (EMBEDDING, "http://models.example/v1", {"EMBEDDING_BASE_URL": OTHER}),
        (EMBEDDING, OTHER, {"EMBEDDING_BASE_URL": "models.example/v1"}),
    ],
)
def test_a_key_of_the_environment_goes_nowhere_else_and_the_sentence_says_what_allows_it(name, url, bases):
    reported = refused(name, url, KEYS | bases)

    assert "has no key of its own" in reported
    assert f'"env:{"EMBEDDING" if name == EMBEDDING else "OPENAI"}_API_KEY" sends' in reported
    assert '"" says that none is wanted' in reported


def test_no_key_of_the_environment_is_ever_sent_to_a_host_that_no_variable_names():
    """All pairs of hosts: what each variable names, and what the configuration does."""
    hosts = (OPENAI, OTHER, "https://third.example/v1", HERE, "http://gpu.lan/v1")
    for url, openai, embedding in itertools.product(hosts, (*hosts, ""), (*hosts, "")):
        env = KEYS | {"OPENAI_BASE_URL": openai, "EMBEDDING_BASE_URL": embedding}
        for name in (EMBEDDING, LLM):
            try:
                key = endpoint_key(name, config(url, plain_http_hosts="gpu.lan"), env)
            except ConfigError:
                continue
            allowed = {"of-openai": (OPENAI, openai), "of-embedding": (embedding,)}
            assert not key or url in allowed[key], (name, url, openai, embedding)


def test_naming_a_key_sends_it_and_an_empty_one_sends_none():
    assert endpoint_key(EMBEDDING, config(OTHER, "env:OPENAI_API_KEY"), KEYS) == "of-openai"
    assert endpoint_key(LLM, config(OTHER, ""), KEYS) == ""
    assert "OPENAI_API_KEY is not set" in refused(LLM, OPENAI, {})


def test_a_reference_that_fails_is_an_error_on_this_machine_too():
    for reference in ("env:OPENAI_API_KEY", "file:/nonexistent/key", "cmd:/bin/false"):
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1:11434/v1: no key"):
            endpoint_key(EMBEDDING, config(HERE, reference), {})
    assert endpoint_key(EMBEDDING, config(HERE), {}) == ""


def test_what_the_key_comes_to_is_shown_with_the_host_that_it_is_for(tmp_path):
    env = {"HOME": str(tmp_path), **KEYS, "EMBEDDING_BASE_URL": OTHER}

    shown = {each.key: (each.value, each.origin) for each in load(env).settings}

    assert shown[EMBEDDING] == ("env:EMBEDDING_API_KEY", f"default, for {OTHER}")
    assert shown[LLM] == ("env:OPENAI_API_KEY", f"default, for {OPENAI}")


# --- the way -------------------------------------------------------------------------------------------

LAN = "http://gpu.lan:8000/v1"


def test_over_plain_http_a_key_goes_to_this_machine_and_to_hosts_that_are_listed():
    for url in (HERE, "http://localhost/v1", "http://[::1]:1/v1"):
        assert endpoint_key(LLM, config(url, "word"), {}) == "word"
    for listed in ("gpu.lan", "nas, GPU.lan:8000", "nas gpu.lan"):
        assert endpoint_key(LLM, config(LAN, "word", plain_http_hosts=listed), {}) == "word"


@pytest.mark.parametrize(
    ("url", "key", "listed"),
    [
        (LAN, "word", ""),
        (LAN, "word", "lan, gpu, gpu.lan:80, xgpu.lan"),
        ("http://me:word@gpu.lan/v1", "", ""),
        ("http://gpu.lan/v1?key=word", "", ""),
    ],
)
def test_over_plain_http_a_key_goes_nowhere_else(url, key, listed):
    with pytest.raises(ConfigError, match=r"plain http.*network\.plain_http_hosts") as caught:
        endpoint_key(LLM, config(url, key, plain_http_hosts=listed), {})

    assert "word" not in str(caught.value)


def test_a_proxy_is_for_https_to_other_machines_alone():
    network = NetworkConfig(proxy="http://proxy.example:3128", plain_http_hosts="gpu.lan")

    assert proxy_for(OPENAI, "word", network) == "http://proxy.example:3128"
    assert [proxy_for(url, "", network) for url in (LAN, HERE, "https://localhost/v1")] == ["", "", ""]


def test_what_goes_in_clear_and_round_the_proxy_is_said_when_the_configuration_is_checked(tmp_path):
    env = {"HOME": str(tmp_path), "FORGED_NETWORK__PROXY": "http://u:word@proxy.example:3128"}
    env["FORGED_MEMORY__EMBEDDING_BASE_URL"] = LAN

    unlisted, listed = load(env), load(env | {"FORGED_NETWORK__PLAIN_HTTP_HOSTS": "gpu.lan"})

    assert "u:word" not in str((unlisted, listed))
    assert ":word@" not in str((unlisted, listed))
    (warning,), (other,) = unlisted.warnings, listed.warnings
    assert "plain http: text is sent unencrypted, no key is sent" in warning
    assert "plain http: key and text are sent unencrypted" in other
    assert all("network.proxy is not used for it" in each for each in (warning, other))
