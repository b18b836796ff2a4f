"""Which model a configuration gives, and what status is told when there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

from forged.config import Config, LlmConfig, MemoryConfig
from forged.errors import ConfigError
from forged.providers.factory import ClassifierEndpoint, make_chat_model, make_classifier, make_embedder
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


def test_rules_classify_until_a_model_is_named() -> None:
    config = Config(llm=LlmConfig(base_url=REMOTE, api_key="env:A"))

    choice = make_classifier(config, {"A": KEY, "OPENAI_API_KEY": KEY})

    assert choice.model is None
    assert choice.reason == "builtin:rules is used"


@pytest.mark.parametrize(
    ("memory_keys", "llm_model", "expected"),
    [
        ({"classifier_model": "c", "retrieval_model": "r"}, "l", "c"),
        ({"retrieval_model": "r"}, "l", "l"),
        ({"retrieval_model": "r"}, "", "r"),
    ],
)
def test_the_classifier_is_the_nearest_model_at_the_llm_endpoint(
    memory_keys: dict[str, str], llm_model: str, expected: str
) -> None:
    config = Config(
        memory=MemoryConfig(**memory_keys), llm=LlmConfig(model=llm_model, base_url=REMOTE, api_key="env:A")
    )

    assert make_classifier(config, {"A": KEY}).model == ClassifierEndpoint(expected, REMOTE, KEY)


def test_rules_can_be_kept_beside_a_model_for_the_rest() -> None:
    config = Config(memory=MemoryConfig(classifier_model="builtin:rules"), llm=LlmConfig(model="flash"))

    assert make_classifier(config, {"OPENAI_API_KEY": KEY}).model is None


@pytest.mark.parametrize("name", ["local:qwen", "fastembed:x", "builtin:magic", "builtin:lexical"])
@pytest.mark.parametrize("key", ["memory.classifier_model", "llm.model", "memory.retrieval_model"])
def test_an_unknown_kind_of_classifier_is_a_config_error_that_names_the_key(name: str, key: str) -> None:
    section, _, field = key.partition(".")
    sections = {"memory": MemoryConfig, "llm": LlmConfig}
    config = Config(**{section: sections[section](**{field: name})})

    with pytest.raises(ConfigError, match=rf"{section}\.{field} = {name}"):
        make_classifier(config, {})


def test_a_classifier_without_a_key_is_a_reason_except_on_this_machine() -> None:
    there = make_classifier(Config(llm=LlmConfig(model="m", base_url=REMOTE)), {})
    here = make_classifier(Config(llm=LlmConfig(model="m", base_url=LOCAL)), {})

    assert there.model is None
    assert "OPENAI_API_KEY is not set" in there.reason
    assert here.model == ClassifierEndpoint("m", LOCAL, "")


def test_a_classifier_never_shows_its_key() -> None:
    url = REMOTE.replace("https://", f"https://u:{KEY}@")

    shown = repr(ClassifierEndpoint("m", url, KEY))

    assert KEY not in shown
    assert "api.example" in shown


def test_httpx_is_not_imported_for_the_built_in_model() -> None:
    program = (
        "import sys; from forged.config import load; from forged.providers.factory import *;"
        "config = load({'HOME': '/nonexistent'}).config;"
        "make_embedder(config, {}); make_chat_model(config, {}); make_classifier(config, {});"
        "sys.exit('httpx' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0
