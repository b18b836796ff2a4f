"""`forgectl undo`, `pause` and `resume`: a person's hold on what is captured."""

from __future__ import annotations

from collections.abc import Sequence

import click

from forged.cli.asking import agree, require_answer
from forged.cli.capture_status import EVERYWHERE, paused_place
from forged.cli.commands import asks
from forged.cli.escape import escape_line
from forged.cli.invocation import Invocation
from forged.cli.link import check_done, daemon
from forged.cli.listing import memory_table
from forged.cli.output import say, say_json, tell
from forged.cli.spans import counted
from forged_client.protocol import Paused, Undone


@click.command("undo")
@click.option("--session", "session_id", default="", metavar="ID", help="Only of this session.")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where nobody can answer.")
@asks
def undo_command(call: Invocation, *, session_id: str, yes: bool) -> None:
    """Take back the newest captured memories: all that one turn left, into the trash for 7 days.

    What is taken back is not captured again from the same conversation. Nothing to take back is no failure.
    """
    if not yes:
        require_answer(call, "undo")
    with daemon(call) as client:
        done = client.undo(call.workspace, session_id=session_id, preview=not yes)
        if not yes and done.status == "ok":
            _ask(done)
            # What was shown, or nothing if a newer batch came meanwhile.
            ids = tuple(memory.id for memory in done.memories)
            done = client.undo(call.workspace, session_id=session_id, ids=ids)
    if done.status != "empty":
        check_done(done)
    if call.as_json:
        say_json(done)
    elif done.status == "empty":
        tell(f"nothing to take back: {done.reason or 'nothing was captured'}")
    else:
        _say_receipt(done)


@click.command("pause")
@click.option("--all", "everywhere", is_flag=True, help="Everywhere, not only in this repository.")
@asks
def pause_command(call: Invocation, *, everywhere: bool) -> None:
    """Stop capture and injection in this repository until `resume`; outlives a restart."""
    with daemon(call) as client:
        now = client.pause(call.workspace, everywhere=everywhere)
    check_done(now)
    _say_paused(call, now)


@click.command("resume")
@click.option("--all", "everywhere", is_flag=True, help="End `pause --all`; single repositories stay paused.")
@asks
def resume_command(call: Invocation, *, everywhere: bool) -> None:
    """End the pause of this repository, or with --all the pause of everything."""
    with daemon(call) as client:
        before = client.status().capture.paused
        now = client.pause(call.workspace, everywhere=everywhere, paused=False)
    check_done(now)
    if call.as_json:
        say_json(now)
        return
    _say_resumed(before, now.paused)
    if EVERYWHERE in now.paused:
        tell("still paused everywhere; `forgectl resume --all` ends that")
    elif everywhere and now.paused:
        tell("paused by name; `forgectl resume --workspace PATH` ends that")


def _ask(batch: Undone) -> None:
    """Show the batch and ask. Raises Stop when the answer is no."""
    memories = counted(len(batch.memories), "memory", "memories")
    agree(
        memory_table(batch.memories),
        f"Take {memories} back, into the trash for 7 days?",
        declined="nothing was taken back",
    )


def _say_receipt(done: Undone) -> None:
    say(f"taken back: {', '.join(escape_line(memory.id) for memory in done.memories)}")
    if done.trash:
        say(f"in the trash for 7 days: {escape_line(done.trash)}")
    say(f"generation {escape_line(done.generation)}")


def _say_paused(call: Invocation, now: Paused) -> None:
    if call.as_json:
        say_json(now)
    else:
        _say_places("paused", now.paused)


def _say_resumed(before: Sequence[str], now: Sequence[str]) -> None:
    """Say which pauses ended, and which still hold."""
    ended = [place for place in before if place not in now]
    if ended:
        _say_places("resumed", ended)
    else:
        say("there was nothing to resume")
    _say_places("still paused", now)


def _say_places(what: str, places: Sequence[str]) -> None:
    for place in places:
        say(f"{what}: {paused_place(place)}")
