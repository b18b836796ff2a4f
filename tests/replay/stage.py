"""Daemon, home, a repository of the user's own and one with foreign memories, for one story."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.memories import memory, put
from tests.replay.player import SEEDED, Player
from tests.replay.story import play
from tests.support.daemon import DaemonProcess
from tests.support.git import git

RECORDING = Path(__file__).with_name("recording.jsonl")


def played(top: Path) -> list[dict[str, Any]]:
    """Play the story under a folder that is empty, and return what came of it."""
    home, repo, other = top / "home", top / "home/repo", top / "home/other"
    for each in (repo, other):
        each.mkdir(parents=True)
        git(each, "init", "-q")
        (each / "README.md").write_text("Read me.\n")
    foreign = ("The mascot is a heron.", "Herons are grey birds.", "The mascot bird wears a red scarf.")
    put(other, *(memory(f"mem_foreign-{number}", text) for number, text in enumerate(foreign)))
    git(other, "add", "-A", "-f")
    git(other, "commit", "-q", "-m", "Add memories")
    daemon = DaemonProcess(home, env={"FORGED_CAPTURE__ENABLED": "true"}, command=SEEDED)
    try:
        daemon.start()
        player = Player(daemon, repo, other)
        play(player)
        player.close()
        daemon.stop()
        assert "Traceback" not in daemon.log(), daemon.log()
    finally:
        daemon.close()
    return player.record
