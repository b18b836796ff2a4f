"""What goes beyond a repository and a user: one method per verb, as in verbs.py, which these belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forged_client.chain_verbs import ChainVerbs
from forged_client.messages import public
from forged_client.protocol import (
    Document,
    DocumentRemoved,
    Documents,
    Ingest,
    Ingested,
    ListDocuments,
    Recall,
    Recalled,
    RemoveDocument,
)


class ScopeVerbs(ChainVerbs):
    """The verbs of sessions, agents and an organization."""

    def recall(
        self,
        query: str,
        session_id: object = "",
        user_id: object = "",
        agent_id: object = "",
        filters: Mapping[str, Any] | None = None,
        *,
        workspace: str = "",
        scopes: Iterable[str] = (),
        timeout_s: float | None = None,
        token_budget: int | None = None,
    ) -> Recalled:
        """What a session, the user, an agent and the organization remember about a query, as one list.

        Ids are texts or UUIDs. `filters` are values that a memory's metadata must have; `scopes` are those to
        search instead of all four. `text` of the reply is one injection for a prompt.
        """
        request = Recall(
            workspace=workspace,
            query=public(query),
            session_id=_id(session_id),
            user_id=_id(user_id),
            agent_id=_id(agent_id),
            filters=dict(filters or {}),
            scopes=tuple(scopes),
            timeout_s=timeout_s,
            token_budget=token_budget,
        )
        return self.ask(request)

    def ingest(
        self,
        documents: Iterable[Document],
        *,
        agent_id: object = "",
        metadata: Mapping[str, Any] | None = None,
        look: bool = False,
        allow_secret: bool = False,
        timeout_s: float | None = None,
    ) -> Ingested:
        """Cut documents into pieces that all agents may search; a later text of a source replaces the former.

        All of them together have at most 900 KiB. With `look` nothing is written, and what would become of
        each is told.
        """
        request = Ingest(
            documents=tuple(documents),
            agent_id=_id(agent_id),
            metadata=dict(metadata or {}),
            look=look,
            allow_secret=allow_secret,
        )
        return self.ask(request, timeout_s=timeout_s)

    def documents(self, *, offset: int = 0, limit: int = 200) -> Documents:
        """The documents that are there, by their sources."""
        return self.ask(ListDocuments(offset=offset, limit=limit))

    def remove_document(self, name: str) -> DocumentRemoved:
        """Remove a document by its source or id, with all its pieces."""
        return self.ask(RemoveDocument(name=name))


def _id(given: object) -> str:
    return "" if given is None else str(given)
