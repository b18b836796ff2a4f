"""The forms of secrets: a table with the anchors of each and the expression that is matched where they stand.

Two tables, since the tokens of vendors, with most of the anchors, are looked for in the long words of a text
only. An expression either cannot run over its own anchor or starts at the beginning of a word, so that a run
of anchors is not read once for each of them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from forged.text.redaction.assignments import ASSIGNMENT, NAMES, assigned
from forged.text.redaction.looks import is_filler, is_random, is_reference

Span = tuple[int, int]
Judge = Callable[[re.Match[str]], Span | None]


class Shape(msgspec.Struct, frozen=True):
    """One form of secret; `secret` says which part of a match is to go, or None if it is none after all."""

    name: str
    anchors: tuple[str, ...]
    regex: re.Pattern[str]
    secret: Judge


def _plain(found: re.Match[str]) -> Span | None:
    """The group `secret`, or the match where there is no such group; not if it is an example."""
    group = "secret" if "secret" in found.re.groupindex else 0
    return None if is_filler(found[group]) else found.span(group)


def _random(found: re.Match[str]) -> Span | None:
    return _plain(found) if is_random(found["secret"]) else None


_BLOCK = re.compile(r"[A-Za-z0-9+/]{16}")
# What stands in examples, where the name of the user or of the thing is put for the thing.
_STAND_INS = frozenset({"pass", "password", "passwd", "pw", "pwd", "secret", "token", "x-oauth-basic"})


def _block(found: re.Match[str]) -> Span | None:
    """A key, not a sentence about the lines around one."""
    return found.span() if _BLOCK.search(found["body"]) else None


def _password(found: re.Match[str]) -> Span | None:
    """What stands after `user:`; a plain word, too, if it is not a stand-in."""
    user, value = found["user"] or "", found["secret"]
    is_stand_in = value.lower() in _STAND_INS or value.lower() == user.lower()
    return None if is_stand_in or is_reference(value) else _plain(found)


def _basic(found: re.Match[str]) -> Span | None:
    """HTTP's `user:password` in base64, which no word decodes to."""
    try:
        plain = base64.b64decode(found["secret"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return found.span("secret") if b":" in plain and plain.isascii() else None


# Not inside a word, but well after an escaped line end or a percent code.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\u00[0-9a-f][0-9a-f]))"


def _token(name: str, anchors: str, regex: str, secret: Judge = _plain) -> Shape:
    return Shape(name, tuple(anchors.split()), re.compile(regex), secret)


def _phrase(name: str, anchors: tuple[str, ...], regex: str, secret: Judge = _plain) -> Shape:
    return Shape(name, anchors, re.compile(regex, re.IGNORECASE | re.VERBOSE), secret)


# Each within one word of at least 20 characters; case counts.
TOKENS = (
    _token("aws key id", "AKIA ASIA", _START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9_]{30,}+"),
    _token("github fine-grained", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}+"),
    _token("gitlab", "glpat- gldt- glrt- glptt-", r"gl[a-z]{1,3}t-[\w-]{20,}+(?:\.\w+)*+"),
    _token("openai, anthropic, openrouter", "sk-", _START + r"(?P<secret>sk-[\w-]{20,}+)", _random),
    _token("slack", "xox xapp-", r"x(?:ox[a-z]|app)[.-][\w-]{10,}+"),
    _token("google key", "AIza", _START + r"AIza[\w-]{35,}+"),
    _token(
        "google oauth", "ya29. GOCSPX- 1//0", _START + r"(?:ya29\.|GOCSPX-|1//0)[\w-]{20,}+(?:\.[\w-]+)*+"
    ),
    _token("json web token", "eyJ", _START + r"eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+(?:\.[\w-]+)*+"),
    _token("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    _token("webhook signature", "whsec_", r"whsec_[A-Za-z0-9+/]{20,}+=*"),
    _token("sendgrid", "SG.", _START + r"SG\.[\w-]{16,}+\.[\w-]{16,}+"),
    _token("twilio", "SK", _START + r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("npm", "npm_", _START + r"npm_[A-Za-z0-9]{30,}+"),
    _token("pypi", "pypi-", _START + r"pypi-[\w-]{40,}+"),
    _token("hugging face", "hf_", _START + r"hf_[A-Za-z0-9]{30,}+"),
    _token("slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/[a-z]+/(?P<secret>[\w/]{20,}+)"),
    _token("discord webhook", "/api/webhooks/", r"/api/webhooks/\d+/(?P<secret>[\w-]{30,}+)"),
    _token(
        "azure", "AccountKey= SharedAccessKey= sig=", r"[A-Za-z]+=(?P<secret>[\w%+/-]{30,}+={0,2})", _random
    ),
    _token("digitalocean", "dop_v1_", r"dop_v1_[a-f0-9]{40,}+"),
    _token("databricks", "dapi", _START + r"dapi[a-f0-9]{32}(?:-\d)?"),
    _token("telegram", ":AA", r"(?<=\d{8}):(?P<secret>AA[\w-]{32,}+)"),
    _token("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+"),
    _token("token as user of a url", "://", r"://(?P<secret>[\w-]{20,}+)@", _random),
    _token(
        "other prefixes",
        "shpat_ shpss_ dckr_pat_ hvs. lin_api_ glsa_ sntrys_ gsk_ xai- pplx- r8_ nvapi- tvly- rubygems_ "
        "tskey- ATATT3 NRAK- phx_ sbp_ ops_ figd_ PMAK- ntn_ pul-",
        _START + r"(?P<secret>[A-Za-z0-9]{2,8}[._-]?(?:pat_|api_)?[\w=-]{20,}+)",
        _random,
    ),
)

# May hold spaces; case does not count, and anchors are lower case.
PHRASES = (
    _phrase(
        "private key",  # closed, or up to where nothing looks like base64 any more
        ("-----begin ",),
        r"""-----begin\ (?:[a-z0-9]+\ ){0,3}private\ key(?:\ block)?-----
        (?P<body> (?: [^-\[]++ | -(?!----) | \[(?!redacted\]) )++ (?=-----end\ )
          | (?: (?: \s | \\+[nrt] | ["'+\#>|] | [a-z-]{3,20}:\ [^\n\\]{0,80} )*+ [a-z0-9+/=]{30,}+ )++
            (?: (?: \r?\n[\ \t>]*+ | (?:\\+[nrt])++ ) [a-z0-9+/=]{1,76}+ (?= [\ \t]* (?: [\r\n\\"'] | $ ) ) )?
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
    _phrase("bearer", ("bearer",), r"""bearer(?:\s|%20|:)++["']?(?P<secret>[\w.~+/=-]{16,}+)""", _random),
    _phrase(
        "basic",
        ("basic ", '"auth'),
        r"""(?: basic\s+ | "auth\\*"\s*:\s*\\*" )(?P<secret>[a-z0-9+/]{8,}+={0,2})""",
        _basic,
    ),
    _phrase(
        "command line",
        ("curl ", "mysql", "sshpass ", "redis-cli ", "docker login "),
        r"""(?: curl\ [^\n|;]{0,200}?\ (?-i:-u|--user)[ =]+["']?(?P<user>[^\s:"'$]{1,60}):
            | mysql[a-z]*\ [^\n|;]{0,100}?(?-i:\ -p)(?=[^\s-])["']?
            | sshpass\ -p\ ?["']?
            | docker\ login\ [^\n|;]{0,100}?\ -p\ +["']?
            | redis-cli\ [^\n|;]{0,100}?-a\ +["']? )
            (?P<secret>[^\s"'`]{4,200})""",
        _password,
    ),
    Shape("assignment", NAMES, ASSIGNMENT, assigned),
)
