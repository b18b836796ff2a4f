"""The list that an agent has in its context: what it costs, and that it says what the daemon knows."""

from __future__ import annotations

import inspect
import json

from forged.mcp import tools
from forged.mcp.calls import Calls


def test_the_list_of_tools_fits_into_1500_tokens_and_has_six_at_most():
    listed = json.dumps({"tools": tools.TOOLS}, ensure_ascii=False)

    assert len(tools.TOOLS) <= 6
    assert -(-len(listed.encode()) // 4) <= 1500
    assert len(tools.INSTRUCTIONS) <= 500


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
