"""`forgectl rebuild`: have the workspace's memory files read again, and watch how it goes.

The daemon's answer ends the wait; its events only draw. So a lost event costs a tick of the bar and never
the command, and Ctrl-C leaves the rebuild alone: it belongs to the daemon.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable

import click

from forged.cli.commands import asks
from forged.cli.escape import escape_line
from forged.cli.exits import INTERRUPTED, Stop
from forged.cli.invocation import Invocation
from forged.cli.link import daemon, remark
from forged.cli.output import painter, say, say_json, tell
from forged.cli.status import root_lines
from forged_client.client import Client
from forged_client.errors import ClientError
from forged_client.protocol import RELOADING, Progress, Rebuilt

# The daemon itself gives up waiting after ten minutes.
_PATIENCE_S = 660.0
_BAR_CELLS = 30
_RESTART_S, _PAUSE_S = 10.0, 0.05


@click.command("rebuild")
@click.option("--full", is_flag=True, help="Embed every text again instead of reusing vectors.")
@click.option("--wait", is_flag=True, help="Return when it is done; Ctrl-C detaches.")
@asks
def rebuild_command(call: Invocation, *, full: bool, wait: bool) -> None:
    """Rescan the memory files of this workspace."""
    asked = _rebuild_and_wait if wait else _rebuild
    try:
        reply = asked(call, full)
        if reply.reason == RELOADING:
            tell(reply.reason)
            reply = _asked_again(call, lambda: asked(call, full))
    except KeyboardInterrupt:
        tell("detached: the rebuild goes on, `forgectl status` shows it")
        sys.exit(INTERRUPTED)
    if reply.status not in ({"ok"} if wait else {"ok", "not_ready"}):
        not_done = "the rebuild is not done yet; `forgectl status` shows it"
        raise Stop(reply.status, remark(reply) if reply.reason else not_done)
    if call.as_json:
        say_json(reply)
    else:
        _say_outcome(call, reply)


def _asked_again(call: Invocation, ask: Callable[[], Rebuilt]) -> Rebuilt:
    """The answer of the daemon that has started over; until then the one before it may still answer."""
    ends = time.monotonic() + max(call.timeout_s, _RESTART_S)
    while (reply := ask()).reason == RELOADING and time.monotonic() < ends:
        time.sleep(_PAUSE_S)
    return reply


def _rebuild(call: Invocation, full: bool) -> Rebuilt:
    with daemon(call) as client:
        return client.rebuild(call.workspace, full=full)


def _rebuild_and_wait(call: Invocation, full: bool) -> Rebuilt:
    display = Display(call)
    with daemon(call) as client:
        client.ping()  # starts the daemon if need be, before the events are asked for
        threading.Thread(target=display.follow, args=(client,), daemon=True).start()
        try:
            return client.rebuild(call.workspace, full=full, wait=True, timeout_s=_PATIENCE_S)
        finally:
            display.end()


class Display:
    """Progress on stderr: one line that is redrawn on a terminal, a line per step elsewhere."""

    def __init__(self, call: Invocation) -> None:
        self._workspace = call.workspace
        self._redraws = sys.stderr.isatty() and call.environ.get("TERM") != "dumb"
        self._silent = call.as_json
        self._last = ""
        self._lock = threading.Lock()
        self._ended = False

    def follow(self, client: Client) -> None:
        """Draw the daemon's events until they end; whatever ends them is the waiting thread's affair."""
        try:
            self.draw(client.events(self._workspace))
        except ClientError:
            return

    def draw(self, events: Iterable[Progress]) -> None:
        for event in events:
            with self._lock:
                if self._ended or self._silent:
                    return
                self._redraw(event) if self._redraws else self._add(event)

    def end(self) -> None:
        """Leave the cursor on an empty line; nothing is drawn any more."""
        with self._lock:
            self._ended = True
            if self._redraws and self._last:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _redraw(self, event: Progress) -> None:
        full = _BAR_CELLS * event.done // event.total if event.total else 0
        bar = "#" * full + "." * (_BAR_CELLS - full)
        self._last = f"[{bar}] {_step(event)}"
        sys.stderr.write(f"\r{self._last}\x1b[K")
        sys.stderr.flush()

    def _add(self, event: Progress) -> None:
        # A tenth is worth a line in a log, a memory is not.
        tenth = 10 * event.done // event.total if event.total else 0
        line = f"{event.event} {event.root} {tenth}"
        if line != self._last:
            self._last = line
            tell(f"{_step(event)}  {event.root}")


def _step(event: Progress) -> str:
    return escape_line(event.event) + (f" {event.done:,}/{event.total:,}" if event.total else "")


def _say_outcome(call: Invocation, reply: Rebuilt) -> None:
    if reply.status == "ok":
        say(f"up to date with the disk, generation {escape_line(reply.generation)}")
    else:
        say(f"rebuild started, generation {escape_line(reply.generation)}; `forgectl status` follows it")
    for root in reply.roots:
        say("\n".join(root_lines(root, painter(call))))
