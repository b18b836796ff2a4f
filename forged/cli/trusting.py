"""`forgectl trust`: which repositories' memories may be used, and what is withheld until then.

What a repository brought is foreign text: each line of it stands behind a bar, escaped, so that it can pass
for nothing that forgectl says. Nothing is trusted that was not shown first: what has changed meanwhile is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import click

from forged.cli.call import Invocation, ask, check_done, daemon, show
from forged.cli.commands import asks
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.tables import columns, cut
from forged.cli.terminal import counted, escape_line, tell
from forged_client import errors
from forged_client import protocol as wire
from forged_client.client import Client

_STATES = {
    "unknown": "never asked about",
    "own": "forged's own from the start",
    "trusted": "trusted",
    "unread": "what counts there cannot be read now",
}
_WHY = (
    "No record that forged wrote these: reinstalled, restored or cloned? A repository that comes with "
    "memories, hand-written ones included, is asked about once. Yes is safe if you know who wrote in it."
)
_GIST_CELLS = 72


@click.command("trust")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option(
    "--under", default="", metavar="DIR", help="Every repository with memories below DIR, as it is now."
)
@click.option(
    "--list", "listing", is_flag=True, help="List the repositories that were seen, and how they stand."
)
@click.option("--revoke", is_flag=True, help="Trust the repository no longer.")
@click.option("--follow", "mode", flag_value="follow", help="Also what is merged into its branch later.")
@click.option(
    "--locked", "mode", flag_value="locked", help="Only what is there now; every change waits for `review`."
)
@click.option("--commit", "git", flag_value="commit", help="What forged captures there may be committed.")
@click.option("--exclude", "git", flag_value="exclude", help="Have git ignore what forged captures there.")
@yes_option
@asks
def trust_command(
    call: Invocation,
    *,
    directory: str | None,
    under: str,
    listing: bool,
    revoke: bool,
    mode: str | None,
    git: str | None,
    yes: bool,
) -> None:
    """Let the memories that lie in a repository be used: shows what is there and asks once."""
    if sum((bool(under), listing, revoke)) > 1 or (directory and (under or listing)):
        raise Stop("usage", "say one of DIR, --under DIR, --list and --revoke [DIR]")
    if mode and (listing or revoke):
        raise Stop("usage", "--follow and --locked say how to trust; they go with DIR or --under DIR")
    if git and (under or listing or revoke or mode):
        raise Stop("usage", "--commit and --exclude are about git alone; they go with DIR and nothing else")
    place = os.path.join(call.workspace, under or directory or "")
    if git:
        told = ask(call, wire.Trust(workspace=place, action="git", git=git), check_done)
        show(call, told, map(_of_git, told.roots))
    elif listing:
        found = ask(call, wire.Trust(action="list"))
        show(call, found, columns(map(_row, found.roots), width=call.width))
    elif revoke:
        done = ask(call, wire.Trust(workspace=place, action="revoke"), check_done)
        show(call, done, map(_revoked, done.roots))
    else:
        if not yes:
            require_answer(call, "trust")
        _trust(call, wire.Trust(workspace=place, action="under" if under else "show"), mode or "", yes)


# --- trust -----------------------------------------------------------------------------------------------


def _trust(call: Invocation, look: wire.Trust, mode: str, yes: bool) -> None:
    """Show what is there, ask once, and trust exactly that."""
    with daemon(call) as client:
        found = client.ask(look)
        wanted = [root for root in found.roots if root.withheld]
        if look.action == "show":
            wanted = wanted or list(found.roots[:1])
        if unread := next((root for root in wanted if root.state == "unread"), None):
            raise Stop("storage_error", f"nothing can be trusted now: {unread.reason}")
        settled = [root for root in wanted if not root.withheld and root.mode and mode in ("", root.mode)]
        if len(settled) == len(wanted):
            if not call.as_json:
                tell("nothing is withheld here" if wanted else f"nothing is withheld below {look.workspace}")
            show(call, found, map(_standing, found.roots))
            return
        if not yes:
            confirm(_shown(wanted), _question(wanted), declined="nothing was trusted")
        done, refused = _each(client, wanted, mode)
    show(call, wire.Trusted(roots=tuple(done)), map(_standing, done))
    if refused:
        raise Stop("conflict", "; ".join(refused))


def _each(
    client: Client, wanted: Iterable[wire.RootTrust], mode: str
) -> tuple[list[wire.RootTrust], list[str]]:
    """Trust these roots as they were shown; those that changed meanwhile are named and left."""
    done: list[wire.RootTrust] = []
    refused: list[str] = []
    for root in wanted:
        try:
            reply = client.ask(wire.Trust(workspace=root.root, action="trust", mode=mode, shown=root.shown))
        except errors.RequestFailed as error:
            refused.append(f"{root.root}: {error.message}")
        else:
            check_done(reply)
            done += reply.roots
    return done, refused


def _question(wanted: Sequence[wire.RootTrust]) -> str:
    withheld = sum(root.withheld for root in wanted)
    if not withheld:
        return "Trust this repository, and what is merged or accepted in it later?"
    count = counted(withheld, "memory", "memories")
    which = "this repository" if len(wanted) == 1 else f"these {len(wanted):,} repositories as they are now"
    return f"Trust {which}, with {count} of which forged has no record?"


def _shown(roots: Sequence[wire.RootTrust]) -> Iterator[str]:
    for root in roots:
        yield _standing(root)
        for each in root.sample:
            yield f"  {_head(each)}"
            yield f"    | {_gist(each.text)}"
        if root.withheld > len(root.sample):
            yield f"  and {root.withheld - len(root.sample):,} more; `forgectl review` prints all, whole"
    if any(root.withheld for root in roots):
        yield _WHY


def _standing(root: wire.RootTrust) -> str:
    reason = f" ({escape_line(root.reason)})" if root.reason else ""
    counts = f"{root.accepted:,} used, {root.withheld:,} withheld"
    return f"{escape_line(root.root)}: {_state(root)}, {counts}{reason}"


def _state(root: wire.RootTrust) -> str:
    told = _STATES.get(root.state, escape_line(root.state))
    branch = root.branch.removeprefix("refs/heads/")
    return ", ".join(filter(None, (told, escape_line(root.mode), branch and f"branch {escape_line(branch)}")))


def _row(root: wire.RootTrust) -> tuple[str, ...]:
    return _state(root), f"{root.accepted:,} used", f"{root.withheld:,} withheld", escape_line(root.root)


def _of_git(root: wire.RootTrust) -> str:
    where = escape_line(root.root)
    return f"{where}: {escape_line(root.git) or 'nothing to ignore there yet'}"


def _revoked(root: wire.RootTrust) -> str:
    return f"no longer trusted: {_standing(root)}"


def _head(file: wire.WithheldFile) -> str:
    return f"{escape_line(file.id)}: would {escape_line(file.effect)}"


def _gist(text: str) -> str:
    line = escape_line(text.strip().split("\n", 1)[0])
    return cut(line, _GIST_CELLS)
