"""Codex's records of the hooks: the hashes are those that 0.169.0 wrote for these commands."""

from __future__ import annotations

import copy

import pytest

from forged.integrations import codex
from forged.integrations.file_io import IntegrationError
from forged.integrations.status import PLUGIN

COMMAND = "/opt/forged/bin/python -I -S /opt/forged/lib/forged_client/hook.py codex"
HOOKS = {
    event: [{"hooks": [{"type": "command", "command": COMMAND, "timeout": wait}]}]
    for event, wait in (("SessionStart", 10), ("UserPromptSubmit", 10), ("SessionEnd", 3))
}
RECORDED = {
    "session_start": "24f26864b8bdb4a6202e5361049b8c9fcb3b173994ff26dd4837eb9d9d3f9d61",
    "user_prompt_submit": "2d88d3d041d9811c4a072445113e06f11778cbe3e8157134f35de8dfb8dc080a",
    "session_end": "9e067775d6f088027c34b7426814320d0b10f690a245f6d30dd2eea7c9bef01c",
}


@pytest.fixture
def write(tmp_path):
    """Codex's configuration with these events trusted; its folder."""

    def written(events=RECORDED, *, enabled="true"):
        lines = [f'[plugins."{PLUGIN}"]', f"enabled = {enabled}"]
        for event in events:
            lines += [f'[hooks.state."{PLUGIN}:codex/hooks.json:{event}:0:0"]']
            lines += [f'trusted_hash = "sha256:{RECORDED[event]}"']
        (tmp_path / "config.toml").write_text("\n".join(lines))
        return str(tmp_path)

    return written


def test_hooks_that_are_trusted_as_they_are_have_trust(write):
    assert codex.hook_trust(write(), PLUGIN, HOOKS) == "given"


@pytest.mark.parametrize("change", [{"command": COMMAND.replace("/opt/", "/usr/")}, {"timeout": 11}])
def test_what_runs_another_command_or_longer_needs_trust_anew(write, change):
    changed = copy.deepcopy(HOOKS)
    changed["SessionStart"][0]["hooks"][0].update(change)

    assert codex.hook_trust(write(), PLUGIN, changed) == "missing"


def test_a_plug_in_that_its_person_switched_off_is_off(write):
    assert codex.is_on(write(), PLUGIN)
    assert not codex.is_on(write(enabled="false"), PLUGIN)


def test_a_configuration_that_is_no_toml_is_a_sentence(tmp_path):
    (tmp_path / "config.toml").write_text("[hooks")
    with pytest.raises(IntegrationError, match=r"config\.toml is no TOML"):
        codex.is_on(str(tmp_path), PLUGIN)


@pytest.mark.parametrize("text", ["hooks = 1", "plugins = []", "[hooks]\nstate = 1", "[hooks.state]\nx = 1"])
def test_a_configuration_of_another_form_trusts_nothing(tmp_path, text):
    (tmp_path / "config.toml").write_text(text)

    assert codex.hook_trust(str(tmp_path), PLUGIN, HOOKS) == "missing"
    assert not codex.is_on(str(tmp_path), PLUGIN)
