"""`forgectl trust`: decide which repositories' memories may be used.

Memory files of a repository are foreign text: each printed line of them is escaped and starts with a bar, so
it cannot look like a message of forgectl. Only files that were shown are trusted; a change in between is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import click

from forged.cli.call import Invocation, ask, check_done, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.tables import columns, cut
from forged.cli.terminal import counted, escape_line, tell
from forged_client import errors
from forged_client import protocol as wire
from forged_client.client import Client

_STATES = {
    "unknown": "not asked yet",
    "own": "own: no memories were here before forged",
    "trusted": "trusted",
    "unread": "the trust records cannot be read now",
}
_WHY = (
    "forged has no record of writing these files (cloned, reinstalled, restored, or written by hand?). "
    "Agents will read them, so say yes only if you know who wrote them. You are asked once per repository."
)
_GIST_CELLS = 72


@click.command("trust")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option(
    "--under", default="", metavar="DIR", help="All repositories with memories below DIR, as they are now."
)
@click.option("--list", "listing", is_flag=True, help="List the known repositories with their trust state.")
@click.option("--revoke", is_flag=True, help="Stop trusting the repository.")
@click.option(
    "--follow", "mode", flag_value="follow", help="Also memories that are merged into its branch later."
)
@click.option(
    "--locked", "mode", flag_value="locked", help="Only the memories of now; every change waits for `review`."
)
@click.option("--commit", "git", flag_value="commit", help="Let git commit captured memories there.")
@click.option("--exclude", "git", flag_value="exclude", help="Make git ignore captured memories there.")
@yes_option
@with_daemon_options
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
    """Show the unused memory files of a repository, ask once, and allow them; or list or revoke trust."""
    if sum((bool(under), listing, revoke)) > 1 or (directory and (under or listing)):
        raise Stop("usage", "give one of DIR, --under DIR, --list and --revoke [DIR]")
    if mode and (listing or revoke):
        raise Stop("usage", "--follow and --locked say how to trust; they go with DIR or --under DIR")
    if git and (under or listing or revoke or mode):
        raise Stop("usage", "--commit and --exclude are only about git; they take DIR and nothing else")
    place = os.path.join(call.workspace, under or directory or "")
    if git:
        chosen = ask(call, wire.Trust(workspace=place, action="git", git=git), check_done)
        show(call, chosen, map(_git_line, chosen.roots))
    elif listing:
        found = ask(call, wire.Trust(action="list"))
        show(call, found, columns(map(_table_row, found.roots), width=call.width))
    elif revoke:
        done = ask(call, wire.Trust(workspace=place, action="revoke"), check_done)
        show(call, done, map(_revoked_line, done.roots))
    else:
        if not yes:
            require_answer(call, "trust")
        _trust(call, wire.Trust(workspace=place, action="under" if under else "show"), mode or "", yes)


# --- trust -----------------------------------------------------------------------------------------------


def _trust(call: Invocation, look: wire.Trust, mode: str, yes: bool) -> None:
    """Show unused memory files, ask once unless `yes`, trust these; say so if none waits."""
    with open_client(call) as client:
        found = client.ask(look)
        wanted = [root for root in found.roots if root.withheld]
        if look.action == "show":
            wanted = wanted or list(found.roots[:1])
        if unread := next((root for root in wanted if root.state == "unread"), None):
            raise Stop("storage_error", f"trust cannot be changed now: {unread.reason}")
        settled = [root for root in wanted if not root.withheld and root.mode and mode in ("", root.mode)]
        if len(settled) == len(wanted):
            if not call.as_json:
                tell("all memories here are used" if wanted else f"no memories wait below {look.workspace}")
            show(call, found, map(_summary, found.roots))
            return
        if not yes:
            confirm(_sample_lines(wanted), _question(wanted), declined="nothing was trusted")
        done, refused = _trust_each(client, wanted, mode)
    show(call, wire.Trusted(roots=tuple(done)), map(_summary, done))
    if refused:
        raise Stop("conflict", "; ".join(refused))


def _trust_each(
    client: Client, wanted: Iterable[wire.RootTrust], mode: str
) -> tuple[list[wire.RootTrust], list[str]]:
    """Trust repositories as shown; return those trusted, and a sentence for each refused one."""
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
    """Return the yes-or-no question about trusting these repositories, with the number of unused files."""
    withheld = sum(root.withheld for root in wanted)
    if not withheld:
        return "Use all memories in this repository, including those merged later?"
    count = counted(withheld, "memory file", "memory files")
    which = "this repository" if len(wanted) == 1 else f"these {len(wanted):,} repositories as they are now"
    return f"Use all memories in {which}, including {count} that forged did not write?"


def _sample_lines(roots: Sequence[wire.RootTrust]) -> Iterator[str]:
    """Yield each repository's trust state, a sample of its unused files, and why the person is asked."""
    for root in roots:
        yield _summary(root)
        for each in root.sample:
            yield f"  {_effect_line(each)}"
            yield f"    | {_first_line(each.text)}"
        if root.withheld > len(root.sample):
            yield f"  and {root.withheld - len(root.sample):,} more; `forgectl review` prints all of them"
    if any(root.withheld for root in roots):
        yield _WHY


def _summary(root: wire.RootTrust) -> str:
    """Return a repository's path, trust state, and numbers of used and unused memory files, as a line."""
    reason = f" ({escape_line(root.reason)})" if root.reason else ""
    counts = f"{root.accepted:,} used, {root.withheld:,} not used yet"
    return f"{escape_line(root.root)}: {_state_text(root)}, {counts}{reason}"


def _state_text(root: wire.RootTrust) -> str:
    """Return a repository's trust state, mode (follow, locked) and branch, as one text."""
    state = _STATES.get(root.state, escape_line(root.state))
    branch = root.branch.removeprefix("refs/heads/")
    return ", ".join(
        filter(None, (state, escape_line(root.mode), branch and f"branch {escape_line(branch)}"))
    )


def _table_row(root: wire.RootTrust) -> tuple[str, ...]:
    """Return a repository's trust state, file counts and path as cells for `trust --list`."""
    return (
        _state_text(root),
        f"{root.accepted:,} used",
        f"{root.withheld:,} not used yet",
        escape_line(root.root),
    )


def _git_line(root: wire.RootTrust) -> str:
    """Return the sentence that says if git ignores or commits a repository's captured memories."""
    where = escape_line(root.root)
    return f"{where}: {escape_line(root.git) or 'no captured memories there yet'}"


def _revoked_line(root: wire.RootTrust) -> str:
    """Return the receipt of `trust --revoke` for one repository."""
    return f"no longer trusted: {_summary(root)}"


def _effect_line(file: wire.WithheldFile) -> str:
    """Return an unused memory file's id, and the effect that allowing it would have."""
    return f"{escape_line(file.id)}: if allowed, it would {escape_line(file.effect)}"


def _first_line(text: str) -> str:
    """Return the first line of a memory file's text, escaped, and cut to 72 cells."""
    line = escape_line(text.strip().split("\n", 1)[0])
    return cut(line, _GIST_CELLS)
