"""Common parts of every reply, and requests that the dispatcher answers itself."""

from __future__ import annotations

import contextlib
from typing import get_args

import pytest

from forged import errors
from forged.errors import ForgedError
from forged_client import protocol as wire
from tests.daemon.parts import EPOCH, assembled

REQUESTS = {
    wire.Retrieve: {},
    wire.Search: {"query": "q"},
    wire.Ingest: {"documents": (wire.Document(source="x.md", text="x"),)},
    wire.ListDocuments: {},
    wire.RemoveDocument: {"name": "x.md"},
    wire.RemoveDocuments: {"document_ids": ("doc_0a",), "below": "/docs"},
    wire.Recall: {"query": "q", "session_id": "s", "agent_id": "a"},
    wire.Why: {},
    wire.Remember: {"content": "text"},
    wire.GetMemories: {"ids": ()},
    wire.ListMemories: {},
    wire.History: {"memory_id": "m"},
    wire.Forget: {"memory_id": "m"},
    wire.Edit: {"memory_id": "m", "content": "text"},
    wire.Move: {"memory_id": "m", "to": "user"},
    wire.Restore: {"memory_id": "m"},
    wire.Import: {},
    wire.Undo: {},
    wire.Capture: {"session_id": "s"},
    wire.Learn: {"session_id": "s"},
}


def test_a_verb_needs_what_is_more_general_too_and_the_workspace_that_it_is_about():
    words = get_args(wire.Need)
    for kind in wire.REQUESTS:
        assert kind.needs == words[: len(kind.needs)], kind
        assert not kind.needs or "workspace" in kind.__struct_fields__, kind
    assert {kind for kind in wire.REQUESTS if kind.needs == words} == {wire.Retrieve, wire.Recall}


async def test_only_what_may_leave_its_workspace_out_is_asked_without_one(home):
    answered = set()
    async with assembled(home) as parts:
        for kind, fields in REQUESTS.items():
            with contextlib.suppress(ForgedError):
                await parts.ask(kind(**{"workspace": ""} | fields))
                answered.add(kind)

    removals = {wire.RemoveDocument, wire.RemoveDocuments}
    assert answered == {wire.Recall, wire.Ingest, wire.ListDocuments} | removals


# What each field of a request takes that the contract lists words for.
WORDS = {
    **dict.fromkeys(("scope", "to", "scopes"), ("scope", wire.Scope)),
    "category": ("category", wire.Category),
    "origin": ("origin", wire.Origin),
    "kind": ("kind", get_args(wire.CaptureKind)),
    **dict.fromkeys(("related", "relate"), ("relationship", wire.Relationship)),
}
ANY_WORD = {(wire.ListMemories, "category"): "a file may hold any category"}


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
async def test_a_word_that_the_contract_does_not_list_is_answered_with_those_that_it_lists(home, repo, kind):
    named = [each for each in WORDS if each in kind.__struct_fields__ and (kind, each) not in ANY_WORD]
    odd = {"scopes": ("banana",)} | dict.fromkeys(("related", "relate"), (wire.Edge("m", "banana"),))
    async with assembled(home) as parts:
        for field in named:
            what, words = WORDS[field]
            if field == "origin" and kind is not wire.ListMemories:
                words = wire.CLAIMED
            asked = kind(**{"workspace": str(repo), **REQUESTS[kind], field: odd.get(field, "banana")})
            reported = f"unknown {what} 'banana'; use one of {', '.join(words)}"
            assert await parts.refusal(asked) == ("invalid", reported)


async def test_where_memory_is_off_every_verb_says_disabled_in_its_own_reply(home, repo):
    (repo / ".forge").mkdir(exist_ok=True)
    (repo / ".forge/config.toml").write_text("[memory]\nenabled = false\n")
    async with assembled(home) as parts:
        for kind, fields in REQUESTS.items():
            reply = await parts.ask(kind(id=7, workspace=str(repo), **fields))
            assert (type(reply), reply.id, reply.status) == (kind.reply_type(), 7, "disabled")
            assert reply.reason == "memory.enabled is false"


async def test_without_retrieval_only_the_verbs_that_retrieve_are_disabled(home, repo):
    off = set()
    async with assembled(home, disabled="no model") as parts:
        for kind, fields in REQUESTS.items():
            with contextlib.suppress(ForgedError):
                reply = await parts.ask(kind(workspace=str(repo), **fields))
                off |= {kind} if reply.reason == "no model" else set()

    assert off == {wire.Retrieve, wire.Search, wire.Why, wire.Recall}


async def test_a_reply_names_its_request_and_the_generation_that_it_speaks_of_if_any(home, repo):
    async with assembled(home) as parts:
        listed = await parts.ask(wire.ListMemories(id=9, workspace=str(repo)))
        explained = await parts.ask(wire.Why(id=10, workspace=str(repo)))

    epoch, _, number = listed.generation.partition(":")
    assert (listed.id, epoch) == (9, EPOCH)
    assert number.isdecimal()
    assert (explained.id, explained.status, explained.generation) == (10, "empty", "")


async def test_an_agent_that_asks_is_noticed_and_a_person_who_looks_at_its_state_is_not(home, repo):
    async with assembled(home) as parts:
        for look in (wire.Ping, wire.Hello, wire.Status, wire.Rebuild):
            fields = {"workspace": str(repo)} if look in {wire.Status, wire.Rebuild} else {}
            await parts.ask(look(**fields))
        assert parts.daemon.activity.is_quiet(3600)
        for kind, fields in REQUESTS.items():
            parts.daemon.activity._asked_at = float("-inf")
            with contextlib.suppress(ForgedError):
                await parts.ask(kind(workspace=str(repo), **fields))
            assert not parts.daemon.activity.is_quiet(3600), kind


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MemoryNotFound("x"), "not_found"),
        (errors.MemoryExists("x"), "conflict"),
        (errors.StoreError("x"), "storage_error"),
        (errors.InvalidRequest("x"), "invalid"),
        (errors.WorkspaceError("x"), "invalid"),
        (errors.NotReady("x"), "busy"),
        (errors.ConfigError("x"), "configuration"),
        (ForgedError("x"), "internal"),
    ],
)
def test_each_error_has_its_code(error, code):
    assert error.code == code
