"""Follow-up messages: those that need context, those that do not, and empty ones."""

from __future__ import annotations

import pytest

from forged.conversation import Utterance
from forged.retrieval import values
from forged.retrieval.values import context_of, is_elliptical, only_continues, says_nothing


def talk(*texts):
    return tuple(Utterance("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(texts))


@pytest.mark.parametrize(
    "message",
    [
        "ok",
        "Thanks!",
        "haha nice",
        "ok, thank you very much",
        "alles klar, danke",
        "vale, gracias",
        "super, merci beaucoup",
        "beleza, obrigado",
        "好的,谢谢",
        "了解、ありがとう",
        "ah yes",
        "Oh, sí!",
        "👍",
        "...",
    ],
)
def test_chat_says_nothing_and_leans_on_nothing(message):
    assert says_nothing(message)
    assert not is_elliptical(message)
    assert context_of(talk("where does the port come from?", "From the env file.", message)) == ""


@pytest.mark.parametrize(
    "message",
    [
        "do it",
        "and the tests?",
        "commit it",
        "what about rows with nothing in those columns",
        "und die Tests?",
        "mach das auch für die andere",
        "¿y los tests?",
        "et pour les autres ?",
        "e os testes?",
        "那测试呢?",
        "それもお願い",
    ],
)
def test_an_elliptical_message_leans_on_what_was_said(message):
    assert not says_nothing(message)
    assert is_elliptical(message)


@pytest.mark.parametrize(
    "message",
    [
        "add a retry with exponential backoff to the webhook sender of the billing service",
        "and lib/features/home/card.dart:61:28 says the getter is missing",
        "Wie richte ich für den Export einen nächtlichen Lauf auf dem Server ein?",
        "把导出任务改成每天凌晨两点在备用服务器上运行,并且把结果写到对象存储里",
    ],
)
def test_a_message_that_names_its_subject_has_no_context(message):
    assert not is_elliptical(message)
    assert context_of(talk("is the cache warm?", "It is.", message)) == ""


def test_what_is_continued_is_the_last_question_and_the_end_of_the_answer_without_its_code():
    answer = "x" * 500 + "\n```python\nprint('secret plan')\n```\nSo the lock file is stale."
    found = context_of(talk("older", "old answer", "why is the build red?", answer, "fix it"))

    assert found.startswith("why is the build red?\n")
    assert found.endswith("So the lock file is stale.\nfix it")
    assert "secret plan" not in found
    assert "old" not in found.replace("stale", "")
    assert len(found) < 400


@pytest.mark.parametrize(
    "message",
    ["lol ok so i do have a fever", "haha and the cat?", "jajaja y eso?", "kkkk e agora", "哈哈哈那个猫呢"],
)
def test_an_aside_that_begins_with_laughter_leans_on_nothing(message):
    assert not is_elliptical(message)
    assert context_of(talk("where does the port come from?", "From the env file.", message)) == ""


def test_of_a_long_paste_both_ends_and_the_names_between_them_are_continued():
    frames = "".join(f"    at step {n} of the run, nothing to see here\n" for n in range(40))
    names = "  eu.portage.AnnounceService.announce\n"
    pasted = f"why is the export red?\n{frames}{names}{frames}PoolTimeoutError: gone"
    found = context_of(talk(pasted, "The pool is empty.", "fix it"))

    assert found.startswith("why is the export red?\n")
    assert "\neu.portage.AnnounceService.announce\n" in found
    assert found.endswith("PoolTimeoutError: gone\nThe pool is empty.\nfix it")
    assert len(found) < 800


def test_a_change_of_subject_ends_it():
    """The message that turns to something else stands alone, and what follows it continues that."""
    turn = "set up a nightly export of the ledger tables to object storage"
    said = talk("why is the build red?", "The lock file is stale.", turn)

    assert context_of(said) == ""
    assert "lock file" not in context_of((*said, *talk(turn, "Done.", "test it")[1:]))


def test_only_going_on_is_nothing_without_anything_before():
    assert only_continues("go on")
    assert only_continues("yes, do it please")
    assert not only_continues("flash it")


class Counting:
    """A pattern that counts the matches that were asked for."""

    def __init__(self, pattern):
        self.pattern, self.found = pattern, 0

    def finditer(self, text):
        for each in self.pattern.finditer(text):
            self.found += 1
            yield each


@pytest.mark.parametrize("asks", [says_nothing, only_continues, is_elliptical])
def test_of_a_log_in_a_message_no_more_words_are_read_than_tell(asks, monkeypatch):
    counting = Counting(values._WORD)
    monkeypatch.setattr(values, "_WORD", counting)

    assert not asks("deploy of the gateway failed with a timeout\n" * 20_000)
    assert counting.found < 100
