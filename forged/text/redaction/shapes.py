"""The forms that vendors give their tokens: a table with the anchors of each and the expression for it.

The expression is matched where an anchor stands, and these are looked for in the long words of a text only;
one without an anchor is searched for there. An expression either cannot run over its own anchor or starts at
the beginning of a word, so that a run of anchors is not read once for each of them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from forged.text.redaction.looks import is_filler, is_random

Span = tuple[int, int]
Judge = Callable[[re.Match[str]], Span | None]


class Shape(msgspec.Struct, frozen=True):
    """One form of secret, by the name that a person is told.

    `secret` says which part of a match is to go, or None if it is none after all. `is_told`: it holds one of
    the telling names, so that a text without any need not be looked through for its anchors.
    """

    name: str
    anchors: tuple[str, ...]
    regex: re.Pattern[str]
    secret: Judge
    is_told: bool = False


def plain(found: re.Match[str]) -> Span | None:
    """The group `secret`, or the match where there is no such group; not if it is an example."""
    group = "secret" if "secret" in found.re.groupindex else 0
    return None if is_filler(found[group]) else found.span(group)


def _random(found: re.Match[str]) -> Span | None:
    span = plain(found)
    return span if span and is_random(found.string[span[0] : span[1]]) else None


_JOINED_WORDS = re.compile(r"(?:[A-Za-z][a-z]*|[A-Z]+|\d+)(?:[_.-](?:[A-Za-z][a-z]*|[A-Z]+|\d+))*")


def _drawn(found: re.Match[str]) -> Span | None:
    """Behind a prefix that says enough: anything but words that are joined as in a name."""
    return None if _JOINED_WORDS.fullmatch(found["secret"]) else plain(found)


_PBES = bytes.fromhex("06092a864886f70d0105")


def _der(found: re.Match[str]) -> Span | None:
    """A key in ASN.1, of PKCS#1, PKCS#8 or SEC 1: a small version comes first, or a cipher of PKCS#5."""
    try:
        data = base64.b64decode(found[0][:60])
    except (binascii.Error, ValueError):
        return None
    body = _inside(data)
    is_plain = body[:2] == b"\x02\x01" and body[2:3] <= b"\x03" and body[3:4] in {b"\x30", b"\x02", b"\x04"}
    return found.span() if is_plain or _inside(body).startswith(_PBES) else None


def _inside(data: bytes) -> bytes:
    """Return the content of a SEQUENCE of ASN.1; nothing if it is none."""
    if data[:1] != b"\x30" or len(data) < 2:
        return b""
    return data[2 + (data[1] & 0x7F if data[1] & 0x80 else 0) :]


# Not inside a word, but well after an escaped line end or a percent code.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\u00[0-9a-f][0-9a-f]))"


def _token(name: str, anchors: str, regex: str, secret: Judge = plain) -> Shape:
    return Shape(name, tuple(anchors.split()), re.compile(regex), secret)


# Each within one word of at least 20 characters; case counts.
TOKENS = (
    _token("AWS access key", "AKIA ASIA", _START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9_]{30,}+"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}+"),
    _token(
        "GitLab token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- gloas-",
        r"gl[a-z]{1,4}-[\w-]{20,}+(?>(?:\.\w+)*)",
    ),
    _token("OpenAI, Anthropic or OpenRouter key", "sk-", _START + r"(?P<secret>sk-[\w-]{20,}+)", _random),
    _token("Slack token", "xox xapp-", r"x(?:ox[a-z]|app)[.-][\w-]{10,}+"),
    _token("Google API key", "AIza", _START + r"AIza[\w-]{35,}+"),
    _token(
        "Google OAuth secret",
        "ya29. GOCSPX- 1//0",
        _START + r"(?:ya29\.|GOCSPX-|1//0)[\w-]{20,}+(?>(?:\.[\w-]+)*)",
    ),
    _token("JSON web token", "eyJ", _START + r"eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+(?>(?:\.[\w-]+)*)"),
    _token("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    _token("webhook signing secret", "whsec_", r"whsec_[A-Za-z0-9+/]{20,}+=*"),
    _token("SendGrid key", "SG.", _START + r"SG\.[\w-]{16,}+\.[\w-]{16,}+"),
    _token("Twilio key", "SK", _START + r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("npm token", "npm_", _START + r"npm_[A-Za-z0-9]{30,}+"),
    _token("PyPI token", "pypi-", _START + r"pypi-[\w-]{40,}+"),
    _token("Hugging Face token", "hf_", _START + r"hf_[A-Za-z0-9]{30,}+"),
    _token("Slack webhook address", "hooks.slack.com/", r"hooks\.slack\.com/[a-z]+/(?P<secret>[\w/]{20,}+)"),
    _token("Discord webhook address", "/api/webhooks/", r"/api/webhooks/\d+/(?P<secret>[\w-]{30,}+)"),
    _token(
        "Azure key or signature",
        "AccountKey= SharedAccessKey= sig=",
        r"[A-Za-z]+=(?P<secret>[\w%+/-]{30,}+={0,2})",
        _random,
    ),
    _token("DigitalOcean token", "dop_v1_", r"dop_v1_[a-f0-9]{40,}+"),
    _token("Databricks token", "dapi", _START + r"dapi[a-f0-9]{32}(?:-\d)?"),
    _token("Telegram bot token", "", r"(?<![0-9])[0-9]{8,10}:[\w-]{35}(?![\w-])", _random),
    _token(
        "Discord bot token",
        "",
        r"(?<![\w-])(?P<secret>[\w-]{23,29}\.[\w-]{6}\.[\w-]{27,40})(?![\w-])",
        _random,
    ),
    _token(
        "Twilio key", "AC", _START + r"AC[0-9a-f]{32}[\"',:\s]{1,6}(?P<secret>[0-9a-f]{32})(?![A-Za-z0-9])"
    ),
    _token("encryption key", "Fernet(", r"""Fernet\(b?\\*["'](?P<secret>[\w+/-]{43}=)"""),
    _token(
        "age secret key",
        "AGE-SECRET-KEY- age-secret-key-",
        r"(?:AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{50,}+|age-secret-key-(?:pq-)?1[a-z0-9]{50,}+)",
    ),
    _token("minisign secret key", "RWRTY RWRCS", _START + r"RWR(?:TY|CS)[A-Za-z0-9+/]{100,}+={0,2}"),
    _token(  # without the lines around it
        "private key",
        "MII MIG MIH MHcC MHQC MC4C MFEC MFMC MDEC",
        _START + r"M[CDFHI][A-Za-z0-9+/]{58,}+={0,2}",
        _der,
    ),
    _token("token in a web address", "://", r"://(?P<secret>[\w-]{20,}+)@", _random),
    _token(
        "access token of a service",
        "shpat_ shpss_ shpca_ shppa_ dckr_pat_ hvs. lin_api_ glsa_ sntrys_ sntryu_ nvapi- tskey- ATATT3 "
        "ATCTT3 ATBB NRAK- figd_ PMAK- HRKU- sq0csp- dp.st.",
        _START + r"(?P<secret>[A-Za-z0-9]{2,8}[._-]?(?:pat_|api_|st\.)?[\w=-]{20,}+)",
        _drawn,
    ),
    _token(
        "access token of a service",
        "gsk_ xai- pplx- r8_ tvly- rubygems_ phx_ sbp_ ops_ ntn_ pul- rnd_ re_ key- sgp_ vcp_ lsv2_ EAAA",
        _START + r"(?P<secret>[A-Za-z0-9]{2,8}[._-]?(?:pat_)?[\w=-]{20,}+)",
        _random,
    ),
)
