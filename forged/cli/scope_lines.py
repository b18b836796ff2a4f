"""Lines of `forgectl status` and `forgectl doctor` about scopes and where they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.terminal import counted, escape_line, span
from forged_client.protocol import ScopeReport

_OWNERS = {"session": "session", "agent": "agent", "org": "place"}
_READERS = {
    "session": "private to each session",
    "agent": "private to each agent",
    "org": "read by all agents",
}


def scope_status(scopes: Iterable[ScopeReport]) -> Iterator[str]:
    """Yield for `status` a line on each scope with memories, apart from repo and user: amount and place."""
    for each in scopes:
        if each.memories:
            yield f"  scope {escape_line(each.scope)}: {_amount_text(each)} {_place_text(each)}"


def scope_facts(scopes: Iterable[ScopeReport]) -> Iterator[tuple[str, str]]:
    """Yield each scope with a text for `doctor`: amount, place, readers, lifetime, use in injections."""
    yield "repo", "files in .forge/memory of the repository; used for injections there"
    yield "user", "files in .forge/memory of your home; used for all injections"
    for each in scopes:
        facts = (
            f"{_amount_text(each)} {_place_text(each)}",
            _READERS.get(each.scope, ""),
            _lifetime_text(each),
            _injection_text(each),
        )
        yield escape_line(each.scope), "; ".join(filter(None, facts))


def _amount_text(each: ScopeReport) -> str:
    """Return a scope's number of memories, and of the sessions or agents that own them."""
    amount = counted(each.memories, "memory", "memories")
    if each.scope == "org" or not each.owners:
        return amount
    return f"{amount} of {counted(each.owners, _OWNERS.get(each.scope, 'owner'))}"


def _place_text(each: ScopeReport) -> str:
    """Return where a scope's memories are stored: in the daemon's memory, or in files and where."""
    return "in the daemon's memory" if each.engine == "memory" else f"in files in {escape_line(each.place)}"


def _lifetime_text(each: ScopeReport) -> str:
    """Return how long a scope's memories last, and how many were dropped to make room."""
    if not each.lasts_s:
        return "saved until they are removed"
    gone = f"; {each.dropped:,} dropped to make room" if each.dropped else ""
    return f"for {span(each.lasts_s)} or until the session or the daemon ends{gone}"


def _injection_text(each: ScopeReport) -> str:
    """Return if a scope's memories are used for injections, or the command that finds them."""
    if each.retrieved:
        return "used for injections"
    return "found by `forgectl search --scope` only ([scopes].retrieve adds it to injections)"
