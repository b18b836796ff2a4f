"""The code of each error."""

from __future__ import annotations

import pytest

from forged.errors import (
    ConfigError,
    ForgedError,
    InvalidRequest,
    MemoryExists,
    MemoryNotFound,
    NotReady,
    StoreError,
    WorkspaceError,
)


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
    assert error.code == code
