"""Text of `forgectl setup`: the plan, and the steps that remain for the person.

Functions return escaped lines. They contain no secret: of a key only the variable's name is known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from forged import integrations
from forged.cli.terminal import escape_line, listed
from forged.integrations import AgentState, ClassifierProgram, Machine, ModelServer

_CODEX = (
    "Codex runs no hooks before you trust them: start `codex`, and when it asks to review hooks, choose",
    '"Trust all and continue" (later: /hooks); `forgectl integrations status` shows if it does',
)


AFTER_REMOVAL = (
    "Your memories stay, in ~/.forge and in .forge of each repository, and so does forged's state",
    "(~/.local/state/forged unless XDG_STATE_HOME says otherwise); delete these folders to remove all.",
    "`forgectl stop` ends the daemon.",
)


def no_agent_error() -> str:
    """Return setup's error message if no agent was found: which are looked for, and how to install one."""
    rows = integrations.agent_rows().values()
    names = ", ".join(row.program for row in rows)
    first = next(iter(rows)).install
    return (
        f"no agent was found in PATH ({names}): install one (for example "
        f"`{first}`), then run `forgectl setup`"
    )


def plan(
    machine: Machine, chosen: Sequence[AgentState], *, removes: bool, service: bool, git: bool = False
) -> Iterator[str]:
    """Yield setup's plan for the person: what is changed for each agent, for git and for systemd."""
    rows = integrations.agent_rows()
    for state in chosen:
        yield _agent_title(state)
        if removes:
            yield f"    removes what connects it{_remainder_note(rows[state.agent].leaves)}"
        elif state.connection == "connected":
            yield "    is connected already"
        elif not state.is_installed:
            yield f"    was not found: {escape_line(rows[state.agent].install)}"
        else:
            yield from (
                f"    {escape_line(line)}" for line in integrations.planned_steps(machine, rows[state.agent])
            )
    if git:
        yield "git"
        yield "    removes forged's line from .git/info/exclude of the repositories that have it"
    if service:
        yield "systemd"
        yield "    removes forged's units" if removes else "    starts the daemon when an agent needs it"


def next_steps(machine: Machine, states: Sequence[AgentState], done: Collection[str]) -> Iterator[str]:
    """Yield what remains for the person after setup: trust, git, models, each with its command."""
    yield "Next steps for you:"
    for state in states:
        row = integrations.agent_rows()[state.agent]
        if state.agent == "codex" and state.title in done and state.trust != "given":
            yield f"  - {' '.join(_CODEX)}"
        elif row.left and state.title in done:
            yield f"  - {state.title}: {row.left}"
    yield "  - memories that others put into a repository are used only after `forgectl trust` there"
    yield "  - git ignores captured memories in a repository, by a line in .git/info/exclude; to commit"
    yield "    them with your team: `forgectl trust --commit` there"
    titles = {row.name: row.title for row in integrations.agent_rows().values()}
    yield from _model_suggestions(
        integrations.classifiers(machine, titles), integrations.servers(), integrations.keys(machine)
    )


def _model_suggestions(
    programs: Sequence[ClassifierProgram], servers: Sequence[ModelServer], keys: Sequence[str]
) -> Iterator[str]:
    """Yield how an agent, a model server or an API key found here could choose what to save."""
    if programs:
        cheapest = min(programs, key=lambda one: one.tokens)
        names = ", ".join(one.name for one in programs)
        yield (
            "  - optional: let an agent of yours choose what to save "
            f"(from about {cheapest.tokens:,} tokens a"
            f" day, {integrations.TURNS} turns, on your account): `forgectl config classifier NAME`"
        )
        yield f"    NAME: {names}"
    for server in servers:
        models = f" (has {listed(server.models)})" if server.models else ""
        yield (
            f"  - optional: {server.name} runs here{models}; set llm.base_url "
            f'= "{server.base_url}" and llm.model'
            " in the configuration to let it choose what to save (`forgectl config path` shows the file)"
        )
    for name in keys:
        yield (
            f"  - {name} is set in this shell, but the daemon does not see "
            "it: write the key to a file that only"
            ' you can read, and set llm.api_key = "file:PATH"'
        )


def _agent_title(state: AgentState) -> str:
    """Return an agent's name, version and path as a heading of setup's plan, escaped."""
    what = f"{state.title} {state.version}".rstrip()
    where = state.program or state.folder
    return escape_line(f"{what} ({where})" if where else what)


def _remainder_note(leaves: str) -> str:
    """Return a note on files that an agent itself leaves after its removal, else ""."""
    return f"; the agent itself leaves {leaves}" if leaves else ""
