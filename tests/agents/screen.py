"""A program on a terminal in tmux: its screen, and typed keys."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

LONG_S = 60.0
_STEP_S = 0.1
_SIZE = ("-x", "120", "-y", "40")


class Screen:
    """A program on a terminal of 120 x 40 that a tmux of its own keeps."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._socket = os.path.join(env["XDG_RUNTIME_DIR"], f"tmux{time.monotonic_ns()}")
        self._env = dict(env)
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "-c", str(folder), *command
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")

    @property
    def text(self) -> str:
        """What is to be seen, and what has scrolled away."""
        try:
            return self._tmux("capture-pane", "-p", "-S", "-")
        except subprocess.CalledProcessError:
            return ""

    def wait_for(self, *parts: str, within: float = LONG_S) -> str:
        """Wait for one of these on the screen, and return which it was; lines may break within it."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            seen = _joined(self.text)
            for part in parts:
                if _joined(part) in seen:
                    return part
            time.sleep(_STEP_S)
        raise AssertionError(f"none of {parts} was to be seen:\n{self.text}")

    def keys(self, *names: str) -> None:
        """Keys by tmux's names, such as Enter, Down, C-c."""
        self._tmux("send-keys", *names)

    def move_to(self, entry: str, *, below: str) -> None:
        """Have this entry of a menu chosen, with Down from the one above it.

        A menu that was only just drawn may lose a key, or act on it late: Down is pressed again while nothing
        has moved, and Up when two were obeyed.
        """
        key = "Down"
        for _ in range(10):
            self.keys(key)
            with contextlib.suppress(AssertionError):
                self.wait_for(entry, within=3.0)
                return
            key = "Down" if _joined(below) in _joined(self.text) else "Up"
        raise AssertionError(f"{entry} was never chosen:\n{self.text}")

    def type(self, text: str) -> None:
        """Letters only; an agent that takes a fast line break for pasted text gets it apart."""
        self._tmux("send-keys", "-l", text)

    def say(self, text: str) -> None:
        """Type a line, wait until it stands there, and send it."""
        self.type(text)
        self.wait_for(text[-12:])
        time.sleep(_STEP_S * 5)
        self.keys("Enter")

    def leave(self, word: str) -> None:
        """Say this, and wait until the program has ended."""
        self.type(word)
        self.wait_for(word)
        self.keys("Enter")
        until = time.monotonic() + LONG_S
        while self.text and time.monotonic() < until:
            time.sleep(_STEP_S)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._env, capture_output=True, text=True, check=True
        )
        return done.stdout


def _joined(text: str) -> str:
    return "".join(text.split())
