"""Whose memories a request sees, with which settings, and what a generation token means."""

from __future__ import annotations

import pytest

from forged.config import Config, MemoryConfig
from forged.daemon.handlers.context import InvalidRequest, NotReady, code_of
from forged.errors import ConfigError, ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError
from forged.memory import Scope
from tests.support.loops import run
from tests.support.parts import EPOCH, assembled


def in_context(home, work, **options):
    async def body():
        async with assembled(home, **options) as parts:
            return work(parts.context)

    return run(body())


def override(repo, text):
    (repo / ".forge").mkdir(exist_ok=True)
    (repo / ".forge/config.toml").write_text(text)


# --- workspaces ---------------------------------------------------------------------------------------


def test_a_workspace_in_a_repository_sees_its_root_before_the_users(home, repo):
    inside = repo / "src/deep"
    inside.mkdir(parents=True)

    place = in_context(home, lambda context: context.workplace(str(inside)))

    assert [(root.top, root.scope) for root in place.roots] == [
        (str(repo), Scope.REPO),
        (str(home), Scope.USER),
    ]
    assert place.tops == (str(repo), str(home))


def test_home_sees_the_user_root_alone(home):
    place = in_context(home, lambda context: context.workplace(str(home)))

    assert [root.scope for root in place.roots] == [Scope.USER]


def test_a_workspace_that_is_no_directory_is_refused_each_time(home, tmp_path):
    def twice(context):
        for _ in range(2):
            with pytest.raises(WorkspaceError):
                context.workplace(str(tmp_path / "nowhere"))

    in_context(home, twice)


def test_a_workspace_is_resolved_once_for_some_seconds(home, repo):
    def both(context):
        first = context.workplace(str(repo))
        override(repo, "[memory]\nretrieval_top_k = 3\n")
        return first is context.workplace(str(repo))

    assert in_context(home, both)


def test_workspaces_that_are_remembered_are_bounded(home, tmp_path):
    def many(context):
        for number in range(1100):
            directory = tmp_path / str(number)
            directory.mkdir()
            context.workplace(str(directory))
        return len(context._workplaces)

    assert in_context(home, many) <= 1024


# --- settings of a repository -------------------------------------------------------------------------


def test_a_repository_sets_its_own_top_k_and_no_endpoint(home, repo):
    override(repo, '[memory]\nretrieval_top_k = 3\nembedding_base_url = "https://evil.example/v1"\n')

    place = in_context(home, lambda context: context.workplace(str(repo)))

    assert place.settings.retrieval_top_k == 3
    assert place.settings.embedding_base_url == MemoryConfig().embedding_base_url
    assert any("embedding_base_url" in warning for warning in place.warnings)


def test_a_repository_can_switch_memory_off_for_itself_alone(home, repo, tmp_path):
    override(repo, "[memory]\nenabled = false\n")
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)

    off, on = in_context(
        home, lambda context: (context.workplace(str(repo)).off, context.workplace(str(other)).off)
    )

    assert (off, on) == ("memory.enabled is false", "")


def test_a_repository_cannot_switch_on_what_the_user_switched_off(home, repo):
    override(repo, "[memory]\nenabled = true\n")
    config = Config(memory=MemoryConfig(enabled=False))

    place = in_context(home, lambda context: context.workplace(str(repo)), config=config)

    assert place.off == "memory.enabled is false"


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
