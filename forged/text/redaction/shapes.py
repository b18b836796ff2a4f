"""Shapes of secrets: key files, headers, addresses, commands, settings, sentences, vendors' tokens.

Each shape has lower-case anchors and an expression that is matched at one. Anchors of tokens are searched in
long words only. No expression reads the same range once for each anchor in it: it cannot run over its own
anchor, or it starts at the beginning of a word.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from forged.text.redaction.assignments import ASSIGNMENT, LISTS, NAMES, assigned_secret
from forged.text.redaction.value_form import is_chosen, is_code, is_filler, is_random, is_reference

Span = tuple[int, int]
Judge = Callable[[re.Match[str]], Span | None]


class Shape(msgspec.Struct, frozen=True):
    """Shape of a secret: `secret` returns the secret part of a match, `has_name`: a telling name is in it."""

    name: str
    anchors: tuple[str, ...]
    regex: re.Pattern[str]
    secret: Judge
    has_name: bool = False


def value_range(found: re.Match[str]) -> Span | None:
    """Return the range of a match's value (group `secret`, or all), unless it is an example's filler."""
    group = "secret" if "secret" in found.re.groupindex else 0
    return None if is_filler(found[group]) else found.span(group)


def _if_random(found: re.Match[str]) -> Span | None:
    """Return the range of a match's value if it looks random."""
    span = value_range(found)
    return span if span and is_random(found.string[span[0] : span[1]]) else None


_JOINED_WORDS = re.compile(r"(?:[A-Za-z][a-z]*|[A-Z]+|\d+)(?:[_.-](?:[A-Za-z][a-z]*|[A-Z]+|\d+))*")


def _unless_words(found: re.Match[str]) -> Span | None:
    """Return the range of a value after a telling prefix, unless it is a name made of words."""
    return None if _JOINED_WORDS.fullmatch(found["secret"]) else value_range(found)


_PBES = bytes.fromhex("06092a864886f70d0105")


def _der_key(found: re.Match[str]) -> Span | None:
    """Return the range of a key in ASN.1 DER (PKCS#1, PKCS#8 or SEC 1), else None."""
    try:
        data = base64.b64decode(found[0][:60])
    except (binascii.Error, ValueError):
        return None
    body = _sequence_content(data)
    is_plain = body[:2] == b"\x02\x01" and body[2:3] <= b"\x03" and body[3:4] in {b"\x30", b"\x02", b"\x04"}
    return found.span() if is_plain or _sequence_content(body).startswith(_PBES) else None


def _sequence_content(data: bytes) -> bytes:
    """Return the content of an ASN.1 SEQUENCE, or no bytes."""
    if data[:1] != b"\x30" or len(data) < 2:
        return b""
    return data[2 + (data[1] & 0x7F if data[1] & 0x80 else 0) :]


# Not inside a word, except after an escaped line end or a percent code.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\u00[0-9a-f][0-9a-f]))"


def _token(name: str, anchors: str, regex: str, secret: Judge = value_range) -> Shape:
    """Return the shape of a token within one word of at least 20 characters; case counts."""
    return Shape(name, tuple(anchors.split()), re.compile(regex), secret)


TOKENS = (
    _token("AWS access key", "AKIA ASIA", _START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9_]{30,}+"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}+"),
    _token(
        "GitLab token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- gloas-",
        r"gl[a-z]{1,4}-[\w-]{20,}+(?>(?:\.\w+)*)",
    ),
    _token("OpenAI, Anthropic or OpenRouter key", "sk-", _START + r"(?P<secret>sk-[\w-]{20,}+)", _if_random),
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
        _if_random,
    ),
    _token("DigitalOcean token", "dop_v1_", r"dop_v1_[a-f0-9]{40,}+"),
    _token("Databricks token", "dapi", _START + r"dapi[a-f0-9]{32}(?:-\d)?"),
    _token("Telegram bot token", "", r"(?<![0-9])[0-9]{8,10}:[\w-]{35}(?![\w-])", _if_random),
    _token(
        "Discord bot token",
        "",
        r"(?<![\w-])(?P<secret>[\w-]{23,29}\.[\w-]{6}\.[\w-]{27,40})(?![\w-])",
        _if_random,
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
    _token(  # without the BEGIN and END lines
        "private key",
        "MII MIG MIH MHcC MHQC MC4C MFEC MFMC MDEC",
        _START + r"M[CDFHI][A-Za-z0-9+/]{58,}+={0,2}",
        _der_key,
    ),
    _token("token in a web address", "://", r"://(?P<secret>[\w-]{20,}+)@", _if_random),
    _token(
        "access token of a service",
        "shpat_ shpss_ shpca_ shppa_ dckr_pat_ hvs. lin_api_ glsa_ sntrys_ sntryu_ nvapi- tskey- ATATT3 "
        "ATCTT3 ATBB NRAK- figd_ PMAK- HRKU- sq0csp- dp.st.",
        _START + r"(?P<secret>[A-Za-z0-9]{2,8}[._-]?(?:pat_|api_|st\.)?[\w=-]{20,}+)",
        _unless_words,
    ),
    _token(
        "access token of a service",
        "gsk_ xai- pplx- r8_ tvly- rubygems_ phx_ sbp_ ops_ ntn_ pul- rnd_ re_ key- sgp_ vcp_ lsv2_ EAAA",
        _START + r"(?P<secret>[A-Za-z0-9]{2,8}[._-]?(?:pat_)?[\w=-]{20,}+)",
        _if_random,
    ),
)


_BLOCK = re.compile(r"[A-Za-z0-9+/]{16}")
# Placeholder words in examples.
_STAND_INS = frozenset(LISTS["stand_in"])


def _key_block(found: re.Match[str]) -> Span | None:
    """Return the range of a key block, None for a sentence about one."""
    return found.span() if _BLOCK.search(found["body"]) else None


_FIRST_OF_FILE = 200


def _base64_key_file(found: re.Match[str]) -> Span | None:
    """Return the range of a private key file in base64, None for any other file."""
    head = re.sub(r"\\+[nrt]|\s", "", found["secret"][:_FIRST_OF_FILE]).replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    return found.span("secret") if b"PRIVATE KEY" in decoded or decoded.startswith(b"PuTTY-User") else None


# Characters of a JSON web key on each side of its type.
_LONGEST_JSON_KEY = 8_000
_PRIVATE_PART = re.compile(
    r"""(?:^|[\s,{"'\\])(?:d|k|p|q|dp|dq|qi)\\*["']?\s{0,4}:\s{0,4}\\*["']?(?P<secret>[\w-]{22,}+)"""
)


def _json_key(found: re.Match[str]) -> Span | None:
    """Return the range from the first to the last private number of a JSON web key, None without any."""
    text, at = found.string, found.start()
    first, last = max(0, at - _LONGEST_JSON_KEY), found.end() + _LONGEST_JSON_KEY
    start = max(text.rfind("{", first, at), text.rfind("kty", first, at), first)
    ends = (text.find("}", found.end(), last), text.find("kty", found.end(), last), min(last, len(text)))
    stop = min(end for end in ends if end >= 0)
    parts = [each.span("secret") for each in _PRIVATE_PART.finditer(text, start, stop)]
    return (parts[0][0], parts[-1][1]) if parts else None


_ECHO = re.compile(r"echo\ |printf\ |<<<")
_CURVE_KEY = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=(?![\w+/=])")


def _echoed_key(found: re.Match[str]) -> Span | None:
    """Return the range of a 32-byte key that a shell passes to a program or file for private keys."""
    text, start, stop = found.string, max(0, found.start() - 160), found.end() + 160
    start = max(start, text.rfind("\n", start, found.start()) + 1)
    end = text.find("\n", found.end(), stop)
    stop = stop if end < 0 else end
    if not _ECHO.search(text, start, stop):
        return None
    key = _CURVE_KEY.search(text, start, stop)
    return key.span() if key else None


def _random(found: re.Match[str]) -> Span | None:
    """Return the range of the value in group `secret` if it looks random, else None."""
    return value_range(found) if is_random(found["secret"]) else None


def _password(found: re.Match[str]) -> Span | None:
    """Return the range of a password after its user, also a plain word, unless it is a placeholder."""
    user, value = found["user"] or "", found["secret"]
    is_stand_in = value.lower() in _STAND_INS or value.lower() == user.lower()
    return None if is_stand_in or is_reference(value) else value_range(found)


# Host words of an address with a port and a path, and without a password.
_HOSTS = frozenset({"localhost", "host", "hostname", "server", "proxy", "ip", "domain"})


def _password_in_address(found: re.Match[str]) -> Span | None:
    """Return the range of a password in an address, also with characters that should be escaped."""
    odd, user = found["odd"], found["user"] or ""
    if odd is None:
        return _password(found)
    is_host = "." in user or user.lower() in _HOSTS
    is_plain = odd.lower() in _STAND_INS or not is_chosen(odd.translate(_NO_SIGNS))
    return None if is_host or is_plain or is_reference(odd) or is_filler(odd) else found.span("odd")


_NO_SIGNS = str.maketrans("", "", "/?#")
_PAIR_AND_HOST = re.compile(
    r"(?:^|[\s\"'`=(,])(?P<user>[\w.$\#-]{1,60})(?P<sign>[/:])(?P<secret>[^\s\"'`]{3,200}?)$"
)
_HOST = re.compile(r"@(?://)?[\w.-]{1,100}$")


def _password_before_host(found: re.Match[str]) -> Span | None:
    """Return the range of a password before `@host:1521` of Oracle or `@tcp(host)` of Go's drivers."""
    text, stop = found.string, found.start()
    start = max(0, stop - 300)
    sign = ":"
    if text[stop] == ":":
        host = _HOST.search(text, start, stop)
        if host is None:
            return None
        stop, sign = host.start(), "/"
    before = _PAIR_AND_HOST.search(text[start:stop])
    if before is None or before["sign"] != sign:
        return None
    value = before["secret"]
    if _is_stand_in(value) or value.lower() == before["user"].lower() or is_filler(value):
        return None
    return before.start("secret") + start, before.end("secret") + start


_HOST_AND_PARTS = re.compile(r"[\w.-]:\d{2,5}(?:,[\w. ]{1,30}=[^,\s;]*){0,12}$")


def _password_after_port(found: re.Match[str]) -> Span | None:
    """Return the range of the password among the comma-separated parts of a Redis address."""
    before = found.string[max(0, found.start() - 300) : found.start()]
    return _unless_stand_in(found) if _HOST_AND_PARTS.search(before) else None


def _basic_credentials(found: re.Match[str]) -> Span | None:
    """Return the range of HTTP's base64 `user:password`; after its header, of any random value."""
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
    rf"(?:^|[;:\s\"'{{?&]){_PAIR}\ ?=[^;=,()]*(?:[;\s&][^;=,()]*=[^;=,()]*)*[;\s&]{{1,3}}$", re.IGNORECASE
)
_PAIR_BEHIND = re.compile(
    rf"[\"'}}]?[;\s&]\s?(?:[\w ]{{1,30}}=[^;=,()\s]*[;\s&]\s?){{0,4}}?{_PAIR}=", re.IGNORECASE
)


def _connection_password(found: re.Match[str]) -> Span | None:
    """Return the range of the password in a connection string, which may be any word."""
    text, start, stop = found.string, found.start(), found.end()
    line = text.rfind("\n", max(0, start - 300), start) + 1 or max(0, start - 300)
    if not (_PAIR_BEFORE.search(text, line, start) or _PAIR_BEHIND.match(text, stop, stop + 120)):
        return None
    return None if _is_stand_in(found["secret"]) else value_range(found)


def _unless_stand_in(found: re.Match[str]) -> Span | None:
    """Return the range of a password, which may be any word, unless it is a placeholder or filler."""
    return None if _is_stand_in(found["secret"]) else value_range(found)


def _is_stand_in(value: str) -> bool:
    """Return True for a value that is a placeholder, a reference, code, or letters in capitals only."""
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


def _word_before_name(found: re.Match[str]) -> Span | None:
    """Return the range of a password before "as the password", unless it is a plain word."""
    start = max(0, found.start() - 120)
    said = _SAID.search(" " + found.string[start : found.start()])
    if said is None or not (is_chosen(said["secret"]) or is_random(said["secret"])):
        return None
    if is_reference(said["secret"]) or is_code(said["secret"]) or is_filler(said["secret"]):
        return None
    return said.start("secret") + start - 1, said.end("secret") + start - 1


def _phrase(name: str, anchors: tuple[str, ...], regex: str, secret: Judge = value_range) -> Shape:
    """Return the shape of a secret that may contain spaces; case does not count, anchors are lower case."""
    has_name = all(any(name in anchor for name in NAMES) for anchor in anchors)
    return Shape(name, anchors, re.compile(regex, re.IGNORECASE | re.VERBOSE), secret, has_name)


PHRASES = (
    _phrase(
        "private key",  # closed, or up to the end of the base64
        ("-----begin ", "---- begin "),
        r"""----(?:-|\ )begin\ (?:[a-z0-9]+\ ){0,4}private\ key(?:\ block)?(?:-|\ )----
        (?P<body> (?>(?: [^-\[]++ | -(?!---) | \[(?!redacted\]) )+) (?=----[-\ ]end\ )
          | (?>(?: (?>(?: \s | \\+[nrt] | ["'+\#>|] | [a-z-]{3,20}:\ [^\n\\]{0,80} )*) [a-z0-9+/=]{30,}+ )+)
            (?: (?: \r?\n[\ \t>]*+ | (?>(?:\\+[nrt])+) )
              [a-z0-9+/=]{1,76}+ (?= [\ \t]* (?: [\r\n\\"'] | $ ) ) )?
        )
        (?: ----[-\ ]end\ [a-z0-9 ]{0,50}[-\ ]---- )?""",
        _key_block,
    ),
    _phrase(  # a key file in base64, as in a cluster's secrets
        "private key",
        ("ls0tls1crudjti", "ci0tls0tqkvhsu4", "uhvuvfktvxnlci1lzxktrmls"),
        r"""(?: (?<![a-z0-9+/_-]) | (?<=\\[nrt]) )
          (?P<secret> [a-z0-9+/_-]{30,}+ (?> (?: (?: \s | \\+[nrt] ){1,20} [a-z0-9+/_-]{40,}+ )* )
            (?: (?: \s | \\+[nrt] ){1,20}
                [a-z0-9+/_-]{1,39}+ (?= ={0,2} [\ \t]* (?: [\r\n\\"'] | $ ) ) )? ={0,2} )""",
        _base64_key_file,
    ),
    _phrase("private JSON web key", ("kty",), r"""kty\\*["']?\s{0,4}:""", _json_key),
    _phrase(
        "private key",
        ("<rsakeyvalue>",),
        r"""<rsakeyvalue> (?>(?: \s*<(?:modulus|exponent)>[^<]{0,2000}</[a-z]+> )*)
        (?P<secret> (?: \s*<(?:p|q|d|dp|dq|inverseq)>[^<]{20,2000}</[a-z]+> )+ )""",
    ),
    _phrase(
        "WireGuard key",
        ("wg pubkey", "privatekey", "private-key", "private.key", "presharedkey", "preshared-key"),
        r"""(?:wg\ pubkey|(?:private|preshared)[.-]?key)""",
        _echoed_key,
    ),
    _phrase(
        "password in a url",
        ("://",),
        r"""://(?P<user>[^\s/:@"'<>?\#]{0,64}+):(?!\d{1,5}[/?\#])
        (?: (?P<secret>[^\s/?\#"'`<>\[]{1,400})@(?=[\w.\[-])
          | (?P<odd>[^\s"'`<>\[]{1,400}?)@(?=[\w.-]{1,100}(?::\d|/|[\s"'`>)]|$)) )
        (?![^\s"'`<>@/?\#]{0,100}[/?\#][^\s"'`<>@]{0,100}@[\w.-]{1,100}:\d)""",
        _password_in_address,
    ),
    _phrase(  # name and password of Oracle
        "password in a connection string",
        ("oracle:thin:", "oracle:oci", "sqlplus ", "sqlldr ", "expdp ", "impdp ", "rman "),
        r"""(?: oracle:(?:thin|oci8?): | (?:sqlplus|sqlldr|expdp|impdp|rman)\s[^\n|;/]{0,60}?(?<=[\s"'=]) )
            ["']?(?P<user>[\w$\#]{1,60})/["']?(?P<secret>[^\s"'`/@]{1,100})["']?@(?=[\w/.\[(])""",
        _password,
    ),
    _phrase(
        "password in a connection string",
        (":1521", "@tcp(", "@unix("),
        r"""(?: :1521\b | @(?:tcp|unix)\( )""",
        _password_before_host,
    ),
    _phrase(
        "password in a connection string",
        (",password=",),
        r""",password=(?P<secret>[^\s,;"'`]{3,200})""",
        _password_after_port,
    ),
    _phrase(
        "password in a password file",
        (":5432:", ":6432:", ":*:"),
        r""":(?:5432|6432|\*):[\w*.-]{1,63}:(?P<user>[\w.-]{1,63}):(?P<secret>[^\s:"'`\\]{3,200})(?=[\s"'`]|\\n|$)""",
        _password,
    ),
    _phrase(
        "signature in a web address",
        ("signature=", "&sig=", "?sig=", "&auth=", "?auth=", "&pass=", "?pass=", "&key=", "?key="),
        r"""(?:[?&](?:sig|auth|pass|key)|(?:(?<=[?&-])|(?<=^))signature)=(?P<secret>[\w%+/.~-]{16,}+={0,2})""",
        _random,
    ),
    _phrase(
        "bearer token", ("bearer",), r"""bearer(?>(?:\s|%20|:)+)["']?(?P<secret>[\w.~+/=-]{16,}+)""", _random
    ),
    _phrase(
        "basic authorization",
        ("basic ", "auth"),
        r"""(?: basic\s+ | ["']?auth\\*["']?\s{0,4}[:=]\s{0,4}(?:\\*["'])? )
        (?P<secret>[a-z0-9+/]{8,}+={0,2})""",
        _basic_credentials,
    ),
    _phrase(
        "password on a command line",
        ("curl ", "mysql", "sshpass ", "redis-cli ", "docker login ", "mongo", "sqlcmd ", "bcp ", "ldap"),
        r"""(?: curl\ [^\n|;]{0,200}?\ (?-i:-u|--user)[ =]+["']?(?P<user>[^\s:"'$]{1,60}):
            | mysql[a-z]*\ [^\n|;]{0,100}?(?-i:\ -p)(?=[^\s-])["']?
            | sshpass\ -p\ ?["']?
            | docker\ login\ [^\n|;]{0,100}?\ -p\ +["']?
            | redis-cli\ [^\n|;]{0,100}?-a\ +["']?
            | mongo[a-z]*\ [^\n|;]{0,200}?(?-i:\ -p|\ --password)[\ =]+["']?
            | (?:sqlcmd|bcp)\ [^\n|;]{0,200}?(?-i:\ -P)\ ?["']?
            | ldap[a-z]+\ [^\n|;]{0,200}?(?-i:\ -w)\ +["']? )
            (?P<secret>[^\s"'`]{4,200})""",
        _password,
    ),
    _phrase(
        "PuTTY private key",
        ("putty-user-key-file-",),
        r"""putty-user-key-file-\d+:[^\n\\]{0,80}
        (?P<body> (?>(?: (?: \r?\n[\ \t>]*+ | (?>(?:\\+[nrt])+) )
          (?: [a-z0-9-]{3,25}:\ [^\n\r\\]{0,200} | [a-z0-9+/=]{1,76}+ (?= [\s\\"'] | $ ) ) )+) )""",
        _key_block,
    ),
    _phrase(
        "password in a connection string",
        ("password=", "pwd=", "password =", "pwd ="),
        r"""(?:password|pwd)(?:=|\ =\ )(?:\\{0,3}["']|\{)?(?P<secret>[^\s;"'`<>\\&,()\[\]{}]{3,200})""",
        _connection_password,
    ),
    _phrase(
        "password in front of a command",
        ("pgpassword=", "mysql_pwd=", "restic_password=", "borg_passphrase="),
        r"""[a-z_]{8,20}=(?:\\{0,3}["'])?(?P<secret>[^\s"'`;&|\\\[]{4,200})""",
        _unless_stand_in,
    ),
    _phrase(
        "password in a sentence",
        ("password", "passphrase", "passwort", "kennwort", "contrase", "clave"),
        r"""[a-zñ\u0303]{5,12}(?=[.,;:!?)"'`]|\s*$|\s(?:for|of|to|and|für|zum?|und|para|del?|y)\b)""",
        _word_before_name,
    ),
    Shape("", NAMES, ASSIGNMENT, assigned_secret, has_name=True),
)
