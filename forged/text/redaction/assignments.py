"""Secrets assigned to a telling name: in code, configuration, options, tables or sentences.

The name alone proves nothing (`token: string`, `the password is required`), so the value must look like a
secret. The looser the assignment and the more common the name, the more is required.
"""

from __future__ import annotations

import re
import string

from forged.text.redaction.value_form import (
    PLACEHOLDER,
    is_chosen,
    is_code,
    is_filler,
    is_random,
    is_reference,
)
from forged.text.word_lists import lists

_NAMES = "pass pw secret token key credential _auth kennwort contrase clave 密码 密碼 пароль パスワード"
NAMES = tuple(_NAMES.split())

# Matched at one of NAMES. The last group that took part tells the form of the value. `raw` only marks its
# start, since a raw value could run over many names.
ASSIGNMENT = re.compile(
    r"""
    (?P<word> pass(?:w(?:or[dt]|d)|phrase|code)? | pwd? | secret | token | key | credentials? | _auth
            | kennwort | contrase(?:ñ|n\u0303?)a | clave | 密[码碼] | пароль | パスワード )
    (?P<tail>[a-z0-9_-]{0,40}+)(?<!-)
    (?>(?:\\{0,3}["'`\])*]){0,4})
    (?P<sep>
        (?: (?: \ (?:for|of|on|für|f[uü]rs|zum|zur|vom?n?|beim?|para|del?|en)\ (?:[^\n:=.]|\.(?=\w)){1,40}?
              | \ [(\[][^()\[\]\n]{1,30}[)\]] )?
            (?: \ (?:nueva|actual|new|neue|temporal) )?
            (?: (?:,\ ?(?:_|err)\ ?(?=:=))?
                \s{0,3} (?: :\ ?[a-z][\w.\[\]|?\ ]{0,24}?\ ?=(?![=>])
                          | (?:\ ?string\ ?)?(?: :=|=>|[!=]==?|[=:：|]|是|为) ) \s{0,4}
              | (?:\ (?:ahora|now|jetzt))? (?:\ (?:wurde|fue|has\ been|was))?
                \ (?:is|was|to|be|ist|war|lautet|hei(?:ß|ss)t|auf|es|era|ser[áa]|a|por)
                (?:\ (?:now|still|currently|just|jetzt|nun|noch|aktuell|ab\ (?:sofort|jetzt|heute)|ahora)
                  | (?:\ (?:set|changed|reset))?\ to)?:?\s ) )
      | >(?=[^<>\s]{1,400}</)
      | ,?\s{1,12}(?:\\{0,3}["'])?value(?:\\{0,3}["'])?\ ?[:=]\ ?
      | ,\ ?(?=\\{0,3}["'])
      | [\ \t]{1,3}
    )
    (?:\*\*\ ?)?
    (?: [a-z][\w.:]{0,40}\(  # what turns text into bytes
        (?: (?<=fromhex\() | (?<=unhexlify\() | (?<=decodestring\() | (?<=decode\() | (?<=buffer\.from\() )
        \s{0,9}(?=[fbru]{0,2}["'`]) )?
    (?:[fbru]{1,2}(?=["']))?
    (?: "(?P<double>[^"\\\n]*+(?>(?:\\.[^"\\\n]*+)*))
      | '(?P<single>[^'\\\n]*+(?>(?:\\.[^'\\\n]*+)*))
      | `(?P<tick>[^`\n]++)
      | \\{1,3}["'](?P<escaped>[^"'\\\n]++)
      | (?P<raw>)(?=[^\s"'`\\])
    )""",
    re.IGNORECASE | re.VERBOSE,
)

LISTS = {name: text.split() for name, text in lists("secrets").items()}
# With such an ending a name is about a secret and is none.
_ABOUT = frozenset(LISTS["about_a_secret"])
# Keys that look up data and open nothing.
_KEYS_OF_DATA = frozenset(LISTS["key_of_data"])
_COMMON = frozenset({"token", "key", "credential", "credentials", "_auth"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# Owners of a secret key.
_OWNERS = tuple(LISTS["owner_of_a_key"])
_SIGNS = frozenset({"=", ":", ":=", "=>", "==", "!=", "===", "!==", "|", ">"})
_NAME_CHARACTERS = string.ascii_letters + string.digits + "_-"
# White space and quotes end a raw value. So do JSON's line ends, the next URL parameter, the next field, a
# closing tag and Chinese text.
_RAW = re.compile(
    r"""(?>(?: [^\s"'`\\<&,;\[\u3000-\u9fff\uff00-\uffef]++
          | \\++ (?![nrt"'])  # all of a run at once: from each of its backslashes on is the square of it
          | (?! </ | &[\w.-]+= | [,;](?:[\w.\ -]+[=:]|\s|$) | \[redacted\] ) [<&,;\[] )*)""",
    re.VERBOSE,
)
# Words before a name whose value follows directly: "log in with the password ...".
_GIVEN = re.compile(
    r"""(?:\b(?:with|using|use|and|mit|und|nutze|verwende|benutze|nimm|con|usa|usando|y)\ |,\ |/\ ?)
    (?:(?:the|a|this|my|your|its|dem|das|den|meinem|la|mi|su|tu|esta)\ )?(?:\w{3,12}[\ -])?$""",
    re.IGNORECASE | re.VERBOSE,
)
# Length of cipher keys, in hex and in base64.
_CIPHER_KEY = re.compile(
    r"(?:0x)?(?:[0-9a-f]{32}|[0-9a-f]{48}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})"
    r"|(?:base64:)?(?:[a-z0-9+/_-]{22}==|[a-z0-9+/_-]{43}=|[a-z0-9+/_-]{86}==)",
    re.IGNORECASE,
)
_LONGEST_KEY = 140
# Least length of a raw value that only white space ties to the name.
_LOOSE = 20


def assigned_secret(found: re.Match[str]) -> tuple[int, int] | None:
    """Return start and end of the secret in an ASSIGNMENT match; None if its value is no secret."""
    text, is_raw = found.string, found.lastgroup == "raw"
    start, stop = found.span(str(found.lastgroup))
    value = _raw_value(text, start, start + _LONGEST_KEY) if is_raw else text[start:stop]
    value = value.partition(PLACEHOLDER)[0]
    before = text[max(0, found.start() - 80) : found.start()]
    is_loose = is_raw and found["sep"].isspace() and not _is_option(before)
    is_given = is_loose and _GIVEN.search(before) is not None
    if len(value) < (_LOOSE if is_loose and not is_given else 6) or not _is_telling(found, before, value):
        return None
    if not is_random(value) and not (
        _takes_chosen(found, is_loose=is_loose, is_given=is_given) and is_chosen(value)
    ):
        return None
    if is_reference(value) or is_filler(value):
        return None
    if is_raw and is_code(value) and not _is_setting(found, before):
        return None
    return start, start + len(_raw_value(text, start, len(text)) if is_raw else value)


def kind_of_assignment(found: re.Match[str]) -> str:
    """Return the kind of secret in an ASSIGNMENT match: password, token, or "key or secret"."""
    word = found["word"].lower()
    if word in _COMMON or word == "secret":
        return "token" if word == "token" else "key or secret"
    return "password"


def _takes_chosen(found: re.Match[str], *, is_loose: bool, is_given: bool) -> bool:
    """Return True if even a value that a person chose, not a random one, is a secret after this name."""
    return (is_given or not is_loose) and found["word"].lower() not in _COMMON


def _is_setting(found: re.Match[str], before: str) -> bool:
    """Return True for `NAME=value` of a shell or `.env` file, where a value is no code."""
    return found["sep"] == "=" and found["word"].isupper() and not before[-1:].islower()


def _raw_value(text: str, start: int, limit: int) -> str:
    """Return the unquoted value that begins at `start`, up to `limit`, without closing punctuation."""
    found = _RAW.match(text, start, limit)
    return found[0].rstrip(".,;:)]}>|*\\") if found else ""


def _is_option(before: str) -> bool:
    """Return True if the name belongs to `--an-option`, by the text before, or to a line of `.netrc`."""
    return before[len(before.rstrip(_NAME_CHARACTERS)) :].startswith("-") or " login " in before


def _is_telling(found: re.Match[str], before: str, value: str) -> bool:
    """Return True if the name is that of a secret, such as `api_key`, not `keyboard` or `token_budget`."""
    word, tail, tie = found["word"].lower(), found["tail"], found["sep"].strip()
    if tail[:1].isalpha() and not (tail[0].isupper() and found["word"][-1].islower()):
        return False
    if tail and (tie == "," or (_WORDS.findall(tail) or [""])[-1].lower() in _ABOUT):
        return False
    if word == "key" and not before.lower().rstrip(" _-").endswith(_OWNERS):
        return _is_cipher_key(found, before, value)
    # These are also verbs and parts of words.
    if word in {"pass", "pw", "pwd"} and (before[-1:].isalnum() or not (tie in _SIGNS or _is_option(before))):
        return False
    # A test result, and a name of a secret in a cloud.
    return not before.endswith("--- ") and "arn:" not in before.rpartition(" ")[2]


def _is_cipher_key(found: re.Match[str], before: str, value: str) -> bool:
    """Return True if a value after a bare `key` is a cipher key, by its length and the words before."""
    if found["tail"] or _CIPHER_KEY.fullmatch(value) is None:
        return False
    words_before = _WORDS.findall(before[len(before.rstrip(_NAME_CHARACTERS + ".")) :])
    is_joined = before[-1:] in {"_", "-"} or (before[-1:].islower() and found["word"] == "Key")
    if words_before and not is_joined:
        return False
    if not words_before and "=" not in found["sep"]:
        return False
    return not any(word.lower() in _KEYS_OF_DATA for word in words_before)
