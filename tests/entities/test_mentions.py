"""Entities of a text: names by their form, relations by the words between two names."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from forged.entities import entity_id, mentions_in, mentions_of
from forged.entities.mentions import MOST_ENTITIES, MOST_RELATIONS
from forged.memory import Entity, EntityRelation
from tests.data.memories import memory

FALLS = EntityRelation("Ledger", "falls-under", "Policy 7", 0.5)


def named(text: str) -> list[tuple[str, str]]:
    return [(each.name, each.type) for each in mentions_in(text).entities]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Read [[Release checklist]] first.", [("Release checklist", "page")]),
        ("Its entry is src/app/main.py, see ./docs/ and ~/.config/x.toml.", [
            ("src/app/main.py", "path"), ("./docs/", "path"), ("~/.config/x.toml", "path"),
        ]),
        ("Change pyproject.toml, the Makefile and .gitignore.", [
            ("pyproject.toml", "path"), ("Makefile", "path"), (".gitignore", "path"),
        ]),
        ("`/v1/orders` needs `X-Token`.", [("/v1/orders", "path"), ("X-Token", "name")]),
        ("`pip install requests==2.3 'httpx[http2]' -q`", [("requests", "package"), ("httpx", "package")]),
        ("npm install @acme/log and go on", [("npm", "technology"), ("@acme/log", "package")]),
        ("go get github.com/foo/bar", [("github.com/foo/bar", "package")]),
        ("`parse_all()`, errors.As() and user_id in PaymentForm; MAX_SIZE", [
            ("parse_all", "identifier"), ("errors.As", "identifier"), ("user_id", "identifier"),
            ("PaymentForm", "name"), ("MAX_SIZE", "identifier"),
        ]),
        ("We moved from postgres to Node.js and React.", [
            ("PostgreSQL", "technology"), ("Node.js", "technology"), ("React", "technology"),
        ]),
        ("この `api` は redis を使う", [("api", "name"), ("Redis", "technology")]),
    ],
)  # fmt: skip
def test_what_has_the_form_of_a_name_is_named(text, entities):
    assert named(text) == entities


@pytest.mark.parametrize(
    "text",
    [
        "React quickly, and rust never sleeps. Go on; express yourself.",
        "Send and/or TCP/IP, CI/CD, application/json, 24/7, his/her, 1.2.3, v2.0 and e.g. this, i.e. that.",
        "It returns `true`, `None`, `42` or `1.2.3`; `npm run build` is a command, `class` a word.",
        "See https://example.org/foo_bar/baz.py or write to my_name@example.org.",
        "APIs, PRs, 5 GiB, a PhD and _emphasis_ are no names, __neither__ is this.",
        "```python\nimport secret_module\nfoo_bar = BazQux()\n```",
        "Monday. The User asked. Everything was Fine.",
    ],
)
def test_ordinary_words_addresses_and_code_blocks_name_nothing(text):
    assert named(text) == []


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Apollo depends on Redis.", ("Apollo", "depends-on", "Redis")),
        ("Project Apollo must follow Policy Seven.", ("Project Apollo", "falls-under", "Policy Seven")),
        ("`orders` is replaced by the `ledger`.", ("ledger", "replaces", "orders")),
        ("[[Ledger|the book]] is part of [[Billing]].", ("Ledger", "part-of", "Billing")),
        ("`shop` -> `ledger`", ("shop", "leads-to", "ledger")),
        ("`api` hängt von dem `auth` ab.", ("api", "depends-on", "auth")),
        ("`flyway` wurde durch `atlas` ersetzt.", ("atlas", "replaces", "Flyway")),
        ("`core` dépend de `utils`", ("core", "depends-on", "utils")),
        ("Kafka fue reemplazado por NATS", ("NATS", "replaces", "Kafka")),
        ("o `site` depende do `banco`", ("site", "depends-on", "banco")),
        ("`api`は`redis`に依存している", ("api", "depends-on", "Redis")),
        ("`webpack` 已被 `esbuild` 取代", ("esbuild", "replaces", "webpack")),
    ],
)
def test_words_between_two_names_relate_them_in_seven_languages(text, relation):
    (found,) = mentions_in(text).relations

    assert (found.source, found.relation, found.target) == relation
    assert {found.source, found.target} <= {name for name, _ in named(text)}


@pytest.mark.parametrize(
    "text",
    [
        "Does `api` depend on `auth`?",
        "`api` no longer uses `auth`.",
        "It depends on `auth`, and everything uses Redis. We need Kafka.",
        "`api` uses a lot of memory. `auth` is fine.",
        "`api` uses `api`.",
        "Der Dienst nutzt Redis.",
        "`api` hängt von `auth` nie zu stark.",
    ],
)
def test_questions_denials_and_words_that_are_no_names_relate_nothing(text):
    assert mentions_in(text).relations == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ledger", "ledger"),
        ("`parse_all()`", "PARSE_ALL"),
        ("./src/app.py", "src/app.py"),
        ("Postgres", "PostgreSQL"),
        ("Ａｐｏｌｌｏ", "apollo"),
        (" Policy\n 7 ", "policy 7"),
    ],
)
def test_one_thing_has_one_id_however_it_is_written(one, other):
    assert entity_id(one) == entity_id(other) != ""


def test_front_matter_comes_first_and_says_what_kind_of_thing_it_is():
    found = mentions_of(
        replace(
            memory("mem_a", "`ledger` uses Kafka."),
            entities=(Entity("Ledger", "service", "keeps the books"),),
            relations=(FALLS, EntityRelation("ledger", "uses", "kafka", 0.9)),
        )
    )

    assert found.entities[0] == Entity("Ledger", "service", "keeps the books")
    assert [entity_id(each.name) for each in found.entities] == ["ledger", "kafka", "policy 7"]
    assert found.relations == (FALLS, EntityRelation("ledger", "uses", "kafka", 0.9))


_HOSTILE = (
        "[[" * 40_000,
        "`" * 80_000,
        "a/" * 40_000,
        "a_" * 40_000,
        "A" * 80_000,
        "a." * 40_000,
        "`a` -> " * 12_000,
        "pip install " * 7_000,
        "```" + "x" * 80_000,
        "Aa " * 30_000,
        "a@" * 40_000,
        "http://" * 12_000,
        "\ud800\x00\u202e" * 20_000,
        "Policies 7, 8 and " * 5_000,
        "Aa de la " * 9_000,
        "Aa B. " * 13_000,
        "the aa team " * 7_000,
        "aa-bb " * 13_000,
        ("x" * 70 + "\n") * 1_000,
    )  # fmt: skip


@pytest.mark.speed
@pytest.mark.parametrize("text", _HOSTILE, ids=range(len(_HOSTILE)))
def test_a_hostile_text_takes_linear_time(text):
    began = time.process_time()
    mentions_in(text)

    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("text", _HOSTILE, ids=range(len(_HOSTILE)))
def test_a_hostile_text_names_a_bounded_number_of_things(text):
    found = mentions_in(text)

    assert len(found.entities) <= MOST_ENTITIES
    assert len(found.relations) <= MOST_RELATIONS
    assert all(len(each.name) <= 120 for each in found.entities)
