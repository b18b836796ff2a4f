"""The fates of drafts, one by one: what is asked together does not fall together."""

from __future__ import annotations

import pytest

from forged.daemon.handlers.refusals import InvalidRequest
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

FILE = b"---\nid: mem_f\nversion: 3\nmood: calm\n---\nA file.\n"


def draft(content="Use tabs.", memory_id="mem_a", **fields):
    return wire.Draft(memory_id=memory_id, content=content, **fields)


async def fates(parts, repo, *drafts, **fields):
    reply = await parts.ask(wire.Import(workspace=str(repo), drafts=drafts, **fields))
    return [(each.became, each.memory_id) for each in reply.fates], reply


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (draft(memory_id="../x"), "is no id for a new memory"),
        (draft("<private>all of it</private>"), "nothing is left of it"),
        (draft(category="moods"), "unknown category"),
        (draft(related=(wire.Edge("mem_b", "likes"),)), "unknown relationship"),
        (draft(cues=tuple("abcdef")), "6 cues are too many"),
        (wire.Draft(memory_id="mem_f", file=FILE, name="../mem_f.md"), "cannot be the file of a memory"),
        (wire.Draft(memory_id="mem_f", file=FILE, name=".md"), "cannot be the file of a memory"),
        (
            wire.Draft(memory_id="mem_f", file=FILE + b"x" * (256 << 10), name="a.md"),
            "cannot be the file of a memory",
        ),
        (wire.Draft(memory_id="mem_f", file=b"---\nid: mem_f\n---\n\xff", name="a.md"), "not a text file"),
    ],
)
async def test_a_draft_that_is_none_is_refused_alone(home, repo, bad, why):
    async with assembled(home) as parts:
        told, reply = await fates(parts, repo, bad, draft("Use spaces.", "mem_b"))

    assert [became for became, _ in told] == ["refused", "new"]
    assert why in reply.fates[0].reason
    assert [path.name for path in (repo / ".forge/memory").iterdir()] == ["mem_b.md"]


async def test_what_is_written_has_the_time_and_the_name_of_its_source(home, repo):
    time = "2025-04-02T08:00:00+02:00"
    one = draft(created_at=time, updated_at="never", source="CLAUDE.md", category="patterns", cues=("a",))
    async with assembled(home) as parts:
        _, reply = await fates(parts, repo, one)
        asked = wire.GetMemories(workspace=str(repo), ids=("mem_a",), min_generation=reply.generation)
        (record,) = (await parts.ask(asked)).memories

    assert (record.created_at, record.updated_at, record.session_id) == (time, time, "import:CLAUDE.md")
    assert (record.origin, record.category, record.cues, record.version) == ("import", "patterns", ("a",), 1)


async def test_a_file_is_written_as_it_is_and_asked_again_it_is_there(home, repo):
    one = wire.Draft(memory_id="mem_f", file=FILE, name="odd name.md")
    async with assembled(home) as parts:
        first, _ = await fates(parts, repo, one)
        again, _ = await fates(parts, repo, one)
        other, reply = await fates(
            parts, repo, wire.Draft(memory_id="mem_f", file=FILE + b"more", name="x.md")
        )
        taken, _ = await fates(parts, repo, wire.Draft(memory_id="g", file=b"other text", name="odd name.md"))

    assert (first, again, other) == ([("new", "mem_f")], [("there", "mem_f")], [("conflict", "mem_f")])
    assert "stays as it is" in reply.fates[0].reason
    assert taken == [("conflict", "odd name")]
    assert {path.name: path.read_bytes() for path in (repo / ".forge/memory").iterdir()} == {
        "odd name.md": FILE
    }


async def test_an_older_text_that_was_replaced_is_not_brought_back(home, repo):
    put(home, memory("mem_1", "Use tabs.", scope="user"))
    put(home, memory("mem_2", "Use spaces.", supersedes="mem_1", version=2, scope="user"))
    async with assembled(home) as parts:
        told, _ = await fates(parts, repo, draft("use tabs"), scope="user")

    assert told == [("there", "mem_1")]


async def test_what_lies_there_and_is_withheld_is_no_memory_and_told(home, repo):
    put(repo, memory("mem_a", "From a stranger."), memory("mem_f", "Another."))
    async with assembled(home, trusting=False) as parts:
        file = wire.Draft(
            memory_id="mem_f", file=(repo / ".forge/memory/mem_f.md").read_bytes(), name="mem_f.md"
        )
        told, reply = await fates(
            parts, repo, draft("Use tabs.", "mem_a"), file, draft("From a stranger.", "mem_b")
        )

    assert told == [("refused", "mem_a"), ("refused", "mem_f"), ("new", "mem_b")]
    assert {each.reason for each in reply.fates[:2]} == {
        "it lies here and is withheld; `forgectl review` shows it"
    }


async def test_a_secret_beside_the_text_is_refused_as_well(home, repo):
    secret = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"
    file = FILE.replace(b"calm", secret.encode())
    async with assembled(home) as parts:
        told, reply = await fates(
            parts, repo, draft(source=secret), wire.Draft(memory_id="mem_f", file=file, name="mem_f.md")
        )

    assert [became for became, _ in told] == ["secret", "secret"]
    assert all(secret not in each.reason for each in reply.fates)
    assert not (repo / ".forge").exists()


async def test_where_there_is_no_repository_a_person_is_told_what_to_say(home):
    async with assembled(home) as parts:
        with pytest.raises(InvalidRequest, match="scope user"):
            await fates(parts, home, draft())
