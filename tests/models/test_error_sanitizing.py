"""Provider's error messages, quoted without sent text and without parts of a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forged.models.error_sanitizing import KEY as KEY_SHOWN
from forged.models.error_sanitizing import SensitiveTexts, sanitized
from tests.models.calls import KEY, refused
from tests.support.provider import Answer, ScriptedProvider


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


# What a provider says, and a memory that has eight characters and more in common with it.
QUOTED = {
    "a model's name": (
        "model `qwen2.5-coder` not found, try pulling it first",
        "We ask model `qwen2.5-coder` for hypotheses; it was not found first.",
    ),
    "a model's name in plain words": (
        "The model text-embedding-3-small does not exist or you do not have access to it.",
        "The model text-embedding-3-small does not exist in our account.",
    ),
    "a limit": (
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
        "The maximum context length is 8192 tokens, however long the session was.",
    ),
    "a quota": (
        "You exceeded your current quota, please check your plan and billing details.",
        "Please check your plan and billing details before a release.",
    ),
    "a part of a word": (
        "Unsupported value for 'seed' of the tokenizer",
        "It was tokenized by value for us.",
    ),
    "a server": ("upstream connect error or disconnect before headers", "Send the headers before the body."),
}


@pytest.mark.parametrize(("message", "memory"), QUOTED.values(), ids=QUOTED.keys())
def test_everyday_words_of_errors_and_names_of_models_are_reported_whatever_was_sent(
    provider, message, memory
):
    provider.embeddings = Answer({"error": {"message": message}}, status=404)

    assert str(refused(provider, memory)).endswith(f"answered 404: {message}")


MEMORY = "Our bank is Walrus & Co; its pin is 4711, the harbour closes at dusk."
ECHOED = {
    "all of it": f"cannot embed {MEMORY!r}",
    "a few words": "offending: bank is Walrus",
    "one rare word with its neighbour": "near 'harbour closes'",
    "the end of a word": "near 'alrus & Co; its'",
    "in capitals": "INVALID INPUT: OUR BANK IS WALRUS",
    "escaped": "bad: \\u0062ank is Walrus",
}


@pytest.mark.parametrize("message", ECHOED.values(), ids=ECHOED.keys())
def test_a_stretch_of_what_was_sent_is_not_reported(provider, message):
    provider.embeddings = Answer({"error": {"message": message}}, status=400)

    assert str(refused(provider, MEMORY)).endswith("answered 400")


def test_a_stretch_of_another_script_is_not_reported():
    assert sanitized("无法嵌入: 我的银行密码是四七一一", SensitiveTexts(("我的银行密码是四七一一号",))) == ""
    assert sanitized("无法嵌入", SensitiveTexts(("我的银行密码是四七一一号",))) == "无法嵌入"


def test_a_short_text_is_not_reported_as_a_whole_unless_it_is_an_everyday_word():
    assert sanitized("bad input: hunter", SensitiveTexts(("hunter",))) == ""
    assert sanitized("bad input: token", SensitiveTexts(("token",))) == "bad input: token"
    assert sanitized("bad input: abc", SensitiveTexts(("abc",))) == "bad input: abc"


def test_what_a_403_says_is_reported_without_any_part_of_the_key(provider):
    message = (
        f"Project of {KEY} has no access to model gpt-x (key {KEY[:9]}, sk-ve...6789, sk-****89); ask us"
    )
    provider.embeddings = Answer({"error": {"message": message}}, status=403)

    message = str(refused(provider, "a memory"))

    assert f"answered 403: Project of {KEY_SHOWN} has no access to model gpt-x" in message
    assert not any(KEY[at : at + 5] in message for at in range(len(KEY) - 4))


@pytest.mark.parametrize(
    "message",
    [
        f"key={KEY}",
        f"Bearer {KEY.upper()} is unknown",
        "sk-verys****** is unknown",
        "sk-...6789 is unknown",
        "sk-ab•••yz is unknown",
        "secret is unknown: 0123456",
    ],
)
def test_words_that_hold_a_part_of_a_key_are_cut_out_at_any_status(provider, message):
    provider.embeddings = Answer({"error": {"message": message}}, status=400)

    message = str(refused(provider, "a memory"))

    assert KEY_SHOWN in message
    assert not any(KEY[at : at + 5] in message.casefold() for at in range(len(KEY) - 4))


def test_a_sentence_with_a_key_that_is_spelt_out_is_not_reported():
    assert sanitized("your key is s k v e r y s e c r e t", SensitiveTexts(keys=(KEY,))) == ""


def test_a_401_says_nothing_beyond_its_code(provider):
    provider.embeddings = Answer(
        {"error": {"message": "no key of ours", "code": "invalid_api_key"}}, status=401
    )

    assert str(refused(provider, "a memory")).endswith("answered 401 invalid_api_key")
