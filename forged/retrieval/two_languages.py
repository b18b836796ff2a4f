"""What two models found, each in its own languages, as the rows of one source.

Memories in Chinese, Japanese and Korean are looked for by the second model's vectors and by their words, the
others by the first model; each language has one list, in which a memory stands once, so that what is found by
words and by vectors as well counts for its place among its own and not twice against the other language. Of
the two lists the places decide (reciprocal rank fusion), and of equal places that of the query's language.
"""

from __future__ import annotations

import asyncio
import time

from forged.fair_queue import retrieved
from forged.retrieval.rank import fused, missing
from forged.scopes import Question, Ranked, Rows, Source
from forged.text.cjk import is_cjk


class TwoLanguages:
    """The file roots, and beside them the second model. `late` says in a few words why that is missing."""

    name = "files"

    def __init__(self, files: Source, second: Source) -> None:
        self.late: tuple[str, ...] = ()
        self._files = files
        self._second = second

    async def search(self, question: Question) -> Rows:
        """Raises what the search of the files raises."""
        other = asyncio.ensure_future(self._second.search(question))
        other.add_done_callback(retrieved)
        try:
            own = await self._files.search(question)
            await asyncio.wait([other], timeout=max(question.deadline - time.monotonic(), 0))
        finally:
            other.cancel()
        if why := missing(self._second, other):
            self.late = (why,)
            return own
        return merged(own, other.result(), question)


def merged(own: Rows, second: Rows, question: Question) -> Rows:
    """Rows of both, as many as are wanted, and what was held back by both."""
    found = [each for each in own.ranked if each.via == "search"]
    in_cjk = fused([[each for each in second.ranked if each.via == "search"], list(filter(_is_cjk, found))])
    others = [each for each in found if not _is_cjk(each)]
    lists = [in_cjk, others] if is_cjk(question.message) else [others, in_cjk]
    best = fused(lists)[: question.top_k + len(question.beside)]
    keys = {each.key for each in best}
    hops = {each.key: each for rows in (own, second) for each in rows.ranked if each.via != "search"}
    beside = [each for key, each in hops.items() if key not in keys]
    came = keys | hops.keys()
    stayed = {(each.root, each.memory.id): each for each in (*own.stayed, *second.stayed)}
    return Rows(
        ranked=(*best, *beside[: question.top_k]),
        stayed=tuple(each for key, each in stayed.items() if key not in came),
        evidence=max((rows.evidence for rows in (own, second) if rows.ranked), default=own.evidence),
    )


def _is_cjk(each: Ranked) -> bool:
    return is_cjk(each.memory.content)
