"""`forgectl import` and `export` at a shell, with real daemons."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from forged_client.protocol import Message
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Shell, running

pytestmark = pytest.mark.long

FILES = Path(__file__).parents[1] / "data/imports"
SAMPLES = Path(__file__).parents[1] / "data/samples"
SECRET = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"
BY_HAND = "Written by hand: the \xe9tag is weak.\n"
SESSIONS = map("session-{}".format, itertools.count())
CHAIN = "mem_0c000000-0000-4000-8000-00000000000"


@pytest.fixture
def daemon(home):
    with running(home) as daemon:
        yield daemon


@pytest.fixture
def at(daemon, repo):
    return Shell(daemon.home, daemon.socket, repo)


def stored(top):
    return {path.name: path.read_bytes() for path in (top / ".forge/memory").glob("*.md")}


def listed(shell, *options):
    return shell.run("list", "--json", "--limit", "1000", *options).json["memories"]


def became(outcome):
    return {each["where"]: each["result"] for each in outcome.json["memories"]}


def standing(daemon, workspace):
    """What comes into a session without being searched for."""
    with daemon.client() as client:
        said = [Message("user", "What does the walrus eat?")]
        reply = client.retrieve(str(workspace), said, session_id=next(SESSIONS), mode="append")
    return {hit.content for hit in reply.memories if hit.found.found_by == "pinned"}


# --- rules ---------------------------------------------------------------------------------------------


def test_rules_are_shown_then_written_and_found_and_asked_again_nothing_is_new(daemon, at, repo):
    shutil.copy(FILES / "CLAUDE.md", repo)
    dry = at.run("import", "CLAUDE.md", "--dry-run", "--verbose")

    assert (dry.code, stored(repo)) == (0, {})
    assert "(repo): 9 new" in dry.out
    assert "CLAUDE.md:6: docs/style.md, which it includes, is not read" in dry.out
    assert "new  Commands: Build with `make build`" in dry.out
    assert at.run("import", "CLAUDE.md").code == 2  # nobody can answer, and --yes was not said

    assert "(repo): 9 imported" in at.run("import", "CLAUDE.md", "--yes").out
    before = stored(repo)
    again = at.run("import", "CLAUDE.md", "--yes")
    assert (len(before), stored(repo), again.code) == (9, before, 0)
    assert ("9 already there" in again.out, "nothing new" in again.err) == (True, True)
    assert {each["origin"] for each in listed(at)} == {"import"}
    assert "make test" in at.run("search", "how do I run all tests before a push").out
    assert standing(daemon, repo) == set()  # nobody has reviewed them, so they stand in no session


def test_who_gives_the_text_of_an_imported_memory_again_makes_it_their_own(daemon, at, repo):
    (repo / "AGENTS.md").write_text("- Answer briefly.\n")
    at.run("import", "AGENTS.md", "--yes")
    (there,) = listed(at)
    assert standing(daemon, repo) == set()

    at.run_as_person("edit", there["id"], "Answer briefly.")

    assert [each["origin"] for each in listed(at)] == ["explicit"]
    assert standing(daemon, repo) == {"Answer briefly."}


def test_a_secret_is_refused_by_itself_and_named_by_its_place_and_never_shown(at, repo):
    (repo / "AGENTS.md").write_text(f"- one\n- the token is {SECRET}\n- two\n")

    done = at.run("import", "AGENTS.md", "--yes", "--verbose")

    assert done.code == 1
    assert "AGENTS.md:2: it seems to contain a secret (GitHub token, token)" in done.out
    assert SECRET not in done.out + done.err
    assert sorted(each["content"] for each in listed(at)) == ["one", "two"]
    assert at.run("import", "AGENTS.md", "--yes", "--allow-secret").code == 0
    assert len(stored(repo)) == 3


def test_an_export_from_before_a_forget_says_what_it_leaves_out_and_how_to_keep_it(at, repo, tmp_path):
    at.run("remember", "The broker is restarted by hand.")
    at.run("remember", "Trains run late.")
    at.run("export", "--to", str(tmp_path / "out"))
    there = {each["content"]: each["id"] for each in listed(at)}
    at.run("forget", there["The broker is restarted by hand."], "--now", "--yes")

    left = at.run("import", str(tmp_path / "out"), "--yes")

    assert (left.code, len(stored(repo))) == (0, 1)
    assert "1 already there, 1 forgotten in the last 7 days" in left.out
    assert "it was forgotten in the last 7 days; `--allow-forgotten` imports it all the same" in left.out
    kept = at.run("import", str(tmp_path / "out"), "--yes", "--allow-forgotten")
    assert (kept.code, len(stored(repo))) == (0, 2)
    assert "1 imported, 1 already there" in kept.out


def test_private_spans_are_left_out(at, repo):
    (repo / "AGENTS.md").write_text("- use tabs <private>as lou said</private>\n")

    at.run("import", "AGENTS.md", "--yes")

    assert [each["content"] for each in listed(at)] == ["use tabs"]


# --- notes and exports ---------------------------------------------------------------------------------


def test_relations_between_imported_notes_become_links_and_others_are_named(at, tmp_path):
    for name in ("coffee.md", "tea.md"):
        shutil.copy(FILES / name, tmp_path)

    done = at.run("import", str(tmp_path), "--yes", "--json")

    links = {each["content"].partition(":")[0]: each["related"] for each in listed(at) if each["related"]}
    ids = {each["content"]: each["id"] for each in listed(at)}
    tea = ids["Tea Brewing: Green tea at 80 degrees"]
    coffee = ids["Coffee Brewing: Filter coffee is made for guests. #coffee #home"]
    assert links == {
        "Coffee Brewing": [{"id": tea, "relationship": "relates-to"}],
        "Tea Brewing": [{"id": coffee, "relationship": "refines"}],
    }
    lost = [each["why"] for each in done.json["left"] if "link" in each["why"]]
    assert lost == [
        "a link to 'water', which is not imported",
        "a link to 'instant coffee', which is not imported",
    ]


def test_memories_of_another_project_wait_for_their_repository_to_be_named(at, repo, tmp_path):
    shop, blog = tmp_path / "shop", tmp_path / "blog"
    for top in (shop, blog):
        (top / ".git").mkdir(parents=True)

    here = at.run("import", str(FILES / "claude-mem.json"), "--yes", "--workspace", str(shop))
    reported = at.run(
        "import", str(FILES / "claude-mem.json"), "--yes", "--into", f"blog={blog}", "--into", f"shop={shop}"
    )

    assert "it belongs to the repository 'blog'; --into NAME=PATH says where that is" in here.out
    assert (len(stored(shop)), len(stored(blog)), len(stored(repo))) == (2, 1, 0)
    assert reported.code == 0


# --- there and back ------------------------------------------------------------------------------------


def furnished(daemon, at, repo):
    """A home and a repository with memories of all kinds: ours, the Go program's, by hand, in versions."""
    shutil.copytree(SAMPLES, daemon.home / ".forge/memory")
    (daemon.home / ".forge/memory/by hand.md").write_text(BY_HAND)
    first = memory(f"{CHAIN}1", "Tabs are two wide.", related=[f"{CHAIN}9"])
    second = memory(f"{CHAIN}2", "Tabs are four wide.", supersedes=f"{CHAIN}1", version=2)
    put(repo, first, second)
    odd = repo / ".forge/memory/renamed.md"
    odd.write_text(f"---\nid: {CHAIN}3\nmood: calm\nversion: 1\n---\r\nWith a key of its own.\r\n")
    daemon.trust(repo)
    assert at.run("remember", "Releases are cut on Mondays.", "--cue", "cutting a release").code == 0
    assert (
        at.run("remember", "Answer briefly.", "--scope", "user", "--category", "coding-preferences").code == 0
    )


def test_an_export_that_is_imported_in_a_new_home_gives_equal_files(
    daemon, at, repo, tmp_path, tmp_path_factory
):
    furnished(daemon, at, repo)
    reported = at.run("export", "--to", str(tmp_path / "out"))
    assert reported.code == 0, reported.err
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*") if path.is_file()} == {
        0o600
    }
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*") if path.is_dir()} == {0o700}
    new_home, new_repo = tmp_path_factory.mktemp("home"), tmp_path / "elsewhere/repo"
    (new_repo / ".git").mkdir(parents=True)

    with running(new_home) as other:
        there = Shell(new_home, other.socket, new_repo)
        done = there.run("import", str(tmp_path / "out"), "--yes")
        assert done.code == 0, (done.out, done.err)

        assert stored(new_home) == stored(daemon.home)
        assert stored(new_repo) == stored(repo)
        assert {each["id"] for each in listed(there, "--all-versions")} == {
            each["id"] for each in listed(at, "--all-versions")
        }
        (shown,) = there.run("show", f"{CHAIN}1", "--json").json["memories"]
        assert [each["version"] for each in shown["versions"]] == [1, 2]
        assert {each["origin"] for each in listed(there)} == {"import"}
        again = there.run("import", str(tmp_path / "out"), "--yes")
        assert "nothing new" in again.err
        assert standing(other, new_repo) == set()
        assert standing(daemon, repo) != set()


def test_with_mine_the_files_are_believed_and_stand_as_before(daemon, at, tmp_path, tmp_path_factory):
    at.run_as_person("remember", "Answer briefly.", "--scope", "user", "--category", "coding-preferences")
    at.run("export", "--to", str(tmp_path / "out"))
    new_home = tmp_path_factory.mktemp("home")

    with running(new_home) as other:
        there = Shell(new_home, other.socket, new_home)
        there.run_as_person("import", str(tmp_path / "out"), "--yes", "--mine")
        assert [each["origin"] for each in listed(there)] == ["explicit"]
        assert standing(other, new_home) == {"Answer briefly."}


def test_an_export_and_an_import_are_of_this_repository_whoever_works_elsewhere(daemon, at, tmp_path):
    """The daemon serves both; what is exported here may be for other eyes."""
    (tmp_path / "another/.git").mkdir(parents=True)
    another = Shell(daemon.home, daemon.socket, tmp_path / "another")
    another.run("remember", "Another repository's own.")
    at.run("remember", "Releases are cut on Mondays.")

    for shell, name, text in ((at, "repo", "Releases"), (another, "another", "Another")):
        out = tmp_path / f"out-{name}"
        assert shell.run("export", "--to", str(out)).code == 0
        (file,) = out.rglob("*.md")
        assert (file.relative_to(out).parts[:2], text in file.read_text()) == (("repos", name), True)
        looked = shell.run("import", str(out), "--dry-run", "--json").json
        assert [each["result"] for each in looked["memories"]] == ["exists"]


def test_a_folder_that_is_no_export_is_never_written_into(at, tmp_path):
    at.run("remember", "Releases are cut on Mondays.")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/keep.txt").write_text("mine")

    for option in ((), ("--force",)):
        refused = at.run("export", "--to", str(tmp_path / "mine"), *option)
        assert (refused.code, "is not an export of forged" in refused.err) == (1, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["keep.txt"]
    at.run("export", "--to", str(tmp_path / "out"))
    assert at.run("export", "--to", str(tmp_path / "out")).code == 1
    at.run("remember", "The database is PostgreSQL.")
    assert at.run("export", "--to", str(tmp_path / "out"), "--force").code == 0
    assert len(list((tmp_path / "out").rglob("*.md"))) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("out")) == ["out"]


# --- a kill --------------------------------------------------------------------------------------------


def cut_off(shell, daemon, top, *arguments, after):
    """Begin an import, and kill the daemon once so many files are there; what is there then."""
    begun = shell.start("import", *arguments, "--yes", "--no-autostart", "--timeout", "30")
    eventually(lambda: len(stored(top)) > after)
    daemon.kill()
    _, reported = begun.communicate(timeout=PATIENCE_S)
    assert begun.returncode != 0, reported
    return stored(top)


def test_an_import_whose_daemon_is_killed_goes_on_where_it_was_and_doubles_nothing(daemon, at, repo):
    wanted = {f"Rule {number} of the house holds for part {number * 7}." for number in range(2000)}
    (repo / "AGENTS.md").write_text("".join(f"- {each}\n" for each in sorted(wanted)))
    part = cut_off(at, daemon, repo, "AGENTS.md", after=300)

    assert 300 < len(part) < 2000
    daemon.start()
    assert at.run("import", "AGENTS.md", "--yes", "--timeout", "30").code == 0

    assert part.items() <= stored(repo).items()
    assert len(stored(repo)) == 2000
    said = [each.rpartition(b"---\n")[2].decode().strip() for each in stored(repo).values()]
    assert sorted(said) == sorted(wanted)
