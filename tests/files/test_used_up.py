"""Watcher and `DirectoryEvents` where the kernel has no inotify instance or watch left for the user."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forged.files import watcher as looking
from forged.files.directory_events import DirectoryEvents, unwatched_reason, watch_refusal
from forged.files.roots import Root
from forged.files.watcher import Watcher
from forged.memory import Scope
from tests.support.clock import PATIENCE_S

CHECKOUT = Path(__file__).parents[2]
LIMITS = "/proc/sys/user"
IN_NAMESPACE = (
    "unshare",
    "-Ur",
    "sh",
    "-c",
    'echo 0 >"/proc/sys/user/$1" && shift && exec "$@"',
)


def namespaces_work() -> bool:
    try:
        asked = subprocess.run([*IN_NAMESPACE, "sh", "max_inotify_watches", "true"], capture_output=True)
    except OSError:
        return False
    return asked.returncode == 0


pytestmark = pytest.mark.skipif(
    not namespaces_work(),
    reason="NOT TESTED: used up inotify limits; this user may not make a user namespace",
)


@pytest.mark.inotify
@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_what_is_used_up_is_reported_and_polled_until_there_is_more(tmp_path, limit):
    command = [*IN_NAMESPACE, "sh", limit, sys.executable, "-m", __name__, limit, str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE_S)

    assert done.returncode == 0, done.stderr
    assert "never retrieved" not in done.stderr


async def _watch_where_nothing_is_left(limit: str, folder: Path) -> None:
    root = Root(str(folder / "repo"), Scope.REPO)
    for each in root.directories:
        os.makedirs(each)
    looks, arrivals = list[int](), DirectoryEvents(root.directories)
    word = f"fs.inotify.{limit.replace('inotify', 'user')}"
    assert word in watch_refusal(root.directories)
    assert [arrivals.take(), arrivals.take()] == [None, None]
    assert word in unwatched_reason(root.directories)

    reported = asyncio.Event()

    def on_change(_top: str, _files: frozenset[str]) -> None:
        looks.append(len(watcher.watched))
        reported.set()

    watcher = Watcher(on_change)
    watcher.set_roots([root])
    pauses, failed = list[float](), watcher._handle_failure

    def noted(error: Exception, pause_s: float) -> float:
        pauses.append(failed(error, pause_s))
        return pauses[-1]

    watcher._handle_failure = noted  # type: ignore[method-assign]
    running = asyncio.create_task(watcher.run())
    async with asyncio.timeout(PATIENCE_S):
        while len(looks) < 3:
            reported.clear()
            await reported.wait()
            assert watcher.state.startswith("polling: "), watcher.state
            assert word in watcher.state
            assert word in watcher.state_of(root.top)
        assert set(pauses) == {looking._POLL_S}  # this is no loop
        Path(LIMITS, limit).write_text("100")
        while watcher.state != "inotify":
            reported.clear()
            await reported.wait()
    assert watch_refusal(root.directories) == ""
    assert [arrivals.take(), arrivals.take()] == [None, frozenset()]
    assert unwatched_reason(root.directories) == ""
    running.cancel()
    await asyncio.wait([running])


if __name__ == "__main__":
    asyncio.run(_watch_where_nothing_is_left(sys.argv[1], Path(sys.argv[2])))
