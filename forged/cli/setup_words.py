"""What `forgectl setup` says: what it will do, what it has found, what remains for the person.

Lines out of values, escaped. Nothing in them is a secret: of a key only its variable's name is known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from forged import integrations
from forged.cli.terminal import escape_line, listed
from forged.integrations import AgentState, ClassifierProgram, Machine, ModelServer

_CODEX = (
    "Codex runs no hook before you trust it: start `codex`, and when it says that hooks need review, choose",
    '"Trust all and continue" (later: /hooks); `forgectl integrations status` says whether it does',
)


AFTER_REMOVAL = ("Memories and what forged knows of them stay; `forgectl stop` ends the daemon.",)


def no_agent() -> str:
    """What helps where no agent was found."""
    rows = integrations.agent_rows().values()
    names = ", ".join(row.program for row in rows)
    first = next(iter(rows)).install
    return (
        f"no agent was found in PATH ({names}): install one (for instance `{first}`), then `forgectl setup`"
    )


def plan(
    machine: Machine, chosen: Sequence[AgentState], *, removes: bool, service: bool, git: bool = False
) -> Iterator[str]:
    """What will be done, agent by agent."""
    rows = integrations.agent_rows()
    for state in chosen:
        yield _who(state)
        if removes:
            yield f"    takes away what connects it{_leaves(rows[state.agent].leaves)}"
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
        yield "    takes forged's line out of .git/info/exclude of the repositories that have it"
    if service:
        yield "systemd"
        yield "    takes forged's units away" if removes else "    starts the daemon when it is asked for"


def left(machine: Machine, states: Sequence[AgentState], done: Collection[str]) -> Iterator[str]:
    """What setup does not do for anybody, each with the command that does it."""
    yield "Left to you:"
    for state in states:
        row = integrations.agent_rows()[state.agent]
        if state.agent == "codex" and state.title in done and state.trust != "given":
            yield f"  - {' '.join(_CODEX)}"
        elif row.left and state.title in done:
            yield f"  - {state.title}: {row.left}"
    yield "  - memories that others put into a repository are not used before `forgectl trust` there"
    yield "  - git ignores what forged captures in a repository, by a line in .git/info/exclude; if your"
    yield "    team wants it in its commits: `forgectl trust --commit` there"
    titles = {row.name: row.title for row in integrations.agent_rows().values()}
    yield from _models(
        integrations.classifiers(machine, titles), integrations.servers(), integrations.keys(machine)
    )


def _models(
    programs: Sequence[ClassifierProgram], servers: Sequence[ModelServer], keys: Sequence[str]
) -> Iterator[str]:
    """What could judge what is kept, instead of the rules that cost nothing."""
    for one in programs:
        yield (
            f"  - `forgectl config classifier {one.name}` says how {one.title} decides what is kept: about"
            f" {one.tokens:,} tokens a day ({integrations.TURNS} turns, {one.calls} calls), by your own login"
        )
    for server in servers:
        models = f" (has {listed(server.models)})" if server.models else ""
        yield (
            f'  - {server.name} answers here{models}: with llm.base_url = "{server.base_url}" and llm.model'
            " in the configuration it decides what is kept (`forgectl config path`)"
        )
    for name in keys:
        yield (
            f"  - {name} is set in this shell, and the daemon does not see it: put it into a file that only"
            ' you can read and name that, as in llm.api_key = "file:PATH"'
        )


def _who(state: AgentState) -> str:
    what = f"{state.title} {state.version}".rstrip()
    where = state.program or state.folder
    return escape_line(f"{what} ({where})" if where else what)


def _leaves(leaves: str) -> str:
    return f"; {leaves} are what it leaves itself" if leaves else ""
