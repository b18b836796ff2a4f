"""Cues and evidence as they are given, kept, shown and refused."""

from __future__ import annotations

import msgspec
import pytest

from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.memories.test_versions import remembered, shown

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


async def test_cues_are_kept_by_a_new_version_and_evidence_goes_with_the_text_that_stood_on_it(home, repo):
    (repo / "Makefile").write_text("all:\n")
    async with assembled(home) as parts:
        first = await remembered(
            parts, repo, "one", cues=("cutting  a\nrelease", "cutting a release"), evidence=("Makefile:1",)
        )
        second = await remembered(parts, repo, "two", supersedes=first.memory_id)

        found = [await shown(parts, repo, each.memory_id) for each in (first, second)]
        assert [each.cues for each in found] == [("cutting a release",)] * 2
        assert [each.evidence for each in found] == [("Makefile:1",), ()]
        assert found[0].stale == ()
        assert "hash: " in (repo / ".forge" / "memory" / f"{first.memory_id}.md").read_text()


async def test_an_edit_changes_what_it_names_and_looks_at_evidence_anew_when_the_text_is_another(home, repo):
    file = repo / "Makefile"
    file.write_text("all:\n")
    async with assembled(home) as parts:
        first = await remembered(parts, repo, "one", cues=("a",), evidence=("Makefile",))
        file.write_text("none:\n")
        assert (await shown(parts, repo, first.memory_id)).stale == ("Makefile",)

        async def edited(memory_id, **fields):
            done = await parts.ask(wire.Edit(workspace=str(repo), memory_id=memory_id, **fields))
            return await shown(parts, repo, done.memory_id)

        cued = await edited(first.memory_id, cues=("b",))
        worded = await edited(cued.id, content="two")
        bare = await edited(worded.id, cues=(), evidence=())
        assert (cued.cues, cued.evidence, cued.stale) == (("b",), ("Makefile",), ("Makefile",))
        assert (worded.cues, worded.evidence, worded.stale) == (("b",), ("Makefile",), ())
        assert (bare.content, bare.cues, bare.evidence) == ("two", (), ())


async def test_a_text_that_is_there_keeps_its_cues_and_the_reply_says_so(home, repo):
    async with assembled(home) as parts:
        await remembered(parts, repo, "one", cues=("a",))
        again = await remembered(parts, repo, "one", cues=("b",))

        assert again.existed
        assert "its cues and evidence were not changed" in again.reason
        assert (await shown(parts, repo, again.memory_id)).cues == ("a",)


REFUSED = [
    ({"cues": tuple("abcdef")}, "6 cues are too many"),
    ({"cues": ("x" * 201,)}, "longer than 200 characters"),
    ({"evidence": ("../outside",)}, "not a path in the repository"),
    ({"evidence": ("missing.py",)}, "cannot be read in this repository"),
    ({"evidence": ("link",)}, "cannot be read in this repository"),
    ({"evidence": ("Makefile:7",)}, "has no lines"),
    ({"evidence": ("Makefile",), "scope": "user"}, "only memories of a repository"),
]


@pytest.mark.parametrize(("fields", "reported"), REFUSED)
async def test_what_can_be_no_cue_and_no_evidence_is_refused_and_nothing_is_written(
    home, repo, fields, reported
):
    (repo / "Makefile").write_text("all:\n")
    (home / "outside").write_text("x")
    (repo / "link").symlink_to(home / "outside")
    async with assembled(home) as parts:
        code, message = await parts.refusal(wire.Remember(workspace=str(repo), content="one", **fields))

        assert code == "invalid"
        assert reported in message
        assert not list(repo.glob(".forge/memory/*.md"))


@pytest.mark.parametrize("fields", [{"cues": (f"log in with {SECRET}",)}, {"evidence": (SECRET,)}])
async def test_a_secret_in_a_cue_or_a_path_is_refused(home, repo, fields):
    (repo / SECRET).write_text("x")
    async with assembled(home) as parts:
        assert (await parts.refusal(wire.Remember(workspace=str(repo), content="one", **fields)))[
            0
        ] == "secret"
        done = await remembered(parts, repo, "one")
        code, _ = await parts.refusal(wire.Edit(workspace=str(repo), memory_id=done.memory_id, **fields))
        assert code == "secret"


async def test_what_is_private_or_a_secret_in_the_cue_of_a_file_is_shown_to_no_one(home, repo):
    cues = (f"log in with {SECRET}", "a <private>hidden</private> b")
    put(home, msgspec.structs.replace(memory("mem_1", "text", scope="user"), cues=cues))
    async with assembled(home) as parts:
        found = await shown(parts, repo, "mem_1")

        assert SECRET not in str(found)
        assert "hidden" not in str(found)
        assert len(found.cues) == 2


async def test_what_a_memory_depends_on_stays_behind_when_it_is_moved_to_the_user(home, repo):
    (repo / "Makefile").write_text("all:\n")
    async with assembled(home) as parts:
        old = await remembered(parts, repo, "one", cues=("a",), evidence=("Makefile",))
        moved = await parts.ask(wire.Move(workspace=str(repo), memory_id=old.memory_id, to="user"))

        found = await shown(parts, repo, moved.memory_id)
        assert (found.cues, found.evidence, found.stale) == (("a",), (), ())


async def test_a_hit_and_the_block_say_what_changed_under_a_memory(home, repo):
    (repo / "Makefile").write_text("all:\n")
    async with assembled(home) as parts:
        await remembered(parts, repo, "releases are cut with make", evidence=("Makefile",))
        (repo / "Makefile").write_text("none:\n")
        await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
        found = await parts.ask(wire.Search(workspace=str(repo), query="how are releases cut"))
        reply = await parts.ask(
            wire.Retrieve(
                workspace=str(repo),
                messages=(wire.Message("user", "how are releases cut with make"),),
            )
        )

        assert found.memories[0].stale == ("Makefile",)
        assert "(may be outdated: Makefile changed)" in reply.text


async def test_what_is_stale_is_counted_and_listed_until_a_person_says_that_it_holds(home, repo):
    (repo / "Makefile").write_text("all:\n")
    async with assembled(home) as parts:
        old = await remembered(parts, repo, "one", evidence=("Makefile",))
        await remembered(parts, repo, "two")
        (repo / "Makefile").write_text("none:\n")
        await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))

        async def stale():
            listed = await parts.ask(wire.ListMemories(workspace=str(repo), stale=True))
            report = await parts.ask(wire.Status(workspace=str(repo)))
            return [each.content for each in listed.memories], [root.stale for root in report.roots]

        assert await stale() == (["one"], [1, 0])
        held = wire.Edit(workspace=str(repo), memory_id=old.memory_id, evidence=("Makefile",))
        assert not (await parts.ask(held)).existed
        await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
        assert await stale() == ([], [0, 0])
