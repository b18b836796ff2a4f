"""Bytes that git brings, at a real daemon: none of them reaches a turn before a person says so."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import capturing, ids
from tests.support.daemon.process import running
from tests.support.git import git
from tests.trust.people import commit
from tests.trust.ways import CANARY, FOLDER, NAMES, WAYS, lies_there, their_side

pytestmark = pytest.mark.long

QUESTION = [{"role": "user", "content": "Which ports, and who is asked first?"}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    settings = {"embedding_model": "m", "retrieval_min_score": 0.0}
    with capturing(tmp_path_factory.mktemp("home"), **settings) as stage:
        stage.strange = stage.daemon.client(trusts=False)
        yield stage
        stage.strange.close()


def begun(client, top, state):
    """A repository with one memory that was remembered there, and committed."""
    top.mkdir()
    git(top, "init", "--quiet")
    if state == "unknown":
        put(top, memory("here_before", "lay there at the first look"))
    assert client.remember(str(top), "Ports start at 9000").status == "ok"
    assert client.trust(str(top)).roots[0].state == state
    commit(top)
    return top


def injected(client, top):
    assert client.rebuild(str(top), wait=True, timeout_s=60).status == "ok"
    return client.retrieve(str(top), QUESTION, mode="plain")


@pytest.mark.parametrize("state", ["own", "unknown"])
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_nothing_of_the_other_side_is_injected_and_it_is_said(shared, tmp_path, way, state):
    client, ours = shared.strange, begun(shared.strange, tmp_path / "ours", state)
    assert "9000" in injected(client, ours).text
    their_side(ours, tmp_path / "theirs")
    way(tmp_path / "theirs", ours)
    assert lies_there(ours)

    reply = injected(client, ours)
    assert CANARY not in reply.text
    assert "not used yet" in reply.notice
    assert CANARY not in repr(client.list(str(ours), all_versions=True))


def test_a_commit_while_no_daemon_runs_is_asked_about_and_an_edit_is_not(home, tmp_path):
    with running(home) as daemon, daemon.client(trusts=False) as client:
        ours = begun(client, tmp_path / "ours", "own")
    put(ours, memory("committed", "Ports end at 9999"))
    commit(ours)
    put(ours, memory("written", "Ports are odd numbers"))
    with running(home) as daemon, daemon.client(trusts=False) as client:
        reply = injected(client, ours)
        assert "odd numbers" in reply.text
        assert "9999" not in reply.text
        assert "1 memory file in" in reply.notice
        (root,) = client.trust(str(ours)).roots
        client.trust(str(ours), action="trust", shown=root.shown)
        assert "9999" in injected(client, ours).text


def test_after_a_reinstall_the_sentence_is_true_and_imported_rules_stay_unpinned(home, tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    with running(home) as daemon, daemon.client(trusts=False) as client:
        ours = begun(client, tmp_path / "ours", "own")
        state = daemon.home / ".local/state"
        states = [each for each in daemon.home.rglob("state.db") if each.is_file()]
    assert states, state
    for each in states:
        shutil.rmtree(each.parent)
    for name, origin in (("mem_imported", "import"), ("mem_claimed", "typed")):
        reported = memory(name, f"Prefer what is {origin}")
        put(ours, msgspec.structs.replace(reported, origin=origin, category="project-conventions"))
    with running(home) as daemon, daemon.client(trusts=False) as client:
        reply = injected(client, ours)
        assert "forged has no record of writing them (cloned, reinstalled or restored?)" in reply.notice
        assert reply.text == ""
        for root in client.trust(str(tmp_path), action="under").roots:
            client.trust(root.root, action="trust", shown=root.shown)
        found = {each.id: each.origin for each in client.list(str(ours)).memories}
        assert found["mem_imported"] == "import"
        assert found["mem_claimed"] == "file"
        first = client.retrieve(str(ours), [{"role": "user", "content": "hello"}], session_id="new")
        assert "mem_imported" not in ids(first)


def test_a_text_in_conflict_is_in_no_turn_and_is_named_whoever_trusts(shared, tmp_path):
    client = shared.strange
    ours = begun(client, tmp_path / "ours", "own")
    their_side(ours, tmp_path / "theirs")
    for file in (ours / FOLDER).glob("mem_*.md"):
        file.write_text(file.read_text().replace("9000", "9500"))
    commit(ours)
    client.trust(str(ours), action="trust")
    git(ours, "merge", "--quiet", "mate/pr", check=False)
    (file,) = [each for each in (ours / FOLDER).glob("mem_*.md") if "<<<<<<<" in each.read_text()]

    reply = injected(client, ours)
    assert "<<<<<<<" not in reply.text
    assert CANARY not in reply.text
    assert eventually(lambda: named(client, file), 60).startswith("unresolved merge conflict")
    assert CANARY not in injected(client, ours).text

    text = file.read_text()
    file.write_text(text[: text.index("<<<<<<<")] + "Ports start at 9600\n")
    assert eventually(lambda: "9600" in injected(client, ours).text, 60)


def named(client, file):
    """What status says of a file."""
    roots = client.status(str(file.parents[2])).roots
    return next((each.reason for root in roots for each in root.problems if each.path == str(file)), "")


def by_branch(ours, mine):
    git(ours, "switch", "--quiet", "bare")
    yield
    git(ours, "switch", "--quiet", "main")


def by_conflict(ours, mine):
    git(ours, "switch", "--quiet", "--create", "other", "HEAD~1")
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("Ports are theirs.\n")
    commit(ours)
    git(ours, "switch", "--quiet", "main")
    git(ours, "merge", "--quiet", "other", check=False)
    assert "<<<<<<<" in mine.read_text()
    yield
    git(ours, "checkout", "--quiet", "--ours", "--", str(mine))
    git(ours, "add", "--force", str(mine))
    git(ours, "commit", "--quiet", "--message", "ours")


@pytest.mark.parametrize("restarts", [False, True], ids=["same daemon", "next daemon"])
@pytest.mark.parametrize("way", [by_branch, by_conflict])
def test_what_git_takes_away_and_brings_back_is_known_and_trusted_as_before(home, tmp_path, way, restarts):
    """Importance, metadata, counts and who wrote it, in `state.db` alone; and that it is ours."""
    ours = tmp_path / "ours"
    ours.mkdir()
    git(ours, "init", "--quiet")
    for name in ("main", "bare"):
        (ours / "code").write_text(name)
        git(ours, "add", "code")
        git(ours, "commit", "--quiet", "--message", name)
        git(ours, "switch", "--quiet", "--create", "bare" if name == "main" else "back", "HEAD")
    git(ours, "switch", "--quiet", "main")
    (ours / "code").write_text("ours")
    git(ours, "add", "code")
    git(ours, "commit", "--quiet", "--message", "ours")
    with running(home) as daemon, daemon.client(trusts=False) as client:
        reported = {"importance": 0.75, "metadata": {"topic": "ports"}, "user_id": "me", "agent_id": "claude"}
        made = client.remember(str(ours), "Ports start at 9000", **reported)
        commit(ours)
        assert "9000" in injected(client, ours).text
        assert client.recall("ports", "s", workspace=str(ours), scopes=["repo"]).memories
        (before,) = client.get(str(ours), [made.memory_id]).memories
        assert (before.importance, before.metadata, before.agent_id) == (0.75, {"topic": "ports"}, "claude")
        assert before.access_count > 0

        steps = way(ours, Path(made.path))
        next(steps)
        eventually(lambda: "9000" not in injected(client, ours).text)
        assert client.get(str(ours), [made.memory_id]).missing == (made.memory_id,)
        if restarts:
            daemon.stop()
            daemon.start()
        with contextlib.suppress(StopIteration):
            next(steps)
        reply = eventually(lambda: found if "9000" in (found := injected(client, ours)).text else None)
        (after,) = client.get(str(ours), [made.memory_id]).memories

    assert after == before
    assert reply.notice == ""


def test_no_one_remembers_or_edits_a_text_in_conflict(shared, tmp_path):
    client, ours = shared.strange, begun(shared.strange, tmp_path / "ours", "own")
    text = "Ports:\n<<<<<<< HEAD\n9000\n=======\n1\n>>>>>>> pr\n"
    (there,) = client.list(str(ours)).memories
    for scope in ("repo", "user"):
        reply = client.remember(str(ours), text, scope=scope)
        assert "unresolved merge conflict" in reply.reason
    reply = client.edit(str(ours), there.id, text)
    assert "unresolved merge conflict" in reply.reason
    assert client.remember(str(ours), f"```\n{text}```\n").status == "ok"
