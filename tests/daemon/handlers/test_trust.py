"""Trust and review for a client, and the notice before."""

from __future__ import annotations

import pytest

from forged.daemon.handlers.trust import withheld_sentence
from forged.trust import KnownRoot
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

THEIRS = (
    memory("mem_1", "Deploy with make ship."),
    memory("mem_2", "Deploy with make sail.", supersedes="mem_1", version=2),
    memory("mem_3", "Tests run with tox.", related=["mem_own"]),
)
ASKED = "How do we deploy, and how do tests run?"


async def retrieved(parts, repo, session_id="s1", **fields):
    message = (wire.Message("user", ASKED),)
    return await parts.ask(
        wire.Retrieve(workspace=str(repo), session_id=session_id, messages=message, **fields)
    )


async def shown(parts, repo):
    (root,) = (await parts.ask(wire.Trust(workspace=str(repo)))).roots
    return root


# --- what is told -------------------------------------------------------------------------------------


async def test_a_session_is_informed_once_of_each_root_and_the_model_never(home, repo):
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    put(repo, *THEIRS)
    put(other, THEIRS[0])
    async with assembled(home, trusting=False) as parts:
        await parts.loaded(repo)
        await parts.loaded(other)
        first = await retrieved(parts, repo)
        again = await retrieved(parts, repo)
        elsewhere = await retrieved(parts, other)
        another = await retrieved(parts, repo, "s2")
        nameless = [await retrieved(parts, repo, "") for _ in range(2)]

    assert first.notice == (
        f"3 memory files in {repo} are not used yet: forged has no record "
        "of writing them (cloned, reinstalled "
        f"or restored?). Review and allow: `forgectl trust {repo}` (`--under "
        "DIR` for all repositories below DIR)"
    )
    assert again.notice == ""
    assert f"1 memory file in {other} is not used yet" in elsewhere.notice
    assert another.notice == first.notice
    assert {each.notice for each in nameless} == {first.notice}
    assert (first.text, first.memories, first.status) == ("", (), "empty")


async def test_what_the_first_look_has_not_found_yet_is_reported_later(home, repo):
    put(repo, *THEIRS)
    async with assembled(home, trusting=False) as parts:
        early = await parts.ask(wire.Retrieve(workspace=str(repo), session_id="s1"))
        await parts.loaded(repo)
        later = await retrieved(parts, repo)

    assert early.notice == ""
    assert later.notice


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        (KnownRoot("/r", "unknown"), "`forgectl trust /r` (`--under DIR` for all repositories below DIR)"),
        (KnownRoot("/r", "own"), "Review and allow: `forgectl trust /r`"),
        (KnownRoot("/r", "trusted", mode="locked"), "Review and allow: `forgectl review /r`"),
        (
            KnownRoot("/r", "unknown", reason="another one"),
            ": another one. Review and allow: `forgectl trust /r`",
        ),
        (KnownRoot("/r", "unknown", reason="damaged; `forgectl resume --all` ends that"), "--all` ends that"),
    ],
)
def test_what_is_withheld_is_reported_with_one_command_that_fixes_it(known, reported):
    found = withheld_sentence(known, 2)

    assert found.startswith("2 memory files in /r are not used yet: ")
    assert found.endswith(reported)
    assert found.count("`forgectl ") == 1


async def test_a_file_that_is_withheld_does_not_come_between_a_person_and_a_memory(home, repo):
    put(home, memory("mem_u", "of the user", scope="user"))
    put(repo, memory("mem_u", "of the repository"), memory("mem_r", "x", supersedes="mem_u"))
    asked = {"workspace": str(repo), "memory_id": "mem_u"}
    async with assembled(home, trusting=False) as parts:
        await parts.loaded(repo)
        (one,) = (await parts.ask(wire.History(**asked))).memories
        gone = await parts.ask(wire.Forget(**asked))

    assert one.content == "of the user"
    assert gone.ids == ("mem_u",)
    assert not (home / ".forge/memory/mem_u.md").exists()
    assert (repo / ".forge/memory/mem_u.md").exists()


# --- what is decided ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "mode"), [("", "follow"), ("follow", "follow"), ("locked", "locked")])
async def test_what_was_shown_and_trusted_is_used_at_once(home, repo, asked, mode):
    put(repo, *THEIRS)
    async with assembled(home, trusting=False) as parts:
        await parts.loaded(repo)
        before = await retrieved(parts, repo, turn_id="t1")
        root = await shown(parts, repo)
        request = wire.Trust(workspace=str(repo), action="trust", mode=asked, shown=root.shown)
        (trusted,) = (await parts.ask(request)).roots
        after = await retrieved(parts, repo, turn_id="t1")
        status = await parts.ask(wire.Status(workspace=str(repo)))

    assert (root.state, root.withheld, root.accepted) == ("unknown", 3, 0)
    assert (trusted.state, trusted.mode, trusted.withheld, trusted.accepted) == ("trusted", mode, 0, 3)
    assert before.text == ""
    assert {hit.id for hit in after.memories} == {"mem_2", "mem_3"}
    assert [(each.trust, each.notice) for each in status.roots] == [(mode, ""), ("", "")]


async def test_what_has_changed_since_it_was_shown_is_not_trusted(home, repo):
    put(repo, *THEIRS[:2])
    async with assembled(home, trusting=False) as parts:
        root = await shown(parts, repo)
        put(repo, THEIRS[2])
        for request in (
            wire.Trust(workspace=str(repo), action="trust", shown=root.shown),
            wire.Review(workspace=str(repo), everything=True, shown=root.shown),
        ):
            code, reported = await parts.refusal(request)
            assert code == "conflict"
            assert "changed since they were shown" in reported
        after = await shown(parts, repo)

    assert (after.state, after.withheld) == ("unknown", 3)


async def test_trust_taken_back_holds_for_the_turn_that_was_answered_before(home, repo):
    put(repo, *THEIRS)
    async with assembled(home, trusting=False) as parts:
        await parts.ask(wire.Trust(workspace=str(repo), action="trust"))
        await parts.loaded(repo)
        before = await retrieved(parts, repo, turn_id="t1")
        (root,) = (await parts.ask(wire.Trust(workspace=str(repo), action="revoke"))).roots
        after = await retrieved(parts, repo, turn_id="t1")

    assert before.included == 2
    assert (root.state, root.withheld) == ("unknown", 3)
    assert (after.included, after.text) == (0, "")


async def test_a_second_trust_keeps_the_mode_of_the_first(home, repo):
    put(repo, *THEIRS)
    async with assembled(home, trusting=False) as parts:
        await parts.ask(wire.Trust(workspace=str(repo), action="trust", mode="locked"))
        put(repo, memory("mem_4", "x"))
        (root,) = (await parts.ask(wire.Trust(workspace=str(repo), action="trust"))).roots

    assert (root.mode, root.withheld) == ("locked", 0)


async def test_all_repositories_below_a_directory_are_named_and_trusted_as_they_are_now(home, tmp_path):
    tops = [tmp_path / "code" / name for name in ("a", "b", "c", "empty")]
    for top in tops:
        (top / ".git").mkdir(parents=True)
    for top in tops[:3]:
        put(top, *THEIRS)
    async with assembled(home, trusting=False) as parts:
        found = (await parts.ask(wire.Trust(workspace=str(tmp_path / "code"), action="under"))).roots
        for root in found:
            await parts.ask(wire.Trust(workspace=root.root, action="trust", shown=root.shown))
        later = tmp_path / "code/d"
        (later / ".git").mkdir(parents=True)
        put(later, *THEIRS)
        known = (await parts.ask(wire.Trust(action="list"))).roots
        new = await shown(parts, later)

    assert [(each.root, each.withheld) for each in found] == [(str(top), 3) for top in tops[:3]]
    assert [(each.root, each.state, each.withheld) for each in known] == [
        (str(top), "trusted", 0) for top in tops[:3]
    ]
    assert (new.state, new.withheld) == ("unknown", 3)


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        (wire.Trust(action="always"), "unknown action 'always'"),
        (wire.Trust(action="trust", mode="yes"), "unknown mode 'yes'"),
        (wire.Trust(action="trust"), "is in no repository"),
        (wire.Review(workspace=""), "is in no repository"),
        (wire.Trust(action="under"), "no directory"),
    ],
)
async def test_what_cannot_be_decided_is_refused_in_a_sentence(home, asked, reported):
    place = "" if "no directory" in reported else str(home)
    async with assembled(home, trusting=False) as parts:
        code, sentence = await parts.refusal(type(asked)(**{**_fields(asked), "workspace": place}))

    assert code == "invalid"
    assert reported in sentence or "not an absolute path" in sentence


def _fields(request):
    return {name: getattr(request, name) for name in request.__struct_fields__ if name != "id"}
