"""Which scope lives where, in the words of `forgectl status` and `forgectl doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.terminal import counted, escape_line, span
from forged_client.protocol import ScopeReport

_OWNERS = {"session": "session", "agent": "agent", "org": "place"}
_WHOSE = {
    "session": "of one session each",
    "agent": "private to each agent",
    "org": "read by all agents",
}


def scope_status(scopes: Iterable[ScopeReport]) -> Iterator[str]:
    """A line for each scope beside the roots that holds anything."""
    for each in scopes:
        if each.memories:
            yield f"  scope {escape_line(each.scope)}: {_amount(each)} {_where(each)}"


def scope_facts(scopes: Iterable[ScopeReport]) -> Iterator[tuple[str, str]]:
    """Every scope with what there is to know of it, by its name."""
    yield "repo", "files in the repository, .forge/memory; in every injection there"
    yield "user", "files in your own directory, .forge/memory; in every injection"
    for each in scopes:
        facts = (
            f"{_amount(each)} {_where(each)}",
            _WHOSE.get(each.scope, ""),
            _lasts(each),
            _retrieved(each),
        )
        yield escape_line(each.scope), "; ".join(filter(None, facts))


def _amount(each: ScopeReport) -> str:
    amount = counted(each.memories, "memory", "memories")
    if each.scope == "org" or not each.owners:
        return amount
    return f"{amount} of {counted(each.owners, _OWNERS.get(each.scope, 'owner'))}"


def _where(each: ScopeReport) -> str:
    return "in the daemon's memory" if each.engine == "memory" else f"in files in {escape_line(each.place)}"


def _lasts(each: ScopeReport) -> str:
    if not each.lasts_s:
        return "kept until they are removed"
    gone = f"; {each.dropped:,} had to make room before" if each.dropped else ""
    return f"for {span(each.lasts_s)} or until the session ends, and lost when the daemon ends{gone}"


def _retrieved(each: ScopeReport) -> str:
    return "in injections" if each.retrieved else "by recall alone ([scopes].retrieve adds it to injections)"
