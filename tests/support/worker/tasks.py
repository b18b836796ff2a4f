"""Settings, roots and tasks of a worker, under a test's own directory."""

from __future__ import annotations

from pathlib import Path

from forged.capture.values import Classify
from forged.conversation import Utterance
from forged.files.roots import Root
from forged.memory import Scope
from forged.state import Event


def roots_in(tmp_path: Path) -> tuple[Root, Root]:
    for name in ("repo", "user"):
        (tmp_path / name).mkdir(exist_ok=True)
    return Root(str(tmp_path / "repo"), Scope.REPO), Root(str(tmp_path / "user"), Scope.USER)


def block(root: Root) -> Path:
    """Put a file in place of a root's directory of memories, which then cannot be read or written."""
    path = Path(root.directories[0])
    path.parent.mkdir(exist_ok=True)
    path.write_text("in the way")
    return path


def classify_task(tmp_path: Path, text: str) -> Classify:
    repo, user = roots_in(tmp_path)
    return Classify(Event(roots=(repo, user), window=(Utterance("user", text),), session_id="s1"))
