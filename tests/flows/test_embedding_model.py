"""A daemon whose embedding model starts slowly, is replaced, or takes short texts only."""

from __future__ import annotations

import threading

import pytest

from forged.text.english import EVERYDAY_MESSAGES
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Shell, staged
from tests.support.provider import Answer, hashed_vector, well_behaved

KNOWN = "text-embedding-3-small"
EIGHT = {f"m{at}": f"The walrus number {at} sleeps in harbor {at} since {2000 + at}." for at in range(8)}
BOTH = ("lexical", "dense")


@pytest.fixture
def filled(home, repo):
    """A repository, and eight memories of the user."""
    put(home, *(memory(name, text, scope="user") for name, text in EIGHT.items()))
    return repo


# --- until the gate knows the model --------------------------------------------------------------------


def test_until_the_gate_knows_the_model_at_most_two_memories_come_and_by_words(home, filled):
    free = threading.Event()

    def slow(provider, request):
        held = request.inputs[0] in EVERYDAY_MESSAGES
        answer = well_behaved(provider, request)
        return Answer(answer.json, hold=free) if held else answer

    with staged(home, dimension=64, embedding_model=KNOWN) as scene:
        scene.provider.vectors["walrus"] = hashed_vector("walrus", 64)
        scene.provider.embeddings = slow
        scene.load(filled)
        assert scene.client.status(str(filled)).gate.state == "learning"
        passing = [scene.ask(filled, text) for text in ("ok, next", "thanks", "never mind, go on")]
        about = scene.ask(filled, "in which harbor does the walrus sleep?")
        free.set()
        eventually(lambda: scene.client.status(str(filled)).gate.state == "vectors")
        later = scene.ask(filled, "in which harbor does the walrus sleep?")

    assert [reply.memories for reply in passing] == [()] * 3
    assert (about.status, len(about.memories), about.indexes) == ("ok", 2, ("lexical",))
    assert "the embedding model is still being calibrated" in about.reason
    assert (len(later.memories) > 2, later.indexes) == (True, BOTH)


# --- another model behind the name ---------------------------------------------------------------------


@pytest.mark.inotify
def test_another_dimension_is_noticed_by_a_question_and_all_is_embedded_anew_by_itself(home, filled):
    with staged(home, dimension=64) as scene:
        scene.load(filled)
        assert scene.ask(filled).indexes == BOTH
        sent = scene.embedded.count(EIGHT["m0"])
        scene.provider.dimension = 96
        assert "another" in scene.ask(filled, "and now?").reason
        eventually(lambda: scene.embedded.count(EIGHT["m0"]) > sent)  # nobody asks for it
        answered = eventually(lambda: scene.ask(filled).reason == "" and scene.ask(filled))
        status = scene.client.status(str(filled))
        reported = Shell(scene.daemon.home, scene.daemon.socket, filled).run("status")

    assert (answered.indexes, answered.memories[0].found.cosine is not None) == (BOTH, True)
    assert scene.embedded.count(EIGHT["m0"]) == sent + 1
    (warning,) = [each for each in status.warnings if "a different model" in each]
    assert "all memories were embedded again" in warning
    assert warning in reported.out
    assert status.state == "ok"


# --- texts that do not fit ------------------------------------------------------------------------------


def test_texts_that_were_cut_to_fit_are_counted_and_named(home, filled):
    def short(provider, request):
        if any(len(text) > 600 for text in request.inputs):
            reported = "input is too large to process. increase the physical batch size"
            return Answer({"error": {"message": reported, "code": 500}}, status=500)
        return well_behaved(provider, request)

    put(home, memory("long1", "A long walrus. " * 80), memory("long2", "A longer walrus. " * 90))
    with staged(home, dimension=64) as scene:
        scene.provider.embeddings = short
        scene.load(filled)
        report = scene.report(home)
        reported = Shell(scene.daemon.home, scene.daemon.socket, filled).run("status", "--all")
        put(home, memory("long1", "A short walrus."))
        scene.load(filled)
        later = scene.report(home)

    assert (report.cut, report.cut_ids, report.quarantined) == (2, ("long1", "long2"), 0)
    assert "2 memories are longer than the embedding model takes" in reported.out
    assert "long1, long2" in reported.out
    assert (later.cut, later.cut_ids) == (1, ("long2",))
