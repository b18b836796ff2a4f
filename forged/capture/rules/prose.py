"""The sentences that a person wrote, out of a message that may hold anything.

A message to an agent is half paste: code, logs, diffs, traces, quotes. Nothing of that is the person's own
word, however much it reads like a rule, so the paragraph around it goes too. What is left is cut into
sentences; a code span and a quotation are never cut. One pass over the text, at most one look at each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Characters of the longest message that somebody typed. Of a longer one, a specification or a file, the
# person's own words stand at the start or at the end.
TYPED = 6_000
# A line that long was wrapped by an editor; after a shorter one the person began a new thought.
WRAPPED = 60

_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_PASTED = re.compile(
    r"""
      >                                                         # quoted
    | (?:[ ]{4}|\t)\s*\S                                        # indented code
    | \s*(?:[-*+•·]|\d{1,3}[.)])\s                              # list
    | [+|@#<{}\[\]()\\/;]|```|~~~                               # diff, table, heading, markup, comment, fence
    | -{2,}|={3,}|[$%]\s|[\w.~/@:-]*[$#]\s                      # rule, prompt of a shell
    | diff\s|index\s[0-9a-f]{7}|commit\s[0-9a-f]{7}|Author:|Date:
    | \[?\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2}\s+\d+\s\d\d:     # times of a log
    | \W?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|PASS|PASSED|FAIL|FAILED)\b
    | (?:error|warning|fatal|note|hint|panic)(?:\[\w+\])?:\s.*\b(?:lint|line|src|-->|[\w/]+\.\w+:\d+)
    | (?:npm|yarn|pip|cargo)\s(?:WARN|ERR|notice|error|warning)
    | Traceback\s|\s*File\s"|\s+at\s\S+[(:]|(?:\w+\.)*\w*(?:Error|Exception|Warning):\s
    """,
    re.VERBOSE,
)
# An introduction of what somebody else wrote, unless it announces what is to be kept.
_INTRODUCES = re.compile(r"[:：]\s*$")
_ANNOUNCES = re.compile(
    r"\b(?:remember|note|rules?|conventions?|mind|things?|reference|fyi|btw)\b|记住|注意", re.IGNORECASE
)
_SPACE = re.compile(r"(`+[^`\n]*`+)|\s+")
_END = re.compile(
    r"""
      `+[^`\n]*`+ | "[^"\n]{0,300}" | “[^”\n]{0,300}” | 「[^」\n]{0,300}」     # stays whole
    | \b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl)\.(?=\s\S)
    | (?P<end>[.!?…]+(?=[\s"')]|$) | [。！？]+ | \n)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def sentences(text: str, *, begun: bool = False, goes_on: bool = False) -> Iterator[str]:
    """Yield the person's sentences in order, with their end marks, blank space made single.

    The text may be a piece of a message that was long: the rest of one that is `begun`, and not the end of
    one that `goes_on`.
    """
    for paragraph in _paragraphs(text, begun=begun, goes_on=goes_on):
        start = 0
        for match in _END.finditer(paragraph):
            if match["end"] is not None:
                yield from _tidy(paragraph[start : match.end()])
                start = match.end()
        yield from _tidy(paragraph[start:])


def _tidy(piece: str) -> Iterator[str]:
    sentence = _SPACE.sub(lambda found: found[1] or " ", piece).strip()
    if sentence.strip(".!?…。！？"):
        yield sentence


def _paragraphs(text: str, *, begun: bool, goes_on: bool) -> Iterator[str]:
    """Paragraphs without a pasted line, wrapped lines joined; a line break is left where a thought ended."""
    introduced = False
    blocks = list(_blocks(text))
    if begun or goes_on or len(text) > TYPED:
        blocks = blocks[: 0 if begun else 1] + blocks[0 if begun else 1 :][len(blocks) if goes_on else -1 :]
    for lines in blocks:
        if any(_PASTED.match(line) for line in lines):
            introduced = False
            continue
        if not introduced:
            yield "".join(f"{line} " if len(line) >= WRAPPED else f"{line}\n" for line in lines)
        introduced = bool(_INTRODUCES.search(lines[-1])) and not _ANNOUNCES.search(lines[-1])


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines between blank lines; of what is fenced (an open fence runs to the end) only the fence."""
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if not mark and line.strip():
            block.append(line)
            continue
        if block:
            yield block
            block = []
        if mark:
            fence = mark[1]
            yield [fence]
    if block:
        yield block
