"""Measurements with real daemons: one without a model, and one with an endpoint that is scripted."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from forged.cli.demo.stage import NotStarted, run_daemon
from forged.maps.model_identity import SENTENCES
from forged.text.english import EVERYDAY_MESSAGES
from tests.evaluation import loading, settings, stores, trial
from tests.evaluation.settings import Subject
from tests.evaluation.trial import MeasurementFailed
from tests.support.clock import eventually
from tests.support.daemon import processes_with
from tests.support.provider import Answer, ScriptedProvider, embedded

SMALL = loading.load(Path(__file__).parents[1] / "data" / "eval_small")
WORLD = stores.whole(SMALL)


@pytest.fixture
def scratch(monkeypatch):
    """A short place for scratch directories; whatever a measurement leaves there fails the test."""
    with tempfile.TemporaryDirectory(prefix="ft") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield place
        assert os.listdir(place) == []
        eventually(lambda: processes_with(place) == [])


@pytest.fixture
def provider():
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def env(home, provider):
    """The environment of a user whose configured endpoint is the scripted one."""
    file = home / ".config/forged/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        f'[memory]\nembedding_model = "m"\nembedding_base_url = "{provider.base_url}"\n'
        f'query_prefix = "ask: "\nretrieval_model = "writer"\n[llm]\nbase_url = "{provider.base_url}"\n'
    )
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def outcomes(world, *subjects, env, progress=lambda *_: None):
    prepared = [settings.prepare(subject, env) for subject in subjects]
    return [outcome for _, outcome in trial.run(world, prepared, progress)]


def is_query(request):
    return any(text.startswith("ask: ") for text in request.inputs)


def test_what_a_daemon_injects_is_scored(scratch, env):
    seen = []

    (found,) = outcomes(
        WORLD, Subject("builtin:lexical", "direct"), env=env, progress=lambda *step: seen.append(step)
    )

    assert (found.indexes, found.memories, found.failures) == (("lexical",), 10, ())
    scored = {score.query: score.recall_at_10 for score in found.scores}
    assert scored["q_mill_1"] == scored["q_mill_2"] == 1.0
    assert scored["q_kite_1"] == 0.0
    assert found.total.recall_at_10 == pytest.approx(sum(scored.values()) / 6)
    assert [kind.kind for kind in found.kinds] == sorted({"chinese", "direct", "multi-hop"} | {
        "paraphrase", "superseded", "task"
    })  # fmt: skip
    assert seen[-1] == ("asking", WORLD.questions, WORLD.questions)
    # "Silo doors are red." shares a word with a memory of the mill and none with the kite's.
    assert (found.off_topic.messages, found.off_topic.injected) == (6, 1)
    assert found.off_topic.rate == pytest.approx(1 / 6)


@pytest.mark.long
def test_a_threshold_changes_what_is_injected(scratch, env):
    strict = Subject("builtin:lexical", "direct", (("retrieval_min_score", "1"),))

    (found,) = outcomes(WORLD, strict, env=env)

    assert found.off_topic.injected == 0
    assert found.total.recall_at_10 < 1.0


@pytest.mark.long
def test_the_strategy_caller_sends_the_recorded_hypotheses_and_no_off_topic_messages(scratch, env):
    (found,) = outcomes(WORLD, Subject("builtin:lexical", "caller"), env=env)

    assert {score.query: score.recall_at_10 for score in found.scores}["q_kite_1"] == 1.0
    assert found.off_topic is None


@pytest.mark.long
def test_small_stores_are_measured_each_for_itself(scratch, env):
    (found,) = outcomes(stores.small(SMALL, 1), Subject("builtin:lexical", "direct"), env=env)

    assert found.total.queries == 6
    assert found.memories <= 6
    assert found.off_topic.messages == 6


def test_neighbours_share_a_daemon_so_that_texts_are_embedded_once(scratch, env, provider):
    direct, caller = outcomes(
        WORLD, Subject("configured", "direct"), Subject("configured", "caller"), env=env
    )

    asked = [text for request in provider.requests() if not is_query(request) for text in request.inputs]
    passages = [text for text in asked if not text.endswith(SENTENCES)]
    assert len(passages) == len(set(passages)) == 10
    assert direct.indexes == caller.indexes == ("dense", "lexical")
    assert direct.failures == caller.failures == ()


GATED = Subject("configured", "direct", (("retrieval_min_score", "0.95"),))


def everyday(request):
    return sum(text.removeprefix("ask: ") in EVERYDAY_MESSAGES for text in request.inputs)


@pytest.mark.long
def test_nothing_is_asked_before_the_gate_knows_the_model(scratch, env, provider):
    """With a slow model the first questions would be decided by words."""
    provider.dimension = 64
    is_waited_for = threading.Event()

    def slow_at_first(provider, request):
        if everyday(request):
            is_waited_for.wait(5)
        return embedded(provider, request)

    def progress(doing, _done, _total):
        if doing == trial.LEARNING:
            is_waited_for.set()

    provider.embeddings = slow_at_first

    outcomes(WORLD, GATED, env=env, progress=progress)

    asked = provider.requests()
    first = next(place for place, one in enumerate(asked) if is_query(one) and not everyday(one))
    assert sum(map(everyday, asked[:first])) == 2 * len(EVERYDAY_MESSAGES)


def test_a_gate_that_cannot_learn_the_model_is_no_measurement(scratch, env, provider):
    provider.dimension = 64
    provider.embeddings = lambda provider, request: (
        Answer(status=401) if everyday(request) else embedded(provider, request)
    )

    with pytest.raises(MeasurementFailed, match="gate could not learn the model: auth"):
        outcomes(WORLD, GATED, env=env)


def test_hyde_asks_the_users_chat_model(scratch, env, provider):
    (found,) = outcomes(WORLD, Subject("builtin:lexical", "hyde"), env=env)

    assert found.failures == ()
    assert {request.json["model"] for request in provider.requests()} == {"writer"}


@pytest.mark.long
def test_a_query_without_an_answer_scores_nothing_and_is_counted(scratch, env, provider):
    def refuses_queries(provider, request):
        return Answer(status=401) if is_query(request) else embedded(provider, request)

    provider.embeddings = refuses_queries

    (found,) = outcomes(WORLD, Subject("configured", "direct"), env=env)

    assert found.total.recall_at_20 == 0.0
    assert found.total.queries == 6
    assert found.failed == WORLD.questions
    assert "auth" in found.failures[0].reason


def test_a_model_that_gives_no_vectors_is_no_measurement(scratch, env, provider):
    provider.embeddings = Answer(status=401)

    with pytest.raises(MeasurementFailed, match="not indexed"):
        outcomes(WORLD, Subject("configured", "direct"), env=env)


def test_a_world_without_queries_is_no_measurement(scratch, env):
    nothing = stores.whole(SMALL.part("none"))

    with pytest.raises(MeasurementFailed, match="no query"):
        outcomes(nothing, Subject("builtin:lexical", "direct"), env=env)


def test_a_daemon_that_does_not_start_says_why(scratch, tmp_path):
    env = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "FORGED_SOCKET": f"{scratch}/run/forged.sock",
        "FORGED_MEMORY__RETRIEVAL_TOP_K": "many",
    }

    with (
        pytest.raises(NotStarted, match=r"RETRIEVAL_TOP_K.*whole number"),
        run_daemon(env, tmp_path / "log"),
    ):
        pass
