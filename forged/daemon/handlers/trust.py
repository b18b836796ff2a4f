"""`trust`, and `review` of files: what is withheld, what it would do, and what a person says to that.

What is accepted or trusted is in force in every map when the reply comes. Raised are WorkspaceError,
InvalidRequest, MemoryNotFound, StoreError, and Changed where a person was shown something else.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import msgspec

from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.wire_types import fitting
from forged.errors import ForgedError, InvalidRequest, MemoryNotFound
from forged.files import Root, Snapshot, files_of, repo_root
from forged.maps import RootIndex
from forged.memories import ids
from forged.memory import Memory, Scope
from forged.sessions import Session
from forged.stores import Workplace
from forged.trust import CHOICES, MODES, Admitted, ExcludeError, KnownRoot, TrustRegistry
from forged_client import protocol as wire

_ACTIONS = ("show", "trust", "revoke", "under", "list", "git", "leave")
_SAMPLE, _SAMPLE_CHARS, _GIST_CHARS = 5, 200, 80
# As git does it, a hash may be named by its beginning.
_SHORTEST_HASH = 8


class Changed(ForgedError):  # noqa: N818 - reads as the state it names
    """What a person was shown is not what is there now."""

    code = "conflict"


async def trust(context: Context, request: wire.Trust) -> wire.Trusted:
    """Tell how roots stand, trust one, or trust it no longer."""
    if request.action not in _ACTIONS:
        raise InvalidRequest(f"unknown action {request.action[:64]!r}; use {', '.join(_ACTIONS)}")
    if request.mode not in ("", *MODES):
        raise InvalidRequest(f"unknown mode {request.mode[:64]!r}; use {' or '.join(MODES)}")
    if request.git not in ("", *CHOICES):
        raise InvalidRequest(f"unknown choice {request.git[:64]!r}; use {' or '.join(CHOICES)}")
    registry = context.daemon.trust
    await registry.opened()
    if request.action == "leave":
        return await _left(registry)
    found = [await _told(registry, each) for each in await _meant(context, request)]
    return wire.Trusted(status="ok" if found else "empty", roots=fitting(found))


async def _meant(context: Context, request: wire.Trust) -> Sequence[KnownRoot]:
    known, resolver = context.daemon.trust, context.daemon.resolver
    if request.action == "list":
        return await known.known()
    if request.action == "under":
        return await known.under(request.workspace, resolver.home)
    roots, named = await _roots(context, request.workspace)
    if request.action == "git":
        await _chosen_for_git(known, roots, request.git)
    if request.action == "trust":
        # What was shown is of one root, which is named by its top.
        some = ((named,) if named in roots else roots[:1]) if request.shown else roots
        return [await _trusted(context, root, request) for root in some]
    if request.action == "revoke":
        return [_in_turns_too(context, await known.revoke(root.top)) for root in roots]
    return [await known.describe(root.top) for root in roots]


async def _chosen_for_git(registry: TrustRegistry, roots: Sequence[Root], choice: str) -> None:
    """Choose if git may commit what forged captures in a work tree. Raises InvalidRequest."""
    excluding = registry.excluding
    work_tree = next((root for root in roots if root.has_files), None)
    if work_tree is None:
        raise InvalidRequest("this directory belongs to git itself: nothing in it is ever committed")
    try:
        await asyncio.to_thread(excluding.chosen, work_tree.top, choice)
    except ExcludeError as error:
        raise InvalidRequest(str(error)) from error
    finally:
        await excluding.save()


async def _left(registry: TrustRegistry) -> wire.Trusted:
    """Take forged's line out of every repository that has it."""
    excluding = registry.excluding
    done, left = await asyncio.to_thread(partial(excluding.take_out, everywhere=True))
    await excluding.save()
    roots = tuple(wire.RootTrust(root=each, git="forged's line was removed") for each in done)
    return wire.Trusted(status="ok" if roots else "empty", roots=roots, reason="; ".join(left))


async def _trusted(context: Context, root: Root, request: wire.Trust) -> KnownRoot:
    """Trust exactly what was shown, or without that what is there now; in the mode that it has, if any."""
    known = context.daemon.trust
    snapshot, admitted = await known.look(root)
    _check_shown(request.shown, admitted.withheld)
    mode = request.mode or (await known.stands(root.top)).mode
    there = {file.sha256 for file in files_of(snapshot)}
    return _in_turns_too(context, await known.trust(root.top, mode, there))


async def review(context: Context, request: wire.Review) -> wire.Reviewed:
    """List what is withheld of a root, after accepting what the request names."""
    known = context.daemon.trust
    await known.opened()
    roots, _ = await _roots(context, request.workspace)
    withheld = {root: (await known.look(root))[1].withheld for root in roots}
    listed = tuple(each for some in withheld.values() for each in some)
    again = context.planned(wire.Reviewed) is not None
    if not again:
        _check_shown(request.shown, listed)
    chosen = listed if request.everything else _chosen(listed, request.accept, again=again)
    for root, some in withheld.items():
        if hashes := {each.sha256 for each in some if each in chosen}:
            _in_turns_too(context, await known.approve(root.top, hashes))
    looks = {root: await known.look(root) for root in roots}
    files = [file for look in looks.values() for file in _files(*look)]
    left = tuple(each for _, admitted in looks.values() for each in admitted.withheld)
    told = await _told(known, await known.describe(roots[0].top))
    return wire.Reviewed(
        root=msgspec.structs.replace(told, withheld=len(left), shown=_shown(left)),
        files=fitting(files),
        accepted=tuple(dict.fromkeys(each.id for each in chosen)),
    )


async def _roots(context: Context, workspace: str) -> tuple[tuple[Root, ...], Root]:
    """The repository roots of a workspace, and the root that has it as its top. Raises InvalidRequest."""
    place = await context.daemon.resolver.resolve(workspace)
    top = await asyncio.to_thread(os.path.realpath, workspace)
    named = await asyncio.to_thread(repo_root, top)
    roots = tuple(root for root in place.roots if root.scope is Scope.REPO)
    if named.in_git and named not in roots:
        return (named,), named
    if roots:
        return roots, named
    raise InvalidRequest("this folder is in no repository; your own memories need no trust")


def _in_turns_too(context: Context, known: KnownRoot) -> KnownRoot:
    """No turn is answered as before something was decided."""
    context.daemon.sessions.purge()
    return known


def _chosen(
    withheld: Sequence[wire.WithheldFile], names: Collection[str], *, again: bool
) -> list[wire.WithheldFile]:
    """Return files by beginnings of ids or hashes. Raises MemoryNotFound unless it comes `again`."""
    chosen: list[wire.WithheldFile] = []
    for name in names:
        found = [each for each in withheld if _is_hash(name, each.sha256)]
        meant = "" if found else ids.resolve_prefix([each.id for each in withheld], name)
        found += [each for each in withheld if meant and each.id == meant]
        if not (found or again):
            raise MemoryNotFound(f"nothing {name[:80]!r} is waiting here; `forgectl review` lists what is")
        chosen += found
    return chosen


def _is_hash(name: str, sha256: str) -> bool:
    return len(name) >= _SHORTEST_HASH and sha256.startswith(name)


async def in_reply(context: Context, place: Workplace, session: Session | None = None) -> str:
    """Return the sentence on what is withheld, to a session once for each root. Nobody waits for a scan."""
    if told := "; ".join(await context.daemon.trust.excluding.all_notices(*place.tops)):
        return told
    for root in place.roots:
        index = context.daemon.indexer.open(root)
        if index.builder.withheld and (session is None or session.is_first_notice(root.top)):
            _, notice = await in_status(context, index)
            return notice
    return ""


def sentence(known: KnownRoot, count: int) -> str:
    """Say why `count` memory files of a root are not used, with the command that shows them."""
    files = "1 memory file" if count == 1 else f"{count:,} memory files"
    if known.state == "unread":
        return f"{files} in {known.top} cannot be used now: {known.reason}"
    are = "is" if count == 1 else "are"
    not_used, top = f"{files} in {known.top} {are} not used yet", shlex.quote(known.top)
    if known.state == "trusted":
        return f"{not_used}: added after you trusted it. Review and allow: `forgectl review {top}`"
    if "`forgectl " in known.reason:  # it names the first step
        return f"{not_used}: {known.reason}"
    if known.reason:
        return f"{not_used}: {known.reason}. Review and allow: `forgectl trust {top}`"
    them = "it" if count == 1 else "them"
    if known.state == "own":
        return (
            f"{not_used}: there is no record that forged or you wrote "
            f"{them} (git, reinstallation or backup?). "
            f"Review and allow: `forgectl trust {top}`"
        )
    return (
        f"{not_used}: forged has no record of writing {them} (cloned, reinstalled or restored?). Review and "
        f"allow: `forgectl trust {top}` (`--under DIR` for all repositories below DIR)"
    )


async def in_status(context: Context, index: RootIndex) -> tuple[str, str]:
    """How a root stands in a word (of a trusted one its mode), and the sentence about it or nothing."""
    if index.root.is_own:
        return "", ""
    registry = context.daemon.trust
    known = await registry.stands(index.root.top)
    count = len(index.builder.withheld)
    return known.mode or known.state, sentence(known, count) if count else ""


# --- as a person is told of it ------------------------------------------------------------------------


async def _told(registry: TrustRegistry, known: KnownRoot) -> wire.RootTrust:
    files = _files(*await registry.look(await asyncio.to_thread(repo_root, known.top)))
    return wire.RootTrust(
        root=known.top,
        state=known.state,
        mode=known.mode,
        branch=known.branch,
        trusted_at=known.trusted_at,
        accepted=known.accepted,
        withheld=len(known.withheld),
        shown=_shown(known.withheld),
        sample=tuple(
            msgspec.structs.replace(each, text=each.text[:_SAMPLE_CHARS]) for each in files[:_SAMPLE]
        ),
        reason=known.reason,
        git=await asyncio.to_thread(registry.excluding.state_of, repo_root(known.top)),
    )


def _shown(withheld: Iterable[wire.WithheldFile]) -> str:
    """A short text for exactly these files in this form."""
    listed = "\n".join(f"{each.sha256} {each.path}" for each in withheld)
    return hashlib.sha256(listed.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _check_shown(shown: str, withheld: Iterable[wire.WithheldFile]) -> None:
    if shown and shown != _shown(withheld):
        raise Changed(
            "the files have changed since they were shown; nothing was allowed, run the command again"
        )


def _files(snapshot: Snapshot, admitted: Admitted) -> list[wire.WithheldFile]:
    """What is withheld, in the order of the paths, with what each would do."""
    counting = {memory.id: memory for memory in admitted.memories}
    waiting = {each.id for each in admitted.withheld}
    memories = {file.path: file.memory for file in files_of(snapshot)}
    sizes = {
        f"{listing.path}/{name}": seen.key[1]
        for listing in snapshot.listings
        for name, seen in listing.files.items()
    }
    return [
        msgspec.structs.replace(
            each,
            effect=_effect(memories[each.path], counting, waiting),
            category=memories[each.path].category,
            created_at=memories[each.path].created_at,
            bytes=sizes[each.path],
            text=memories[each.path].content,
        )
        for each in admitted.withheld
    ]


def _effect(memory: Memory, counting: dict[str, Memory], waiting: Collection[str]) -> str:
    """What accepting a memory would do to those that count; `waiting` are the ids of the withheld."""
    told = []
    if memory.id in counting:
        told.append("replace the memory with the same id, if it is newer")
    if memory.supersedes in counting:
        told.append(f"replace {_named(counting[memory.supersedes])}")
    elif memory.supersedes:
        where = "not used yet either" if memory.supersedes in waiting else "not here"
        told.append(f"replace {memory.supersedes}, which is {where}")
    if linked := [edge.id for edge in memory.related if edge.id in counting]:
        told.append(f"be linked with {', '.join(linked)}")
    return "; ".join(told) or "be a new memory"


def _named(memory: Memory) -> str:
    gist = memory.first_line
    return f"{memory.id} ({gist if len(gist) <= _GIST_CHARS else gist[: _GIST_CHARS - 3] + '...'})"
