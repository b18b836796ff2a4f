"""The list that an agent has in its context: what it costs, and that it says what the daemon knows."""

from __future__ import annotations

import inspect
import json

from forged.mcp import tools
from forged.mcp.calls import Calls


def test_tools_and_instructions_fit_into_1500_tokens_and_are_six_at_most():
    """Of what a client gets: the tools, and the answer to its first message."""
    listed = json.dumps({"tools": tools.TOOLS}, ensure_ascii=False)
    first = json.dumps(tools.initialize_result(tools.VERSIONS[0]), ensure_ascii=False)

    assert len(tools.TOOLS) <= 6
    assert -(-len((listed + first).encode()) // 4) <= 1500


def test_no_agent_is_asked_to_repeat_the_words_of_the_user():
    remember = str(tools.BY_NAME["remember"]["description"])

    assert "What the user says is kept by itself" in tools.INSTRUCTIONS
    assert "Not what the user said (kept by itself)" in remember


def test_every_tool_that_is_listed_takes_the_arguments_that_are_listed():
    methods = Calls()._tools

    assert list(methods) == list(tools.BY_NAME)
    for name, tool in methods.items():
        properties = tools.BY_NAME[name]["inputSchema"]["properties"]
        inspect.signature(tool).bind("/w", **dict.fromkeys(properties, None))


def test_only_what_takes_something_away_is_called_destructive_and_what_reads_says_so():
    hints = {tool["name"]: tool["annotations"] for tool in tools.TOOLS}

    assert {name for name, each in hints.items() if each.get("destructiveHint")} == {"forget"}
    assert {name for name, each in hints.items() if not each["readOnlyHint"]} == {"remember", "forget"}
    assert not any(each["openWorldHint"] for each in hints.values())


def test_the_versions_are_those_of_the_official_sdk_that_begin_with_a_handshake():
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # with much else; not while tests are collected

    assert set(tools.VERSIONS) == set(HANDSHAKE_PROTOCOL_VERSIONS)
    assert list(tools.VERSIONS) == sorted(tools.VERSIONS, reverse=True)
