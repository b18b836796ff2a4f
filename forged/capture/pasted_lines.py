"""The forms of lines that nobody types: code, logs, diffs, tables, boxes, prompts, quotes, chats.

Each function gets lines without their ends and says whether they have the form. Nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Characters of a line that are looked at, at its beginning and its end.
_SEEN = 300
FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_ITEM = re.compile(r"[ ]{0,3}(?:[-*+•·]|\d{1,3}[.)、])\s+(?=\S)")
_FORMED = re.compile(
    r"""
      >                                                         # quoted
    | (?:[ ]{4}|\t)\s*\S                                        # indented code
    | [+|@#<{}\[\]()\\/;]|```|~~~                               # diff, table, heading, markup, comment, fence
    | -{2,}|={3,}|[$%]\s|[\w.~/@:-]*[$#]\s                      # rule, prompt of a shell
    | diff\s|index\s[0-9a-f]{7}|commit\s[0-9a-f]{7}|Author:|Date:
    | \[?\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2}\s+\d+\s\d\d:     # times of a log
    | \W?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|PASS|PASSED|FAIL|FAILED|HINT)\b
    | (?:error|warning|fatal|note|hint|panic)(?:\[\w+\])?:\s.*\b(?:lint|line|src|-->|[\w/]+\.\w+:\d+)
    | (?:npm|yarn|pip|cargo)\s(?:WARN|ERR|notice|error|warning)
    | Traceback\s|\s*File\s"|\s+at\s\S+[(:]|(?:\w+\.)*\w*(?:Error|Exception|Warning):\s
    | (?:error|warning)\[\w+\]:\s | \s+(?:-->|=|\|)\s              # a compiler's
    | [\w./-]+\.\w{1,5}:(?:\s|\d|$) | [\w./-]+\.\w{1,5}\s\d+:\d+   # what grep prints: a file and its line
    | [\w-]{1,40}:\s*$                                           # a key of YAML
    | \S{0,40}\s?\{"                                             # JSON
    | (?:remote|hint|api|web|db):\s | [\w-]{1,20}\s[|]\s
    | \s*(?:[\u2501-\u259f]|\u2500{3}|[⎿⏺✔✓✗✘✕❯➜]\s)           # a box, a bar, what a program ticks off
    | \(\S{1,30}\)\s\S{0,60}[$%\#]\s | [\w.-]+@[\w.-]+\s\S{0,80}\s?[%$#]\s  # other prompts: of a shell,
    | PS\s[^>\n]{1,80}>|[A-Z]:\\[^>\n]{0,80}>\S                    # of Windows,
    | [\w-]{1,40}=[#>*]\s | (?:In|Out)\s?\[\d+\]:                 # of databases and interpreters
    | (?:mysql|mariadb|sqlite|mongosh?|redis[^>\n]{0,40}|gdb|ghci|scala|julia|cqlsh\S*|iex\(\d+\)|irb\S*)>\s
    | \(\d{1,9}\s(?:rows?|filas?|lignes?|linhas?|Zeilen?|行)\) | \d{1,9}\srows?\sin\sset
    """,
    re.VERBOSE,
)
# A speaker with a time or without, and what is said.
_SPEAKER = re.compile(r"\W?(?:\d\d?:\d\d\W+)?[\w.@-]{1,24}(?: [\w.-]{1,16})?(?: \d\d?:\d\d)?\s?[:：]\s+\S")
_BARE_SPEAKER = re.compile(r"[\w.-]{1,16} \d\d?:\d\d$")
_COLUMNS = re.compile(r"\S.{0,200}?\s\|\s|\S{1,200}\t\S")
# Three columns that spaces keep apart; people put two of them behind a sentence alone.
_SPACED = re.compile(r"\s{0,40}(?:\S{1,80}(?: \S{1,80}){0,3}(?<![.!?:;。])\s{2,40}){2}\S")
_BOX = re.compile(r"[│┃║┆┊]")
_CODE_END = re.compile(r"[;{}]\s*$|^(?:def|class|import|from|func|fn|return|const|let|var)\s.*[:;({]")


def is_formed(line: str) -> bool:
    """Whether a line has a form that only a program writes, or a person who quotes."""
    if _FORMED.match(line[:_SEEN]) is not None or _CODE_END.search(line[-_SEEN:]) is not None:
        return True
    return len(_BOX.findall(line[:_SEEN])) > 1


def is_list(lines: Sequence[str]) -> bool:
    """Whether it is a list, which people type too: items alone, or behind one line before them."""
    items = [_ITEM.match(line) is not None for line in lines]
    return any(items) and all(items[1:]) and not any(_is_formed_item(line) for line in lines)


def is_item(line: str) -> bool:
    return _ITEM.match(line) is not None


def bare(line: str) -> str:
    """A line of a list without its mark."""
    return _ITEM.sub("", line, count=1)


def is_table(lines: Sequence[str]) -> bool:
    """Whether at least two lines are in columns."""
    beginnings = [line[:_SEEN] for line in lines]
    return any(sum(each.match(line) is not None for line in beginnings) > 1 for each in (_COLUMNS, _SPACED))


def is_chat(lines: Sequence[str]) -> bool:
    """Whether at least two lines say who speaks."""
    return sum(bool(_SPEAKER.match(line) or _BARE_SPEAKER.match(line)) for line in lines) > 1


def _is_formed_item(line: str) -> bool:
    text = bare(line)
    return is_formed(text) if text != line else is_formed(line)
