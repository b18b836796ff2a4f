"""What is told of a session's capture, once, in sentences."""

from __future__ import annotations

from msgspec.structs import replace

from forged.capture.news import SENTENCES, SESSIONS, News
from forged.capture.values import Refused
from forged.files import Root
from forged.memory import Scope
from forged.state import Document
from tests.data.memories import memory


def document(name: str, text: str, **fields: object) -> Document:
    return Document(Root("/repo", Scope.REPO), replace(memory(name, text), **fields))


def test_what_was_kept_is_said_with_where_it_holds_and_how_to_take_it_back():
    news = News()
    news.kept("s", [document("mem_a", "Tests run\nwith pytest.")])
    news.kept("s", [document("mem_b", "Be brief.", scope="user", supersedes="mem_0")])

    assert news.of("s") == (
        'kept, for this repository: "Tests run with pytest."; `forgectl forget mem_a` takes it back',
        (
            'kept, in place of an older one, for you in all projects: "Be brief."; '
            "`forgectl forget mem_b` takes it back"
        ),
    )


def test_a_refusal_is_said_with_its_reason_and_without_its_secret():
    news, key = News(), "sk-proj-" + "a1B2c3D4" * 6
    news.refused("s", [Refused(f"the key is {key}", "it holds a secret")])

    (sentence,) = news.of("s")
    assert sentence.startswith('not kept: "the key is ')
    assert sentence.endswith('": it holds a secret')
    assert key not in sentence


def test_what_was_told_is_not_told_again_and_nobody_else_is_told():
    news = News()
    news.kept("s", [document("mem_a", "one"), document("mem_b", "two")])
    news.told("s", 1)

    assert ["two" in each for each in news.of("s")] == [True]
    assert (news.of("other"), news.of("")) == ((), ())
    news.told("s", 1)
    assert news.of("s") == ()


def test_it_is_bounded():
    news = News()
    for number in range(SESSIONS + 1):
        news.kept(f"s{number}", [document("mem_a", str(each)) for each in range(SENTENCES + 1)])

    assert news.of("s0") == ()
    assert len(news.of("s1")) == SENTENCES
