"""HyDE from outside: what goes to the model, what of its answer is looked for, and what comes late.

A scripted model says what real ones say; tests/real asks a real one. What happens when it fails is in
test_degradation.
"""

from __future__ import annotations

import threading

import pytest

from forged.text import prompts
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Scene, Shell, ids, shared_scene
from tests.support.provider import Answer, completion, streamed

pytestmark = pytest.mark.long


auto_scene = shared_scene(retrieval_model="chat")
hyde_scene = shared_scene(retrieval_model="chat", retrieval_strategy="hyde")
# A chat model and no embeddings: hypotheses for the lexical index alone.
words_scene = shared_scene(retrieval_model="chat", embedding_model="builtin:lexical")


@pytest.fixture
def auto(auto_scene, repo) -> Scene:
    return _walrus(auto_scene, repo)


@pytest.fixture
def hyde(hyde_scene, repo) -> Scene:
    return _walrus(hyde_scene, repo)


@pytest.fixture
def words(words_scene, repo) -> Scene:
    return _walrus(words_scene, repo)


def _walrus(scene: Scene, repo) -> Scene:
    scene.reset()
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    scene.provider.vectors.update({"walrus": (1, 0, 0), "usk": (0, 1, 0), "shellfish": (0.9, 0.1, 0)})
    scene.load(repo)
    scene.provider.received.clear()
    return scene


def _held(*lines: str) -> tuple[threading.Event, Answer]:
    """An answer of the model that comes when the event is set."""
    written = threading.Event()
    return written, Answer(completion("\n".join(lines)).json, hold=written)


def _cached(scene: Scene, repo, text: str, turn: str):
    """The turn's answer once it comes from the cache and is no stopgap."""
    return eventually(
        lambda: (
            reply
            if (reply := scene.ask(repo, text, turn, timeout_s=0.2)).cached and reply.strategy == "hyde"
            else None
        ),
        10,
    )


# --- what is asked and what is looked for ---------------------------------------------------------------


def test_the_prompt_that_is_sent_is_the_file(auto, repo):
    auto.ask(repo, "what does it eat?")

    (chat,) = auto.chats
    assert [message["role"] for message in chat.json["messages"]] == ["system", "user"]
    assert chat.json["messages"][0]["content"] == prompts.text("hyde")


_REPORTED = ["Shellfish are eaten.", "Tusks are long."]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('Here are 2 notes:\n```json\n["Shellfish are eaten.", "Tusks are long."]\n```', _REPORTED),
        ("Sure!\n1. **Shellfish are eaten.**\n2. Tusks are long.\nLet me know if you need more.", _REPORTED),
        ("Shellfish are eaten. Tusks are long.", _REPORTED),
        ("1、海象吃蛤蜊。\n2、海象的牙一直在长。", ["海象吃蛤蜊。", "海象的牙一直在长。"]),
    ],
)
def test_hypotheses_are_found_in_the_forms_that_models_give(auto, repo, text, reported):
    auto.provider.chat = completion(text)

    reply = auto.ask(repo, "海象吃什么？")

    assert (reply.status, reply.strategy) == ("ok", "hyde")
    assert auto.embedded == [*reported, "海象吃什么？"]


def test_hypotheses_find_by_their_words_where_there_are_no_vectors(words, repo):
    words.provider.chat = completion("The walrus eats clams in summer.")

    reply = words.ask(repo, "what is on the menu?")

    assert (reply.status, reply.strategy, reply.indexes, ids(reply)) == ("ok", "hyde", ("lexical",), ["m0"])
    assert words.embeds == []


# --- what comes late fills the turn ---------------------------------------------------------------------


def test_the_next_sub_turn_of_a_late_one_gets_its_hypotheses_from_the_cache(auto, repo):
    written, auto.provider.chat = _held("Shellfish are eaten.")

    late = auto.ask(repo, "any tusks?", "t1", timeout_s=1.5)
    written.set()
    after = _cached(auto, repo, "any tusks?", "t1")

    assert (late.status, late.strategy, late.reason, late.cached) == ("ok", "direct", "hyde: timeout", False)
    assert (after.status, after.reason) == ("ok", "")
    assert set(ids(after)) == {"m0", "m1"}
    assert len(auto.chats) == 1


# --- a reply that is read while it is written ---

LINES = "Shellfish is eaten.\nTusks are long.\n"


STALLED = streamed(LINES + "and so on", at_once=b'"and"}}]}\n\n', hold=threading.Event())


@pytest.fixture
def known(hyde, auto, repo) -> None:
    """Models whose first reply has been read to its end."""
    for scene in (hyde, auto):
        scene.ask(repo, "who are you?")
        scene.provider.received.clear()


@pytest.mark.usefixtures("known")
def test_the_lines_that_a_slow_model_has_written_do_in_time(hyde, repo):
    hyde.provider.chat = [streamed(LINES + "and " * 9_000, at_once=b"long.", drip_s=0.001)]

    reply = hyde.ask(repo, "what does it like")

    assert (reply.status, reply.reason, reply.strategy) == ("ok", "", "hyde")
    assert hyde.embedded == ["Shellfish is eaten.", "Tusks are long.", "what does it like"]
    hyde.provider.wait_until(lambda: hyde.chats[0].closed_by_client)


@pytest.mark.usefixtures("known")
def test_a_sub_turn_that_waits_for_a_late_turn_gets_the_lines_that_stand(hyde, repo):
    hyde.provider.chat = [STALLED]

    late = hyde.ask(repo, "what does it like", "t1", timeout_s=0.05)
    after = hyde.ask(repo, "what does it like", "t1")

    assert late.status == "timeout"
    assert (after.status, after.strategy) == ("ok", "hyde")
    assert len(hyde.chats) == 1


@pytest.mark.usefixtures("known")
def test_hypotheses_that_are_fewer_for_want_of_time_say_so_as_long_as_their_turn_lasts(hyde, repo):
    hyde.provider.chat = [STALLED]
    before = hyde.client.status().counters["retrieve_partial"]
    reported = "2 of 5 hypotheses: not enough time was left"

    replies = [hyde.ask(repo, "what does it like", "t1", session_id="s") for _ in range(2)]
    explained = hyde.client.why(str(repo), session_id="s")

    assert [(reply.cached, reply.partial) for reply in replies] == [(False, reported), (True, reported)]
    assert explained.partial == reported
    assert reported in Shell(hyde.daemon.home, hyde.daemon.socket, repo).run("why", "--session", "s").out
    assert hyde.client.status().counters["retrieve_partial"] == before + 1
    assert hyde.ask(repo, "and now?", "t2").partial == ""


REFUSING = {
    "refused": {"finish_reason": "stop", "message": {"content": None, "refusal": "I can't."}},
    "filtered": {"finish_reason": "content_filter", "message": {"content": ""}},
    "cut": {"finish_reason": "length", "message": {"content": "<think>hm"}},
}


@pytest.mark.parametrize("reason", REFUSING)
def test_a_model_that_does_not_answer_is_named_with_its_reason_and_is_asked_again(hyde, auto, repo, reason):
    """However often: an endpoint that answers so is alive."""
    for scene in (hyde, auto):
        scene.provider.chat = Answer({"choices": [REFUSING[reason]]})
        replies = [scene.ask(repo, "the walrus") for _ in range(3)]
        explicit = scene is hyde
        assert {(reply.status, reply.reason) for reply in replies} == {
            ("error", f"provider: {reason}") if explicit else ("ok", f"hyde: {reason}")
        }
        assert len(scene.chats) == 3
