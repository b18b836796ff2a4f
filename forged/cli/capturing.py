"""`forgectl undo`, `pause` and `resume`: take the newest capture back, stop memory, and let it go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from forged.cli.call import Invocation, ask, check_done, daemon, show
from forged.cli.commands import asks
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.listing import memory_table
from forged.cli.status import EVERYWHERE, paused_place
from forged.cli.terminal import counted, escape_line, listed, tell
from forged_client.protocol import Pause, Status, Undo, Undone


@click.command("undo")
@click.option("--session", "session_id", default="", metavar="ID", help="Only of this session.")
@yes_option
@asks
def undo_command(call: Invocation, *, session_id: str, yes: bool) -> None:
    """Take back the newest captured memories: all that one turn left, into the trash for 7 days.

    What is taken back is not captured again from the same conversation. Nothing to take back is no failure.
    """
    if not yes:
        require_answer(call, "undo")
    with daemon(call) as client:
        done = client.ask(Undo(workspace=call.workspace, session_id=session_id, preview=not yes))
        if not yes and done.status == "ok":
            _confirm(call, done)
            # What was shown, or nothing if a newer batch came meanwhile.
            ids = tuple(memory.id for memory in done.memories)
            done = client.ask(Undo(workspace=call.workspace, session_id=session_id, ids=ids))
    if done.status != "empty":
        check_done(done)
    elif not call.as_json:
        tell(f"nothing to take back: {done.reason or 'nothing was captured'}")
    show(call, done, _receipt(done))


@click.command("pause")
@click.option("--all", "everywhere", is_flag=True, help="Everywhere, not only in this repository.")
@asks
def pause_command(call: Invocation, *, everywhere: bool) -> None:
    """Stop capture and injection in this repository until `resume`; outlives a restart."""
    now = ask(call, Pause(workspace=call.workspace, everywhere=everywhere), check_done)
    show(call, now, _places("paused", now.paused))


@click.command("resume")
@click.option("--all", "everywhere", is_flag=True, help="End `pause --all`; single repositories stay paused.")
@asks
def resume_command(call: Invocation, *, everywhere: bool) -> None:
    """End the pause of this repository, or with --all the pause of everything."""
    with daemon(call) as client:
        before = client.ask(Status()).capture
        now = client.ask(Pause(workspace=call.workspace, everywhere=everywhere, paused=False))
    check_done(now)
    ends_doubt = everywhere and bool(before.doubt)
    show(call, now, _resumed([*([EVERYWHERE] if ends_doubt else []), *before.paused], now.paused))
    if call.as_json:
        return
    if before.doubt and not everywhere:
        tell(before.doubt)
    elif EVERYWHERE in now.paused:
        tell("still paused everywhere; `forgectl resume --all` ends that")
    elif everywhere and now.paused:
        tell("paused by name; `forgectl resume --workspace PATH` ends that")


def _confirm(call: Invocation, batch: Undone) -> None:
    """Show the batch and ask. Raises Stop when the answer is no."""
    memories = counted(len(batch.memories), "memory", "memories")
    question = f"Take {memories} back, into the trash for 7 days?"
    confirm(memory_table(batch.memories, call.width), question, declined="nothing was taken back")


def _receipt(done: Undone) -> Iterator[str]:
    if done.status == "empty":
        return
    yield f"taken back: {listed(memory.id for memory in done.memories)}"
    if done.trash:
        yield f"in the trash for 7 days: {escape_line(done.trash)}"
    yield f"generation {escape_line(done.generation)}"


def _resumed(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    ended = [place for place in before if place not in now]
    yield from _places("resumed", ended) if ended else ("there was nothing to resume",)
    yield from _places("still paused", now)


def _places(what: str, places: Sequence[str]) -> list[str]:
    return [f"{what}: {paused_place(place)}" for place in places]
