"""Memories of a store in an injected text."""

from __future__ import annotations

from forged.memory import Memory
from forged.sessions.block import render
from forged.stores import Ranked
from tests.evaluation.dataset import Item
from tests.evaluation.injected_text import Parts, Reader, beyond


def item(name: str, content: str) -> Item:
    return Item(Memory(name, content, "", "", 1, "repo", "patterns", "s", "explicit"), frozenset({name}))


ONE = item("m_one", "Use pnpm.\nNever npm, <b>not once</b>.\n")
TWO = item("m_two", "迁移脚本只能追加\n")


def test_a_memory_is_there_where_its_whole_content_does_whatever_is_around_it():
    block = render([Ranked(TWO.memory, 1.0), Ranked(ONE.memory, 0.5)]).text

    assert Reader([ONE, TWO]).found(block) == ("m_two", "m_one")
    assert Reader([ONE, TWO]).found("- Use pnpm.\n- Never npm, &lt;b&gt;not once&lt;/b&gt;.") == ("m_one",)
    assert Reader([ONE, TWO]).found("> Use pnpm.") == ()


def test_what_a_note_says_of_an_older_version_is_no_memory():
    older = item("m_old", "Use npm.")
    block = render([Ranked(ONE.memory, 1.0, older=(older.memory,))]).text

    assert "Use npm." in block
    assert Reader([ONE, older]).found(block) == ("m_one",)


def test_tokens_are_of_standing_memories_of_searched_ones_and_of_the_frame():
    text = f"<open>\n{TWO.memory.content.strip()}\n{ONE.memory.content.strip()}\n</open>"

    parts = Reader([ONE, TWO]).parts(text, frozenset({"m_two"}))

    assert parts == Parts(24 / 4, len(ONE.memory.content.strip()) / 4, len("<open>\n\n\n</open>") / 4)
    assert parts.total == len(text.encode()) / 4


def test_only_lines_after_those_that_two_texts_begin_with_are_beyond():
    assert beyond("a\nb\nc\n", "a\nb\nd\n") == "c\n"
    assert beyond("a\nb1\n", "a\nb2\n") == "b1\n"
    assert beyond("a\n", "a\n") == ""
