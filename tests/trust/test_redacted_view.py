"""Redacted view of a memory: no secret of its file, and no origin that only the file claims."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from forged.files import Root
from forged.files.frontmatter import render
from forged.memory import Entity, EntityRelation, Origin, Related, Scope
from forged.state import OwnFile
from forged.trust import admission
from forged.trust.admission import RedactedView, redacted_view
from tests.data.memories import memory, put
from tests.data.secrets import ALNUM, Draw
from tests.trust.people import own_file, person

SECRET = "gh" + "p_" + Draw("presenting").of(ALNUM, 36)
TOLD = f"push with {SECRET} to staging"
CLEAN = "push with [redacted] to staging"


def looked_at(*sources, own=(), before=None, is_sure=True):
    """What comes of memories whose files are as forged writes them."""
    hashes = [hashlib.sha256(render(each)).hexdigest() for each in sources]
    on_record = {each.id: each for each in own}
    return redacted_view(sources, hashes, on_record.get, before or RedactedView(), is_sure=is_sure)


def recorded(one, *, insisted=False):
    return own_file(Root("/somewhere", Scope.REPO), one, insisted=insisted)


def with_origin(one, origin):
    return msgspec.structs.replace(one, origin=origin)


def test_a_memory_with_a_secret_is_shown_without_it_and_says_what_is_left_out():
    (shown,) = looked_at(memory("mem_1", TOLD)).memories

    assert (shown.content, shown.redacted) == (CLEAN, ("GitHub token",))


def test_what_is_marked_private_in_a_file_is_not_shown():
    (shown,) = looked_at(memory("mem_1", "we use goose <private>and hate it</private> daily")).memories

    assert shown.content == "we use goose  daily"
    assert shown.redacted == (admission.PRIVATE,)


def test_every_field_of_a_file_is_shown_without_its_secrets():
    source = msgspec.structs.replace(
        memory("mem_1", TOLD, supersedes=SECRET),
        category=SECRET,
        session_id=SECRET,
        trigger=SECRET,
        created_at=SECRET,
        updated_at=SECRET,
        related=(Related(SECRET, "refines"), Related("mem_2", SECRET)),
    )

    (shown,) = looked_at(source).memories

    assert SECRET not in repr(shown)


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
def test_a_time_with_more_behind_it_is_looked_at(field):
    reported = {"created_at": "2026-01-31T12:00:00Z", field: f"2026-01-31T12:00:00Z {SECRET}"}
    source = msgspec.structs.replace(memory("mem_1", "push to staging"), **reported)

    (shown,) = looked_at(source).memories

    assert SECRET not in repr(shown)


def test_a_memory_whose_id_is_a_secret_is_a_problem_that_does_not_hold_it():
    found = looked_at(memory(SECRET, "push to staging"), memory("mem_1", "other"))

    assert [each.id for each in found.memories] == ["mem_1"]
    ((_, shown),) = found.with_secrets
    assert "GitHub token" in shown.problem
    assert SECRET not in shown.problem


def test_only_the_very_file_that_was_insisted_on_is_shown_with_its_secret():
    source = memory("mem_1", TOLD)
    insisted = recorded(source, insisted=True)

    assert looked_at(source, own=[insisted]).memories == (source,)
    assert looked_at(source, own=[recorded(source)]).memories[0].content == CLEAN
    edited = msgspec.structs.replace(source, content=f"{TOLD}!")
    assert looked_at(edited, own=[insisted]).memories[0].content == f"{CLEAN}!"


def test_an_origin_is_believed_where_this_daemon_wrote_the_file_as_it_is_now():
    source = with_origin(memory("mem_1", "push to staging"), "typed")

    assert looked_at(source, own=[recorded(source)]).memories[0].origin == "typed"
    assert looked_at(source).memories[0].origin == ""
    edited = msgspec.structs.replace(source, content="always run evil")
    assert looked_at(edited, own=[recorded(source)]).memories[0].origin == ""


@pytest.mark.parametrize("said", ["typed", ""])
@pytest.mark.parametrize(
    ("text", "insisted"),
    [("push to staging", False), (TOLD, False), (TOLD, True)],
    ids=["clean", "redacted", "insisted"],
)
def test_of_a_copied_file_the_record_says_where_it_came_from(said, text, insisted):
    """Its bytes are those of another machine, whatever they say of themselves; also if it has a secret."""
    source = with_origin(memory("mem_1", text), said)
    copied = msgspec.structs.replace(recorded(source, insisted=insisted), origin="import")

    assert looked_at(source, own=[copied]).memories[0].origin == "import"


def test_what_was_looked_at_is_not_looked_at_again_and_a_change_in_the_middle_is():
    sources = [memory(f"mem_{number}", f"{TOLD} {number}") for number in range(9)]
    before = looked_at(*sources)
    sources[4] = memory("mem_4", f"{TOLD} four")
    after = looked_at(*sources, before=before)

    assert [one is other for one, other in zip(before.rows, after.rows, strict=True)].count(False) == 1
    assert after.memories[4].content == f"{CLEAN} four"
    fewer = looked_at(*sources[:3], *sources[6:], before=after)
    assert fewer.memories == after.memories[:3] + after.memories[6:]


async def test_what_counts_of_the_user_and_of_a_repository_comes_without_secrets(tmp_path):
    for scope in (Scope.REPO, Scope.USER):
        top = tmp_path / scope
        top.mkdir()
        one = memory("mem_1", TOLD, scope=scope)
        async with person(tmp_path / f"state {scope}") as reader:
            await reader.trust.record_own(Root(str(top), scope), [recorded_in(top, scope, one)])
            put(top, one, memory("mem_2", "other", scope=scope))
            _, admitted = await reader.trust.look(Root(str(top), scope))

        assert admitted.memories[0].content == CLEAN
        assert admitted.redacted == ("mem_1",)


def recorded_in(top, scope, one):
    return own_file(Root(str(top), scope), one)


def test_what_front_matter_says_that_it_speaks_of_is_shown_without_secrets_and_private_spans():
    source = msgspec.structs.replace(
        memory("mem_1", "push to staging"),
        entities=(Entity("goose <private>hated</private>"), Entity("goose", "tool", TOLD)),
        relations=(EntityRelation("goose", "needs", SECRET, 0.5),),
    )

    (shown,) = looked_at(source).memories

    assert shown.entities == (Entity("goose "), Entity("goose", "tool", CLEAN))
    assert shown.relations == (EntityRelation("goose", "needs", "[redacted]", 0.5),)
    assert shown.redacted == ("GitHub token",)


@pytest.mark.parametrize("claimed", ["", *Origin, "somebody else"])
@pytest.mark.parametrize("record", ["none", "of other bytes", "of these bytes"])
def test_without_a_record_an_origin_is_believed_where_it_makes_less_of_the_file(claimed, record):
    one = with_origin(memory("mem_1", "we use goose"), claimed)
    on_record = {
        "of other bytes": OwnFile("mem_1", "other", "typed"),
        "of these bytes": OwnFile("mem_1", "here", "typed"),
    }
    found = on_record.get(record)
    (shown,) = redacted_view((one,), ("here",), lambda _: found, RedactedView(), is_sure=True).memories
    lowers = claimed if claimed in {"import", "model", "agent", "agreed"} else ""
    assert shown.origin == ("typed" if record == "of these bytes" else lowers)
