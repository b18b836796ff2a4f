"""Handlers of `trust`, and of `review` for files: withheld files, their effects, and decisions.

Accepted or trusted files are in force in every map when the reply comes. Raises WorkspaceError,
InvalidRequest, MemoryNotFound, StoreError, and FilesChanged if files differ from those that were shown.
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

_ACTIONS = ("show", "trust", "revoke", "under", "list", "git", "unexclude")
_SAMPLE, _SAMPLE_CHARS, _GIST_CHARS = 5, 200, 80
_SHORTEST_HASH = 8  # as in git, a hash may be named by a prefix


class FilesChanged(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised if the withheld files differ from those that a person was shown."""

    code = "conflict"


async def trust(context: Context, request: wire.Trust) -> wire.Trusted:
    """Give, end or show trust in repositories' files, or change their exclusion from git; report it."""
    if request.action not in _ACTIONS:
        raise InvalidRequest(f"unknown action {request.action[:64]!r}; use {', '.join(_ACTIONS)}")
    if request.mode not in ("", *MODES):
        raise InvalidRequest(f"unknown mode {request.mode[:64]!r}; use {' or '.join(MODES)}")
    if request.git not in ("", *CHOICES):
        raise InvalidRequest(f"unknown choice {request.git[:64]!r}; use {' or '.join(CHOICES)}")
    registry = context.daemon.trust
    await registry.wait_until_open()
    if request.action == "unexclude":
        return await _remove_exclude_lines(registry)
    found = [await _root_trust(registry, each) for each in await _carry_out_action(context, request)]
    return wire.Trusted(status="ok" if found else "empty", roots=fitting(found))


async def _carry_out_action(context: Context, request: wire.Trust) -> Sequence[KnownRoot]:
    """Carry out a request about trust (all but `unexclude`); return the roots that it concerns."""
    known, resolver = context.daemon.trust, context.daemon.resolver
    if request.action == "list":
        return await known.known_roots()
    if request.action == "under":
        return await known.roots_under(request.workspace, resolver.home)
    roots, named = await _repository_roots(context, request.workspace)
    if request.action == "git":
        await _set_git_choice(known, roots, request.git)
    if request.action == "trust":
        # `shown` belongs to one root, which is named by its top.
        some = ((named,) if named in roots else roots[:1]) if request.shown else roots
        return [await _trust_root(context, root, request) for root in some]
    if request.action == "revoke":
        return [_drop_cached_answers(context, await known.revoke(root.top)) for root in roots]
    return [await known.describe(root.top) for root in roots]


async def _set_git_choice(registry: TrustRegistry, roots: Sequence[Root], choice: str) -> None:
    """Set if git ignores a work tree's captured memories, or return to the configured choice."""
    excluding = registry.excluding
    work_tree = next((root for root in roots if root.has_files), None)
    if work_tree is None:
        raise InvalidRequest("this directory belongs to git itself: nothing in it is ever committed")
    try:
        await asyncio.to_thread(excluding.apply_choice, work_tree.top, choice)
    except ExcludeError as error:
        raise InvalidRequest(str(error)) from error
    finally:
        await excluding.save()


async def _remove_exclude_lines(registry: TrustRegistry) -> wire.Trusted:
    """Remove forged's line from every repository's git exclude file; report done and left ones."""
    excluding = registry.excluding
    done, left = await asyncio.to_thread(partial(excluding.remove_lines, everywhere=True))
    await excluding.save()
    roots = tuple(wire.RootTrust(root=each, git="forged's line was removed") for each in done)
    return wire.Trusted(status="ok" if roots else "empty", roots=roots, reason="; ".join(left))


async def _trust_root(context: Context, root: Root, request: wire.Trust) -> KnownRoot:
    """Trust all current files of a root, return its trust. Raises FilesChanged if not as shown."""
    known = context.daemon.trust
    snapshot, admitted = await known.look(root)
    _check_unchanged(request.shown, admitted.withheld)
    mode = request.mode or (await known.status(root.top)).mode
    there = {file.sha256 for file in files_of(snapshot)}
    return _drop_cached_answers(context, await known.trust(root.top, mode, there))


async def review(context: Context, request: wire.Review) -> wire.Reviewed:
    """Accept the withheld files that a request names, or all, and list those that are left."""
    known = context.daemon.trust
    await known.wait_until_open()
    roots, _ = await _repository_roots(context, request.workspace)
    withheld = {root: (await known.look(root))[1].withheld for root in roots}
    listed = tuple(each for some in withheld.values() for each in some)
    again = context.planned(wire.Reviewed) is not None
    if not again:
        _check_unchanged(request.shown, listed)
    chosen = listed if request.everything else _select_files(listed, request.accept, again=again)
    for root, some in withheld.items():
        if hashes := {each.sha256 for each in some if each in chosen}:
            _drop_cached_answers(context, await known.approve(root.top, hashes))
    looks = {root: await known.look(root) for root in roots}
    files = [file for look in looks.values() for file in _withheld_files(*look)]
    left = tuple(each for _, admitted in looks.values() for each in admitted.withheld)
    text = await _root_trust(known, await known.describe(roots[0].top))
    return wire.Reviewed(
        root=msgspec.structs.replace(text, withheld=len(left), shown=_fingerprint(left)),
        files=fitting(files),
        accepted=tuple(dict.fromkeys(each.id for each in chosen)),
    )


async def _repository_roots(context: Context, workspace: str) -> tuple[tuple[Root, ...], Root]:
    """Return a workspace's repository roots, and the one at its path. Raises InvalidRequest."""
    place = await context.daemon.resolver.resolve(workspace)
    top = await asyncio.to_thread(os.path.realpath, workspace)
    named = await asyncio.to_thread(repo_root, top)
    roots = tuple(root for root in place.roots if root.scope is Scope.REPO)
    if named.in_git and named not in roots:
        return (named,), named
    if roots:
        return roots, named
    raise InvalidRequest("this folder is in no repository; your own memories need no trust")


def _drop_cached_answers(context: Context, known: KnownRoot) -> KnownRoot:
    """Drop cached answers after a decision on trust; return `known` as it is."""
    context.daemon.sessions.purge()
    return known


def _select_files(
    withheld: Sequence[wire.WithheldFile], names: Collection[str], *, again: bool
) -> list[wire.WithheldFile]:
    """Return the withheld files that prefixes of ids or hashes name. Raises MemoryNotFound unless `again`."""
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
    """Return True if a name is a beginning of a file's hash, of at least 8 characters."""
    return len(name) >= _SHORTEST_HASH and sha256.startswith(name)


async def notice_for_reply(context: Context, place: Workplace, session: Session | None = None) -> str:
    """Return the due notice on withheld files or exclude lines, once for each session and root, or ""."""
    if text := "; ".join(await context.daemon.trust.excluding.all_notices(*place.tops)):
        return text
    for root in place.roots:
        index = context.daemon.indexer.open(root)
        if index.builder.withheld and (session is None or session.is_first_notice(root.top)):
            _, notice = await trust_in_status(context, index)
            return notice
    return ""


def withheld_sentence(known: KnownRoot, count: int) -> str:
    """Return a sentence on why `count` memory files of a root are not used, with the remedy."""
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


async def trust_in_status(context: Context, index: RootIndex) -> tuple[str, str]:
    """Return the trust in a root in one word ("" if own), and a sentence on its withheld files or ""."""
    if index.root.is_own:
        return "", ""
    registry = context.daemon.trust
    known = await registry.status(index.root.top)
    count = len(index.builder.withheld)
    return known.mode or known.state, withheld_sentence(known, count) if count else ""


# --- replies ------------------------------------------------------------------------------------------


async def _root_trust(registry: TrustRegistry, known: KnownRoot) -> wire.RootTrust:
    """Return the trust in a root for a reply, with a sample of its withheld files."""
    files = _withheld_files(*await registry.look(await asyncio.to_thread(repo_root, known.top)))
    return wire.RootTrust(
        root=known.top,
        state=known.state,
        mode=known.mode,
        branch=known.branch,
        trusted_at=known.trusted_at,
        accepted=known.accepted,
        withheld=len(known.withheld),
        shown=_fingerprint(known.withheld),
        sample=tuple(
            msgspec.structs.replace(each, text=each.text[:_SAMPLE_CHARS]) for each in files[:_SAMPLE]
        ),
        reason=known.reason,
        git=await asyncio.to_thread(registry.excluding.state_of, repo_root(known.top)),
    )


def _fingerprint(withheld: Iterable[wire.WithheldFile]) -> str:
    """Return a digest of withheld files, equal only for the same paths with the same content."""
    listed = "\n".join(f"{each.sha256} {each.path}" for each in withheld)
    return hashlib.sha256(listed.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _check_unchanged(shown: str, withheld: Iterable[wire.WithheldFile]) -> None:
    """Raise FilesChanged unless the withheld files are those that a person was shown, if any were."""
    if shown and shown != _fingerprint(withheld):
        raise FilesChanged(
            "the files have changed since they were shown; nothing was allowed, run the command again"
        )


def _withheld_files(snapshot: Snapshot, admitted: Admitted) -> list[wire.WithheldFile]:
    """Return the withheld files sorted by path, each with the effect of accepting it."""
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
    """Return in words the effect of accepting a withheld memory; `waiting` are the ids of all withheld."""
    effects = []
    if memory.id in counting:
        effects.append("replace the memory with the same id, if it is newer")
    if memory.supersedes in counting:
        effects.append(f"replace {_id_and_gist(counting[memory.supersedes])}")
    elif memory.supersedes:
        where = "not used yet either" if memory.supersedes in waiting else "not here"
        effects.append(f"replace {memory.supersedes}, which is {where}")
    if linked := [edge.id for edge in memory.related if edge.id in counting]:
        effects.append(f"be linked with {', '.join(linked)}")
    return "; ".join(effects) or "be a new memory"


def _id_and_gist(memory: Memory) -> str:
    """Return a memory's id with the beginning of its text."""
    gist = memory.first_line
    return f"{memory.id} ({gist if len(gist) <= _GIST_CHARS else gist[: _GIST_CHARS - 3] + '...'})"
