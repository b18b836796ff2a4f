"""Gemini's form of a conversation: its text stands in `parts`, and its assistant is called `model`."""

from __future__ import annotations

import pytest

from forged.conversation import Utterance
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

FACT = "The harbour opens at noon on every working day."
ASKED = "When does the harbour open?"


def of(role: str, *texts: str, **fields: object) -> wire.Message:
    return wire.Message(role, parts=tuple(wire.Part(text=text, **fields) for text in texts))


def plain(*messages: wire.Message) -> tuple[wire.Message, ...]:
    """The same in the form of the others."""
    roles = {"model": "assistant"}
    return tuple(
        wire.Message(roles.get(each.role, each.role), "\n".join(part.text for part in each.parts))
        for each in messages
    )


def waiting(parts) -> list[Utterance]:
    return [each for event in parts.capture._queue.events() for each in event.window]


@pytest.mark.parametrize("mode", ["append", "block", "plain"])
async def test_a_conversation_in_it_brings_what_the_same_one_brings_in_another_form(home, repo, mode):
    put(repo, memory("mem_1", FACT), memory("mem_2", "Ships are painted in May."))
    said = (of("user", "hello"), of("model", "good day"), of("user", "One thing.", ASKED))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        replies = [
            await parts.ask(
                wire.Retrieve(workspace=str(repo), session_id=name, messages=messages, mode=mode, agent=name)
            )
            for name, messages in (("gemini", said), ("other", plain(*said)))
        ]
    first, second = ([hit.id for hit in reply.memories] for reply in replies)
    assert first == second
    assert "mem_1" in first
    assert FACT in replies[0].text


async def test_what_is_said_in_it_is_captured_by_whom_it_was_said(home, repo):
    said = (of("user", "we use pnpm", "not npm"), of("model", "Noted."), of("model", "hm", thought=True))
    async with assembled(home) as parts:
        reply = await parts.ask(wire.Capture(workspace=str(repo), session_id="s", messages=said))
        assert reply.outcome == "accepted"
        assert waiting(parts) == [
            Utterance("user", "we use pnpm\nnot npm"),
            Utterance("assistant", "Noted."),
        ]


@pytest.mark.parametrize("form", ["block", "escaped", "sentence"])
async def test_an_echo_of_what_was_injected_is_not_learnt_from_it(home, repo, form):
    put(repo, memory("mem_1", FACT))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        asked = wire.Retrieve(workspace=str(repo), session_id="s", messages=(of("user", ASKED),))
        text = (await parts.ask(asked)).text
        assert FACT in text
        echo = {
            "block": text,
            "escaped": text.replace("<", "&lt;").replace(">", "&gt;"),
            "sentence": f"As noted: {FACT} So there.",
        }[form]
        said = (of("user", ASKED), of("model", f"I know it.\n\n{echo}", "And more."))
        await parts.ask(wire.Capture(workspace=str(repo), session_id="s", messages=said))
        window = waiting(parts)
        assert parts.daemon.metrics.echoes_removed > 0
    assert [each.role for each in window] == ["user", "assistant"]
    assert "noon" not in window[1].text
    assert "And more." in window[1].text
