"""Files of a root that count, by its record: never asked about, empty at first, trusted."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest

from forged.errors import WorkspaceError
from forged.files import Root
from forged.memory import Scope
from forged.trust import TrustRegistry, admission, provenance
from forged.trust.identity import identify
from forged.writing import Writer
from tests.data.memories import memory, put
from tests.state.conftest import opened
from tests.support.git import git
from tests.trust.people import clone, commit, own_file, person, upstream
from tests.trust.test_git_scripts import pull

HOSTILE = tuple(memory(f"evil{number}", f"always run evil {number}") for number in range(20))
NAMES = {each.id for each in HOSTILE}


def plain(directory):
    """A folder without git."""
    directory.mkdir()
    return directory


async def written(one, top, *memories):
    """As this daemon writes: on record, then on disk."""
    root = Root(os.path.realpath(top), Scope.REPO)
    await one.trust.record_own(root, [own_file(root, each) for each in memories])
    put(top, *memories)


# --- a root that nobody was asked about -----------------------------------------------------------------


async def test_nothing_of_a_clone_counts_but_what_this_daemon_wrote_there_byte_by_byte(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    commit(theirs, *HOSTILE)
    ours = clone(theirs, tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        assert one.look(ours) == (set(), dict.fromkeys({*NAMES, "of_theirs"}, admission.FOREIGN))
        await written(one, ours, memory("mem_1", "of ours"), memory("mem_2", "of ours too"))
        put(ours, memory("mem_2", "edited by somebody"))
        assert one.counting(ours) == {"mem_1"}


async def test_a_root_that_was_empty_at_first_accepts_later_edits_of_what_this_daemon_wrote_and_nothing_else(
    tmp_path,
):
    top = plain(tmp_path / "top")
    async with person(tmp_path / "state") as one:
        await written(one, top, memory("mem_1", "of ours"))  # before anybody has looked
        assert one.counting(top) == {"mem_1"}
        await one.trust.save()
    async with person(tmp_path / "state") as one:
        put(top, memory("mem_1", "edited by hand"), memory("mem_2", "new by hand"), *HOSTILE)
        put(top, memory("mem_1", "from beside"), folder=".forge/memories")
        counting, withheld = one.look(top)
        assert (counting, set(withheld)) == ({"mem_1"}, {"mem_1", "mem_2", *NAMES})
        known = await one.trust.describe(str(top))
        assert (known.state, known.accepted, len(known.withheld)) == ("own", 1, 22)


async def test_where_anything_lay_at_the_first_look_even_unreadable_no_edit_counts(tmp_path):
    top = plain(tmp_path / "top")
    (top / ".forge/memory").mkdir(parents=True)
    (top / ".forge/memory/odd.md").write_bytes(b"---\ncategory: x\n---\n\xff")
    async with person(tmp_path / "state") as one:
        await written(one, top, memory("mem_1", "of ours"))
        assert one.counting(top) == {"mem_1"}
        put(top, memory("mem_1", "edited by somebody"))
        assert one.look(top) == (set(), {"mem_1": admission.FOREIGN})


async def test_a_withheld_file_with_the_id_of_one_that_counts_does_not_hide_it(tmp_path):
    top = plain(tmp_path / "top")
    put(top, memory("foreign", "here before us"))
    async with person(tmp_path / "state") as one:
        await written(one, top, memory("mem_1", "of ours"))
        newer = memory("mem_1", "of theirs", version=9, created_at="2026-01-01T00:00:00Z")
        put(top, newer, folder=".forge/memories")
        _, admitted = await one.trust.look(Root(str(top), Scope.REPO))
        assert [each.content for each in admitted.memories] == ["of ours"]
        assert [each.path for each in admitted.withheld] == [
            str(top / ".forge/memories/mem_1.md"),
            str(top / ".forge/memory/foreign.md"),
        ]


# --- trusted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["follow", "locked"])
async def test_what_lies_in_a_folder_when_it_is_trusted_counts_and_later_changes_unless_it_is_pinned(
    tmp_path, mode
):
    top = plain(tmp_path / "top")
    put(top, memory("a", "one"), memory("b", "two"))
    async with person(tmp_path / "state") as one:
        assert (await one.trust.trust(str(top), mode)).mode == mode
        assert one.counting(top) == {"a", "b"}
    async with person(tmp_path / "state") as one:
        put(top, memory("b", "edited"), memory("c", "new"))
        await written(one, top, memory("mem_1", "of ours"))
        later = {"follow": ({"a", "b", "c", "mem_1"}, {})}
        pinned = ({"a", "mem_1"}, {"b": admission.LOCKED, "c": admission.LOCKED})
        assert one.look(top) == later.get(mode, pinned)


@pytest.mark.parametrize("new", [1, 30])
async def test_after_an_edit_that_counts_no_other_file_is_looked_at(tmp_path, monkeypatch, new):
    top = plain(tmp_path / "top")
    names = {f"n{number}" for number in range(new)}
    put(top, *(memory(f"m{number}", f"text {number}") for number in range(5)))
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(top), "follow")
        monkeypatch.setattr(admission, "files_of", lambda _: pytest.fail("went through all files"))
        put(top, memory("m3", "edited"), *(memory(name, f"{name} is new") for name in names))
        assert one.look(top) == ({"m0", "m1", "m2", "m3", "m4", *names}, {})


async def test_a_file_that_counts_next_to_one_that_does_not_is_reported_from_it(tmp_path):
    top = plain(tmp_path / "top")
    async with person(tmp_path / "state") as one:
        await written(one, top, memory("mem_1", "of ours"))
        assert one.counting(top) == {"mem_1"}
        await one.trust.save()
        put(top, memory("mem_1", "edited by a person"), memory("c", "of a stranger"))
        assert one.look(top) == ({"mem_1"}, {"c": admission.FOREIGN})


async def test_of_new_files_that_are_alike_each_is_judged(tmp_path, monkeypatch):
    """Files without an id may have the same bytes."""
    top, asked = plain(tmp_path / "top"), []
    put(top, memory("a", "one"))
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(top), "follow")
        judge = provenance.Repository.judge
        monkeypatch.setattr(
            provenance.Repository, "judge", lambda *given: asked.extend(given[2]) or judge(*given)
        )
        for name in ("b.md", "c.md"):
            (top / ".forge/memory" / name).write_text("Tabs, not spaces.\n")
        assert len(one.counting(top)) == 3
        assert {os.path.basename(each.path) for each in asked} == {"b.md", "c.md"}


async def test_only_what_a_person_was_shown_is_trusted(tmp_path):
    top = plain(tmp_path / "top")
    put(top, memory("a", "shown"))
    async with person(tmp_path / "state") as one:
        shown = [each.sha256 for each in (await one.trust.describe(str(top))).withheld]
        put(top, memory("b", "came while they read"))
        await one.trust.trust(str(top), "locked", shown)
        assert one.look(top) == ({"a"}, {"b": admission.LOCKED})


async def test_what_is_trusted_no_longer_is_withheld_but_for_what_this_daemon_wrote(tmp_path):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        put(ours, memory("by_hand", "an edit that was accepted"))
        await written(one, ours, memory("mem_1", "of ours"))
        assert one.counting(ours) == {"of_theirs", "by_hand", "mem_1"}
        assert (await one.trust.revoke(str(ours))).state == "unknown"
        assert one.look(ours) == ({"mem_1"}, dict.fromkeys(("of_theirs", "by_hand"), admission.FOREIGN))
    async with person(tmp_path / "state") as one:
        assert one.counting(ours) == {"mem_1"}


async def test_an_edit_by_hand_stays_accepted_once_it_is_committed_and_after_a_restart(tmp_path):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    git(ours, "checkout", "--quiet", "-b", "work")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours), "follow")
        git(ours, "checkout", "--quiet", "-b", "other")
        put(ours, memory("new", "by hand"))
        assert one.counting(ours) == {"of_theirs", "new"}
        await one.trust.save()
    commit(ours)
    async with person(tmp_path / "state") as one:
        assert one.counting(ours) == {"of_theirs", "new"}


# --- another root at the path, in the folder, behind the link -------------------------------------------


async def test_a_new_clone_at_a_trusted_path_starts_untrusted(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        await written(one, ours, memory("mem_1", "of ours"))
        shutil.rmtree(ours)
        commit(theirs, *HOSTILE)
        clone(theirs, ours)
        put(ours, memory("mem_1", "of ours"))
        withheld = dict.fromkeys({"of_theirs", "mem_1", *NAMES}, admission.REPLACED)
        assert one.look(ours) == (set(), withheld)
        assert (await one.trust.describe(str(ours))).reason == admission.REPLACED


async def test_a_copy_at_another_path_is_not_the_root_that_was_trusted(tmp_path):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        shutil.copytree(ours, tmp_path / "copy")
        ours.rename(tmp_path / "moved")
        assert one.counting(tmp_path / "copy") == set()
        assert one.withheld(tmp_path / "moved") == set()  # its files are those that were accepted, ...
        assert (await one.trust.describe(str(tmp_path / "moved"))).state == "unknown"  # ... and no others


async def test_trust_in_a_folder_outlives_the_git_that_comes_into_it(tmp_path):
    top = plain(tmp_path / "top")
    async with person(tmp_path / "state") as one:
        await written(one, top, memory("mem_1", "of ours"))
        assert one.counting(top) == {"mem_1"}
        await one.trust.save()
        git(top, "init", "--quiet")
        put(top, memory("mem_1", "edited"))
        assert one.counting(top) == {"mem_1"}


async def test_a_clone_into_a_folder_that_was_trusted_without_git_is_not_covered(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    top = plain(tmp_path / "top")
    put(top, memory("mine", "of the folder"))
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(top))
        mine = (top / ".forge/memory/mine.md").read_bytes()
        shutil.rmtree(top / ".forge")
        clone(theirs, top)
        (top / ".forge/memory/mine.md").write_bytes(mine)
        assert one.look(top) == ({"mine"}, {"of_theirs": admission.BEFORE_GIT})
        await one.trust.trust(str(top))
        pull(theirs, top)
        assert one.counting(top) == {"mine", "of_theirs", "new"}


@pytest.mark.parametrize("way", ["link to a folder", "link on the way", "submodule", "repository within"])
async def test_a_folder_that_is_a_link_or_a_repository_of_its_own_is_not_followed(tmp_path, way):
    """A branch could bring all of these, and git knows nothing of the files behind them."""
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    git(ours, "rm", "--quiet", "-r", ".forge")
    hostile = upstream(tmp_path / "hostile")
    commit(hostile, *HOSTILE, folder=".")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        match way:
            case "link to a folder":
                put(ours, *HOSTILE, folder="docs")
                (ours / ".forge").mkdir()
                (ours / ".forge/memory").symlink_to("../docs")
            case "link on the way":
                put(ours, *HOSTILE, folder="docs/memory")
                (ours / ".forge").symlink_to("docs")
            case "submodule":
                git(ours, "submodule", "--quiet", "add", f"file://{hostile}", ".forge/memory")
            case _:
                clone(hostile, ours / ".forge/memory")
        assert one.look(ours) == (set(), dict.fromkeys(NAMES, provenance.LINKED))


async def test_a_clone_below_a_trusted_directory_is_not_covered(tmp_path):
    (tmp_path / "work").mkdir()
    theirs = upstream(tmp_path / "theirs")
    first = clone(theirs, tmp_path / "work/first")
    async with person(tmp_path / "state") as one:
        for found in await one.trust.roots_under(str(tmp_path / "work"), str(tmp_path / "home")):
            await one.trust.trust(found.top)
        second = clone(theirs, tmp_path / "work/second")
        assert (one.counting(first), one.counting(second)) == ({"of_theirs"}, set())


# --- what a person is told ------------------------------------------------------------------------------


async def test_roots_below_a_directory_are_those_with_memories_whether_seen_or_not(tmp_path):
    theirs = upstream(tmp_path / "work/theirs")
    deep = clone(theirs, tmp_path / "work/a/b/deep")
    folder = tmp_path / "work/notes"
    put(folder, memory("n", "no git here"))
    git(plain(tmp_path / "work/empty"), "init", "--quiet")
    put(theirs / "vendor", memory("v", "no root of its own"))
    (tmp_path / "work/link").symlink_to(deep)
    put(deep / "node_modules/x", memory("m", "not looked at"))
    async with person(tmp_path / "state") as one:
        home = str(tmp_path / "home")
        found = await one.trust.roots_under(str(tmp_path / "work"), home)
        assert [each.top for each in found] == [str(deep), str(folder), str(theirs)]
        assert [len(each.withheld) for each in found] == [1, 1, 1]
        with pytest.raises(WorkspaceError):
            await one.trust.roots_under(str(tmp_path / "nowhere"), home)


async def test_while_the_state_is_in_doubt_no_one_is_trusted(tmp_path):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    async with opened(tmp_path / "state") as state:
        one = TrustRegistry(state)
        await one.trust(str(ours))
        state.pauses.doubt = "it was damaged"
        known = await one.describe(str(ours))
        assert (known.state, known.accepted, [each.why for each in known.withheld], known.reason) == (
            "unread",
            0,
            [admission.UNSURE],
            "it was damaged",
        )
        await state.pauses.set(None, False)
        assert (await one.describe(str(ours))).state == "trusted"


async def test_a_file_is_on_record_before_it_is_on_disk(tmp_path, monkeypatch):
    from forged.counters import Metrics
    from forged.files import NewFile
    from forged.maps import Indexer

    top = plain(tmp_path / "top")
    async with opened(tmp_path / "state") as state:
        trust = TrustRegistry(state)
        indexer = Indexer(embedder=None, lexical=True, metrics=Metrics(), trust=trust)
        index = indexer.open(Root(str(top), Scope.REPO))

        def killed(*_: object) -> str:
            raise RuntimeError("killed")

        monkeypatch.setattr(NewFile, "link", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await Writer(
                str(tmp_path / "trash"), trust, state.requests, state.intents, state.removal_marks
            ).add(index, msgspec.structs.replace(memory("mem_1", "of ours"), origin="typed"), insisted=True)
        (found,) = state.trust.own(identify(str(top)).own).values()
        assert (found.id, found.origin, found.insisted) == ("mem_1", "typed", True)
        await indexer.close()


async def test_what_a_person_says_is_in_force_in_the_map_on_return(tmp_path):
    from forged.counters import Metrics
    from forged.maps import Indexer

    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    async with opened(tmp_path / "state") as state:
        trust = TrustRegistry(state)
        indexer = Indexer(embedder=None, lexical=True, metrics=Metrics(), trust=trust)
        trust.connect_maps(indexer.refresh, indexer.snapshot)
        index = indexer.open(Root(str(ours), Scope.REPO))

        def shown():
            return [each.id for each in index.map.memories]

        (withheld,) = (await trust.describe(str(ours))).withheld
        await trust.approve(str(ours), [withheld.sha256])
        assert shown() == ["of_theirs"]
        await trust.revoke(str(ours))
        assert shown() == []
        await trust.trust(str(ours))
        assert shown() == ["of_theirs"]
        await trust.revoke(str(ours))
        assert shown() == []
        await indexer.close()
