"""`forgectl undo`, `pause` and `resume`: remove the last capture, stop capture and injection, go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from forged.cli.call import Invocation, ask, check_done, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.listing import memory_table
from forged.cli.status import EVERYWHERE, paused_place_name
from forged.cli.terminal import counted, escape_line, listed, tell
from forged_client.protocol import Pause, Status, Undo, Undone


@click.command("undo")
@click.option(
    "--session", "session_id", default="", metavar="ID", help="Only what was captured from this session."
)
@yes_option
@with_daemon_options
def undo_command(call: Invocation, *, session_id: str, yes: bool) -> None:
    """Remove the memories that were captured last, all of one turn; `forgectl restore` brings them back.

    They stay in the trash for 7 days, and are not captured again from the same session. A memory that a later
    prompt had forgotten comes back instead.
    Exit code 0, also where there is nothing to undo.
    """
    if not yes:
        require_answer(call, "undo")
    with open_client(call) as client:
        done = client.ask(Undo(workspace=call.workspace, session_id=session_id, preview=not yes))
        if not yes and done.status == "ok":
            _confirm(call, done)
            # What was shown, or nothing if a newer batch came meanwhile.
            ids = tuple(memory.id for memory in done.memories)
            done = client.ask(Undo(workspace=call.workspace, session_id=session_id, ids=ids))
    if done.status != "empty":
        check_done(done)
    elif not call.as_json:
        tell(done.reason or "no captured memory to undo")
    show(call, done, _undo_receipt(done))


@click.command("pause")
@click.option("--all", "everywhere", is_flag=True, help="In all repositories, not only in this one.")
@with_daemon_options
def pause_command(call: Invocation, *, everywhere: bool) -> None:
    """Stop capture and injection in this repository until `forgectl resume`, also after a restart."""
    now = ask(call, Pause(workspace=call.workspace, everywhere=everywhere), check_done)
    show(call, now, _place_lines("paused", now.paused))


@click.command("resume")
@click.option(
    "--all", "everywhere", is_flag=True, help="End `pause --all`; repositories paused by name stay paused."
)
@with_daemon_options
def resume_command(call: Invocation, *, everywhere: bool) -> None:
    """End the pause of this repository, or with --all the pause of all repositories."""
    with open_client(call) as client:
        before = client.ask(Status()).capture
        now = client.ask(Pause(workspace=call.workspace, everywhere=everywhere, paused=False))
    check_done(now)
    ends_unknown = everywhere and bool(before.doubt)
    show(call, now, _resume_receipt([*([EVERYWHERE] if ends_unknown else []), *before.paused], now.paused))
    if call.as_json:
        return
    if before.doubt and not everywhere:
        tell(before.doubt)
    elif EVERYWHERE in now.paused:
        tell("all repositories are still paused; `forgectl resume --all` resumes them")
    elif everywhere and now.paused:
        tell("these repositories are paused by name; `forgectl resume --workspace PATH` resumes one")


def _confirm(call: Invocation, batch: Undone) -> None:
    """Show the memories that `undo` would remove, and ask. Raises Stop if the answer is no."""
    memories = counted(len(batch.memories), "memory", "memories")
    question = f"Bring back {memories}?" if batch.restored else f"Undo {memories} (7 days in the trash)?"
    confirm(memory_table(batch.memories, call.width), question, declined="nothing was undone")


def _undo_receipt(done: Undone) -> Iterator[str]:
    """Yield lines on what `undo` removed (ids, trash path), none if it found nothing."""
    if done.status == "empty":
        return
    yield f"{'restored' if done.restored else 'undone'}: {listed(memory.id for memory in done.memories)}"
    if done.trash:
        yield f"in the trash for 7 days: {escape_line(done.trash)}"


def _resume_receipt(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield lines of `resume`: where a pause ended, or that none was there; where one goes on."""
    ended = [place for place in before if place not in now]
    yield from _place_lines("resumed", ended) if ended else ("nothing was paused",)
    yield from _place_lines("still paused", now)


def _place_lines(what: str, places: Sequence[str]) -> list[str]:
    """Return a line `WORD: PLACE` for each place of a pause: a repository, or `everywhere`."""
    return [f"{what}: {paused_place_name(place)}" for place in places]
