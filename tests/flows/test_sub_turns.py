"""One user message and its eight model calls, in the messages of each kind of agent.

The provider's log tells what they cost. `retrieve` is asked before every call of the agent's own model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.data.memories import memory, put
from tests.support.daemon import Scene, ids, shared_scene
from tests.support.provider import Answer, completion

Messages = list[dict[str, object]]
SUB_TURNS, SMALL = 8, 46
REMINDER = "<system-reminder>The file changed.</system-reminder>"


def _openai(question: str, calls: int) -> Messages:
    said: Messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": question}]
    for number in range(calls):
        call = {"id": str(number), "type": "function", "function": {"name": "sh", "arguments": "{}"}}
        said.append({"role": "assistant", "content": f"I look at file {number}.", "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": str(number), "content": f"output {number}"})
    return said


def _anthropic(question: str, calls: int) -> Messages:
    """Results come back in role user, beside what the harness has to say."""
    said: Messages = [{"role": "user", "content": [{"type": "text", "text": question}]}]
    for number in range(calls):
        use = {"type": "tool_use", "id": str(number), "name": "sh", "input": {}}
        said.append({"role": "assistant", "content": [{"type": "text", "text": f"File {number}."}, use]})
        result = {"type": "tool_result", "tool_use_id": str(number), "content": f"output {number}"}
        said.append({"role": "user", "content": [result, {"type": "text", "text": REMINDER}]})
    return said


def _gemini(question: str, calls: int) -> Messages:
    """Results come back in role user or function, and the model is called `model`."""
    said: Messages = [{"role": "user", "parts": [{"text": question}]}]
    for number in range(calls):
        call = {"functionCall": {"name": "sh", "args": {}}}
        said.append({"role": "model", "parts": [{"text": f"File {number}."}, call]})
        result = {"functionResponse": {"name": "sh", "response": {"output": f"output {number}"}}}
        said.append({"role": "function" if number % 2 else "user", "parts": [result]})
    return said


FORMS: dict[str, Callable[[str, int], Messages]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


shared = shared_scene(retrieval_model="chat")


@pytest.fixture
def scene(shared, repo) -> Scene:
    shared.reset()
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    shared.load(repo)
    shared.provider.received.clear()
    return shared


@pytest.mark.parametrize("turn_id", ["t1", ""], ids=["named", "unnamed"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_eight_sub_turns_with_two_budgets_cost_one_chat_and_one_embedding_call(scene, repo, form, turn_id):
    replies = [
        scene.client.retrieve(
            str(repo),
            form("What does the walrus eat?", number),
            session_id="s",
            turn_id=turn_id,
            token_budget=budget,
        )
        for number in range(SUB_TURNS)
        for budget in (None, SMALL)
    ]

    assert (len(scene.chats), len(scene.embeds)) == (1, 1)
    assert [reply.cached for reply in replies] == [False] + [True] * (2 * SUB_TURNS - 1)
    whole, small = replies[::2], replies[1::2]
    assert {(reply.text, *ids(reply)) for reply in whole} == {(whole[0].text, "m0", "m1")}
    assert {reply.included for reply in small} == {1}
    assert {len(reply.text.encode()) <= 4 * SMALL for reply in small} == {True}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("turn_id", ["t1", ""], ids=["named", "unnamed"])
def test_what_a_person_types_in_the_midst_of_it_begins_another_turn(scene, repo, form, turn_id):
    said = form("What does the walrus eat?", 2)
    scene.client.retrieve(str(repo), said, session_id="s", turn_id=turn_id)

    steered = scene.client.retrieve(
        str(repo), [*said, *form("And its tusks?", 0)], session_id="s", turn_id=turn_id
    )

    assert not steered.cached
    assert len(scene.chats) == 2
    assert "And its tusks?" in scene.embeds[-1].inputs


def test_sub_turns_that_come_while_the_first_is_answered_share_its_calls(scene, repo):
    go = threading.Event()
    scene.provider.chat = Answer(completion("Clams are eaten.").json, hold=go)

    def ask(number: int):
        with scene.daemon.client() as client:
            return client.retrieve(str(repo), _openai("What does it eat?", number), session_id="s")

    with ThreadPoolExecutor(SUB_TURNS) as threads:
        asking = [threads.submit(ask, number) for number in range(SUB_TURNS)]
        scene.provider.wait_until(lambda: len(scene.chats) == 1)
        go.set()
        strategies = {each.result().strategy for each in asking}

    assert strategies == {"hyde"}
    assert (len(scene.chats), len(scene.embeds)) == (1, 1)


def test_a_list_that_is_cut_from_the_front_costs_one_more_retrieval_and_no_wrong_answer(scene, repo):
    scene.provider.chat = [completion("Clams are eaten."), completion("Tusks are long.")]
    earlier = [*_openai("The walrus.", 1), {"role": "assistant", "content": "It eats clams."}]
    said = [*earlier, {"role": "user", "content": "go on"}]
    cut = [*said[3:], {"role": "assistant", "content": "It has tusks."}, {"role": "user", "content": "go on"}]

    first = scene.client.retrieve(str(repo), said, session_id="s")
    shorter = scene.client.retrieve(str(repo), said[3:], session_id="s")
    other = scene.client.retrieve(str(repo), cut[len(cut) - len(said) :], session_id="s")

    assert [reply.cached for reply in (first, shorter, other)] == [False, False, False]
    assert len(scene.chats) == 3


def test_the_same_words_in_a_list_of_one_message_see_what_was_remembered_since(scene, repo):
    """A hook passes the prompt alone, and a person says the same again on another day."""
    first = scene.ask(repo, "the walrus", "")
    again = scene.ask(repo, "the walrus", "")
    scene.client.remember(str(repo), "The walrus sings.")
    scene.load(repo)
    later = scene.ask(repo, "the walrus", "")

    assert [reply.cached for reply in (first, again, later)] == [False, True, False]
    assert len(later.memories) == len(first.memories) + 1
