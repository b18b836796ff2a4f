"""`forgectl ui`: the page is written where only its owner can read it, and opened where there is a browser.

It is a copy of what the daemon knew as it was asked: nothing in it calls back. Forgetting a memory removes
the copy in the state directory with it; a copy under a name of the person's own (`--out`) stays.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys

import click

from forged.cli.call import Invocation, daemon, show
from forged.cli.commands import asks
from forged.cli.exits import Stop
from forged.cli.terminal import counted, escape_line, tell
from forged.cli.ui import page, seen
from forged.importing import new_file
from forged_client.address import state_dir

FILE = "ui.html"
# A browser that was there already takes the page within that; one that is started here may go on.
_OPENS_S = 3.0


@click.command("ui")
@click.option(
    "--out", default="", metavar="FILE", help="Write the page there instead of the state directory."
)
@click.option("--no-open", is_flag=True, help="Only write the page.")
@click.option("--all-repos", is_flag=True, help="Of every repository that the daemon has seen.")
@asks
def ui_command(call: Invocation, *, out: str, no_open: bool, all_repos: bool) -> None:
    """Write memories, captures and injections as a page for the browser, and open it there."""
    path = os.path.join(call.workspace, out) if out else os.path.join(state_dir(call.environ), FILE)
    with daemon(call) as client:
        found = seen.look(client, call.workspace, all_repos=all_repos)
    _write(path, page.page(found).encode("utf-8", "backslashreplace"))
    opened = not no_open and _open(call, path)
    told = {"path": path, "memories": len(found.memories), "opened": opened}
    show(call, told, (escape_line(path),))
    if not call.as_json:
        heads = counted(sum(each.is_head for each in found.memories), "memory", "memories")
        tell(f"the page shows {heads} as of now" + ("" if opened or no_open else "; open it in a browser"))


def _write(path: str, content: bytes) -> None:
    """The file, readable by its owner alone, whole or as it was. Raises Stop."""
    if os.path.isdir(path):
        raise Stop("usage", f"{path} is a directory; say --out FILE")
    folder = os.path.dirname(path)
    beside = os.path.join(folder, f".forged-{secrets.token_hex(4)}")
    try:
        descriptor = new_file(beside)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise Stop("not_written", f"{path} cannot be written: {error.strerror}; say --out FILE") from error


def _open(call: Invocation, path: str) -> bool:
    """Whether a browser took the page; where there is no screen nobody is asked."""
    is_mac = sys.platform == "darwin"
    if not is_mac and not (call.environ.get("DISPLAY") or call.environ.get("WAYLAND_DISPLAY")):
        return False
    program = shutil.which("open" if is_mac else "xdg-open", path=os.pathsep.join(call.programs))
    if program is None:
        return False
    asked = subprocess.Popen(
        [program, path],
        env=dict(call.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return asked.wait(_OPENS_S) == 0
    except subprocess.TimeoutExpired:
        return True
