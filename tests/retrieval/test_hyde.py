"""HyDE: what the model is asked, what is asked again, and what of its answer is handed on."""

from __future__ import annotations

import asyncio
import json

import pytest

from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.models import Completion
from forged.retrieval import hyde
from forged.retrieval.hyde import Hypotheses
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


def test_the_model_gets_the_window_the_number_and_the_deadline():
    model = Model()

    found = asked(model, count=3)

    ((system, user, deadline),) = model.asked
    assert found == ("one", "two")
    assert system == prompts.text("hyde")
    assert "user: which indent?\n---\nassistant: let me look" in user
    assert "Write 3 " in user
    assert deadline == 12.5


def test_no_more_than_were_asked_for_are_taken():
    model = Model("\n".join(f"fact {n}" for n in range(50)))

    assert asked(model, count=5) == tuple(f"fact {n}" for n in range(5))


def test_what_the_user_said_reaches_the_model_to_the_letter():
    model = Model()

    asked(model, (Utterance("user", "why is ${HOME} $count and $window?"),))

    assert "user: why is ${HOME} $count and $window?" in model.asked[0][1]


def test_the_message_and_the_words_of_the_prompt_are_no_hypotheses():
    echo = prompts.text("hyde").splitlines()[-1]
    model = Model(f"{echo}\nWhich indent does the parser use?\nTabs are used.")

    assert asked(model, (Utterance("user", "which indent does the parser use"),)) == ("Tabs are used.",)


def test_what_was_said_before_the_last_message_may_be_a_hypothesis():
    window = (Utterance("user", "We deploy with Kamal."), Utterance("user", "how do I roll back?"))

    assert asked(Model("We deploy with Kamal."), window) == ("We deploy with Kamal.",)


def test_an_empty_window_asks_nobody():
    model = Model()

    assert asked(model, ()) == ()
    assert model.asked == []


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


FACTS = "1. Tabs are used.\n2. CI runs on push.\n3. Go is at 1.25.\n4. Fridays are frozen.\n"


def late(model, after: int, count=5):
    """What is found by a caller whose deadline is near from the n-th look on."""
    return found_late(model, after, count).texts


def found_late(model, after: int, count=5) -> Hypotheses:
    looks = iter([False] * after)
    return asyncio.run(
        hyde.hypotheses(model, SAID, QUERY, count=count, deadline=12.5, is_late=lambda: next(looks, True))
    )


def test_a_model_that_has_written_enough_is_not_waited_for():
    model = Writer(FACTS + "And so on.\n" * 1_000)

    assert asked(model, count=2) == ("Tabs are used.", "CI runs on push.")


NOTES = json.dumps(
    [{"kind": "fact", "note": note} for note in ("Tabs are used.", "CI runs on push.", "Go is new.")],
    indent=1,
)


@pytest.mark.parametrize(
    ("written", "after", "found"),
    [
        (FACTS, 0, ("Tabs are used.",)),
        (FACTS, 25, ("Tabs are used.", "CI runs on push.")),
        (FACTS, 10_000, ("Tabs are used.", "CI runs on push.", "Go is at 1.25.", "Fridays are frozen.")),
        ("Sure, here are five notes:\n\n- Tabs are used.\n- CI", 0, ("Tabs are used.",)),
        (NOTES, 0, ("Tabs are used.",)),
        ('{"hypotheses": ["Tabs are used.", "CI runs on push."]}', 0, ("Tabs are used.",)),
    ],
    ids=[
        "late from the first on",
        "late from the second on",
        "not late",
        "with a preamble",
        "JSON",
        "JSON on one line",
    ],
)
def test_who_is_late_waits_for_a_first_line_and_takes_those_that_stand_and_no_half_of_one(
    written, after, found
):
    assert late(Writer(written), after=after) == found


def test_a_model_that_never_ends_its_line_is_hung_up_on():
    model = Writer("word " * 10_000)

    (found,) = asked(model)

    assert len(found) <= 400
    assert model.written < 20_000


def test_a_reply_that_broke_off_in_its_only_line_is_taken():
    class Broken(Model):
        async def complete(self, prompt, *, deadline):
            return Completion("Tabs are", whole=False)

    assert asked(Broken()) == ("Tabs are",)


def test_fewer_hypotheses_than_the_model_was_about_to_write_say_why():
    early = found_late(Writer(FACTS), after=25)

    assert early.partial == "2 of 5 hypotheses: the time was nearly over"
    assert found_late(Writer(FACTS), after=25, count=2).partial == ""
    assert found_late(Writer(FACTS), after=10_000).partial == ""  # four are all that it wrote


# --- a reply that is none, or breaks off ---


class Flawed(Model):
    """Says this, and why it is no whole answer."""

    def __init__(self, text: str, flaw: str) -> None:
        super().__init__()
        self.completion = Completion(text, whole=False, flaw=flaw, told=f"http://x: {flaw}")

    async def complete(self, prompt, *, deadline):
        return self.completion


@pytest.mark.parametrize("flaw", ["refused", "filtered", "cut", "server"])
def test_a_reply_that_is_no_answer_is_a_failure_of_its_own_name(flaw):
    with pytest.raises(ProviderError, match=f"^http://x: {flaw}$") as caught:
        asked(Flawed("", flaw))

    assert caught.value.reason == flaw


@pytest.mark.parametrize("flaw", ["filtered", "cut", "server", ""])
def test_of_a_reply_that_breaks_off_the_finished_lines_are_taken(flaw):
    found = found_late(Flawed("Tabs are used.\nCI runs on push.\nGo is", flaw), after=0)

    assert found.texts == ("Tabs are used.", "CI runs on push.")
    assert found.partial == "2 of 5 hypotheses: the reply broke off"


def test_an_empty_reply_is_no_failure_but_no_hypotheses():
    assert asked(Flawed("", "empty")) == ()


# --- a model that takes less than the whole window ---


def test_a_window_that_is_refused_is_asked_about_once_more_by_its_newest_messages():
    model = Model(ProviderError("4,096 tokens at most", reason="bad_input", status=400), "one")

    assert asked(model, LONG) == ("one",)
    whole, newest = (user for _, user, _ in model.asked)
    assert "message 0 " in whole
    assert "message 9 " in newest
    assert newest.count("message ") == newest.count("é" * 900) == 3


OTHERS = ("timeout", "server", "unreachable", "auth", "rate_limited", "bad_reply")


@pytest.mark.parametrize(
    ("reason", "window", "times"),
    [("bad_input", LONG, 2), ("bad_input", SAID, 1), *((reason, LONG, 1) for reason in OTHERS)],
)
def test_only_a_refused_window_that_is_long_is_made_shorter_and_only_once(reason, window, times):
    model = Model(ProviderError("no", reason=reason))

    with pytest.raises(ProviderError):
        asked(model, window)
    assert len(model.asked) == times
