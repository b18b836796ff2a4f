"""Which model a configuration gives, and what status is told when there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

from forged.config import Config, LlmConfig, MemoryConfig
from forged.errors import ConfigError
from forged.providers.factory import make_chat_model, make_embedder
from tests.support.provider import ScriptedProvider

LOCAL = "http://127.0.0.1:9/v1"
REMOTE = "https://api.example/v1"
KEY = "sk-verysecret-0123456789"


def memory(model: str, url: str = LOCAL, key: str = "env:OPENAI_API_KEY", **settings: object) -> Config:
    return Config(
        memory=MemoryConfig(embedding_model=model, embedding_base_url=url, embedding_api_key=key, **settings)
    )


def llm(model: str, url: str = LOCAL, key: str = "env:OPENAI_API_KEY") -> Config:
    return Config(memory=MemoryConfig(retrieval_model=model), llm=LlmConfig(base_url=url, api_key=key))


@pytest.mark.parametrize(
    ("name", "reason"), [("", "is empty"), ("auto", "built-in"), ("builtin:lexical", "built-in")]
)
def test_without_an_embedding_model_the_reason_is_told(name: str, reason: str) -> None:
    choice = make_embedder(memory(name), {})

    assert choice.model is None
    assert reason in choice.reason


def test_without_a_retrieval_model_the_reason_is_told() -> None:
    choice = make_chat_model(Config(), {"OPENAI_API_KEY": KEY})

    assert choice.model is None
    assert "retrieval_model" in choice.reason


@pytest.mark.parametrize("name", ["local:e5", "fastembed:bge-small", "builtin:magic"])
def test_a_kind_of_model_that_this_version_has_not_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match=r"memory\.embedding_model"):
        make_embedder(memory(name), {})
    with pytest.raises(ConfigError, match=r"memory\.retrieval_model"):
        make_chat_model(llm(name), {})


@pytest.mark.parametrize("url", [LOCAL, "http://localhost:1234/v1", "http://[::1]:1/v1"])
def test_no_key_is_needed_on_this_machine(url: str) -> None:
    assert make_embedder(memory("m", url), {}).model is not None
    assert make_chat_model(llm("m", url), {}).model is not None


def test_a_missing_key_for_another_machine_is_a_reason_and_no_error() -> None:
    for choice in (make_embedder(memory("m", REMOTE), {}), make_chat_model(llm("m", REMOTE), {})):
        assert choice.model is None
        assert "OPENAI_API_KEY is not set" in choice.reason
        assert REMOTE in choice.reason


def test_an_explicit_empty_key_means_that_none_is_needed() -> None:
    assert make_embedder(memory("m", REMOTE, key=""), {"OPENAI_API_KEY": KEY}).model is not None


def test_an_endpoint_that_is_no_url_is_a_reason_without_secrets() -> None:
    choice = make_embedder(memory("m", f"ftp://u:{KEY}@host/v1"), {"OPENAI_API_KEY": KEY})

    assert choice.model is None
    assert "ftp://host/v1 is not an http or https URL" in choice.reason


def test_the_models_speak_to_their_own_endpoints_with_their_own_keys() -> None:
    async def use(config: Config) -> None:
        env = {"A": "key-a", "B": "key-b"}
        embedder, chat = make_embedder(config, env).model, make_chat_model(config, env).model
        assert embedder is not None
        assert chat is not None
        await embedder.embed(["text"], "query")
        await chat.complete("s", "u", deadline=asyncio.get_running_loop().time() + 5)
        await embedder.aclose()
        await chat.aclose()

    with ScriptedProvider() as one, ScriptedProvider() as other:
        config = memory("e5-small", one.base_url, "env:A", query_prefix="query: ", retrieval_model="flash")
        config = msgspec.structs.replace(config, llm=LlmConfig(base_url=other.base_url, api_key="env:B"))
        asyncio.run(use(config))

        (embedding,), (completion,) = one.requests(), other.requests()
        assert embedding.json == {"model": "e5-small", "input": ["query: text"]}
        assert embedding.headers["authorization"] == "Bearer key-a"
        assert completion.json["model"] == "flash"
        assert completion.headers["authorization"] == "Bearer key-b"


def test_httpx_is_not_imported_for_the_built_in_model() -> None:
    program = (
        "import sys; from forged.config import load; from forged.providers.factory import *;"
        "config = load({'HOME': '/nonexistent'}).config;"
        "make_embedder(config, {}); make_chat_model(config, {});"
        "sys.exit('httpx' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0
