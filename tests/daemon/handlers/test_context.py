"""What a generation token means, and the code of each error."""

from __future__ import annotations

import pytest

from forged.daemon.handlers.context import InvalidRequest, NotReady, code_of
from forged.errors import ConfigError, ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError
from tests.support.loops import run
from tests.support.parts import EPOCH, assembled


def in_context(home, work, **options):
    async def body():
        async with assembled(home, **options) as parts:
            return work(parts.context)

    return run(body())


# --- generations --------------------------------------------------------------------------------------


def test_a_token_is_read_back_as_its_number(home):
    assert in_context(home, lambda context: context.generation(context.token(17))) == 17


@pytest.mark.parametrize(
    "token",
    [
        "",
        "other:17",
        f"{EPOCH}:",
        f"{EPOCH}:-1",
        f"{EPOCH}:x",
        f"{EPOCH}",
        f"{EPOCH}:²",
        "17",
        f"{EPOCH}:1:2",
        pytest.param(f"{EPOCH}:" + "9" * 5000, id="endless"),
    ],
)
def test_a_token_of_another_epoch_or_none_counts_as_reached(home, token):
    assert in_context(home, lambda context: context.generation(token)) == 0


# --- codes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryNotFound("x"), "not_found"),
        (MemoryExists("x"), "conflict"),
        (StoreError("x"), "storage_error"),
        (InvalidRequest("x"), "invalid"),
        (WorkspaceError("x"), "invalid"),
        (NotReady("x"), "busy"),
        (ConfigError("x"), "configuration"),
        (ForgedError("x"), "internal"),
    ],
)
def test_each_error_has_its_code(error, code):
    assert code_of(error) == code
