"""The memory and the root that a request names: by an id, or by an unambiguous beginning of one.

An id that is there as it is given is meant, whatever begins like it; `mem_` may be left out. Before a write
or a removal it is looked up on disk, where every acknowledged memory is; to be shown, in the maps. Raises
MemoryNotFound, InvalidRequest for an ambiguous or withheld memory, and NotReady while that is not known.
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

_CANDIDATES_TOLD = 10
_OF_THEIR_OWN = (Scope.AGENT, Scope.ORG)

_Found = TypeVar("_Found")


class Look(msgspec.Struct, frozen=True, eq=False):
    """A root as it lies on disk now: all that is in it, and what of it counts.

    `unread` is why the records of what counts cannot be read, or nothing.
    """

    index: RootIndex
    snapshot: Snapshot
    admitted: Admitted
    unread: str = ""

    def file(self, memory_id: str) -> File:
        """Return the file of a memory that counts; its text may hold what is not shown."""
        withheld = {each.path for each in self.admitted.withheld}
        files = (file for file in files_of(self.snapshot) if file.memory.id == memory_id)
        (found,) = one_per_id(file for file in files if file.path not in withheld)
        return found

    def meant(self, wanted: str) -> str:
        """Return the id that is meant, among those of this root that count. Raises as `check_counts`."""
        counting, all_ = ([(self, each)] for each in (self.admitted.memories, self.snapshot.memories))
        found = _named(counting, wanted) or _named(all_, wanted)
        meant = _only_one(found, wanted, self.index.root.scope)[1]
        self.check_counts(meant)
        return meant

    def base(self, memory_id: str) -> Memory:
        """Return the version that a new one of a memory replaces. Raises as `check_counts`."""
        self.check_counts(memory_id)
        return base_of(self.admitted.memories, memory_id)[0]

    def check_counts(self, memory_id: str) -> None:
        """Refuse a memory that is withheld. Raises InvalidRequest, and NotReady without records."""
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


async def look(memories: MemoryParts, index: RootIndex) -> Look:
    snapshot, admitted = await memories.trust.look(index.root)
    return Look(index, snapshot, admitted, memories.state.trust.doubt)


async def on_disk(memories: MemoryParts, place: Workplace, wanted: str, scope: str = "") -> tuple[Look, str]:
    """Return the root that holds a memory, and its id; no map needs to have it.

    A withheld memory can be meant, but never in place of one that counts.
    """
    check_scope(scope)
    indexes = [memories.indexer.open(root) for root in place.roots if scope in {"", root.scope}]
    looks = [await look(memories, index) for index in indexes]
    counting = [(each, each.admitted.memories) for each in looks]
    everything = [(each, each.snapshot.memories) for each in looks]
    return _only_one(_named(counting, wanted) or _named(everything, wanted), wanted, scope)


async def unseen(memories: MemoryParts, place: Workplace, wanted: str, scope: str = "") -> ForgedError:
    """Return the error for a memory that no map has: not found, unless it is on disk and not in use."""
    if scope == Scope.SESSION:
        return not_found(wanted, scope)
    try:
        at, found = await on_disk(memories, place, wanted, scope)
        at.check_counts(found)
    except (MemoryNotFound, InvalidRequest, NotReady) as error:
        return error
    return NotReady(f"{found[:80]!r} is on disk but not indexed yet; try again in a moment")


async def within(
    memories: MemoryParts, place: Workplace, scope: str, agent_id: str = "", *, sessions: bool = False
) -> Workplace:
    """Return the place that a request means: the workspace, or the one root of another scope.

    Memories of an agent are only in the place that names that agent. With `sessions` scope session may be
    meant, which has no root. Raises InvalidRequest.
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
    """Refuse the scope that has no files. Raises InvalidRequest."""
    if scope == Scope.SESSION:
        raise InvalidRequest("memories of a session have no file; `forgectl search --session ID` finds them")


def check_changeable(scope: str) -> None:
    """Refuse a piece of a document, which is as the document is. Raises InvalidRequest."""
    if scope == Scope.ORG:
        raise InvalidRequest(
            "what all agents may read is as its document is: change that, and `forgectl ingest` it again"
        )


def in_view(view: View, wanted: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
    """Return the memories of this name in the maps: each root may have one of the same id."""
    wanted = one_form(wanted)
    if found := view.find(wanted, scope) or view.find(f"mem_{wanted}", scope):
        return found
    homes = [each for each in view.maps if scope in {"", each.scope}]
    ids = dict.fromkeys(each for home in homes for each in ids_beginning(home.memories, wanted))
    _check_candidates(tuple(ids), wanted)
    return view.find(next(iter(ids)), scope) if ids else ()


def with_sessions(memories: MemoryParts, view: View, ids: Collection[str], scope: str = "") -> View:
    """Return a view that shows memories of sessions as well, if they are named by their whole id."""
    rows = map(memories.session_memories.find, ids) if scope in {"", Scope.SESSION} else ()
    sessions = dict.fromkeys(row.session_id for row in rows if row is not None)
    maps = (home for each in sessions for home in memories.session_views.view(each).maps)
    return replace(view, maps=(*view.maps, *maps)) if sessions else view


def of_session(memories: MemoryParts, view: View, session_id: str) -> View:
    """Return a view of the memories of one session. Raises InvalidRequest."""
    if not session_id:
        raise InvalidRequest("which session? Give its whole id with --session (session_id)")
    return replace(view, maps=memories.session_views.view(session_id).maps)


def require_one(found: Sequence[_Found], wanted: str, scope: str) -> _Found:
    """Return the only memory found. Raises MemoryNotFound, and InvalidRequest for one of two."""
    if len(found) > 1:
        raise InvalidRequest(
            f"the repository and the user both have a memory {wanted[:80]!r}; "
            "choose one with --scope repo or --scope user"
        )
    if not found:
        raise not_found(wanted, scope)
    return found[0]


def not_found(wanted: str, scope: str = "") -> MemoryNotFound:
    where = f"scope {scope}" if scope else "this workspace"
    return MemoryNotFound(f"no memory {wanted[:80]!r} in {where}; `forgectl list` shows what is there")


def resolve_prefix(ids: Iterable[str], wanted: str) -> str:
    """Return the one id that is meant, or nothing. Raises InvalidRequest for a beginning of several."""
    there, wanted = tuple(dict.fromkeys(ids)), one_form(wanted)
    found = [each for each in there if each.startswith((wanted, f"mem_{wanted}"))] if wanted else []
    found = [each for each in found if is_whole(wanted, each)] or found
    if wanted in there:
        return wanted
    _check_candidates(found, wanted)
    return found[0] if found else ""


def is_whole(wanted: str, memory_id: str) -> bool:
    """Return True if an id is named whole, with or without its `mem_`."""
    return one_form(wanted) in {memory_id, memory_id.removeprefix("mem_")}


def _named(homes: Iterable[tuple[Look, Sequence[Memory]]], wanted: str) -> list[tuple[Look, str]]:
    found = [(home, each) for home, memories in homes for each in ids_beginning(memories, wanted)]
    exact = [each for each in found if each[1] == one_form(wanted)]
    exact = exact or [each for each in found if is_whole(wanted, each[1])] or found
    # Of two roots of one scope, as a worktree may see, the one that is written to is meant.
    firsts: dict[tuple[str, str], tuple[Look, str]] = {}
    for each in exact:
        firsts.setdefault((each[0].index.root.scope, each[1]), each)
    return list(firsts.values())


def _only_one(found: Sequence[tuple[Look, str]], wanted: str, scope: str) -> tuple[Look, str]:
    _check_candidates(tuple(dict.fromkeys(each for _, each in found)), wanted)
    return require_one(found, wanted, scope)


def _check_candidates(ids: Sequence[str], wanted: str) -> None:
    if len(ids) > 1:
        told = ", ".join(each[:80] for each in ids[:_CANDIDATES_TOLD])
        more = f" and {len(ids) - _CANDIDATES_TOLD} more" if len(ids) > _CANDIDATES_TOLD else ""
        raise InvalidRequest(f"several ids begin with {wanted[:80]!r}: {told}{more}; give more characters")
