"""Entries in settings: what is taken out again leaves the text as it was, byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.integrations.entries import SettingsEntry, UnfitSettings, add, has_all, has_entries, remove
from forged.integrations.jsonc import parse

RUN = "/x/python -I -S /lib/forged_client/hook.py qwen"
HOOK = {"hooks": [{"type": "command", "command": RUN, "timeout": 10000}]}
SERVER = {"command": "/x/python", "args": ["-I", "-S", "/lib/forged/mcp/bridge.py", "qwen"]}
ENTRIES = (
    SettingsEntry(("hooks", "SessionStart"), "", HOOK),
    SettingsEntry(("hooks", "Stop"), "", HOOK),
    SettingsEntry(("mcpServers",), "forged", SERVER),
)
THEIRS = {"hooks": [{"type": "command", "command": "notify-send done"}]}

BLANKS = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", " // c\n", '/* {[",]} */', "\n  /* a */\n  // b\n"])
KEYS = st.sampled_from(["hooks", "Stop", "SessionStart", "mcpServers", "servers", "other", "a b", 'q"', "x"])
SCALARS = st.one_of(
    st.sampled_from(["true", "null", "-1.5e3", '""', '"//"', '"/*"', '"}\\""', '"ü"', "0"]),
    st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False)),
)


def _joined(opened, closed):
    """Parts between brackets with blanks around each, and sometimes a comma at the end."""

    def join(drawn):
        parts, blank, comma = drawn
        body = ",".join(before + part + after for before, part, after in parts)
        return f"{opened}{body}{',' if comma and parts else ''}{blank}{closed}"

    return join


def _objects(inner):
    members = st.tuples(KEYS.map(json.dumps), BLANKS, inner).map(
        lambda drawn: f"{drawn[0]}:{drawn[1]}{drawn[2]}"
    )
    return _filled(members).map(_joined("{", "}"))


def _filled(parts):
    return st.tuples(st.lists(st.tuples(BLANKS, parts, BLANKS), max_size=4), BLANKS, st.booleans())


VALUES = st.recursive(
    SCALARS, lambda inner: _objects(inner) | _filled(inner).map(_joined("[", "]")), max_leaves=12
)
TEXTS = st.tuples(BLANKS, _objects(VALUES), BLANKS).map("".join)


@given(TEXTS)
def test_taking_out_what_was_put_in_gives_the_same_bytes(text):
    try:
        new, made = add(text, ENTRIES, {})
    except UnfitSettings:
        return
    assert has_all(new, ENTRIES)
    assert remove(new, made, {}) == text


@given(TEXTS)
def test_all_that_was_there_means_the_same_next_to_the_entries(text):
    try:
        new, _ = add(text, ENTRIES, {})
    except UnfitSettings:
        return
    before, after = parse(text).value, parse(new).value
    after["mcpServers"].pop("forged")
    for event in ("Stop", "SessionStart"):
        assert after["hooks"][event].pop(0) == HOOK

    def without_empty(value):
        return {key: each for key, each in value.items() if each not in ({}, [])}

    before["hooks"] = without_empty(before.get("hooks", {}))
    after["hooks"] = without_empty(after["hooks"])
    assert without_empty(after) == without_empty(before)


def test_entries_of_another_installation_are_ours_too():
    old = json.loads(json.dumps(HOOK).replace("/x/python", "/old/python").replace("/lib/", "/old/lib/"))
    text = json.dumps({"hooks": {"Stop": [old, THEIRS]}, "mcpServers": {"forged": SERVER, "b": {}}})

    assert has_entries(text)
    assert not has_all(text, ENTRIES)
    assert json.loads(remove(text, (), {})) == {"hooks": {"Stop": [THEIRS]}, "mcpServers": {"b": {}}}


def test_they_are_found_however_the_agent_has_written_the_file_anew():
    text, made = add('{\n  "theme": "dark"\n}\n', ENTRIES, {})
    anew = json.dumps({**json.loads(text), "added": 1}, indent=4, sort_keys=True)

    assert json.loads(remove(anew, made, {})) == {"added": 1, "theme": "dark"}


def test_what_someone_put_next_to_them_stays_with_its_container():
    text, made = add("{}", ENTRIES, {})
    reported = json.loads(text)
    reported["hooks"]["Stop"].append(THEIRS)

    assert json.loads(remove(json.dumps(reported), made, {})) == {"hooks": {"Stop": [THEIRS]}}


def test_a_comment_that_someone_wrote_into_our_container_stays():
    text, made = add("{}", ENTRIES[:1], {})
    with_agent = text.replace('"SessionStart": [', '"SessionStart": [ /* mine */ ')

    assert remove(with_agent, made, {}) == '{"hooks": {"SessionStart": [ /* mine */]}}'


@pytest.mark.parametrize(
    "one",
    [
        {"command": "/usr/bin/my-hook.py"},
        {"hooks": [{"command": RUN}, {"command": "notify-send"}]},
        {"hooks": []},
        {"command": 1, "args": "x"},
        "text",
        None,
    ],
)
def test_what_runs_anything_else_is_not_ours(one):
    text = json.dumps({"hooks": {"Stop": [one]}, "mcpServers": {"forged": one}})

    assert not has_entries(text)
    assert remove(text, (), {}) == text
