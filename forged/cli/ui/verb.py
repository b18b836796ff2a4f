"""`forgectl ui`: write a page that only its owner can read, and open it where there is a browser.

The page is a snapshot of a workspace, or of all repositories. Forgetting a memory removes the page in the
state directory; a page of `--out` stays. It contains its script, style and data and uses no network. The data
are ASCII JSON in a block that browsers do not run, without a character that could end it. The policy in its
head has the digests of script and style. Raises Stop.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import resources

import click
import msgspec

from forged import __version__
from forged.cli import gathering
from forged.cli.call import Invocation, check_done, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.exits import Stop
from forged.cli.terminal import counted, escape_line, plain_data, tell
from forged.importing import new_file
from forged_client import errors
from forged_client import protocol as wire
from forged_client.address import state_dir
from forged_client.client import Client


class WithheldRow(msgspec.Struct, frozen=True):
    """A memory file for the page of `ui` that is not used yet, with its repository's `root`."""

    root: str
    file: wire.WithheldFile


class PageData(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the page of `ui`: memories, unused files, proposals, captures and injections.

    `memories` has all versions. `made_at` is a time of RFC 3339.
    """

    made_at: str
    forged: str = __version__
    workspace: str
    all_repos: bool = False
    memories: tuple[wire.MemoryRecord, ...] = ()
    withheld: tuple[WithheldRow, ...] = ()
    waiting: tuple[wire.Proposed, ...] = ()
    captured: tuple[wire.CapturedEntry, ...] = ()
    injections: tuple[wire.InjectedTurn, ...] = ()


def load_data(client: Client, workspace: str, *, all_repos: bool) -> PageData:
    """Ask the daemon for all data of the page of `ui`: of the workspace or of all repositories."""
    every = wire.ListMemories(workspace=workspace, all_versions=True, all_repos=all_repos, entities=True)
    memories = gathering.all_memories(client, every)
    reviews = tuple(_reviews(client, workspace, all_repos=all_repos))
    return PageData(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        workspace=workspace,
        all_repos=all_repos,
        memories=memories,
        withheld=tuple(
            WithheldRow(reviewed.root.root, file)
            for reviewed in reviews
            if reviewed.root is not None
            for file in reviewed.files
        ),
        waiting=_without_duplicates(each for reviewed in reviews for each in reviewed.waiting),
        captured=gathering.all_captured(client, wire.ListCaptured(workspace=workspace, all_repos=all_repos)),
        injections=gathering.all_injections(
            client, wire.ListInjections(workspace=workspace, all_repos=all_repos)
        ),
    )


def _reviews(client: Client, workspace: str, *, all_repos: bool) -> Iterator[wire.Reviewed]:
    """Yield unused files and proposals of the workspace and, with `all_repos`, of other roots."""
    here = _review(client, workspace)
    if here is not None:
        yield here
    if not all_repos:
        return
    trusted = client.ask(wire.Trust(action="list"))
    check_done(trusted)
    roots = [each.root for each in trusted.roots if each.withheld]
    done = {here.root.root} if here is not None and here.root is not None else set()
    for place in dict.fromkeys((*roots, *(here.elsewhere if here is not None else ()))):
        if place not in done and (found := _review(client, place)) is not None:
            yield found


def _review(client: Client, place: str) -> wire.Reviewed | None:
    """Return unused files and proposals of a folder; None if it is in no repository or gone."""
    try:
        reviewed = client.ask(wire.Review(workspace=place))
    except errors.RequestFailed as failed:
        if failed.code == "invalid":
            return None
        raise
    if reviewed.status != "disabled":
        check_done(reviewed)
    return reviewed


def _without_duplicates(proposals: Iterable[wire.Proposed]) -> tuple[wire.Proposed, ...]:
    """Return each proposal once: those for the user are listed in every workspace."""
    return tuple({(each.root, each.id): each for each in proposals}.values())


_FILES = resources.files("forged.cli.ui")
SCRIPTS = ("text.js", "store.js", "list.js", "detail.js", "views.js", "page.js")
_STYLE = "page.css"
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&"})


def render_page(data: msgspec.Struct) -> str:
    """Render the page of `ui` as one HTML text with its data, script, style and policy inside."""
    script, style = "\n".join(map(_asset, SCRIPTS)), _asset(_STYLE)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    )
    parts = {"policy": policy, "style": style, "data": json_for_html(data), "script": script}
    return _PLACE.sub(lambda place: parts[place[1]], _asset("page.html"))


def json_for_html(data: msgspec.Struct) -> str:
    """Encode a struct as ASCII JSON that is safe inside an HTML element: `<`, `>` and `&` are escaped."""
    return json.dumps(plain_data(data), separators=(",", ":")).translate(_ESCAPED)


def _asset(name: str) -> str:
    """Read a source of the page of `ui` from the package: script, style or HTML."""
    return (_FILES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the SHA-256 of a script or style in the form of a content security policy."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


FILE = "ui.html"
# A running browser opens the page within this time; a new one may take longer.
_OPENS_S = 3.0


@click.command("ui")
@click.option(
    "--out", default="", metavar="FILE", help="Write the page to FILE instead of the state directory."
)
@click.option("--no-open", is_flag=True, help="Only write the page.")
@click.option("--all-repos", is_flag=True, help="Show all repositories that the daemon knows.")
@with_daemon_options
def ui_command(call: Invocation, *, out: str, no_open: bool, all_repos: bool) -> None:
    """Write memories, captures and injections as a page, and open it in the browser."""
    path = os.path.join(call.workspace, out) if out else os.path.join(state_dir(call.environ), FILE)
    with open_client(call) as client:
        found = load_data(client, call.workspace, all_repos=all_repos)
    _write_page(path, render_page(found).encode("utf-8", "backslashreplace"))
    opened = not no_open and _open_in_browser(call, path)
    result = {"path": path, "memories": len(found.memories), "opened": opened}
    show(call, result, (escape_line(path),))
    if not call.as_json:
        heads = counted(sum(each.is_head for each in found.memories), "memory", "memories")
        tell(
            f"the page shows {heads} as of now; run it again to refresh"
            + ("" if opened or no_open else "; open it in a browser")
        )


def _write_page(path: str, content: bytes) -> None:
    """Write the page of `ui` atomically, readable by its owner alone. Raises Stop."""
    if os.path.isdir(path):
        raise Stop("usage", f"{path} is a directory; give --out FILE")
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".forged-{secrets.token_hex(4)}")
    try:
        descriptor = new_file(temporary)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Stop("not_written", f"{path} cannot be written: {error.strerror}; give --out FILE") from error


def _open_in_browser(call: Invocation, path: str) -> bool:
    """Open the page of `ui` in a browser; return False without a screen or a browser, or if it failed."""
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
