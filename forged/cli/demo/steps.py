"""`forgectl demo`: the whole of forged in a scratch HOME, with the real daemon, no key and no network.

It says what it does step by step and checks every step; the first that does not come out as promised ends
the demo with an error. If FORGED_LLM__MODEL names a model, that one decides what is kept of the turns,
instead of the built-in rules.
"""

from __future__ import annotations

import time

import click
import msgspec
from click import echo

from forged.cli.call import Invocation
from forged.cli.demo.agent import TURNS, Finished, Read, WriteTimes
from forged.cli.demo.stage import Stage, expect, has_git, new_stage, wait_until
from forged.cli.status_summary import status_lines
from forged.cli.terminal import escape

_CAPTURED_S = 90.0  # a model of the user's own may take its time
_BRANCH_MEMORY = """\
---
category: patterns
---
Feature flags are named after the ticket that removes them.
"""


@click.command("demo")
@click.pass_obj
def demo_command(call: Invocation) -> None:
    """Show in a scratch directory what forged does, with a real daemon."""
    began = time.perf_counter()
    with new_stage(call) as stage:
        _play(stage)
    echo(f"\nDone in {time.perf_counter() - began:.1f} s; the scratch directory is gone again.")


def _play(stage: Stage) -> None:
    echo("\n1. A daemon for this user, with the built-in lexical model")
    pid = stage.daemon.pid
    echo(f"  pid {pid}, answers on a Unix socket; HOME and repository are empty scratch directories")
    ids = _agent_remembers(stage)
    _person_edits_a_file(stage, ids["logging"])
    newer = _decision_changes(stage, ids["migrations"])
    _branch_comes_and_goes(stage)
    _another_agent_asks(stage, ids["migrations"], newer)
    _edge_is_followed(stage, ids["prepared"], ids["pool"])
    _turns_become_memories(stage)
    echo("\n9. forgectl status")
    for line in status_lines(stage.client.status(stage.workspace)):
        echo(f"  {line}")
    echo("\n10. SIGTERM")
    code, took = stage.stop()
    echo(f"  exit code {code:d} after {took:.0f} ms; no process and no socket is left")


def _agent_remembers(stage: Stage) -> dict[str, str]:
    echo("\n2. An agent process remembers four things, through the client library")
    done = msgspec.json.decode(stage.agent("write"), type=WriteTimes)
    for memory_id, took in zip(done.ids.values(), done.milliseconds, strict=True):
        echo(f"  {memory_id}  {took:6.1f} ms, on disk before the answer")
    return done.ids


def _person_edits_a_file(stage: Stage, memory_id: str) -> None:
    echo("\n3. A person edits one of the files in place; the watcher notices")
    file = stage.home / ".forge/memory" / f"{memory_id}.md"
    edited = file.with_suffix(".new")
    edited.write_text(file.read_text() + " Every line carries the request id.\n")
    edited.replace(file)
    _visible(stage, "log lines with request id", memory_id, "request id")


def _decision_changes(stage: Stage, memory_id: str) -> str:
    echo("\n4. A decision changes: a new version supersedes the old one, which stays on disk")
    newer = stage.client.remember(
        stage.workspace,
        "Database migrations run with atlas since May; goose is gone.",
        category="project-conventions",
        supersedes=memory_id,
    )
    echo(f"  {newer.memory_id} is version {newer.version} of {memory_id}")
    stage.client.search(stage.workspace, "migrations", min_generation=newer.generation)
    for version in stage.client.history(stage.workspace, memory_id).memories:
        echo(f"    v{version.version}  {escape(version.content.strip())}")
    return newer.memory_id


def _branch_comes_and_goes(stage: Stage) -> None:
    echo("\n5. The person writes a memory on a branch; git checkout makes it go and come again")
    if not has_git():
        echo("  skipped: there is no git here")
        return
    stage.git("add", "--force", ".")  # git ignores what is named `mem_*.md` unless it is wanted
    stage.git("commit", "-q", "-m", "memories")
    stage.git("checkout", "-q", "-b", "flags")
    trusted = stage.client.trust(stage.workspace, action="trust")
    expect(trusted.status == "ok", "the repository is trusted: what the person writes there counts")
    (stage.repo / ".forge/memory/mem_flags.md").write_text(_BRANCH_MEMORY)
    _visible(stage, "feature flags named after the ticket", "mem_flags", "ticket")
    stage.git("add", "--force", ".")  # git ignores what is named `mem_*.md` unless it is wanted
    stage.git("commit", "-q", "-m", "a memory of this branch")
    stage.git("checkout", "-q", "-")
    _visible(stage, "feature flags named after the ticket", "mem_flags", None)
    stage.git("checkout", "-q", "flags")
    _visible(stage, "feature flags named after the ticket", "mem_flags", "ticket")


def _another_agent_asks(stage: Stage, older: str, newer: str) -> None:
    echo("\n6. Another agent process asks: what matters for this turn?")
    found = [hit.id for hit in _ask(stage, "How do we run database migrations?").reply.memories]
    expect(newer in found, "the newest version is found")
    expect(older not in found, "the superseded one only shows as its history")


def _edge_is_followed(stage: Stage, asked_for: str, belonging: str) -> None:
    echo("\n7. One step along an edge: what was not asked for, but belongs to it")
    hits = _ask(stage, "Why are prepared statements off?", mode="plain").reply.memories
    expect(hits[0].id == asked_for, "the answer is found by its words")
    by_hop = (belonging, "link") in {(hit.id, hit.found.found_by) for hit in hits if hit.found}
    expect(by_hop, "pgbouncer, which shares no word with the question, is reached by a hop")


def _turns_become_memories(stage: Stage) -> None:
    echo("\n8. An agent process finishes three turns; a worker decides what to keep")
    before = {record.id for record in stage.memories()}
    done = msgspec.json.decode(stage.agent("turns"), type=Finished)
    for (question, _), took in zip(TURNS, done.milliseconds, strict=True):
        echo(f"  user: {question}\n    {took:.2f} ms in the agent")
    outcomes = ", ".join(f"{count} {word}" for word, count in sorted(done.outcomes.items()))
    expect(done.delivered, f"the daemon has the turns: {outcomes}")
    classifier = stage.client.status().capture.classifier
    took = wait_until(
        lambda: _has_kept(stage, "errors.As", "make it"),
        lambda: f"{classifier} did not keep both statements; the daemon's log:\n{stage.said()}",
        _CAPTURED_S,
    )
    echo(f"  {classifier} kept, {took:.0f} ms later:")
    kept = [record for record in stage.memories() if record.id not in before]
    for record in kept:
        echo(f"    {record.id}  {record.scope}/{record.category}  {escape(record.content.strip())}")
    expect(not any("night" in record.content for record in kept), "small talk is not kept")
    asked = _ask(stage, "How do I check this Go error?")
    expect("errors.As" in asked.reply.text, "a different agent process gets it in its next retrieve")


def _has_kept(stage: Stage, *words: str) -> bool:
    """Whether capture is done, and each of the words is in some memory."""
    if stage.client.status().capture.state != "idle":
        return False
    texts = [record.content for record in stage.memories()]
    return all(any(word in text for text in texts) for word in words)


def _visible(stage: Stage, query: str, memory_id: str, text: str | None) -> None:
    """Wait until a search shows the memory with `text` in it, or (None) no longer shows it."""

    def as_promised() -> bool:
        hits = stage.client.search(stage.workspace, query).memories
        found = next((hit.content for hit in hits if hit.id == memory_id), None)
        return found is None if text is None else found is not None and text in found

    took = wait_until(as_promised, lambda: f"{memory_id} does not follow the disk")
    echo(f"  {memory_id}: {'gone' if text is None else 'found'} {took:.0f} ms after the file changed")


def _ask(stage: Stage, message: str, mode: str = "block") -> Read:
    """What an agent gets for a message: with all that its session has heard, or (plain) by itself."""
    asked = msgspec.json.decode(stage.agent("read", message, mode), type=Read)
    reply = asked.reply
    echo(f"  user: {message}\n")
    for line in reply.text.splitlines():
        echo(f"    {escape(line)}")
    how = f"strategy {reply.strategy}, indexes {', '.join(reply.indexes)}"
    echo(f"\n  {asked.milliseconds:.2f} ms in the agent, {how}")
    expect(reply.status == "ok", "the reply's status is ok" + (reply.reason and f" ({reply.reason})"))
    expect(asked.cached, "the sub-turn of the same message came from the turn cache")
    return asked
