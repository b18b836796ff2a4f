"""The classifier that needs no model: what a person says outright is kept, in the person's own words.

It is the default without a key or a network, so it must never be a nuisance: only sentences of the user, only
forms that say by themselves that they last (`phrases`), and none that asks, muses, reports or is bound to
this moment. The rejected alternative, scoring words, keeps half of every conversation. How well it does is
measured on labelled messages (tests/capture/test_rules.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from forged.capture.rules import phrases, vetoes
from forged.capture.rules.leads import TRAILS, Flag, Sentence, without_leads
from forged.capture.rules.prose import sentences
from forged.capture.rules.replaced import REPLACES, replaced
from forged.capture.values import Classified, KnownMemory, Proposal
from forged.memory import Category, Scope
from forged.state import Event

# Bytes of the shortest and characters of the longest sentence worth keeping; one that is longer still, even
# with a lead-in, is not looked at, which bounds the cost of every pattern.
SHORTEST, LONGEST = 12, 600
_STRAIGHT = str.maketrans("’‘＇", "'''")


class RuleClassifier:
    """`builtin:rules` (Classifier): makes no call and costs nothing."""

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Propose the lasting statements of the window's user messages, in their order."""
        del deadline, attempts
        said = _still_meant([utterance.text for utterance in event.window if utterance.role == "user"])
        return Classified(tuple(_linked(proposal, known) for proposal in _newest(said)))

    async def aclose(self) -> None:
        pass


def proposals_in(text: str) -> list[Proposal]:
    """Return what one user message says that lasts."""
    found: list[Proposal | None] = []
    carried: frozenset[Flag] = frozenset()
    is_local = phrases.LOCAL.search(text) is not None
    for raw in sentences(text):
        if len(raw) > 2 * LONGEST:
            continue
        if found and (vetoes.TAKES_BACK.match(raw) or vetoes.ASKS_FOR_IT.match(raw)):
            found[-1] = None
        straight = raw.translate(_STRAIGHT)
        sentence = without_leads(straight, carried)
        # "Wrong. Our ids are ...": a sentence that is all lead-in speaks for the next one.
        carried = frozenset() if sentence.text else sentence.flags
        found.append(_judged(sentence, straight, is_local=is_local))
    return [proposal for proposal in found if proposal is not None]


def _still_meant(messages: Sequence[str]) -> list[Proposal]:
    """Proposals of all messages but those that the next message takes back."""
    kept: list[list[Proposal]] = []
    for text in messages:
        if kept and vetoes.TAKES_BACK.match(text.lstrip()):
            kept[-1] = []
        kept.append(proposals_in(text))
    return [proposal for found in kept for proposal in found]


def _judged(sentence: Sentence, raw: str, *, is_local: bool) -> Proposal | None:
    content = _content(sentence.text)
    bare = content.rstrip(".。")
    if len(content.encode()) < SHORTEST or len(content) > LONGEST or content.count('"') % 2:
        return None
    if vetoes.VETO.search(sentence.text) or vetoes.VETO.search(raw):
        return None
    category = _category(bare, sentence.flags)
    if category is None:
        return None
    scope = _scope(bare, category, is_local=is_local)
    return Proposal(content, scope, _settled(category, scope, bare))


def _category(text: str, flags: frozenset[Flag]) -> Category | None:
    rule = next((rule for rule in phrases.RULES if rule.pattern.match(text)), None)
    if (rule is None or not rule.is_order) and vetoes.BUG.search(text):
        return None
    if "correcting" in flags:
        firm = rule is not None and rule.category in _CORRECTABLE
        return Category.CORRECTIONS if firm or phrases.CORRECTED.match(text) else None
    if rule is not None:
        return rule.category
    return Category.PROJECT_CONVENTIONS if "firm" in flags and phrases.FIRM.match(text) else None


_CORRECTABLE = (Category.PROJECT_CONVENTIONS, Category.CODING_PREFERENCES, Category.CORRECTIONS)
_ALWAYS_REPO = (Category.PATTERNS, Category.ARCHITECTURAL_DECISIONS)


def _scope(text: str, category: Category, *, is_local: bool) -> Scope:
    if category is Category.USER_FACTS:
        return Scope.USER
    if category in _ALWAYS_REPO or is_local or phrases.PROJECT_WORDS.search(text):
        return Scope.REPO
    return Scope.USER if phrases.PERSONAL.match(text) else Scope.REPO


def _settled(category: Category, scope: Scope, text: str) -> Category:
    """The category once the scope is known: taste is the person's, a convention the project's."""
    if category is Category.CODING_PREFERENCES and scope is Scope.REPO:
        return Category.PROJECT_CONVENTIONS
    if category is Category.PROJECT_CONVENTIONS and scope is Scope.USER:
        category = Category.CODING_PREFERENCES
    if category is Category.CODING_PREFERENCES and phrases.SPEECH.search(text):
        return Category.USER_FACTS
    return category


def _content(text: str) -> str:
    """The sentence as it is kept: capital first letter, full stop, no `please` at the end."""
    bare = TRAILS.sub("", text.rstrip(" .!;,…。！"))
    if not bare:
        return ""
    first = bare.split(maxsplit=1)[0]
    is_name = any(mark in first for mark in "._/\\()")  # `schema.sql` stays as it is written
    start = bare[0] if is_name else bare[0].upper()
    return f"{start}{bare[1:]}{'。' if _is_cjk(bare) else '.'}"


def _is_cjk(text: str) -> bool:
    return re.search(r"[\u4e00-\u9fff]", text) is not None


# --- what a statement replaces ------------------------------------------------------------------------


def _linked(proposal: Proposal, known: Sequence[KnownMemory]) -> Proposal:
    """Let a proposal supersede the one head of its scope that it plainly does away with."""
    rivals = [head for head in known if head.scope == proposal.scope]
    index = _replaced(proposal.content, [head.first_line for head in rivals])
    return proposal if index is None else msgspec.structs.replace(proposal, supersedes=rivals[index].id)


def _replaced(content: str, lines: Sequence[str]) -> int | None:
    """See `replaced`; most statements do away with nothing."""
    return replaced(content, lines) if any(form.search(content) for form in REPLACES) else None


def _newest(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Drop what a later statement of the same window does away with: it would come back with every turn."""
    kept: list[Proposal] = []
    for proposal in proposals:
        rivals = [other for other in kept if other.scope == proposal.scope]
        index = _replaced(proposal.content, [rival.content for rival in rivals])
        if index is not None:
            kept.remove(rivals[index])
        kept.append(proposal)
    return kept
