"""The fates of drafts, one by one: what is asked together does not fall together."""

from __future__ import annotations

import msgspec
import pytest

from forged.errors import InvalidRequest
from forged.files import parse
from forged.importing import read_root
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

FILE = b"---\nid: mem_f\nversion: 3\nmood: calm\n---\nA file.\n"


def draft(content="Use tabs.", memory_id="mem_a", **fields):
    return wire.ImportedDraft(memory_id=memory_id, content=content, **fields)


async def outcomes(parts, repo, *drafts, **fields):
    reply = await parts.ask(wire.Import(workspace=str(repo), drafts=drafts, **fields))
    return [(each.result, each.memory_id) for each in reply.outcomes], reply


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (draft(memory_id="../x"), "is not a valid id for a new memory"),
        (draft("<private>all of it</private>"), "nothing is left without"),
        (draft(category="moods"), "unknown category"),
        (draft(related=(wire.Edge("mem_b", "likes"),)), "unknown relationship"),
        (draft(cues=tuple("abcdef")), "6 cues are too many"),
        (
            wire.ImportedDraft(memory_id="mem_f", file=FILE, name="../mem_f.md"),
            "cannot be the name of a memory file",
        ),
        (wire.ImportedDraft(memory_id="mem_f", file=FILE, name=".md"), "cannot be the name of a memory file"),
        (
            wire.ImportedDraft(memory_id="mem_f", file=FILE + b"x" * (256 << 10), name="a.md"),
            "cannot be the name of a memory file",
        ),
        (
            wire.ImportedDraft(memory_id="mem_f", file=b"---\nid: mem_f\n---\n\xff", name="a.md"),
            "not a text file",
        ),
    ],
)
async def test_a_draft_that_is_none_is_refused_alone(home, repo, bad, why):
    async with assembled(home) as parts:
        reported, reply = await outcomes(parts, repo, bad, draft("Use spaces.", "mem_b"))

    assert [result for result, _ in reported] == ["refused", "new"]
    assert why in reply.outcomes[0].reason
    assert [path.name for path in (repo / ".forge/memory").iterdir()] == ["mem_b.md"]


async def test_what_lies_there_and_is_withheld_is_no_memory_and_reported(home, repo):
    put(repo, memory("mem_a", "From a stranger."), memory("mem_f", "Another."))
    async with assembled(home, trusting=False) as parts:
        file = wire.ImportedDraft(
            memory_id="mem_f", file=(repo / ".forge/memory/mem_f.md").read_bytes(), name="mem_f.md"
        )
        reported, reply = await outcomes(
            parts, repo, draft("Use tabs.", "mem_a"), file, draft("From a stranger.", "mem_b")
        )

    assert reported == [("refused", "mem_a"), ("refused", "mem_f"), ("new", "mem_b")]
    assert {each.reason for each in reply.outcomes[:2]} == {
        "it is here already but not used yet; `forgectl review` shows it"
    }


async def test_a_secret_next_to_the_text_is_refused_as_well(home, repo):
    secret = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"
    file = FILE.replace(b"calm", secret.encode())
    async with assembled(home) as parts:
        reported, reply = await outcomes(
            parts,
            repo,
            draft(source=secret),
            wire.ImportedDraft(memory_id="mem_f", file=file, name="mem_f.md"),
        )

    assert [result for result, _ in reported] == ["secret", "secret"]
    assert all(secret not in each.reason for each in reply.outcomes)
    assert not (repo / ".forge").exists()


async def test_where_there_is_no_repository_a_person_is_informed_what_to_say(home):
    async with assembled(home) as parts:
        with pytest.raises(InvalidRequest, match="scope user"):
            await outcomes(parts, home, draft())


# --- what was forgotten ---------------------------------------------------------------------------------

OLD = memory("mem_1", "Ports start at 9000.")
NEW = memory("mem_2", "Ports start at 9100.", supersedes="mem_1", version=2)
OTHER = memory("mem_o", "Trains run late.")


def exported(top):
    """Its files as an import reads them out of an export."""
    copy = read_root(str(top), "repo")
    return [
        wire.ImportedDraft(memory_id=parse(data, "repo", "x").id, file=data, name=below.rpartition("/")[2])
        for below, data in copy.files
    ]


def stored(top):
    return sorted(path.name for path in (top / ".forge/memory").glob("*.md"))


@pytest.mark.parametrize("how", ["forget", "now", "undo"])
async def test_an_export_from_before_does_not_bring_back_what_was_forgotten(home, repo, how):
    chain = [msgspec.structs.replace(each, trigger="compaction", session_id="s") for each in (OLD, NEW)]
    chain = [msgspec.structs.replace(each, origin="model", created_at=NEW.created_at) for each in chain]
    put(repo, *chain, OTHER)
    files = exported(repo)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        if how == "undo":
            gone = await parts.ask(wire.Undo(workspace=str(repo)))
            lost = [each.id for each in gone.memories]
        else:
            asked = wire.Forget(workspace=str(repo), memory_id="mem_2", erase_now=how == "now")
            lost = list((await parts.ask(asked)).ids)
        left = stored(repo)
        for preview in (True, False, False):
            reported, reply = await outcomes(parts, repo, *files, preview=preview)
            assert {each for result, each in reported if result == "forgotten"} == set(lost)
            assert all(
                "--allow-forgotten" in each.reason for each in reply.outcomes if each.result == "forgotten"
            )
            assert stored(repo) == left
        reported, _ = await outcomes(parts, repo, *files, allow_forgotten=True)
        again, _ = await outcomes(parts, repo, *files)

    assert lost
    assert {each for result, each in reported if result == "new"} == set(lost)
    assert {result for result, _ in again} == {"exists"}  # the person has it back: it is forgotten no more
    assert len(stored(repo)) == 3


@pytest.mark.parametrize(
    "one",
    [
        draft("ports start at **9000**", "mem_x"),
        draft("Hosts are in a table. Ports start at 9000. Call Maria.", "mem_x"),
        draft("Ports start\nat 9000.", "mem_x"),
        wire.ImportedDraft(memory_id="mem_x", file=b"Ports start at 9000.\n", name="mem_x.md"),
        wire.ImportedDraft(
            memory_id="x", file=b"---\nid: x\n---\n- hosts\n- ports start at 9000\n", name="x.md"
        ),
        wire.ImportedDraft(
            memory_id="mem_1", file=b"---\nid: mem_1\n---\nAs it was before.\n", name="renamed.md"
        ),
        draft("Something else under its id.", "mem_1"),
    ],
    ids=["text", "among others", "wrapped", "file", "list", "id", "id of a draft"],
)
async def test_what_was_forgotten_comes_back_in_no_form_and_under_no_name(home, repo, one):
    put(repo, OLD)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        left, _ = await outcomes(parts, repo, one)
        assert stored(repo) == []
        kept, _ = await outcomes(parts, repo, one, allow_forgotten=True)

    assert [result for result, _ in left] == ["forgotten"]
    assert [result for result, _ in kept] == ["new"]


@pytest.mark.parametrize("back", [False, True])
async def test_a_version_from_before_goes_with_what_it_replaces_and_one_from_after_is_news(home, repo, back):
    """As where another machine went on with a memory that was forgotten here; in any order."""
    put(repo, OLD)
    later = "2100-01-01T00:00:00Z"
    third = memory("mem_3", "Ports start at 9200.", supersedes="mem_2", version=3)
    after = memory("mem_4", "Ports start at 9300.", supersedes="mem_1", version=2, created_at=later)
    put(repo.with_name("elsewhere"), OLD, NEW, third, after)
    files = exported(repo.with_name("elsewhere"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        reported, _ = await outcomes(parts, repo, *(reversed(files) if back else files))

    assert dict(map(reversed, reported)) == {
        "mem_1": "forgotten",
        "mem_2": "forgotten",
        "mem_3": "forgotten",
        "mem_4": "new",
    }


@pytest.mark.parametrize(
    ("forgotten_in", "into", "result"),
    [
        ("repo", "repo", "forgotten"),
        ("repo", "user", "forgotten"),
        ("user", "repo", "forgotten"),
        ("user", "user", "forgotten"),
        ("repo", "other", "new"),
        ("user", "other", "forgotten"),
    ],
)
async def test_what_is_forgotten_somewhere_comes_back_nowhere_that_it_would_be_seen_from(
    home, repo, forgotten_in, into, result
):
    (other := repo.with_name("other") / ".git").mkdir(parents=True)
    put(home if forgotten_in == "user" else repo, memory("mem_1", OLD.content, scope=forgotten_in))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1", scope=forgotten_in))
        where = other.parent if into == "other" else repo
        reported, _ = await outcomes(
            parts, where, draft(OLD.content, "mem_n"), scope="user" if into == "user" else "repo"
        )

    assert reported == [(result, "mem_n")]


async def test_what_was_restored_is_forgotten_no_more(home, repo):
    put(repo, OLD)
    files = exported(repo)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        await parts.ask(wire.Restore(workspace=str(repo), memory_id="mem_1"))
        assert parts.state.forgotten.digests() == frozenset()
        (repo / ".forge/memory/mem_1.md").unlink()
        reported, _ = await outcomes(parts, repo, *files)

    assert reported == [("new", "mem_1")]
