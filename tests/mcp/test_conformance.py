"""The MCP server with the official SDK's client and a real daemon: every tool, resource and prompt."""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.mcp.agent import COMMAND
from tests.support.clock import PATIENCE_S


@pytest.fixture(scope="module")
def sdk():
    """The SDK, of which an import takes as much as the collection of a thousand tests."""
    importlib.import_module("mcp.client.stdio")
    return importlib.import_module("mcp")


@asynccontextmanager
async def connected(sdk, shared, repo, mode: str = "auto") -> AsyncIterator:
    shared.trust(repo)
    command, *arguments = (*COMMAND, "sdk")
    server = sdk.StdioServerParameters(command=command, args=arguments, env=dict(shared.env), cwd=str(repo))
    transport = sdk.client.stdio.stdio_client(server)
    async with sdk.Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
        yield client


def text(result) -> str:
    assert not result.is_error, result
    return "".join(part.text for part in result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_its_client_negotiates_and_reads_what_is_offered(sdk, shared, repo, mode):
    """`auto` asks for a discovery of a later version first, and falls back to the handshake."""
    async with connected(sdk, shared, repo, mode) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        templates = (await client.list_resource_templates()).resource_templates
        resources = (await client.list_resources()).resources

        assert client.protocol_version == "2025-11-25"
        assert client.server_info.name == "forged"
        assert client.instructions.startswith("Long-term memory")

    assert [tool.name for tool in tools][:2] == ["search_memories", "get_memories"]
    assert {tool.name for tool in tools if tool.annotations.destructive_hint} == {"forget"}
    assert all(tool.title and tool.annotations.open_world_hint is False for tool in tools)
    assert [prompt.arguments[0].name for prompt in prompts] == ["topic"]
    assert [template.uri_template for template in templates] == ["memory://{id}"]
    assert resources == []


async def test_its_client_calls_every_tool_and_reads_resource_and_prompt(sdk, shared, repo):
    async with connected(sdk, shared, repo) as client:
        kept = text(await client.call_tool("remember", {"text": "Backups run at dawn.", "cues": ["backup"]}))
        memory_id = re.search(r"mem_[\w-]+", kept)[0]
        found = text(await client.call_tool("search_memories", {"hypotheses": ["Backups run at dawn."]}))
        whole = text(await client.call_tool("get_memories", {"ids": [memory_id]}))
        listed = text(await client.call_tool("list_memories", {"scope": "repo"}))
        (resource,) = (await client.read_resource(f"memory://{memory_id}")).contents
        prompt = await client.get_prompt("recall", {"topic": "backups"})
        status = text(await client.call_tool("memory_status", {}))
        gone = text(await client.call_tool("forget", {"ids": [memory_id]}))

    assert all(memory_id in each for each in (found, whole, listed, resource.text, gone))
    assert "backups" in prompt.messages[0].content.text
    assert "This repository: 1 memory." in status


async def test_its_client_is_informed_what_it_does_wrong(sdk, shared, repo):
    async with connected(sdk, shared, repo) as client:
        wrong = await client.call_tool("search_memories", {"hypotheses": []})
        with pytest.raises(sdk.MCPError) as unknown:
            await client.call_tool("drop_memories", {})
        with pytest.raises(sdk.MCPError) as missing:
            await client.read_resource("memory://mem_nothing")

    assert wrong.is_error
    assert "a list of 1 to 5 texts" in wrong.content[0].text
    assert (unknown.value.error.code, missing.value.error.code) == (-32602, -32002)
