"""Each imported format, by files as programs write them: the memories, and the named losses."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from pathlib import Path

import pytest

from forged.errors import WorkspaceError
from forged.importing import ReadOptions, read_path
from forged.importing import sources as sources_module
from forged.importing.sources import Walk

FILES = Path(__file__).parents[1] / "data/imports"
FORMS = ["NFC", "NFD"]
SAMPLES = Path(__file__).parents[1] / "data/samples"


@pytest.fixture
def read(home):
    def read(path, **said):
        return read_path(str(path), ReadOptions(home=str(home), **said))

    return read


def texts(found):
    return [item.text for item in found.items]


def whys(found):
    return [(left.where, left.why) for left in found.left]


# --- rules ---------------------------------------------------------------------------------------------


def test_rules_of_a_repository_have_the_categories_of_their_headings_and_name_their_imports(read, repo):
    shutil.copy(FILES / "CLAUDE.md", repo)
    os.utime(repo / "CLAUDE.md", (1_750_000_000, 1_750_000_000))

    found = read(repo / "CLAUDE.md")

    assert found.formats == {"rules": 1}
    kinds = {item.text.partition("\n")[0]: item.category for item in found.items}
    assert kinds["Commands: Build with `make build`"] == "project-conventions"
    assert kinds["Code style: Follow these rules: Never use `any` in TypeScript"] == "coding-preferences"
    assert (
        kinds["Architecture: The daemon owns the vector map. Clients are thin."] == "architectural-decisions"
    )
    assert "@docs/style.md" not in kinds
    assert {item.created_at for item in found.items} == {"2025-06-15T15:06:40.000000Z"}
    assert {(item.scope, item.place) for item in found.items} == {("repo", str(repo))}
    assert (
        "CLAUDE.md:6",
        "docs/style.md, which it includes, is not read; import that file separately",
    ) in whys(found)
    assert ("CLAUDE.md:4", "README.md, which it includes, is not read; import that file separately") in whys(
        found
    )


def test_what_an_agent_added_to_its_rules_by_itself_is_of_the_user_and_without_its_heading(read, home):
    (home / ".gemini").mkdir()
    (home / ".gemini/GEMINI.md").write_text("## Gemini Added Memories\n- Lives in Graz\n")

    (item,) = read(home / ".gemini").items

    assert (item.text, item.category, item.scope) == ("Lives in Graz", "user-facts", "user")


def test_rules_of_a_folder_say_which_folder_they_hold_for(read, repo):
    (repo / "src/api").mkdir(parents=True)
    (repo / "src/api/AGENTS.md").write_text("# API\n- Handlers return problem+json\n")
    (repo / ".github").mkdir()
    (repo / ".github/copilot-instructions.md").write_text("Use pnpm.\n")

    assert texts(read(repo)) == ["Use pnpm.", "src/api: Handlers return problem+json"]


def test_a_rule_of_cursor_says_when_it_holds_by_cues(read, repo):
    (repo / ".cursor/rules").mkdir(parents=True)
    shutil.copy(FILES / "react.mdc", repo / ".cursor/rules")

    found = read(repo)

    assert texts(found) == ["Components are functions, never classes.", "State lives in zustand stores."]
    assert {item.cues for item in found.items} == {
        ("Writing React components", "editing **/*.tsx", "editing src/**/*.jsx")
    }
    assert whys(found) == [(".cursor/rules/react.mdc:5", "the key 'owner' cannot be imported")]


def test_double_front_matter_of_cursor_is_read(read, repo):
    twice = "---\ndescription: \nglobs: \n---\n---\nglobs: *.ts\nmood: calm\n---\n---\n- x\n"
    (repo / "a.mdc").write_text(twice)

    found = read(repo / "a.mdc")

    assert [(item.text, item.cues, item.where) for item in found.items] == [
        ("x", ("editing *.ts",), "a.mdc:10")
    ]
    assert whys(found) == [("a.mdc:7", "the key 'mood' cannot be imported")]


@pytest.mark.parametrize("title", FORMS)
@pytest.mark.parametrize("target", FORMS)
def test_a_wiki_link_finds_its_note_in_any_unicode_form(read, tmp_path, title, target):
    titled, linked = (unicodedata.normalize(form, "Übung größer") for form in (title, target))
    (tmp_path / "a.md").write_text(f"---\ntitle: {titled}\ntype: note\n---\n- [fact] One\n")
    (tmp_path / "b.md").write_text(f"---\ntitle: B\ntype: note\n---\n- [fact] Two\n- refines [[{linked}]]\n")

    one, two = sorted(read(tmp_path).items, key=lambda item: item.text.endswith("Two"))
    assert two.links[0].key in one.keys


def test_a_text_between_two_rules_is_no_front_matter_and_one_without_a_body_says_nothing(read, repo):
    (repo / "CLAUDE.md").write_text("---\nUse tabs.\n\n---\nUse pnpm.\n")
    (repo / "a.mdc").write_text("---\nglobs: *.ts\n---")

    assert texts(read(repo / "CLAUDE.md")) == ["Use tabs.", "Use pnpm."]
    assert texts(read(repo / "a.mdc")) == []


# --- notes and exports ---------------------------------------------------------------------------------


def test_a_note_becomes_a_memory_for_each_thing_it_says(read, tmp_path):
    for name in ("coffee.md", "tea.md"):
        shutil.copy(FILES / name, tmp_path)

    found = read(tmp_path)

    assert found.formats == {"basic-memory": 2}
    assert [(item.text, item.category) for item in found.items] == [
        ("Coffee Brewing: Filter coffee is made for guests. #coffee #home", "project-conventions"),
        ("Coffee Brewing: Light roasts for filter #roast (personal) #coffee #home", "coding-preferences"),
        ("Coffee Brewing: gear: The grinder is a hand mill #coffee #home", "project-conventions"),
        ("Coffee Brewing: [ ] descale the kettle #coffee #home", "project-conventions"),
        ("Tea Brewing: Green tea at 80 degrees", "patterns"),
    ]
    assert [item.created_at for item in found.items[:4]] == ["2025-04-02T08:00:00+02:00"] * 4
    links = {
        item.keys: [(link.key, link.relationship) for link in item.links] for item in found.items if item.keys
    }
    assert links == {
        ("coffee brewing", "kitchen/coffee-brewing"): [
            ("tea brewing", "relates-to"),
            ("water", "relates-to"),
            ("instant coffee", "contradicts"),
        ],
        ("tea brewing", "kitchen/tea-brewing"): [("kitchen/coffee-brewing", "refines")],
    }
    assert whys(found) == [
        ("coffee.md:9", "the title of the file"),
        ("coffee.md:20", "that the relation is 'requires': it becomes relates-to"),
        ("coffee.md:20", "the context of a relation"),
        ("coffee.md", "that it is of the type 'recipe'"),
    ]


def test_entries_of_mem0_are_the_users_and_what_has_no_place_is_named(read):
    found = read(FILES / "mem0.json")

    assert [(item.text, item.scope, item.category) for item in found.items] == [
        ("Prefers async communication", "user", "coding-preferences"),
        ("Lives in Graz", "user", "user-facts"),
    ]
    assert found.items[0].created_at == "2025-01-15T10:30:00.123456-08:00"
    assert found.items[1].created_at.startswith("20")  # the file's, as "yesterday" is no time
    assert whys(found) == [
        ("mem0.json", "the relations of its graph"),
        ("mem0.json#1", "fields that memories do not have: metadata, user_id"),
        *((f"mem0.json#{number}", "an entry without a text that could be a memory") for number in (3, 4, 5)),
    ]


def test_observations_of_claude_mem_and_what_was_learned_are_kept_and_the_rest_is_named(read):
    found = read(FILES / "claude-mem.json")

    assert [(item.text, item.repo, item.category, item.created_at) for item in found.items] == [
        (
            (
                "Queue stalls on restart: The worker must drain its queue before it exits.\n"
                "- SIGTERM is sent first\n- the grace period is 5 s"
            ),
            "shop",
            "corrections",
            "2026-01-02T09:00:00.000000Z",
        ),
        ("Posts are static\n- not json", "blog", "architectural-decisions", "2026-01-02T09:00:00.000000Z"),
        ("Restarts go through systemd.", "shop", "patterns", "2026-01-02T09:01:40.000000Z"),
    ]
    assert whys(found) == [
        ("claude-mem.json#observation-3", "an entry without a text that could be a memory"),
        ("claude-mem.json#summary-1", "records of sessions are not imported: request, completed"),
        ("claude-mem.json", "1 prompts, as they were typed"),
    ]


# --- memory files --------------------------------------------------------------------------------------


def test_memory_files_of_the_go_program_are_taken_byte_by_byte(read, tmp_path):
    folder = tmp_path / ".forge/memories"
    shutil.copytree(SAMPLES, folder)
    expected = {path.name: path.read_bytes() for path in folder.glob("*.md")}

    for path in (tmp_path / ".forge", folder):
        found = read(path)
        assert {item.name: item.file for item in found.items} == expected
        assert {item.scope for item in found.items} == {"user", "repo"}
        assert found.left == ()


def test_a_folder_with_everything_leaves_memories_of_forged_to_be_named(read, repo):
    (repo / ".forge/memory").mkdir(parents=True)
    (repo / ".forge/memory/mem_a.md").write_text("text")
    (repo / "CLAUDE.md").write_text("- one\n")

    found = read(repo)

    assert texts(found) == ["one"]
    assert whys(found) == [(".forge", "memories of forged; import that folder separately")]


# --- what is no such file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("CLAUDE.md", b"\xff\xfe\x00", "not a text file in UTF-8"),
        ("CLAUDE.md", b"a\0b", "it contains NUL characters"),
        ("CLAUDE.md", b"x" * (513 << 10), "larger than 512 KiB"),
        ("a.json", b"[" * 100_000, "not readable as JSON"),
        ("a.json", b'{"a": 1}', "has no known format; name it with --as"),
        ("a.txt", b"text", "has no known format"),
        ("a.md", b"---\nsource: &a x\nkind: *a\n---\nx", "has no known format"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(read, tmp_path, name, data, why):
    (tmp_path / name).write_bytes(data)

    with pytest.raises(WorkspaceError, match=why):
        read(tmp_path / name)


@pytest.mark.parametrize("alias", ["- *a\n", "b: *a\n"])
def test_front_matter_with_an_alias_unfolds_nothing(read, tmp_path, alias):
    bomb = "---\ntitle: x\ntags: &a [x, x, x]\n" + alias + "---\ntext\n"
    (tmp_path / "a.md").write_text(bomb)

    (text,) = texts(read(tmp_path / "a.md", form="basic-memory"))
    assert "text" in text
    assert text.count("x, x, x") <= 1


def test_a_text_between_two_rules_is_no_front_matter_of_a_note(read, tmp_path):
    (tmp_path / "a.md").write_text("---\nRelease notes: never on a Friday.\n---\n\nSecond part.\n")

    found = "\n".join(texts(read(tmp_path / "a.md", form="basic-memory")))
    assert "never on a Friday" in found
    assert "Second part" in found


def test_links_out_of_a_folder_are_named_and_not_followed(read, tmp_path, home):
    secret = home / "secret.md"
    secret.write_text("- the secret of somebody else\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "CLAUDE.md").symlink_to(secret)
    (folder / "deeper").symlink_to(home)

    found = read(folder)

    assert (texts(found), whys(found)) == (
        [],
        [("CLAUDE.md", "a symbolic link; import the file that it points to")],
    )


def test_a_file_that_becomes_a_link_while_it_is_walked_is_not_followed(tmp_path, home):
    (home / "secret.md").write_text("- the secret of somebody else\n")
    (tmp_path / "CLAUDE.md").write_text("- one\n")

    def wanted(_):
        (tmp_path / "CLAUDE.md").unlink()
        (tmp_path / "CLAUDE.md").symlink_to(home / "secret.md")
        return 1000

    walk = Walk(str(tmp_path), wanted)

    assert list(walk) == []
    assert [left.where for left in walk.left] == ["CLAUDE.md"]


def test_a_walk_ends_and_says_so(read, tmp_path, monkeypatch):
    monkeypatch.setattr(sources_module, "MOST_ENTRIES", 3)
    deep = tmp_path / "/".join("d" * 20)
    deep.mkdir(parents=True)
    for number in range(5):
        (tmp_path / f"x{number}").write_text("")

    assert {left.why for left in read(tmp_path).left} == {"more than 3 files and folders; import it in parts"}
    monkeypatch.setattr(sources_module, "MOST_ENTRIES", 1000)
    (deep / "CLAUDE.md").write_text("- deep\n")
    assert [left.why for left in read(tmp_path).left] == ["lies more than 16 folders deep"]


def test_a_manifest_that_names_a_folder_elsewhere_is_refused(read, tmp_path):
    for folder in ("../other", "/etc"):
        reported = {"schema_version": 1, "parts": [{"folder": folder, "scope": "user"}]}
        (tmp_path / "forged-export.json").write_text(json.dumps(reported))
        with pytest.raises(WorkspaceError, match="names an unknown part"):
            read(tmp_path)


def test_an_export_of_a_later_form_says_what_to_do(read, tmp_path):
    (tmp_path / "forged-export.json").write_text('{"schema_version": 2}')

    with pytest.raises(WorkspaceError, match="upgrade forged"):
        read(tmp_path)
