"""0 bytes of a key at any host but its own: over redirects, through proxies, over plain http."""

from __future__ import annotations

import shutil

import pytest

from forged.config import Config, MemoryConfig, NetworkConfig
from forged.config.values import LlmConfig
from forged.errors import ConfigError, ProviderError
from forged.models import EgressGuard
from forged.models.endpoint import Endpoint
from forged.models.factory import make_chat_model, make_embedder
from forged.models.openai_compatible import OpenAICompatibleEmbedder
from tests.models.calls import KEY, embedder, using
from tests.support.provider import Answer, ScriptedProvider
from tests.support.provider.embedders import QUERY
from tests.support.provider.tunnel import TunnelProxy, behind_tls, certificate

HOST = "models.example"


@pytest.fixture
def secure(tmp_path, monkeypatch):
    """A provider behind TLS that calls itself HOST, and a proxy that leads to it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    cert, key = certificate(tmp_path, HOST)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    provider = ScriptedProvider()
    with TunnelProxy(behind_tls(provider, cert, key)) as proxy, provider:
        yield provider, proxy


def asked(url: str, network: NetworkConfig, key: str = KEY) -> None:
    model = OpenAICompatibleEmbedder(url, "m", key, egress=EgressGuard(network), backoff_s=0.01)
    using(model, lambda m: m.embed(["the harbour"], purpose=QUERY))


def test_through_a_proxy_the_key_goes_by_connect_and_the_proxy_sees_none_of_it(secure):
    provider, proxy = secure

    asked(f"https://{HOST}/v1", NetworkConfig(proxy=proxy.url.replace("//", "//me:word@")))

    (request,) = provider.wait_for(1)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "proxy-authorization" not in request.headers
    assert proxy.heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert KEY.encode() not in proxy.seen
    assert b"harbour" not in proxy.seen


def test_what_is_behind_a_proxy_must_prove_that_it_is_the_host(secure, monkeypatch):
    provider, proxy = secure
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(ProviderError):
        asked(f"https://{HOST}/v1", NetworkConfig(proxy=proxy.url))
    assert provider.requests() == []


def test_plain_http_never_goes_through_a_proxy_nor_anything_by_one_of_the_environment(secure, monkeypatch):
    _, proxy = secure
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)

    with ScriptedProvider() as here:
        asked(here.base_url, NetworkConfig(proxy=proxy.url))
        asked(here.base_url, NetworkConfig())
        assert len(here.requests()) == 2
    with pytest.raises(ProviderError):  # no name server knows it, and no proxy is asked
        asked(f"https://{HOST}/v1", NetworkConfig())
    assert proxy.heads == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status):
    with ScriptedProvider() as own, ScriptedProvider() as other:
        own.embeddings = Answer(status=status, headers={"Location": f"{other.base_url}/embeddings"}, json={})
        with pytest.raises(ProviderError):
            using(embedder(own), lambda m: m.embed(["the harbour"], purpose=QUERY))

        assert len(own.requests()) == 1
        assert other.requests() == []


def test_no_endpoint_sends_a_key_over_plain_http_to_another_machine():
    for url in ("http://gpu.lan/v1", "http://me:word@gpu.lan/v1"):
        with pytest.raises(ConfigError, match="plain http"):
            Endpoint(url, "" if "@" in url else KEY, egress=EgressGuard())
    Endpoint("http://gpu.lan/v1", KEY, egress=EgressGuard(NetworkConfig(plain_http_hosts="gpu.lan")))


def test_a_key_of_the_environment_never_reaches_another_endpoint_on_this_machine():
    """As Ollama's port may be anybody's: only what the variables name gets their keys."""
    env = {"OPENAI_API_KEY": KEY, "EMBEDDING_API_KEY": KEY}
    with ScriptedProvider() as provider:
        settings = Config(
            memory=MemoryConfig(
                embedding_model="m", embedding_base_url=provider.base_url, retrieval_model="c"
            ),
            llm=LlmConfig(base_url=provider.base_url),
        )
        model = make_embedder(settings, env, EgressGuard()).model
        using(model, lambda m: m.embed(["the harbour"], purpose=QUERY))
        (request,) = provider.requests()

        assert make_chat_model(settings, env, EgressGuard()).model is not None
        assert "authorization" not in request.headers
