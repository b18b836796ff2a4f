"""`forgectl rebuild`: read the memory files of the workspace again, and draw the progress.

Only the daemon's reply ends the wait; its events draw the bar. Ctrl-C ends the command and not the rebuild,
which runs in the daemon.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator

import click

from forged.cli.call import Invocation, open_client, show, status_sentence
from forged.cli.commands import with_daemon_options
from forged.cli.exits import INTERRUPTED, Stop
from forged.cli.status import root_lines
from forged.cli.terminal import Painter, ProgressBar, pace, progress, tell
from forged_client.client import Client
from forged_client.errors import ClientError
from forged_client.protocol import RELOADING, Progress, Rebuild, Rebuilt

_FOR_EVER = float("inf")
_RESTART_S, _PAUSE_S = 10.0, 0.05


@click.command("rebuild")
@click.option("--full", is_flag=True, help="Embed every text again instead of reusing vectors.")
@click.option("--wait", is_flag=True, help="Return when it is done; after Ctrl-C it goes on in the daemon.")
@with_daemon_options
def rebuild_command(call: Invocation, *, full: bool, wait: bool) -> None:
    """Read the memory files of this workspace again, and the configuration if it has changed."""
    request = Rebuild(workspace=call.workspace, full=full, wait=wait)
    try:
        reply = _ask_rebuild(call, request)
        if reply.reason == RELOADING:
            tell(reply.reason)
            reply = _ask_until_restarted(call, request)
    except KeyboardInterrupt:
        tell("detached: the rebuild goes on; `forgectl status` shows it")
        sys.exit(INTERRUPTED)
    if reply.status not in ({"ok"} if wait else {"ok", "not_ready"}):
        not_done = "the rebuild is not done yet; `forgectl status` shows it"
        raise Stop(reply.status, status_sentence(reply) if reply.reason else not_done)
    show(call, reply, _result_lines(reply, call.paint))


def _ask_until_restarted(call: Invocation, request: Rebuild) -> Rebuilt:
    """Repeat a rebuild request during a restart, for max(10 s, timeout); return the last reply."""
    ends = time.monotonic() + max(call.timeout_s, _RESTART_S)
    while (reply := _ask_rebuild(call, request)).reason == RELOADING and time.monotonic() < ends:
        time.sleep(_PAUSE_S)
    return reply


def _ask_rebuild(call: Invocation, request: Rebuild) -> Rebuilt:
    """Ask the daemon for a rebuild, wait and draw its progress if wanted; return the reply."""
    with open_client(call) as client:
        if not request.wait:
            return client.ask(request)
        client.ping()  # starts the daemon if need be, before the events are asked for
        display = RebuildProgress(call)
        threading.Thread(target=display.follow, args=(client,), daemon=True).start()
        try:
            return client.ask(request, timeout_s=_FOR_EVER)
        finally:
            display.end()


class RebuildProgress:
    """Progress of a rebuild of all roots on stderr: a bar on a terminal, else a line for each step.

    It shows one sum of the texts of all roots of the workspace. The sum never falls, as texts of builds that
    are over stay in it. Scans are shown until something is embedded.
    """

    def __init__(self, call: Invocation) -> None:
        self._workspace = call.workspace
        self._bar = ProgressBar(call.can_redraw(sys.stderr))
        self._lock = threading.Lock()
        self._ended = call.as_json
        self._embedding: dict[str, Progress] = {}
        self._earlier = 0  # texts of builds that are over

    def follow(self, client: Client) -> None:
        """Draw the daemon's progress events until `end` is called or the client fails."""
        try:
            self.draw(client.events(self._workspace))
        except ClientError:
            return

    def draw(self, events: Iterable[Progress]) -> None:
        """Draw progress events of a rebuild (scans, embedding, failures) until `end` is called."""
        for event in events:
            with self._lock:
                if self._ended:
                    return
                if event.event == "embedding":
                    self._draw_embedding(event)
                elif event.event == "failed" or (event.event == "scanning" and not self._embedding):
                    self._bar.draw(event.event, 0, 0)
                    self._bar.tell_instead(f"{event.event}  {event.root}", once=(event.event, event.root))

    def _draw_embedding(self, event: Progress) -> None:
        """Add an embedding event to the sum of all roots; draw that sum with rate and time left."""
        before = self._embedding.get(event.root)
        if before is not None and (before.total != event.total or before.done > event.done):
            self._earlier += before.done
        self._embedding[event.root] = event
        done, total = (
            self._earlier + sum(getattr(each, field) for each in self._embedding.values())
            for field in ("done", "total")
        )
        left_s = max((total - done) / event.rate, event.left_s or 0.0) if event.rate else None
        suffix = pace(event.rate, left_s)
        self._bar.draw(event.event, done, total, suffix)
        # One line in a log for each tenth.
        self._bar.tell_instead(progress(event.event, done, total, suffix), once=10 * done // total)

    def end(self) -> None:
        """Erase the progress bar of the rebuild, and ignore later events."""
        with self._lock:
            self._ended = True
            self._bar.wipe()


def _result_lines(reply: Rebuilt, paint: Painter) -> Iterator[str]:
    """Yield a line that says if the rebuild is done or only started, and lines on each root."""
    if reply.status == "ok":
        yield "all memory files were read"
    else:
        yield "rebuild started; `forgectl status` shows its progress"
    for root in reply.roots:
        yield from root_lines(root, paint)
