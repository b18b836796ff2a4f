"""Classifier without a model: it keeps explicit lasting statements in the person's own words.

Input: the window of an event, and existing memories. Output: a proposal for each typed sentence that lasts by
itself; it may supersede the one memory that it clearly gives up. Questions, musings, reports and sentences
about the moment are dropped, as scoring words would keep half of every conversation. The patterns are
`rules.toml`; tests/capture/rules/test_engine.py measures them.

The first call of `patterns()` takes some 70 ms. Raises KeyError for a `{word}` without a list, re.error for a
bad pattern, msgspec.ValidationError for wrong fields; else nothing.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Literal

import msgspec

from forged.capture.authorship import Statement, sentences, statements
from forged.capture.rules.durability import ALL_OVER, is_vetoed, lasting_category, may_correct
from forged.capture.rules.requests import asks
from forged.capture.text_patterns import fill_in, without_accents, word_patterns
from forged.capture.values import Classified, KnownMemory, Proposal
from forged.conversation import Utterance
from forged.memory import Category, Origin, Scope
from forged.state import Event
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "rules.toml")  # a Path is 0.6 MB more in the worker

# Bytes of the shortest and characters of the longest sentence worth keeping. Longer ones are skipped, even
# with a lead-in, which bounds the cost of every pattern.
SHORTEST, LONGEST = 12, 600
# Characters of a message that is kept whole except vetoed sentences.
BRIEF_MESSAGE = 160
_STRAIGHT = str.maketrans("’‘＇", "'''")
# Most lead-ins removed from one sentence, which bounds the cost; and the text allowed between two.
_MOST_LEAD_INS = 6
_GAP = " \t-–—"
# Characters of each end of a message that are checked for urgency, as a pattern holds the interpreter.
_END = 3_000

# Characters of a sentence whose scope is asked; no statement that is kept is longer.
_MOST_SCOPED = 2_000
# Words before the name of something in use.
_AFFIRMS = (
    r"(?:\b(?:use[sd]?|using|prefers?|preferred|is|are|with|via|in|on|chose|to|by|through)|用|使用|喜欢|是)"
    r"\s*(?:the |a |an |only )?"
)

# Meaning of a lead-in: `firm` makes any statement worth keeping, `correcting` makes one about the project a
# correction.
Flag = Literal["", "firm", "correcting"]

Refine = Callable[[Event, Sequence[Statement], Sequence[Proposal]], Classified]


class RuleClassifier:
    """Classifier `builtin:rules`: finds lasting typed statements by patterns, without a model call.

    `heads` returns current memories whose first line has a name, for statements that may replace one.
    `refine` may change the rules' proposals and adds further proposals and refusals.
    """

    def __init__(
        self, heads: Callable[[str, Sequence[str]], Sequence[KnownMemory]], refine: Refine | None = None
    ) -> None:
        self._heads = heads
        self._refine = refine

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return proposals for lasting typed statements, refined and linked to memories that they replace."""
        del known, deadline, attempts  # only a model needs these
        said = still_meant(event)
        kept = [*_rule_proposals(event.window, said)]
        others = self._refine(event, said, kept) if self._refine is not None else None
        proposals = _drop_replaced(others.proposals if others else kept)
        names = list(dict.fromkeys(name for each in proposals for name in given_up(each.content)))
        if names:
            heads = self._heads(event.id, names)
            proposals = [_link_superseded(proposal, heads) for proposal in proposals]
        refused = others.refused if others else ()
        return Classified(tuple(proposals), author=Origin.TYPED, refused=refused)


def still_meant(event: Event) -> tuple[Statement, ...]:
    """Return the statements of an event, except those that the next message takes back."""
    said = statements(event.window, asked=event.asked, begun=event.begun, goes_on=event.goes_on)
    places = [place for place, each in enumerate(event.window) if each.role == "user"]
    takes_back = patterns().takes_back
    gone = {place for place, after in pairwise(places) if takes_back.match(event.window[after].text.lstrip())}
    return tuple(each for each in said if each.message not in gone)


def _rule_proposals(window: Sequence[Utterance], said: Sequence[Statement]) -> Iterator[Proposal]:
    """Yield the proposals that the rules find in each message of a window."""
    for place, each in groupby(said, key=attrgetter("message")):
        yield from proposals_in(window[place].text, [one.text for one in each])


def has_lead_in(sentence: str) -> bool:
    """Return True if a sentence has a lead-in that marks it as lasting or correcting."""
    straight = sentence.translate(_STRAIGHT)
    return len(sentence) <= 2 * LONGEST and bool(without_lead_ins(straight)[1] - {""})


def is_urgent(typed: Sequence[str]) -> bool:
    """Return True if one of the messages holds or requests something lasting, so that it should not wait.

    Only both ends of a long message are read. It takes milliseconds, at first some 0.3 s: call it in a
    thread.
    """
    said = [(end, [*sentences(end)]) for text in typed for end in _ends(text)]
    return any(
        any(has_lead_in(each) or asks(each) or may_correct(each) for each in of_end)
        or proposals_in(text, of_end)
        for text, of_end in said
    )


def _ends(text: str) -> Iterator[str]:
    """Yield a message, or both ends of a long one."""
    yield from (text,) if len(text) <= 2 * _END else (text[:_END], text[-_END:])


def proposals_in(text: str, of: Sequence[str] | None = None) -> list[Proposal]:
    """Return the proposals that the rules find in one user message; `of` are its sentences if known."""
    found: list[Proposal | None] = []
    carried: frozenset[Flag] = frozenset()
    is_local = patterns().local.search(text) is not None
    is_ironic = is_vetoed(text, ALL_OVER)
    said = [raw for raw in (sentences(text) if of is None else of) if len(raw) <= 2 * LONGEST]
    for at, raw in enumerate(said):
        if found and (patterns().takes_back.match(raw) or patterns().asks_for_it.match(raw)):
            found[-1] = None
        straight = raw.translate(_STRAIGHT)
        sentence, flags = without_lead_ins(straight, carried)
        # "Wrong. Our ids are ...": the flags of a sentence that is only a lead-in apply to the next one.
        carried = frozenset() if sentence else flags
        proposal = _match_rule(sentence, flags, straight, is_local=is_local)
        if proposal is None and not is_ironic and len(raw.encode()) >= SHORTEST:
            proposal = _match_durability(said, at, is_brief=len(text) <= BRIEF_MESSAGE)
        found.append(None if proposal is not None and _is_repeated(proposal, found) else proposal)
    return [proposal for proposal in found if proposal is not None]


def _is_repeated(proposal: Proposal, before: Sequence[Proposal | None]) -> bool:
    """Return True if one of the earlier proposals of a message contains a proposal's text."""
    return any(each is not None and proposal.content.rstrip(".。") in each.content for each in before)


def _match_durability(said: Sequence[str], at: int, *, is_brief: bool) -> Proposal | None:
    """Return the proposal of a lasting sentence, joined with others in a short message, or None."""
    neighbours = (*said[max(0, at - 1) : at], *said[at + 1 : at + 2])
    category = lasting_category(said[at], neighbours)
    if category is None or patterns().mishap.search(said[at]):
        return None
    content = presentable(_join_unvetoed(said, at) if is_brief else said[at])
    if len(content) > LONGEST or patterns().private.search(content):
        return None
    scope = scope_of(content)
    return Proposal(content, scope, _category_in_scope(category, scope, content))


def _join_unvetoed(said: Sequence[str], at: int) -> str:
    """Join a sentence with its neighbours up to a vetoed one."""
    first, last = at, at + 1
    while first > 0 and not is_vetoed(said[first - 1]):
        first -= 1
    while last < len(said) and not is_vetoed(said[last]):
        last += 1
    return " ".join(said[first:last])


def without_lead_ins(text: str, carried: frozenset[Flag] = frozenset()) -> tuple[str, frozenset[Flag]]:
    """Remove lead-ins ("From now on,") from a sentence; return the rest and the lead-ins' flags.

    `carried` are the flags of a sentence before that was only a lead-in.
    """
    flags = set(carried)
    for _ in range(_MOST_LEAD_INS):
        found = next(
            ((lead.flag, match) for lead in patterns().lead_ins if (match := lead.pattern.match(text))), None
        )
        if found is None:
            break
        flag, match = found
        flags.add(flag)
        text = text[match.end() :].lstrip(_GAP)
    return text.strip(), frozenset(flags)


def _match_rule(text: str, flags: frozenset[Flag], raw: str, *, is_local: bool) -> Proposal | None:
    """Return the proposal of a sentence that a pattern of rules.toml keeps and no veto excludes, or None."""
    content = presentable(text)
    bare = content.rstrip(".。")
    if len(content.encode()) < SHORTEST or len(content) > LONGEST or content.count('"') % 2:
        return None
    category = _category_by_rule(bare, flags)
    # The veto is slow, so it comes last.
    if category is None or any(one.search(each) for one in _excluding_patterns() for each in (text, raw)):
        return None
    scope = _scope(bare, category, is_local=is_local)
    return Proposal(content, scope, _category_in_scope(category, scope, bare))


def _excluding_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of statements that no rule keeps."""
    return patterns().veto, patterns().private


def _category_by_rule(text: str, flags: frozenset[Flag]) -> Category | None:
    """Return the category of a statement by the rule that it matches, or None."""
    statement = statement_in(text)
    if statement is None and not flags & {"correcting", "firm"}:
        return None
    if (statement is None or not statement.is_order) and patterns().mishap.search(text):
        return None
    if "correcting" in flags:
        firm = statement is not None and statement.category in _CORRECTABLE
        return Category.CORRECTIONS if firm or patterns().corrected.match(text) else None
    if statement is not None:
        return statement.category
    return Category.PROJECT_CONVENTIONS if "firm" in flags and patterns().firm.match(text) else None


_CORRECTABLE = (Category.PROJECT_CONVENTIONS, Category.CODING_PREFERENCES, Category.CORRECTIONS)
_ALWAYS_REPO = (Category.PATTERNS, Category.ARCHITECTURAL_DECISIONS)


def _scope(text: str, category: Category, *, is_local: bool) -> Scope:
    """Return the scope (person or repository) of a statement by its words and category."""
    is_projects = is_local or category in _ALWAYS_REPO or patterns().project.search(text) is not None
    is_persons = not is_projects and (
        patterns().personal.match(text) is not None or patterns().speech.search(text) is not None
    )
    is_persons = is_persons or category is Category.USER_FACTS
    return scope_of(text, otherwise=Scope.USER if is_persons else Scope.REPO)


def _category_in_scope(category: Category, scope: Scope, text: str) -> Category:
    """Adapt a category to its scope: a preference in a repository becomes a convention, and the reverse."""
    if category in {Category.CODING_PREFERENCES, Category.USER_FACTS} and scope is Scope.REPO:
        return Category.PROJECT_CONVENTIONS
    if category in {Category.PROJECT_CONVENTIONS, Category.ARCHITECTURAL_DECISIONS} and scope is Scope.USER:
        category = Category.CODING_PREFERENCES
    if category is Category.CODING_PREFERENCES and patterns().speech.search(text):
        return Category.USER_FACTS
    return category


def presentable(text: str) -> str:
    """Return a sentence as it is stored: capital letter, full stop, no final `please`."""
    bare = patterns().trailing.sub("", text.rstrip(" .!;,…。！"))
    if not bare:
        return ""
    first = bare.split(maxsplit=1)[0]
    is_name = any(mark in first for mark in "._/\\()")  # `schema.sql` is not capitalised
    start = bare[0] if is_name else bare[0].upper()
    return f"{start}{bare[1:]}{'。' if _has_han(bare) else '.'}"


def _has_han(text: str) -> bool:
    """Return True if a text has a Chinese character."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def _link_superseded(proposal: Proposal, heads: Sequence[KnownMemory]) -> Proposal:
    """Return a proposal that supersedes the one current memory that it gives up, if there is one."""
    rivals = [head for head in heads if head.scope == proposal.scope]
    index = index_of_given_up(proposal.content, [head.first_line for head in rivals])
    return proposal if index is None else msgspec.structs.replace(proposal, supersedes=rivals[index].id)


def _drop_replaced(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Drop proposals that a later one of the window replaces, as windows repeat."""
    kept: list[Proposal] = []
    for proposal in proposals:
        rivals = [other for other in kept if other.scope == proposal.scope]
        index = index_of_given_up(proposal.content, [rival.content for rival in rivals])
        if index is not None:
            kept.remove(rivals[index])
        kept.append(proposal)
    return kept


class LeadIn(msgspec.Struct, frozen=True):
    """Words before a statement ("From now on,") that are removed, and their meaning."""

    pattern: re.Pattern[str]
    flag: Flag = ""


class StatementForm(msgspec.Struct, frozen=True):
    """Form of a lasting statement; `is_order`: it orders the agent, so a mishap in it is no bug report.

    The pattern is text, because `statement_in` searches all at once.
    """

    name: str
    pattern: str
    category: Category
    is_order: bool = False


class GivingUpForm(msgspec.Struct, frozen=True):
    """Form of a statement that gives something up; the group `old` names the thing."""

    pattern: re.Pattern[str]


class ScopeWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of words that show a scope: all projects, this repository, the person; without accents."""

    everywhere: re.Pattern[str]
    here: re.Pattern[str]
    person: re.Pattern[str]


class Patterns(msgspec.Struct, frozen=True):
    """Contents of rules.toml; entries that differ only in their pattern are one pattern."""

    lead_ins: tuple[LeadIn, ...] = msgspec.field(name="lead_in")
    statements: tuple[StatementForm, ...] = msgspec.field(name="statement")
    replacements: tuple[GivingUpForm, ...] = msgspec.field(name="replaces")
    trailing: re.Pattern[str]
    corrected: re.Pattern[str]
    firm: re.Pattern[str]
    project: re.Pattern[str]
    local: re.Pattern[str]
    personal: re.Pattern[str]
    speech: re.Pattern[str]
    veto: re.Pattern[str]
    private: re.Pattern[str]
    mishap: re.Pattern[str]
    asks_for_it: re.Pattern[str]
    takes_back: re.Pattern[str]
    denies: re.Pattern[str]
    scope: ScopeWords


def statement_in(text: str) -> StatementForm | None:
    """Return the first form of rules.toml that the beginning of a text matches, or None."""
    found = _any_statement().match(text)
    return None if found is None else patterns().statements[int((found.lastgroup or "")[1:])]


@functools.cache
def _any_statement() -> re.Pattern[str]:
    """Compile one pattern with a group for each form, as most sentences match none of a hundred."""
    forms = (f"(?P<s{place}>{each.pattern})" for place, each in enumerate(patterns().statements))
    return re.compile("|".join(forms), re.IGNORECASE)


@functools.cache
def patterns() -> Patterns:
    """Return the contents of rules.toml with compiled patterns, read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    words = word_patterns(file["words"])

    def compiled(_: type, found: str | Sequence[Mapping[str, str]] | re.Pattern[str]) -> re.Pattern[str]:
        if isinstance(found, re.Pattern):
            return found
        texts = [found] if isinstance(found, str) else [entry["pattern"] for entry in found]
        return re.compile("|".join(f"(?:{fill_in(text, words)})" for text in texts), re.IGNORECASE)

    for statement in file["statement"]:
        statement["pattern"] = fill_in(statement["pattern"], words)
    for name, found in file["scope"].items():
        file["scope"][name] = re.compile(without_accents("|".join(found)), re.IGNORECASE)
    return msgspec.convert(file, resolved(Patterns), dec_hook=compiled)


@functools.lru_cache(maxsize=256)
def scope_of(sentence: str, otherwise: Scope = Scope.REPO) -> Scope:
    """Return the scope that a sentence's words show, `otherwise` if they show none.

    A statement is the repository's unless it holds in all projects, or is about the person without naming
    anything of the repository. The words are `[scope]` of `rules.toml`, in seven languages.
    """
    if names_all_repositories(sentence):
        return Scope.USER
    if names_repository(sentence):
        return Scope.REPO
    return Scope.USER if patterns().scope.person.search(_scoped(sentence)) else otherwise


def names_repository(sentence: str) -> bool:
    """Return True if a sentence says that it is about this repository."""
    return patterns().scope.here.search(_scoped(sentence)) is not None


def names_all_repositories(sentence: str) -> bool:
    """Return True if a sentence says that it holds in all repositories."""
    return patterns().scope.everywhere.search(_scoped(sentence)) is not None


def _scoped(sentence: str) -> str:
    """Return the beginning of a sentence as the patterns of scopes read it."""
    return without_accents(sentence[:_MOST_SCOPED].replace("’", "'"))


def index_of_given_up(content: str, lines: Sequence[str]) -> int | None:
    """Return the index of the only line that affirms the thing that `content` gives up, or None.

    Returns None for no such line or several: a missing link does little harm, and a wrong one hides a valid
    memory.
    """
    found = {index for old in given_up(content) for index, line in enumerate(lines) if _affirms(line, old)}
    return found.pop() if len(found) == 1 else None


def given_up(content: str) -> list[str]:
    """Return the names of things that a statement says are no longer used."""
    matches = (form.pattern.search(content) for form in patterns().replacements)
    return [match["old"].strip("`") for match in matches if match is not None]


def _affirms(line: str, old: str) -> bool:
    """Return True if a line says that `old` is in use."""
    named = rf"(?<![\w-])`?{re.escape(old)}`?(?![\w-])"
    return not patterns().denies.search(line) and re.search(_AFFIRMS + named, line, re.IGNORECASE) is not None
