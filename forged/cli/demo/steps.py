"""`forgectl demo`: show forged in a scratch HOME, with the real daemon, without key and network.

It prints and checks each step, and ends with an error at the first unexpected result. If FORGED_LLM__MODEL
names a model, that model decides what is saved of the turns, instead of the built-in classifier.
"""

from __future__ import annotations

import time

import click
import msgspec
from click import echo

from forged.cli.call import Invocation
from forged.cli.demo.agent import MEMORIES, TURNS, FinishedTurns, RetrievedTurn, WriteTimes
from forged.cli.demo.stage import Stage, expect, has_git, new_stage, wait_until
from forged.cli.status import classifier_name, index_names
from forged.cli.status_summary import status_lines
from forged.cli.terminal import escape
from forged_client.typed import resolved

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
    """Show forged in a scratch directory, with a real daemon."""
    began = time.perf_counter()
    with new_stage(call) as stage:
        _run_steps(stage)
    echo(f"\nDone in {time.perf_counter() - began:.1f} s; the scratch directory was removed.")


def _run_steps(stage: Stage) -> None:
    """Run the steps of the demo in order and print them. Raises DemoFailed at an unexpected result."""
    echo("\n1. Start a daemon with keyword search only")
    pid = stage.daemon.pid
    echo(f"  pid {pid}, on a Unix socket; HOME and repository are empty scratch directories")
    ids = _save_memories(stage)
    _edit_a_file(stage, ids["logging"])
    newer = _replace_a_decision(stage, ids["migrations"])
    _switch_branches(stage)
    _retrieve_the_decision(stage, ids["migrations"], newer)
    _follow_a_link(stage, ids["prepared"], ids["pool"])
    _capture_turns(stage)
    echo("\n9. forgectl status")
    for line in status_lines(stage.client.status(stage.workspace)):
        echo(f"  {line}")
    echo("\n10. Stop the daemon")
    code, took = stage.stop()
    echo(f"  exit code {code:d} after {took:.0f} ms; no process and no socket are left")


def _save_memories(stage: Stage) -> dict[str, str]:
    """Demo, step 2: let an agent save four memories, print their times; return their ids by name."""
    echo("\n2. An agent saves four memories through the client library")
    done = msgspec.json.decode(stage.agent("write"), type=resolved(WriteTimes))
    for (_, scope, _, text), took in zip(MEMORIES, done.milliseconds, strict=True):
        echo(f"  {text}  ({'for you' if scope == 'user' else 'for this repository'}, {took:.1f} ms)")
    echo("  each was on disk before the answer")
    return done.ids


def _edit_a_file(stage: Stage, memory_id: str) -> None:
    """Demo, step 3: change a memory's file by hand, and wait until search finds the new text."""
    echo("\n3. You edit a memory file by hand; the daemon notices")
    file = stage.home / ".forge/memory" / f"{memory_id}.md"
    edited = file.with_suffix(".new")
    edited.write_text(file.read_text() + " Every line carries the request id.\n")
    edited.replace(file)
    _wait_for_search(stage, "log lines with request id", memory_id, "request id")


def _replace_a_decision(stage: Stage, memory_id: str) -> str:
    """Demo, step 4: save a memory that supersedes another; return its id."""
    echo("\n4. A decision changes: a new version replaces the old one, which stays on disk")
    newer = stage.client.remember(
        stage.workspace,
        "Database migrations run with atlas since May; goose is gone.",
        category="project-conventions",
        supersedes=memory_id,
    )
    stage.client.search(stage.workspace, "migrations", min_generation=newer.generation)
    for version in stage.client.history(stage.workspace, memory_id).memories:
        echo(f"  version {version.version}: {escape(version.content.strip())}")
    return newer.memory_id


def _switch_branches(stage: Stage) -> None:
    """Demo, step 5: write a memory on a branch, leave the branch, and return; search finds it only there."""
    echo("\n5. You write a memory on a branch; it is there only while the branch is checked out")
    if not has_git():
        echo("  skipped: git is not installed")
        return
    stage.git("add", "--force", ".")  # git ignores what is named `mem_*.md` unless it is wanted
    stage.git("commit", "-q", "-m", "memories")
    stage.git("checkout", "-q", "-b", "flags")
    trusted = stage.client.trust(stage.workspace, action="trust")
    expect(trusted.status == "ok", "you trust the repository, so files that you write there are used")
    (stage.repo / ".forge/memory/mem_flags.md").write_text(_BRANCH_MEMORY)
    _wait_for_search(stage, "feature flags named after the ticket", "mem_flags", "ticket")
    stage.git("add", "--force", ".")  # git ignores what is named `mem_*.md` unless it is wanted
    stage.git("commit", "-q", "-m", "a memory of this branch")
    stage.git("checkout", "-q", "-")
    _wait_for_search(stage, "feature flags named after the ticket", "mem_flags", None)
    stage.git("checkout", "-q", "flags")
    _wait_for_search(stage, "feature flags named after the ticket", "mem_flags", "ticket")


def _retrieve_the_decision(stage: Stage, older: str, newer: str) -> None:
    """Demo, step 6: let another agent retrieve; it gets only the newer version of a decision."""
    echo("\n6. Another agent asks for the memories of a turn")
    found = [
        hit.id for hit in _retrieve_and_print(stage, "How do we run database migrations?").reply.memories
    ]
    expect(newer in found, "the current version is found")
    expect(older not in found, "the old version is not injected")


def _follow_a_link(stage: Stage, asked_for: str, belonging: str) -> None:
    """Demo, step 7: retrieve by a question that matches one memory; the linked one comes, too."""
    echo("\n7. A linked memory comes along")
    hits = _retrieve_and_print(stage, "Why are prepared statements off?", mode="plain").reply.memories
    expect(hits[0].id == asked_for, "the answer is found by its keywords")
    by_link = (belonging, "link") in {(hit.id, hit.found.found_by) for hit in hits if hit.found}
    expect(by_link, "the memory on pgbouncer, which shares no word with the question, is found by a link")


def _capture_turns(stage: Stage) -> None:
    """Demo, step 8: let an agent finish turns, and wait until capture has saved memories of them."""
    echo("\n8. An agent finishes three turns; a worker decides what to save")
    before = {record.id for record in stage.memories()}
    done = msgspec.json.decode(stage.agent("turns"), type=resolved(FinishedTurns))
    for (question, _), took in zip(TURNS, done.milliseconds, strict=True):
        echo(f"  user: {question}  ({took:.2f} ms for the agent)")
    expect(done.delivered, "the daemon received all turns")
    classifier = stage.client.status().capture.classifier
    took = wait_until(
        lambda: _has_saved(stage, "errors.As", "make it"),
        lambda: f"{classifier} did not save both statements; the daemon's log:\n{stage.log_text()}",
        _CAPTURED_S,
    )
    echo(f"  saved {took:.0f} ms later, chosen by {classifier_name(classifier)}:")
    kept = [record for record in stage.memories() if record.id not in before]
    for record in kept:
        owner = "for you" if record.scope == "user" else "for this repository"
        echo(f"    {escape(record.content.strip())}  ({owner}, {record.category})")
    expect(not any("night" in record.content for record in kept), "small talk is not saved")
    asked = _retrieve_and_print(stage, "How do I check this Go error?")
    expect("errors.As" in asked.reply.text, "another agent gets it with its next turn")


def _has_saved(stage: Stage, *words: str) -> bool:
    """Return True if capture has no turn left to judge, and each of these words is in a saved memory."""
    if stage.client.status().capture.state != "idle":
        return False
    texts = [record.content for record in stage.memories()]
    return all(any(word in text for text in texts) for word in words)


def _wait_for_search(stage: Stage, query: str, memory_id: str, text: str | None) -> None:
    """Wait until the demo's search finds `text` in a memory or, with None, no longer finds the memory."""

    def is_as_expected() -> bool:
        hits = stage.client.search(stage.workspace, query).memories
        found = next((hit.content for hit in hits if hit.id == memory_id), None)
        return found is None if text is None else found is not None and text in found

    took = wait_until(is_as_expected, lambda: f"search does not follow the change of {memory_id}")
    echo(f"  search {'no longer finds' if text is None else 'finds'} it {took:.0f} ms after the change")


def _retrieve_and_print(stage: Stage, message: str, mode: str = "block") -> RetrievedTurn:
    """Retrieve for a message in an agent process, print the text, check and return the result."""
    asked = msgspec.json.decode(stage.agent("read", message, mode), type=resolved(RetrievedTurn))
    reply = asked.reply
    echo(f"  user: {message}\n")
    for line in reply.text.splitlines():
        echo(f"    {escape(line)}")
    echo(f"\n  {asked.milliseconds:.2f} ms for the agent; searched by {index_names(reply.indexes)}")
    expect(reply.status == "ok", "the reply is ok" + (reply.reason and f" ({reply.reason})"))
    expect(asked.cached, "the second call of the same turn came from the cache")
    return asked
