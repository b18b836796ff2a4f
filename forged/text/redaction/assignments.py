"""A value that is given to a telling name: in code, configuration, an option, a table or a sentence.

The name alone proves nothing (`token: string`, `the password is required`), so the value has to look like a
secret, and the looser the tie and the more common the name, the more it has to show.
"""

from __future__ import annotations

import re
import string

from forged.text.redaction.looks import (
    JUDGED,
    PLACEHOLDER,
    is_chosen,
    is_code,
    is_filler,
    is_random,
    is_reference,
)
from forged.text.word_lists import words

_NAMES = "pass pw secret token key credential _auth 密码 密碼 пароль パスワード"
NAMES = tuple(_NAMES.split())

# Matched where one of NAMES stands. The last group that took part says which form the value has; `raw` is
# only the place where one begins, since it could run over many names that follow.
ASSIGNMENT = re.compile(
    r"""
    (?P<word> pass(?:w(?:or[dt]|d)|phrase|code)? | pwd? | secret | token | key | credentials? | _auth
            | 密[码碼] | пароль | パスワード )
    (?P<tail>[a-z0-9_-]{0,40}+)(?<!-)
    (?:\\{0,3}["'`\])*]){0,4}+
    (?P<sep>
        (?: (?: \ (?:for|of|on)\ [^\n:=.]{1,40}? | \ \([^()\n]{1,30}\) )?
            (?: \s{0,3} (?: :\ ?[a-z][\w.\[\]|?\ ]{0,24}?\ ?=(?![=>])
                          | (?:\ ?string\ ?)?(?: :=|=>|[!=]==?|[=:：|]|是|为) ) \s{0,4}
              | \ (?:is|was|to)(?:\ now|\ still|(?:\ (?:set|changed|reset))?\ to)?:?\s ) )
      | >(?=[^<>\s]{1,400}</)
      | ,?\s{1,12}(?:\\{0,3}["'])?value(?:\\{0,3}["'])?\ ?[:=]\ ?
      | ,\ ?(?=\\{0,3}["'])
      | [\ \t]{1,3}
    )
    (?:\*\*\ ?)?
    (?:[fbru]{1,2}(?=["']))?
    (?: "(?P<double>[^"\\\n]*+(?:\\.[^"\\\n]*+)*+)
      | '(?P<single>[^'\\\n]*+(?:\\.[^'\\\n]*+)*+)
      | `(?P<tick>[^`\n]++)
      | \\{1,3}["'](?P<escaped>[^"'\\\n]++)
      | (?P<raw>)(?=[^\s"'`\\])
    )""",
    re.IGNORECASE | re.VERBOSE,
)

# With one of these at its end a name speaks of a secret, and is none.
_ABOUT = frozenset(words("about_a_secret"))
_COMMON = frozenset({"token", "key", "credential", "credentials", "_auth"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# What a key has to be of.
_OWNERS = words("owner_of_a_key")
_SIGNS = frozenset({"=", ":", ":=", "=>", "==", "!=", "===", "!==", "|", ">"})
_NAME_CHARACTERS = string.ascii_letters + string.digits + "_-"
# White space and quotes end a raw value; so do what stands for a line end in JSON, the next parameter of a
# URL, the next field, a closing tag and Chinese text.
_RAW = re.compile(
    r"""(?: [^\s"'`\\<&,;\[\u3000-\u9fff\uff00-\uffef]++
          | (?! \\+[nrt"'] | </ | &[\w.-]+= | [,;](?:[\w.\ -]+[=:]|\s|$) | \[redacted\] ) [\\<&,;\[] )*+""",
    re.VERBOSE,
)
# A raw value of which nothing but white space says that it belongs to the name.
_LOOSE = 20


def assigned(found: re.Match[str]) -> tuple[int, int] | None:
    """Where the value is, in the text that was searched; None if it is no secret."""
    text, is_raw = found.string, found.lastgroup == "raw"
    start, stop = found.span(str(found.lastgroup))
    value = _raw(text, start, start + JUDGED) if is_raw else text[start:stop]
    value = value.partition(PLACEHOLDER)[0]
    before = text[max(0, found.start() - 80) : found.start()]
    is_loose = is_raw and found["sep"].isspace() and not _is_option(before)
    if len(value) < (_LOOSE if is_loose else 6) or not _is_telling(found, before):
        return None
    takes_chosen = not is_loose and found["word"].lower() not in _COMMON
    if not is_random(value) and not (takes_chosen and is_chosen(value)):
        return None
    if is_reference(value) or is_filler(value) or (is_raw and is_code(value)):
        return None
    return start, start + len(_raw(text, start, len(text)) if is_raw else value)


def _raw(text: str, start: int, limit: int) -> str:
    found = _RAW.match(text, start, limit)
    return found[0].rstrip(".,;:)]}>|*\\") if found else ""


def _is_option(before: str) -> bool:
    """The name belongs to `--an-option`, or to a line of `.netrc`."""
    return before[len(before.rstrip(_NAME_CHARACTERS)) :].startswith("-") or " login " in before


def _is_telling(found: re.Match[str], before: str) -> bool:
    """The name stands for a secret: `api_key` and `tokenFor` do, `keyboard` and `token_budget` do not."""
    word, tail, tie = found["word"].lower(), found["tail"], found["sep"].strip()
    if tail[:1].isalpha() and not (tail[0].isupper() and found["word"][-1].islower()):
        return False
    if tail and (tie == "," or (_WORDS.findall(tail) or [""])[-1].lower() in _ABOUT):
        return False
    if word == "key" and not before.lower().rstrip(" _-").endswith(_OWNERS):
        return False
    # Also verbs and parts of words.
    if word in {"pass", "pw", "pwd"} and (before[-1:].isalnum() or not (tie in _SIGNS or _is_option(before))):
        return False
    # A test's verdict, and the name of a secret in a cloud.
    return not before.endswith("--- ") and "arn:" not in before.rpartition(" ")[2]
