"""What an agent can ask: one method per verb, for both clients.

Each makes the request of its name and asks it; what comes back, and what may be raised, is `ask`'s affair.
`AsyncClient` has the same methods with an `ask` that is awaited, so none may do anything with a reply. An
agent's messages are read with tolerance (messages.py). What the fields mean is said in protocol.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from forged_client.messages import RETRIEVE_BYTES, public, window
from forged_client.protocol import (
    Capture,
    Captured,
    Cost,
    Costs,
    Dead,
    DeadEvents,
    Departed,
    Explained,
    Found,
    JudgedPage,
    ListJudged,
    Outbound,
    Pause,
    Paused,
    Ping,
    Pong,
    Rebuild,
    Rebuilt,
    Retrieve,
    Retrieved,
    Review,
    Reviewed,
    Search,
    Status,
    StatusReport,
    Tried,
    Trust,
    Trusted,
    Try,
    Undo,
    Undone,
    Why,
)
from forged_client.scope_verbs import ScopeVerbs
from forged_client.shell import new_key


class Verbs(ScopeVerbs):
    """A client that answers when it is asked."""

    def _hand_over(self, parts: Iterable[Capture]) -> Captured:
        """The reply to the last part of a capture, or to the first that is refused."""
        raise NotImplementedError

    def ping(self) -> Pong:
        """Whether the daemon answers."""
        return self.ask(Ping())

    def status(self, workspace: str = "") -> StatusReport:
        """The daemon's health, with a workspace also that of its roots."""
        return self.ask(Status(workspace=workspace))

    def retrieve(
        self,
        workspace: str,
        messages: Iterable[object] = (),
        *,
        session_id: str = "",
        turn_id: str = "",
        last_summary_index: int = 0,
        hypotheses: Iterable[str] = (),
        token_budget: int | None = None,
        timeout_s: float | None = None,
        min_generation: str = "",
        known_digest: str = "",
        mode: str = "block",
        agent: str = "",
    ) -> Retrieved:
        """The injection for one turn, as `text`.

        With a session a memory comes once: `block` returns what was heard and then what is new, for a prompt
        that is built anew each turn; `append` only what is new; `plain` forgets that there is a session.

        `messages` are `protocol.Message`s, dicts in OpenAI, Anthropic or Gemini form, or objects with such
        fields. `timeout_s` limits the daemon's work (2.0 s otherwise); the call ends at most 0.5 s later.
        """
        request = Retrieve(
            workspace=workspace,
            session_id=session_id,
            turn_id=turn_id,
            messages=window(messages, last_summary_index, RETRIEVE_BYTES),
            last_summary_index=last_summary_index,
            hypotheses=tuple(map(public, hypotheses)),
            token_budget=token_budget,
            timeout_s=timeout_s,
            min_generation=min_generation,
            known_digest=known_digest,
            mode=mode,
            agent=agent,
        )
        return self.ask(request)

    def search(
        self,
        workspace: str,
        query: str,
        *,
        limit: int = 10,
        min_generation: str = "",
        rated: bool = False,
        hypotheses: Iterable[str] = (),
        agent: str = "",
        session_id: str = "",
    ) -> Found:
        """Ranked memories for a query text; with `rated` each says in a word what speaks for it.

        `hypotheses` are sentences that they may hold, looked for beside the query or without one.
        """
        request = Search(
            workspace=workspace,
            query=public(query),
            limit=limit,
            min_generation=min_generation,
            rated=rated,
            hypotheses=tuple(map(public, hypotheses)),
            agent=agent,
            session_id=session_id,
        )
        return self.ask(request)

    def why(
        self, workspace: str = "", *, session_id: str = "", query: str = "", agent: str = ""
    ) -> Explained:
        """How the last injection of a session came about, or what a query would find now."""
        return self.ask(Why(workspace=workspace, session_id=session_id, query=public(query), agent=agent))

    def capture(
        self,
        workspace: str,
        messages: Iterable[object],
        session_id: str,
        *,
        kind: str = "turn",
        last_summary_index: int = 0,
        window_id: str = "",
        agent: str = "",
    ) -> Captured:
        """Hand over a finished turn, or another `kind` of event, to be turned into memories.

        What one frame cannot hold goes out in several, within the one deadline. `agent` is the name that
        `retrieve` gets, too. `window_id` says nothing any more. The order of old, with `session_id` before
        `messages`, still works and warns.
        """
        from forged_client.order import in_order  # noqa: PLC0415 - most processes only ask
        from forged_client.parts import Parts  # noqa: PLC0415
        from forged_client.said import Said  # noqa: PLC0415

        messages, session_id = in_order(messages, session_id)
        request = Capture(
            workspace=workspace,
            session_id=session_id,
            kind=kind,
            window_id=window_id,
            event_id=new_key(),
            agent=agent,
        )
        return self._hand_over(Parts(request, Said(messages, last_summary_index)))

    def captured(
        self,
        workspace: str = "",
        *,
        since: str = "",
        session_id: str = "",
        all_repos: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> JudgedPage:
        """What capture has kept and refused, newest first; see `protocol.ListJudged`."""
        asked = ListJudged(workspace=workspace, since=since, session_id=session_id, all_repos=all_repos)
        return self.ask(replace(asked, limit=limit, offset=offset))

    def undo(
        self, workspace: str, *, session_id: str = "", preview: bool = False, ids: Iterable[str] = ()
    ) -> Undone:
        """Take back what the newest turn left of captured memories, or only say which these are."""
        request = Undo(workspace=workspace, session_id=session_id, preview=preview, ids=tuple(ids))
        return self.ask(request)

    def pause(self, workspace: str = "", *, everywhere: bool = False, paused: bool = True) -> Paused:
        """Stop or resume capture and injection."""
        return self.ask(Pause(workspace=workspace, everywhere=everywhere, paused=paused))

    def dead(self, action: str = "list", ids: Iterable[str] = ()) -> DeadEvents:
        """Capture events that were given up: list, show, retry or drop them."""
        return self.ask(Dead(action=action, ids=tuple(ids)))

    def cost(self, *, days: int = 7) -> Costs:
        """What model calls have cost."""
        return self.ask(Cost(days=days))

    def outbound(self, *, days: int = 7) -> Departed:
        """What left the machine, by day, host and purpose."""
        return self.ask(Outbound(days=days))

    def trust(
        self, workspace: str = "", *, action: str = "show", mode: str = "", shown: str = "", git: str = ""
    ) -> Trusted:
        """Show how roots stand, trust one, or trust it no longer; see `protocol.Trust`."""
        return self.ask(Trust(workspace=workspace, action=action, mode=mode, shown=shown, git=git))

    def review(
        self,
        workspace: str,
        accept: Iterable[str] = (),
        *,
        everything: bool = False,
        shown: str = "",
        keep: Iterable[str] = (),
        drop: Iterable[str] = (),
        text: str = "",
    ) -> Reviewed:
        """What is withheld of a repository and what waits for a person; accept, keep or drop some of it."""
        request = Review(
            workspace=workspace,
            accept=tuple(accept),
            everything=everything,
            shown=shown,
            keep=tuple(keep),
            drop=tuple(drop),
            text=text,
        )
        return self.ask(request)

    def try_endpoints(self, *, timeout_s: float = 60.0) -> Tried:
        """Make one real call to each model that is asked at an endpoint."""
        return self.ask(Try(), timeout_s=timeout_s)

    def rebuild(
        self,
        workspace: str,
        *,
        full: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Rebuilt:
        """Rescan the roots; with `wait`, give it a `timeout_s` that a first build of the root can meet."""
        return self.ask(Rebuild(workspace=workspace, full=full, wait=wait), timeout_s=timeout_s)
