"""The forms of secrets that may hold spaces: key files, headers, addresses, commands, settings, sentences.

Each has anchors in lower case, looked for in the whole text in lower case, and an expression that is matched
where one stands. As in `shapes`, none reads the same stretch once for each anchor in it.
"""

from __future__ import annotations

import base64
import binascii
import re

from forged.text.redaction.assignments import ASSIGNMENT, NAMES, assigned
from forged.text.redaction.looks import is_chosen, is_code, is_filler, is_random, is_reference
from forged.text.redaction.shapes import Judge, Shape, Span, plain
from forged.text.word_lists import words

_BLOCK = re.compile(r"[A-Za-z0-9+/]{16}")
# What stands in examples, where the name of the user or of the thing is put for the thing.
_STAND_INS = frozenset(words("stand_in"))


def _block(found: re.Match[str]) -> Span | None:
    """A key, not a sentence about the lines around one."""
    return found.span() if _BLOCK.search(found["body"]) else None


def _random(found: re.Match[str]) -> Span | None:
    return plain(found) if is_random(found["secret"]) else None


def _password(found: re.Match[str]) -> Span | None:
    """What stands after `user:`; a plain word, too, if it is not a stand-in."""
    user, value = found["user"] or "", found["secret"]
    is_stand_in = value.lower() in _STAND_INS or value.lower() == user.lower()
    return None if is_stand_in or is_reference(value) else plain(found)


def _basic(found: re.Match[str]) -> Span | None:
    """HTTP's `user:password` in base64, which no word decodes to; behind its header, anything drawn."""
    before = found.string[max(0, found.start() - 24) : found.start()].lower()
    if "authorization" in before and is_random(found["secret"]):
        return found.span("secret")
    try:
        decoded = base64.b64decode(found["secret"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return found.span("secret") if b":" in decoded and decoded.isascii() else None


_PAIR = (
    r"(?:server|data\ source|address|host(?:addr)?|uid|user(?:name|\ id)?|driver|dsn|dbname|database"
    r"|initial\ catalog)"
)
_PAIR_BEFORE = re.compile(
    rf"(?:^|[;\s\"'{{?&]){_PAIR}\ ?=[^;=,()]*(?:[;\s&][^;=,()]*=[^;=,()]*)*[;\s&]$", re.IGNORECASE
)
_PAIR_BEHIND = re.compile(
    rf"[\"'}}]?[;\s&]\s?(?:[\w ]{{1,30}}=[^;=,()\s]*[;\s&]\s?){{0,4}}?{_PAIR}=", re.IGNORECASE
)


def _connection(found: re.Match[str]) -> Span | None:
    """A password among the other parts of a connection string, so that it may be any word."""
    text, start, stop = found.string, found.start(), found.end()
    line = text.rfind("\n", max(0, start - 300), start) + 1 or max(0, start - 300)
    if not (_PAIR_BEFORE.search(text, line, start) or _PAIR_BEHIND.match(text, stop, stop + 120)):
        return None
    return None if _is_stand_in(found["secret"]) else plain(found)


def _given(found: re.Match[str]) -> Span | None:
    """What is given to a command's own variable, so that it may be any word."""
    return None if _is_stand_in(found["secret"]) else plain(found)


def _is_stand_in(value: str) -> bool:
    # Capitals alone are what the manual of a program has in its place.
    return (
        value.lower() in _STAND_INS
        or is_reference(value)
        or is_code(value)
        or (value.isupper() and value.isalpha())
    )


_SAID = re.compile(
    r"""\s["'`(]*(?P<secret>[^\s"'`()\[\]]{6,80})["'`)]?
    \ (?:(?:as|is)(?:\ (?:the|my|your|our))? | als | ist\ (?:das|mein) | como | es\ (?:la|mi))
    \ (?:\w{2,12}[\ -])?$""",
    re.IGNORECASE | re.VERBOSE,
)


def _said_before(found: re.Match[str]) -> Span | None:
    """The word before "as the password", if it is no plain one."""
    start = max(0, found.start() - 120)
    said = _SAID.search(" " + found.string[start : found.start()])
    if said is None or not (is_chosen(said["secret"]) or is_random(said["secret"])):
        return None
    if is_reference(said["secret"]) or is_code(said["secret"]) or is_filler(said["secret"]):
        return None
    return said.start("secret") + start - 1, said.end("secret") + start - 1


def _phrase(name: str, anchors: tuple[str, ...], regex: str, secret: Judge = plain) -> Shape:
    is_told = all(any(name in anchor for name in NAMES) for anchor in anchors)
    return Shape(name, anchors, re.compile(regex, re.IGNORECASE | re.VERBOSE), secret, is_told)


# May hold spaces; case does not count, and anchors are lower case.
PHRASES = (
    _phrase(
        "private key",  # closed, or up to where nothing looks like base64 any more
        ("-----begin ",),
        r"""-----begin\ (?:[a-z0-9]+\ ){0,3}private\ key(?:\ block)?-----
        (?P<body> (?>(?: [^-\[]++ | -(?!----) | \[(?!redacted\]) )+) (?=-----end\ )
          | (?>(?: (?>(?: \s | \\+[nrt] | ["'+\#>|] | [a-z-]{3,20}:\ [^\n\\]{0,80} )*) [a-z0-9+/=]{30,}+ )+)
            (?: (?: \r?\n[\ \t>]*+ | (?>(?:\\+[nrt])+) )
              [a-z0-9+/=]{1,76}+ (?= [\ \t]* (?: [\r\n\\"'] | $ ) ) )?
        )
        (?: -----end\ [a-z0-9 ]{0,40}----- )?""",
        _block,
    ),
    _phrase(
        "password in a url",
        ("://",),
        r"""://(?P<user>[^\s/:@"'<>?\#]{0,64}+):(?P<secret>[^\s/"'`<>\[]{1,400})@(?=[\w.-])""",
        _password,
    ),
    _phrase(
        "bearer token", ("bearer",), r"""bearer(?>(?:\s|%20|:)+)["']?(?P<secret>[\w.~+/=-]{16,}+)""", _random
    ),
    _phrase(
        "basic authorization",
        ("basic ", "auth"),
        r"""(?: basic\s+ | ["']?auth\\*["']?\s{0,4}[:=]\s{0,4}(?:\\*["'])? )
        (?P<secret>[a-z0-9+/]{8,}+={0,2})""",
        _basic,
    ),
    _phrase(
        "password on a command line",
        ("curl ", "mysql", "sshpass ", "redis-cli ", "docker login "),
        r"""(?: curl\ [^\n|;]{0,200}?\ (?-i:-u|--user)[ =]+["']?(?P<user>[^\s:"'$]{1,60}):
            | mysql[a-z]*\ [^\n|;]{0,100}?(?-i:\ -p)(?=[^\s-])["']?
            | sshpass\ -p\ ?["']?
            | docker\ login\ [^\n|;]{0,100}?\ -p\ +["']?
            | redis-cli\ [^\n|;]{0,100}?-a\ +["']? )
            (?P<secret>[^\s"'`]{4,200})""",
        _password,
    ),
    _phrase(
        "PuTTY private key",
        ("putty-user-key-file-",),
        r"""putty-user-key-file-\d+:[^\n\\]{0,80}
        (?P<body> (?>(?: (?: \r?\n[\ \t>]*+ | (?>(?:\\+[nrt])+) )
          (?: [a-z0-9-]{3,25}:\ [^\n\r\\]{0,200} | [a-z0-9+/=]{1,76}+ (?= [\s\\"'] | $ ) ) )+) )""",
        _block,
    ),
    _phrase(
        "password in a connection string",
        ("password=", "pwd="),
        r"""(?:password|pwd)=(?P<secret>[^\s;"'`<>\\&,()\[\]{}]{3,200})""",
        _connection,
    ),
    _phrase(
        "password in front of a command",
        ("pgpassword=", "mysql_pwd=", "restic_password=", "borg_passphrase="),
        r"""[a-z_]{8,20}=(?:\\{0,3}["'])?(?P<secret>[^\s"'`;&|\\\[]{4,200})""",
        _given,
    ),
    _phrase(
        "password in a sentence",
        ("password", "passphrase", "passwort", "kennwort", "contrase", "clave"),
        r"""[a-zñ\u0303]{5,12}(?=[.,;:!?)"'`]|\s*$|\s(?:for|of|to|and|für|zum?|und|para|del?|y)\b)""",
        _said_before,
    ),
    Shape("", NAMES, ASSIGNMENT, assigned, is_told=True),
)
