"""HyDE: what the model is asked, what is asked again, and what of its answer is handed on."""

from __future__ import annotations

import asyncio

import pytest

from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.models import Completion
from forged.retrieval import hyde
from forged.text import prompts
from tests.support.provider.embedders import QUERY

SAID = (Utterance("user", "which indent?"), Utterance("assistant", "let me look"))
LONG = tuple(Utterance("user", f"message {n} " + "é" * 900) for n in range(10))


class Model:
    """A chat model that notes what it was asked; `replies` are texts or errors, the last one for ever."""

    def __init__(self, *replies: str | ProviderError) -> None:
        self.replies = list(replies or ["one\ntwo"])
        self.asked: list[tuple[str, str, float]] = []

    async def complete(self, prompt, *, deadline):
        self.asked.append((prompt.system, prompt.user, deadline))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, ProviderError):
            raise reply
        return Completion(reply)

    async def aclose(self):
        pass


def asked(model, window=SAID, count=5):
    return asyncio.run(
        hyde.hypotheses(model, window, QUERY, count=count, deadline=12.5, is_late=lambda: False)
    ).texts


def test_the_message_and_the_words_of_the_prompt_are_no_hypotheses():
    echo = prompts.text("hyde").splitlines()[-1]
    model = Model(f"{echo}\nWhich indent does the parser use?\nTabs are used.")

    assert asked(model, (Utterance("user", "which indent does the parser use"),)) == ("Tabs are used.",)


# --- a reply that is read while it is written ---


class Writer(Model):
    """Writes its reply letter by letter until it is enough."""

    async def complete(self, prompt, *, deadline):
        whole = (await super().complete(prompt, deadline=deadline)).text
        for end in range(len(whole)):
            if prompt.enough(whole[:end].strip()):
                self.written = end
                return Completion(whole[:end].strip(), whole=False)
        return Completion(whole)


def test_a_model_that_never_ends_its_line_is_hung_up_on():
    model = Writer("word " * 10_000)

    (found,) = asked(model)

    assert len(found) <= 400
    assert model.written < 20_000


# --- a reply that is none, or breaks off ---


class Flawed(Model):
    """Says this, and why it is no whole answer."""

    def __init__(self, text: str, failure: str) -> None:
        super().__init__()
        self.completion = Completion(text, whole=False, failure=failure, message=f"http://x: {failure}")

    async def complete(self, prompt, *, deadline):
        return self.completion


@pytest.mark.parametrize("failure", ["refused", "filtered", "cut", "server"])
def test_a_reply_that_is_no_answer_is_a_failure_of_its_own_name(failure):
    with pytest.raises(ProviderError, match=f"^http://x: {failure}$") as caught:
        asked(Flawed("", failure))

    assert caught.value.reason == failure


# --- a model that takes less than the whole window ---


def test_a_window_that_is_refused_is_asked_about_once_more_by_its_newest_messages():
    model = Model(ProviderError("4,096 tokens at most", reason="bad_input", status=400), "one")

    assert asked(model, LONG) == ("one",)
    whole, newest = (user for _, user, _ in model.asked)
    assert "message 0 " in whole
    assert "message 9 " in newest
    assert newest.count("message ") == newest.count("é" * 900) == 3
