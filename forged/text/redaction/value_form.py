"""Judge the form of a value: random, chosen by a person, or no secret.

Entropy does not separate keys from prose: twenty letters of English have 3.5 bits each, twenty hex digits
3.3. So it counts changes between letters and digits, and capitals inside words.
"""

from __future__ import annotations

import math
import re
from collections import Counter

PLACEHOLDER = "[redacted]"

# Characters of a value that are read; the rest of a long one looks the same.
JUDGED = 64

# Fillers long enough not to occur in a key by chance.
_FILLER = re.compile(
    r"your[-_]?(?:api|key|token|pass|secret|own)|example|sample|x{5,}|place-?holder|(?:change|replace)[-_]?(?:me|this)"
    r"|insert[-_]|dummy|\.\.\.|…|\*{3}|•{3}|redacted|0{8}|123456789\d?a",
    re.IGNORECASE,
)
# A reference to the secret: a variable, a template, a path, an address; or a memory's id.
_REFERENCE = re.compile(
    r"""\$[a-z_](?:[\w:.]|->|[\[{])*$ | @{1,2}[a-z_][\w.]*$ | :[a-z_]\w*$ | ![a-z]+$
    | (?:\$\$?|\#)[({] | %(?:\w+%|\(|[sdvq]$) | <.*>$ | \{.*\}$ | \[.*\]$ | \(.*\)$
    | (?:env|cmd|file|keyring|vault|op|ssm|arn|secrets?|ref\+\w+|enc|sha\d+|md5)[:\[]
    | [a-z][a-z\d+.-]{1,12}://
    | (?:mem|ev)_[\w-]+$
    | (?:~|\.{1,2})/ | [a-z]:\\
    | /(?:[\w.+@-]+/)*?(?-i:[a-z]{3,})(?:[/.]|$) | (?:[\w.-]+/)+[\w-]+\.[a-z]{1,5}$
    """,
    re.IGNORECASE | re.VERBOSE,
)
# A call, an index or a collection.
_CODE = re.compile(r"[<{(\[]|[&*!]{0,2}[A-Za-z_]\w*(?:(?:\.|::|->|[?!]\.)\w+)*[?!]?[(\[]")
# A name of words joined by separators, each with at most one number: db.password2, auth-key-v2.
_NAME = re.compile(
    r"[&*!]{0,2}[A-Za-z]+\d{0,2}(?:(?:[_./-]|::|->|[?!]\.)+[A-Za-z]+\d{0,2}|[_.]\d{1,2})+[!?]?"
)
_VARIABLE = re.compile(
    r"[a-z]*(?:pass|pwd|secret|token|(?<!mon)(?<!tur)key|user|name|value|param|arg|input|field|str|hash|auth|cred)[a-z]*\d{0,2}",
    re.IGNORECASE,
)
_TECHNICAL = re.compile(
    r"(?:sha|md|aes|rsa|base|utf|oauth|bcrypt|s?crypt|argon|pbkdf|[hrep]s|ed|x|ipv|http|iso|u?int|float|varchar"
    r"|char|win|tls|totp|hotp|blake)[-_]?\d+(?:[-_]?[a-z]+\d?)*",
    re.IGNORECASE,
)
_ODD = re.compile(r"(?<=[A-Za-z])\d|(?<=\d)[A-Za-z]|(?<=[a-z])[A-Z](?![a-z][a-z])")
_HUMP = re.compile(r"[a-z][A-Z]")
_MARKED = re.compile(r"\d|[@#$^~!](?=\w)|=$")


def is_random(value: str) -> bool:
    """Return True for at least 12 characters that look random and hold hardly a word."""
    head = value[:JUDGED]
    if len(head) < 12 or " " in head:
        return False
    return len(_ODD.findall(head)) >= max(3, len(head) // 8) and _entropy(head) >= 2.5


def is_chosen(value: str) -> bool:
    """Return True for a value like a password: a number, or mixed characters, not a code name."""
    head = value[:JUDGED]
    if head.isdecimal():
        return True
    if " " in head or not any(map(str.isalpha, head)):
        return False
    if not _MARKED.search(head) and not _is_mixed(head):
        return False
    return not (_NAME.fullmatch(head) or _VARIABLE.fullmatch(head) or _TECHNICAL.fullmatch(head))


def _is_mixed(value: str) -> bool:
    """Return True for at least 8 characters with digits or capitals inside words, as in a password."""
    if len(value) < 8:
        return False
    capitals = sum(map(str.isupper, value))
    return len(_ODD.findall(value)) >= 2 or (len(_HUMP.findall(value)) >= 3 and 3 * capitals >= len(value))


def is_filler(value: str) -> bool:
    """Return True for an example's filler: `your-api-key`, `xxxx`, `...`."""
    return len(set(value)) <= 3 or _FILLER.search(value[:JUDGED]) is not None


def is_reference(value: str) -> bool:
    """Return True for a reference to a secret: `$TOKEN`, `env:NAME`, `{{ key }}`, `/run/secrets/db`."""
    return _REFERENCE.match(value[:JUDGED]) is not None


def is_code(value: str) -> bool:
    """Return True for the start of an expression: `config["key"]`, `getpass()`."""
    return _CODE.match(value[:JUDGED]) is not None


def _entropy(value: str) -> float:
    """Return the entropy of a value's characters, in bits per character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
