"""What a request gives beside a memory's text: cues, and files that it stands on.

In go lines as somebody wrote them, out come those of a memory. Raises InvalidRequest with what to do then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from forged.daemon.handlers.refusals import InvalidRequest
from forged.files import MOST_EVIDENCE, EvidenceError, Root, hashed
from forged.memory import MOST_CUE_CHARS, MOST_CUES, Evidence, Memory, Scope, evidence_named
from forged.text.private import without_private


def cues_of(given: Sequence[str]) -> tuple[str, ...]:
    """Cues as they are kept: each once, on one line, without what is private."""
    cues = tuple(dict.fromkeys(filter(None, (" ".join(without_private(cue).split()) for cue in given))))
    if len(cues) > MOST_CUES:
        raise InvalidRequest(f"{len(cues)} cues are too many; a memory has at most {MOST_CUES}")
    if long := next((cue for cue in cues if len(cue) > MOST_CUE_CHARS), None):
        raise InvalidRequest(
            f"the cue {long[:40]!r} is longer than {MOST_CUE_CHARS} characters; make it short"
        )
    return cues


async def evidence_of(given: Sequence[str], root: Root) -> tuple[Evidence, ...]:
    """Files of a repository with the hashes of their content as it is now."""
    if not given:
        return ()
    if root.scope is not Scope.REPO:
        raise InvalidRequest(
            "evidence is a file of a repository, and this memory is the user's; leave it out"
        )
    named = tuple(evidence_named(each) for each in dict.fromkeys(given))
    if len(named) > MOST_EVIDENCE:
        raise InvalidRequest(f"{len(named)} files are too many; a memory stands on at most {MOST_EVIDENCE}")
    if root.in_git:
        raise InvalidRequest("evidence is a file of a work tree, and this is a bare repository; leave it out")
    try:
        return tuple([await asyncio.to_thread(hashed, root.top, each) for each in named])
    except EvidenceError as error:
        raise InvalidRequest(f"this is no evidence: {error}") from error


async def looked_at_anew(evidence: Iterable[Evidence], root: Root) -> tuple[Evidence, ...]:
    """What a text that somebody wrote now stands on: the files that are still there, as they are now."""
    found: list[Evidence] = []
    for each in evidence:
        try:
            found.append(await asyncio.to_thread(hashed, root.top, each))
        except EvidenceError:
            continue
    return tuple(found)


def texts_beside(memory: Memory) -> tuple[str, ...]:
    """What stands beside the text of a memory in its file and may hold anything."""
    return (*memory.cues, *(str(each) for each in memory.evidence))
