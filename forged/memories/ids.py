"""Resolve the memory and the root that a request names by an id or a unique prefix.

A complete id wins over others with that prefix; `mem_` may be left out. For a write or a removal the disk is
searched, where every acknowledged memory is; for display, the maps. Raises MemoryNotFound, InvalidRequest for
an ambiguous or withheld memory, and NotReady while that is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from forged.errors import ForgedError, InvalidRequest, MemoryNotFound, NotReady
from forged.files import File, Snapshot, files_of, one_per_id
from forged.map import VectorMap
from forged.maps import RootIndex
from forged.memories.parts import MemoryParts
from forged.memory import Memory, Scope, ids_beginning, one_form
from forged.stores import View, Workplace
from forged.trust import Admitted
from forged.writing import base_of

_MOST_CANDIDATES = 10
_OF_THEIR_OWN = (Scope.AGENT, Scope.ORG)

_Found = TypeVar("_Found")


class RootOnDisk(msgspec.Struct, frozen=True, eq=False):
    """Scan result of a root: all its files, which memories may be used, which are withheld.

    `unread` is why the records of trust cannot be read, or "".
    """

    index: RootIndex
    snapshot: Snapshot
    admitted: Admitted
    unread: str = ""

    def file(self, memory_id: str) -> File:
        """Return the file that is used for a memory, never a withheld one; it is not redacted."""
        withheld = {each.path for each in self.admitted.withheld}
        files = (file for file in files_of(self.snapshot) if file.memory.id == memory_id)
        (found,) = one_per_id(file for file in files if file.path not in withheld)
        return found

    def resolve_id(self, wanted: str) -> str:
        """Return the whole id that an id or unique prefix means; refuse a withheld memory."""
        counting, all_ = ([(self, each)] for each in (self.admitted.memories, self.snapshot.memories))
        found = _find_named(counting, wanted) or _find_named(all_, wanted)
        meant = _require_only(found, wanted, self.index.root.scope)[1]
        self.check_counts(meant)
        return meant

    def base(self, memory_id: str) -> Memory:
        """Return the newest version of a memory, which a new one replaces. Raises as `check_counts`."""
        self.check_counts(memory_id)
        return base_of(self.admitted.memories, memory_id)[0]

    def check_counts(self, memory_id: str) -> None:
        """Refuse a withheld memory. Raises InvalidRequest, and NotReady without records of trust."""
        if any(each.id == memory_id for each in self.admitted.memories):
            return
        if self.unread:
            raise NotReady(f"{memory_id[:80]!r} exists, but {self.unread}; try again when that is fixed")
        why = next((each.why for each in self.admitted.withheld if each.id == memory_id), "")
        if why:
            raise InvalidRequest(
                f"{memory_id[:80]!r} exists but is not used ({why}); `forgectl "
                "review` shows it and lets you allow it"
            )


async def scan_root(memories: MemoryParts, index: RootIndex) -> RootOnDisk:
    """Scan a root on disk; return all its files, the usable memories and the withheld ones."""
    snapshot, admitted = await memories.trust.look(index.root)
    return RootOnDisk(index, snapshot, admitted, memories.state.trust.doubt)


async def find_on_disk(
    memories: MemoryParts, place: Workplace, wanted: str, scope: str = ""
) -> tuple[RootOnDisk, str]:
    """Find an id or prefix in the files of a place's roots, all or of a scope; return root and whole id.

    A withheld memory is only meant if no counting one is.
    """
    check_scope(scope)
    indexes = [memories.indexer.open(root) for root in place.roots if scope in {"", root.scope}]
    looks = [await scan_root(memories, index) for index in indexes]
    counting = [(each, each.admitted.memories) for each in looks]
    everything = [(each, each.snapshot.memories) for each in looks]
    return _require_only(_find_named(counting, wanted) or _find_named(everything, wanted), wanted, scope)


async def missing_error(memories: MemoryParts, place: Workplace, wanted: str, scope: str = "") -> ForgedError:
    """Return the error for a memory that no map has: not found, withheld, or not indexed yet."""
    if scope == Scope.SESSION:
        return not_found_error(wanted, scope)
    try:
        at, found = await find_on_disk(memories, place, wanted, scope)
        at.check_counts(found)
    except (MemoryNotFound, InvalidRequest, NotReady) as error:
        return error
    return NotReady(f"{found[:80]!r} is on disk but not indexed yet; try again in a moment")


async def place_of_scope(
    memories: MemoryParts, place: Workplace, scope: str, agent_id: str = "", *, sessions: bool = False
) -> Workplace:
    """Return the place that a request means: the workspace, an agent's or the org root, or no root.

    Memories of an agent are only in the place that names that agent. With `sessions`, scope session is
    allowed, which has no root. Raises InvalidRequest.
    """
    if sessions and scope == Scope.SESSION:
        return memories.resolver.of_roots(place, ())
    check_scope(scope)
    if scope in _OF_THEIR_OWN:
        if scope == Scope.AGENT and not agent_id:
            raise InvalidRequest("which agent? Give --agent NAME (agent_id in the client library)")
        return await memories.resolver.within(place, scope, agent_id)
    if agent_id:
        raise InvalidRequest("--agent (agent_id) needs --scope agent")
    return place


def check_scope(scope: str) -> None:
    """Refuse scope session, which has no files. Raises InvalidRequest."""
    if scope == Scope.SESSION:
        raise InvalidRequest("memories of a session have no file; `forgectl search --session ID` finds them")


def check_changeable(scope: str) -> None:
    """Refuse scope org: a piece of a document only changes with it. Raises InvalidRequest."""
    if scope == Scope.ORG:
        raise InvalidRequest(
            "what all agents may read is as its document is: change that, and `forgectl ingest` it again"
        )


def find_in_view(view: View, wanted: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
    """Find an id or unique prefix in a view; return map and memory for each scope that has it."""
    wanted = one_form(wanted)
    if found := view.find(wanted, scope) or view.find(f"mem_{wanted}", scope):
        return found
    homes = [each for each in view.maps if scope in {"", each.scope}]
    ids = dict.fromkeys(each for home in homes for each in ids_beginning(home.memories, wanted))
    _check_candidates(tuple(ids), wanted)
    return view.find(next(iter(ids)), scope) if ids else ()


def with_sessions(memories: MemoryParts, view: View, ids: Collection[str], scope: str = "") -> View:
    """Return a view plus all memories of each session that has a memory with one of the ids."""
    rows = map(memories.session_memories.find, ids) if scope in {"", Scope.SESSION} else ()
    sessions = dict.fromkeys(row.session_id for row in rows if row is not None)
    maps = (home for each in sessions for home in memories.session_views.view(each).maps)
    return replace(view, maps=(*view.maps, *maps)) if sessions else view


def session_view(memories: MemoryParts, view: View, session_id: str) -> View:
    """Return a view that shows only the memories of one session. Raises InvalidRequest."""
    if not session_id:
        raise InvalidRequest("which session? Give its whole id with --session (session_id)")
    return replace(view, maps=memories.session_views.view(session_id).maps)


def require_one(found: Sequence[_Found], wanted: str, scope: str) -> _Found:
    """Return the only memory found for an id. Raises MemoryNotFound, InvalidRequest for several."""
    if len(found) > 1:
        raise InvalidRequest(
            f"the repository and the user both have a memory {wanted[:80]!r}; "
            "choose one with --scope repo or --scope user"
        )
    if not found:
        raise not_found_error(wanted, scope)
    return found[0]


def not_found_error(wanted: str, scope: str = "") -> MemoryNotFound:
    """Return the error for an id that no memory has."""
    where = f"scope {scope}" if scope else "this workspace"
    return MemoryNotFound(f"no memory {wanted[:80]!r} in {where}; `forgectl list` shows what is there")


def resolve_prefix(ids: Iterable[str], wanted: str) -> str:
    """Return the one id that an id or prefix means, or "". Raises InvalidRequest if ambiguous."""
    there, wanted = tuple(dict.fromkeys(ids)), one_form(wanted)
    found = [each for each in there if each.startswith((wanted, f"mem_{wanted}"))] if wanted else []
    found = [each for each in found if is_complete_id(wanted, each)] or found
    if wanted in there:
        return wanted
    _check_candidates(found, wanted)
    return found[0] if found else ""


def is_complete_id(wanted: str, memory_id: str) -> bool:
    """Return True if `wanted` names an id completely, with or without its `mem_`."""
    return one_form(wanted) in {memory_id, memory_id.removeprefix("mem_")}


def _find_named(
    homes: Iterable[tuple[RootOnDisk, Sequence[Memory]]], wanted: str
) -> list[tuple[RootOnDisk, str]]:
    """Return root and id of each memory with this id or, if none, prefix; once for each scope."""
    found = [(home, each) for home, memories in homes for each in ids_beginning(memories, wanted)]
    exact = [each for each in found if each[1] == one_form(wanted)]
    exact = exact or [each for each in found if is_complete_id(wanted, each[1])] or found
    # Of two roots of one scope, as in a worktree, the writable one is meant.
    firsts: dict[tuple[str, str], tuple[RootOnDisk, str]] = {}
    for each in exact:
        firsts.setdefault((each[0].index.root.scope, each[1]), each)
    return list(firsts.values())


def _require_only(found: Sequence[tuple[RootOnDisk, str]], wanted: str, scope: str) -> tuple[RootOnDisk, str]:
    """Return the only root and id found. Raises MemoryNotFound, InvalidRequest for several."""
    _check_candidates(tuple(dict.fromkeys(each for _, each in found)), wanted)
    return require_one(found, wanted, scope)


def _check_candidates(ids: Sequence[str], wanted: str) -> None:
    """Refuse a prefix of several ids and name them. Raises InvalidRequest."""
    if len(ids) > 1:
        candidates = ", ".join(each[:80] for each in ids[:_MOST_CANDIDATES])
        more = f" and {len(ids) - _MOST_CANDIDATES} more" if len(ids) > _MOST_CANDIDATES else ""
        raise InvalidRequest(
            f"several ids begin with {wanted[:80]!r}: {candidates}{more}; give more characters"
        )
