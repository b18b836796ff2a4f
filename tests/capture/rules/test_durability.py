"""Every sign of durability.toml by its own two examples, and what they come to in seven languages."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import get_args

import pytest

from forged.capture.rules.durability import Kind, Veto, durability_words, is_vetoed, lasting_category
from forged.capture.rules.engine import proposals_in
from forged.capture.text_patterns import any_of, plain
from forged.memory import Category, Scope

LANGUAGES = {"de", "en", "es", "fr", "ja", "pt", "zh"}
ENTRIES = [
    pytest.param(each, id=f"{table} {each.language}: {each.kind}")
    for table in ("sign", "veto")
    for each in getattr(durability_words(), table)
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_entry_takes_its_example_and_not_its_near_miss(entry):
    pattern = re.compile(entry.pattern)
    assert pattern.search(plain(entry.yes))
    assert not pattern.search(plain(entry.no))


def test_every_kind_has_every_language_and_signs_have_a_weight():
    found = Counter(
        (each.kind, each.language) for each in (*durability_words().sign, *durability_words().veto)
    )
    assert set(found.values()) == {1}
    assert {(kind, language) for kind in get_args(Kind) for language in LANGUAGES} <= set(found)
    vetoes = set(get_args(Veto))
    assert {(kind, language) for kind in vetoes for language in LANGUAGES} <= set(found)
    assert set(durability_words().weights) == set(get_args(Kind))


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("our invoices must be numbered per year, never across years", Category.PROJECT_CONVENTIONS),
        (
            "wir haben uns auf trunk-based geeinigt, release-branches gibt es nicht",
            Category.ARCHITECTURAL_DECISIONS,
        ),
        ("no, en este proyecto los importes van en céntimos, no en euros", Category.CORRECTIONS),
        (
            "je déteste les classes utilitaires, je préfère des fonctions, jamais de singletons",
            Category.CODING_PREFERENCES,
        ),
        (
            "neste projeto os valores ficam em centavos, nunca em reais, e nao usamos float",
            Category.PROJECT_CONVENTIONS,
        ),
        ("我们仓库的日志都放在 logs 目录，不写到标准输出", Category.PROJECT_CONVENTIONS),
        ("うちのAPIは日付をUTCで返すことに決定、ローカル時刻は使わない", Category.ARCHITECTURAL_DECISIONS),
    ],
)
def test_what_lasts_is_known_in_every_language(text, category):
    assert lasting_category(text) is category


@pytest.mark.parametrize(
    "text",
    [
        "our invoices are numbered per year, never across years?",
        "vielleicht einigen wir uns bei uns auf trunk-based, release-branches gibt es nicht",
        "el consultor dice que en este proyecto los importes van en céntimos, no en euros",
        "génial, chez nous on utilise toujours des classes utilitaires, jamais de fonctions",
        "por enquanto a gente usa pnpm neste projeto, npm não",
        "这次这个仓库的日志必须写英文，不能写中文",
        "とりあえずうちのAPIは日付を必ずUTCで返す、ローカル時刻は使わない",
    ],
)
def test_question_doubt_hearsay_irony_and_the_moment_speak_against_it(text):
    assert is_vetoed(text)
    assert lasting_category(text) is None


def test_a_veto_in_a_neighbour_excludes_a_sentence():
    rule = "our invoices must be numbered per year, never across years"
    assert lasting_category(rule)
    assert not lasting_category(rule, ["what if we changed that"])
    assert proposals_in(rule)
    assert proposals_in(f"{rule}. I am glad about that. 🙄") == []


@pytest.mark.parametrize(
    "patterns", [(r"\bab|cd\b", r"\b(?:e|f)g"), (r"[|(]x", r"\(a|b\|c", r"\b"), (r"^a", r"(?<=b)\bc|d")]
)
def test_one_pattern_of_many_is_found_where_any_of_them_is(patterns):
    one, each = re.compile(any_of(patterns)), [re.compile(pattern) for pattern in patterns]
    for letters in product("ab cdefg|(x", repeat=4):
        text = "".join(letters)
        assert bool(one.search(text)) == any(other.search(text) for other in each), text


def test_a_short_message_is_kept_with_its_neighbour_and_without_the_task():
    (found,) = proposals_in("Bei uns liegt das in envs/. Nie im Chart, wir haben das so beschlossen.")
    assert found.content == "Bei uns liegt das in envs/. Nie im Chart, wir haben das so beschlossen."
    (found,) = proposals_in("Wir haben uns auf Nx geeinigt, Lerna fliegt raus. Bau das bitte um.")
    assert (found.content, found.scope) == ("Wir haben uns auf Nx geeinigt, Lerna fliegt raus.", Scope.REPO)


def test_a_secret_is_not_kept_whatever_lasts():
    assert (
        proposals_in("bei uns gilt immer: das password is hunter2, nie ein anderes, auch nicht in staging")
        == []
    )
