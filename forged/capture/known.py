"""What an answer is judged against, and which of that a proposal takes the place of.

`Known` are the memories of the event's roots, in all versions that were handed in, and what was decided of
the answer before; which of them hold is said by their chains. `Place` is of one proposal. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from forged.capture.likely import Held, Likely
from forged.capture.rules.replacement import NO_ROWS, RowsOf, is_evident, may_replace, replaced_by
from forged.capture.rules.slots import is_about_the_same
from forged.capture.values import Proposal
from forged.files import Root
from forged.map import Chains, link
from forged.memory import Memory

# Words of its subject that a text shares with the head of what it replaces.
_OF_HEAD = 2


class Known:
    """One for an answer; what `decided` says counts as known for the rest of it."""

    def __init__(self, roots: Sequence[Root], existing: Mapping[Root, Sequence[Memory]]) -> None:
        self.roots = roots
        self._existing = existing
        self._decided: dict[Root, list[Memory]] = {}

    def decided(self, root: Root, memory: Memory) -> None:
        self._decided.setdefault(root, []).append(memory)

    def before(self, root: Root) -> Sequence[Memory]:
        """Those that were there before the answer."""
        return self._existing.get(root, ())

    @cached_property
    def ids(self) -> dict[Root, frozenset[str]]:
        """The ids of those, of each root; they mean nothing in another."""
        return {root: frozenset(memory.id for memory in self.before(root)) for root in self.roots}

    def valid(self, root: Root, session_id: str) -> Iterator[Memory]:
        """What held before, and what the window of a session may still say although it holds no more."""
        chains = link(self.before(root))
        return (
            memory
            for memory in self.before(root)
            if chains.is_head(memory.id) or memory.session_id == session_id
        )

    def versions(self, root: Root) -> tuple[list[Memory], Chains]:
        """All that is known and decided: who changes an older version's mind changes its head's."""
        memories = {memory.id: memory for memory in (*self.before(root), *self._decided.get(root, ()))}
        return list(memories.values()), link(memories.values())

    def heads(self, root: Root) -> list[Memory]:
        versions, chains = self.versions(root)
        return [memory for memory in versions if chains.is_head(memory.id)]

    def head(self, root: Root, memory_id: str) -> Memory:
        """The newest version of one that is known."""
        versions, chains = self.versions(root)
        head = chains.head(memory_id)
        return next(each for each in versions if each.id == head)

    def named(self, root: Root, memory_id: str) -> Memory:
        """One of those that were there before."""
        return next(each for each in self.before(root) if each.id == memory_id)


class Place:
    """What a proposal takes the place of: looked up once, when it is first asked for, as it takes long."""

    def __init__(
        self,
        known: Known,
        likely: Likely,
        root: Root | None,
        proposal: Proposal,
        content: str,
        *,
        by_model: bool,
        rows: RowsOf = NO_ROWS,
    ) -> None:
        """`content` is the proposal's as it would be stored; `by_model`: nobody typed it; `rows` of texts."""
        self._known = known
        self._likely = likely
        self._root = root
        self._named = proposal.supersedes
        self.doubt = proposal.doubt
        self._plainly = proposal.only_replaces
        self._content = content
        self._by_model = by_model
        self._rows = rows

    @cached_property
    def before(self) -> Held | None:
        """What was said before and not sure to be worth keeping, nor of which root; this takes its place."""
        if self._by_model:
            return None
        roots = self._known.roots
        return self._likely.like(roots, self._content, rows=self._rows, doubt=self.doubt)

    @cached_property
    def head(self) -> Memory | None:
        """The head that it takes the place of: what it names, or of typed words what they gainsay."""
        known, root, named = self._known, self._root, self._named
        if root is None:
            return None
        if named in known.ids[root]:
            head = known.head(root, named)
            # Somebody may have replaced meanwhile what the model was shown: it is one thing all the same.
            texts = (known.named(root, named).content, head.content)
            is_sure = any(may_replace(self._content, each, rows=self._rows) for each in texts)
            return head if is_sure or not self._by_model else None
        return None if self._by_model else self._gainsaid(root)

    def _is_of(self, head: Memory) -> bool:
        """Return whether a text that replaces an older version is about its head too: chains drift."""
        is_same = is_about_the_same(self._content, head.content, least=_OF_HEAD)
        return is_same or is_evident(self._content, head.content)

    def _gainsaid(self, root: Root) -> Memory | None:
        versions, chains = self._known.versions(root)
        texts, heads = [each.content for each in versions], sum(chains.is_head(each.id) for each in versions)
        place = replaced_by(
            self._content, texts, rows=self._rows, doubt=self.doubt, among=heads, plainly=self._plainly
        )
        if place is not None:
            head = self._known.head(root, versions[place].id)
            return head if head.id == versions[place].id or self._is_of(head) else None
        before = self.before
        stand = (
            each
            for each in versions
            if before
            and each.content == before.stands
            and is_evident(self._content, each.content, plainly=self._plainly)
        )
        return next((each for each in stand if chains.is_head(each.id)), None)
