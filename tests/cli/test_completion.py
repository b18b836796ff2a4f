"""`forgectl completion`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("shell", "sign"),
    [("bash", "complete "), ("zsh", "#compdef forgectl"), ("fish", "complete --no-files --command forgectl")],
)
def test_each_shell_gets_its_own_script(forgectl, shell, sign):
    shown = forgectl("completion", shell)

    assert shown.code == 0
    assert sign in shown.out
    assert f"_FORGECTL_COMPLETE={shell}_complete" in shown.out
    assert forgectl("completion", environ={"SHELL": f"/usr/bin/{shell}"}).out == shown.out
    assert forgectl("completion", shell, "--json").json["shell"] == shell


def test_a_shell_that_is_not_known_is_asked_for(forgectl):
    assert forgectl("completion", "ksh").code == 2
    unnamed = forgectl("completion", environ={"SHELL": "/bin/ksh"})

    assert (unnamed.code, unnamed.out) == (2, "")
    assert "name the shell: bash, zsh, fish" in unnamed.err
