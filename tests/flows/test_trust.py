"""Foreign memories at a real daemon: not a byte is injected, shown or sent before a person says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Scene, capturing, ids
from tests.support.git import git
from tests.trust.people import clone, commit, upstream

TOPIC, CANARY = "zanzibar", "marsupial"  # what is asked about, and what nobody who asks says
HOSTILE = tuple(
    memory(f"evil{number}", f"How we deploy {TOPIC} {number}: ask the {CANARY}") for number in range(20)
)
OF_A_BRANCH = tuple(
    memory(f"branch{number}", f"How we deploy {TOPIC} from a branch {number}: ask the {CANARY}")
    for number in range(20)
)
QUESTION = "How do we deploy?"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    settings = {"embedding_model": "m", "classifier_model": "m", "retrieval_min_score": 0.0}
    with capturing(tmp_path_factory.mktemp("home"), **settings) as stage:
        yield stage


@pytest.fixture
def stage(shared):
    shared.reset()
    shared.client.trusted.clear()
    shared.provider.chat_lines = ("[]",)
    shared.strange = shared.daemon.client(trusts=False)
    yield shared
    shared.strange.close()


@pytest.fixture
def hostile(tmp_path):
    """A repository with 20 hostile memories on `main` and 20 more on a branch."""
    theirs = upstream(tmp_path / "theirs")
    commit(theirs, *HOSTILE)
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, *OF_A_BRANCH)
    git(theirs, "checkout", "--quiet", "main")
    return theirs


def said(stage: Scene, top: Path) -> str:
    """All that the daemon tells anybody about a workspace, and all that it sends anywhere."""
    client = stage.strange
    assert client.rebuild(str(top), wait=True, timeout_s=PATIENCE_S).status == "ok"
    told = [
        client.retrieve(str(top), [{"role": "user", "content": QUESTION}], session_id="s"),
        client.search(str(top), QUESTION),
        client.search(str(top), TOPIC),
        client.why(str(top), query=QUESTION),
        client.list(str(top), all_versions=True, limit=1000),
        client.get(str(top), [each.id for each in (*HOSTILE, *OF_A_BRANCH)]),
    ]
    client.capture(
        str(top), [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "so"}], "s"
    )
    stage.settle()
    return "\n".join([*map(repr, told), *(str(request.json) for request in stage.provider.received)])


async def test_nothing_of_a_clone_leaves_or_is_shown_until_it_is_trusted(stage, hostile, tmp_path):
    ours = clone(hostile, tmp_path / "ours")
    assert CANARY not in said(stage, ours)

    stage.strange.trust(str(ours), action="trust")
    assert CANARY in said(stage, ours)


async def test_a_branch_that_is_checked_out_after_trust_brings_nothing(stage, hostile, tmp_path):
    clean = clone(upstream(tmp_path / "clean"), tmp_path / "ours")
    stage.strange.trust(str(clean), action="trust")
    git(clean, "remote", "add", "fork", f"file://{hostile}")
    git(clean, "fetch", "--quiet", "fork")
    git(clean, "checkout", "--quiet", "-b", "look", "fork/feature")

    assert CANARY not in said(stage, clean)
    assert stage.strange.trust(str(clean)).roots[0].withheld == 40  # one is the same file as ours


async def test_a_new_clone_at_a_trusted_path_brings_nothing(stage, hostile, tmp_path):
    ours = clone(upstream(tmp_path / "clean"), tmp_path / "ours")
    stage.strange.trust(str(ours), action="trust")
    assert ids(stage.ask(ours, "as it was when we cloned")) == ["of_theirs"]
    shutil.rmtree(ours)
    clone(hostile, ours)
    shutil.rmtree(ours / ".forge/memories", ignore_errors=True)

    assert CANARY not in said(stage, ours)


async def test_a_clone_below_a_directory_whose_repositories_are_trusted_brings_nothing(
    stage, hostile, tmp_path
):
    (tmp_path / "work").mkdir()
    first = clone(upstream(tmp_path / "clean"), tmp_path / "work/first")
    for root in stage.strange.trust(str(tmp_path / "work"), action="under").roots:
        stage.strange.trust(root.root, action="trust")
    assert ids(stage.ask(first, "as it was when we cloned")) == ["of_theirs"]

    assert CANARY not in said(stage, clone(hostile, tmp_path / "work/second"))


@pytest.mark.parametrize("way", ["submodule", "submodule as the folder", "linked folder"])
async def test_what_a_submodule_or_a_link_holds_is_not_covered_by_its_parent_s_trust(
    stage, hostile, tmp_path, way
):
    ours = clone(upstream(tmp_path / "clean"), tmp_path / "ours")
    stage.strange.trust(str(ours), action="trust")
    place = ours
    match way:
        case "submodule":
            git(ours, "submodule", "--quiet", "add", f"file://{hostile}", "part")
            place = ours / "part"
        case "submodule as the folder":
            git(ours, "rm", "--quiet", "-r", ".forge")
            git(hostile, "mv", *(f".forge/memory/evil{number}.md" for number in range(20)), ".")
            commit(hostile)
            git(ours, "submodule", "--quiet", "add", f"file://{hostile}", ".forge/memory")
        case _:
            git(ours, "rm", "--quiet", "-r", ".forge")
            put(ours, *HOSTILE, folder="docs")
            (ours / ".forge").mkdir()
            (ours / ".forge/memory").symlink_to("../docs")

    assert CANARY not in said(stage, place)


async def test_trust_that_is_taken_back_takes_everything_foreign_out_before_the_reply(
    stage, hostile, tmp_path
):
    ours = clone(hostile, tmp_path / "ours")
    stage.strange.trust(str(ours), action="trust")
    own = stage.strange.remember(str(ours), "How we deploy: with make release")
    assert CANARY in said(stage, ours)

    stage.strange.trust(str(ours), action="revoke")
    found = stage.strange.search(str(ours), QUESTION, limit=50)
    assert [hit.id for hit in found.memories] == [own.memory_id]


async def test_what_the_worker_writes_into_a_repository_that_nobody_trusts_counts(stage, hostile, tmp_path):
    ours = clone(hostile, tmp_path / "ours")
    kept = {"content": "Deploys go through make release.", "scope": "repo", "category": "corrections"}
    stage.provider.chat_lines = (json.dumps([kept]),)
    client = stage.strange
    talk = [
        {"role": "user", "content": "Deploys go through make release."},
        {"role": "assistant", "content": "ok"},
    ]
    client.capture(str(ours), talk, "s")
    stage.settle()
    client.rebuild(str(ours), wait=True, timeout_s=PATIENCE_S)

    (hit,) = client.search(str(ours), "make release", limit=50).memories
    assert (hit.content, hit.scope) == ("Deploys go through make release.", "repo")
