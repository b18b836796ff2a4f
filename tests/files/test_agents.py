"""Owners of directories below `~/.forge/agents`: made once, and never another agent's."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from forged.errors import StoreError, WorkspaceError
from forged.files import agent_ids, agent_root, root_of_agent
from forged.files import roots as module
from tests.support.clock import PATIENCE_S


def test_many_that_want_the_same_agent_at_once_get_it(home, monkeypatch):
    """All of them look before the first one makes it."""
    at_once, listed = Barrier(8), agent_ids

    def looked(place):
        found = listed(place)
        at_once.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(module, "agent_ids", looked)
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(partial(root_of_agent, str(home), "claude", make=True)) for _ in range(8)]
        assert {each.result(PATIENCE_S) for each in made} == {agent_root(str(home), "claude")}
    assert os.listdir(home / ".forge/agents") == ["claude"]


def test_a_directory_of_agents_that_leads_out_of_home_is_not_written_to(home, tmp_path):
    (home / ".forge").mkdir()
    (home / ".forge/agents").symlink_to(tmp_path)

    with pytest.raises(StoreError, match="leads out"):
        root_of_agent(str(home), "claude", make=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0", "x\n", "é", "x" * 65, " claude"])
def test_what_is_no_name_of_a_directory_is_no_agent(home, name):
    with pytest.raises(WorkspaceError, match="is not an agent id"):
        root_of_agent(str(home), name, make=True)
    assert not (home / ".forge").exists()
