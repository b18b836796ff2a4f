"""Statements that rules and words save, in seven languages, without a model."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier, is_urgent
from forged.capture.values import Classified
from forged.conversation import Utterance
from forged.state import Event
from tests.training import data

RULES = RuleClassifier(lambda *_: (), LocalClassifier(lambda *_: ()).refine)


def heard(message: data.Message) -> Classified:
    window = tuple(
        Utterance("user" if one["role"] == "user" else "assistant", one["content"])
        for one in message.messages
    )
    found = asyncio.run(RULES.classify(Event(window=window), (), deadline=0.0, attempts=0))
    # There is nothing here yet that could be replaced.
    sure = tuple(each for each in found.proposals if not each.update_only)
    return msgspec.structs.replace(found, proposals=sure)


def test_words_alone_keep_half_and_nearly_nothing_else(capsys):
    """The development half, which was looked at and learnt from; the other half judges them."""
    kept = right = hit = asked = reported = scoped = wanted = 0
    for message in data.messages():
        found = heard(message)
        kept += len(found.proposals)
        right += sum(any(note.is_in(each.content) for note in message.keep) for each in found.proposals)
        for note in message.keep:
            of_it = next((each for each in found.proposals if note.is_in(each.content)), None)
            wanted, hit = wanted + 1, hit + (of_it is not None)
            asked, reported = asked + note.explicit, reported + (note.explicit and of_it is not None)
            scoped += of_it is not None and of_it.scope == note.scope
    with capsys.disabled():
        print(f"\nwords alone: {hit} of {wanted}, {right} of {kept} right, {reported} of {asked} asked")
    assert hit >= 0.5 * wanted
    assert right >= 0.95 * kept
    assert reported >= 0.97 * asked
    assert scoped >= 0.95 * hit


@pytest.mark.parametrize(
    "text",
    [
        "don't forget: amounts are integers, in cents",
        "kannst du dir merken, dass Beträge Cent sind?",
        "apúntate esto: los importes van en céntimos",
        "retiens que les montants sont en centimes",
        "nao esquece que os valores sao em centavos",
        "记住：金额一律用分",
        "覚えておいて、金額はセント単位です",
        "nein, bei uns laufen die Migrationen nie beim Start, das macht der DBA",
        "no, en este proyecto los importes van en céntimos, no en euros",
        "non, chez nous les logs sont dans /srv, jamais dans /var/log",
        "não, neste projeto os valores são em centavos, nunca em reais",
        "不对，我们的接口返回毫秒，不是秒",
        "違う、うちのAPIはUTCで返す決まりです、ローカル時刻ではなく",
    ],
)
def test_requests_and_corrections_of_every_language_are_urgent(text):
    assert is_urgent([text])


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_request_next_to_a_long_log_is_urgent(where):
    log, asked = "10:03 GET /orders 200\n" * 10_000, "Please remember: we deploy on Tuesdays."
    assert is_urgent([f"{asked}\n\n{log}" if where == "first" else f"{log}\n\n{asked}"])
