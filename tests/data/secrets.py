"""Conversations with planted secrets, and similar sentences without; both random.

Every secret is put together from a prefix and letters of a seeded generator, so that this file holds none and
no scanner stops at it.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


class Planted(NamedTuple):
    """The shape's name, a text that holds a secret, and the secret."""

    shape: str
    text: str
    secret: str


class Draw:
    """Random-looking parts, the same in every run."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, size: int) -> str:
        return "".join(self.random.choices(alphabet, k=size))

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def base64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def segment(self, size: int) -> str:
        return base64.urlsafe_b64encode(self.random.randbytes(size)).decode().rstrip("=")


def _jwt(d: Draw) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    claims = json.dumps({"sub": d.of("0123456789", 8), "name": d.of(LOWER, 9)}).encode()
    return f"{header}.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{d.segment(32)}"


# Each draws one secret that is recognised wherever it stands.
TOKENS: dict[str, Callable[[Draw], str]] = {
    "aws key id": lambda d: d.one("AKIA", "ASIA") + d.of(UPPER, 16),
    "github classic": lambda d: d.one("ghp", "gho", "ghu", "ghs", "ghr") + "_" + d.of(ALNUM, 36),
    "github fine-grained": lambda d: "github" + "_pat_" + d.of(ALNUM, 22) + "_" + d.of(ALNUM, 59),
    "gitlab": lambda d: (
        "gl" + d.one("pat", "rt", "dt", "ptt", "ptt") + "-" + d.of(URL_SAFE, 19) + d.of(ALNUM, 1)
    ),
    "openai": lambda d: "sk-" + d.one("", "proj-", "svcacct-") + d.of(ALNUM, 48),
    "anthropic": lambda d: "sk-" + "ant-api03-" + d.of(URL_SAFE, 92) + d.of(ALNUM, 1),
    "openrouter": lambda d: "sk-" + "or-v1-" + d.of(HEX, 64),
    "slack": lambda d: "xox" + d.one("b", "p", "a", "r", "s") + f"-{d.of('123456789', 12)}-{d.of(ALNUM, 24)}",
    "slack app": lambda d: "xapp" + f"-1-A{d.of(UPPER, 10)}-{d.of('123456789', 13)}-{d.of(HEX, 64)}",
    "google key": lambda d: "AIza" + "Sy" + d.of(ALNUM, 33),
    "google oauth": lambda d: "ya29" + ".a0" + d.of(URL_SAFE, 60) + d.of(ALNUM, 1),
    "json web token": _jwt,
    "stripe": lambda d: d.one("sk", "rk") + "_live_" + d.of(ALNUM, 24),
    "webhook signature": lambda d: "whsec" + "_" + d.of(ALNUM, 32),
    "sendgrid": lambda d: "SG" + "." + d.of(ALNUM, 22) + "." + d.of(ALNUM, 43),
    "twilio": lambda d: "SK" + d.of(HEX, 32),
    "npm": lambda d: "npm" + "_" + d.of(ALNUM, 36),
    "pypi": lambda d: "pypi" + "-AgEIcHlwaS5vcmc" + d.of(ALNUM, 80),
    "hugging face": lambda d: "hf" + "_" + d.of(string.ascii_letters, 34),
    "digitalocean": lambda d: "dop" + "_v1_" + d.of(HEX, 64),
    "databricks": lambda d: "dapi" + d.of(HEX, 32),
    "age": lambda d: "AGE-SECRET" + "-KEY-1" + d.of(UPPER, 58),
    "vault": lambda d: "hvs" + ".CAESI" + d.of(ALNUM, 60),
    "docker hub": lambda d: "dckr" + "_pat_" + d.of(ALNUM, 27),
}
WITHIN = (
    "Use this one for staging: {} and then run the tests again.",
    'client = Client("{}", timeout=30)',
    "MY_SETTING={}\nLOG_LEVEL=debug",
    '{{"value": "{}", "retries": 3}}',
    '{{\\"value\\": \\"{}\\", \\"retries\\": 3}}',
    "the file has two lines\\n{}\\nand nothing else",
    "I pasted `{}` into the console.",
    "curl -H 'Authorization: Bearer {}' https://api.acme.dev/v1/things",
    "It redirects to https://acme.dev/back?x={}&page=2 every time",
    "Sorry, wrong one ({}).",
)

# Drawn with the text around it, since the form needs it.
Whole = Callable[[Draw], tuple[str, str]]


def _pem(d: Draw, kind: str = "RSA ", end: str = "\n", *, closed: bool = True) -> tuple[str, str]:
    encoded = d.base64(600)
    body = end.join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
    first, last = (f"-----{edge} {kind}PRIVATE KEY-----" for edge in ("BEGIN", "END"))
    return f"It is this:\n{first}{end}{body}{end}{last if closed else ''}\nDoes it parse?", body


def _url(d: Draw, scheme: str, user: str, size: int) -> tuple[str, str]:
    secret = d.of(ALNUM, size)
    return f"DATABASE_URL={scheme}://{user}:{secret}@db.acme.dev:5432/app works now", secret


def _basic(d: Draw) -> tuple[str, str]:
    secret = base64.b64encode(f"deploy:{d.of(ALNUM, 14)}".encode()).decode()
    return f"Authorization: Basic {secret}\nAccept: */*", secret


def _between(before: str, alphabet: str, size: int, after: str = "") -> Whole:
    def draw(d: Draw) -> tuple[str, str]:
        secret = d.of(alphabet, size)
        return before + secret + after, secret

    return draw


def _azure(d: Draw) -> tuple[str, str]:
    secret = d.base64(64)
    head = "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey="
    return f"{head}{secret};EndpointSuffix=core.windows.net", secret


def _google_account(d: Draw) -> tuple[str, str]:
    body = "\\n".join(d.of(ALNUM + "+/", 64) for _ in range(12))
    edge = "-----{} " + "PRIVATE KEY-----"
    key = f"{edge.format('BEGIN')}\\n{body}\\n{edge.format('END')}\\n"
    return f'{{"type": "service_account", "private_key": "{key}", "client_email": "a@b.dev"}}', body


def _telegram(d: Draw) -> tuple[str, str]:
    secret = "AA" + d.of(URL_SAFE, 32) + d.of(ALNUM, 1)
    return (
        f"bot.run({d.of('123456789', 10)!r} ... or as one: 7{d.of('0123456789', 9)}:{secret} if you like",
        secret,
    )


WHOLES: dict[str, tuple[Whole, ...]] = {
    "pem": (
        _pem,
        lambda d: _pem(d, "OPENSSH "),
        lambda d: _pem(d, "EC ", "\\n"),
        lambda d: _pem(d, "", "\r\n"),
        lambda d: _pem(d, "ENCRYPTED ", "\n    "),
    ),
    "pem unclosed": (
        lambda d: _pem(d, closed=False),
        lambda d: _pem(d, "", "\\n", closed=False),
        lambda d: _pem(d, "OPENSSH ", "\n> ", closed=False),
    ),
    "password in a url": (
        lambda d: _url(d, "postgres", "app", 16),
        lambda d: _url(d, "mysql", "root", 8),
        lambda d: _url(d, "redis", "", 20),
        lambda d: _url(d, "mongodb+srv", "svc-user", 12),
        lambda d: _url(d, "amqp", "guest", 24),
    ),
    "token in a url": (
        _between("git clone https://", ALNUM, 40, "@git.acme.dev/team/repo.git"),
        _between("git clone https://oauth2:", ALNUM, 24, "@git.acme.dev/team/repo.git"),
    ),
    "basic": (_basic,) * 3,
    "azure": (_azure,) * 3,
    "azure sas": (
        _between("https://acme.blob.core.windows.net/x?sv=2024-01-01&sig=", ALNUM, 43, "%3D&se=2027"),
    )
    * 2,
    "google service account": (_google_account,) * 3,
    "telegram": (_telegram,) * 3,
    "slack webhook": (
        _between("post to https://hooks.slack.com/services/" + "T0ACME/B0ACME/", ALNUM, 24, " on failure"),
    )
    * 3,
    "discord webhook": (
        _between("https://discord.com/api/webhooks/" + "1122334455/", URL_SAFE, 67, "A and nothing else"),
    )
    * 3,
    "bearer": (
        _between("-H 'authorization: bearer ", LOWER, 40, "'"),
        _between("Bearer ", ALNUM, 32, " fails"),
    ),
    "command line": (
        _between("curl -s -u admin:", ALNUM, 12, " https://ci.acme.dev/job"),
        _between("mysqldump -u root -p", ALNUM, 12, " shop > dump.sql"),
        _between("sshpass -p '", ALNUM, 12, "' ssh root@box"),
        _between("redis-cli -h cache -a ", ALNUM, 20, " ping"),
        _between("docker login -u ci -p ", ALNUM, 18, " registry.acme.dev"),
        _between("machine git.acme.dev login ci password ", ALNUM, 14, "\n"),
    ),
}

ASSIGNED_PASSWORDS = (
    "password = {}",
    'password = "{}"',
    "PASSWORD='{}'",
    "export DB_PASSWORD={}",
    'export PGPASSWORD="{}" && psql',
    '"password": "{}",',
    '{{\\"password\\": \\"{}\\"}}',
    "database:\n  user: app\n  password: {}\n  port: 5432",
    "  adminPassword: '{}'",
    "mysql --password {} --host db",
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "- name: DB_PASSWORD\n  value: {}",
    "deploy --db-password={} --force",
    "my password is {}, please keep it out of the notes",
    "The staging password is `{}`.",
    "set the root password to {} and reboot",
    "Password for the jump host: {}",
    "**Password:** {}",
    "Server=db;User Id=sa;Password={};Encrypt=true",
    "config.client_secret := `{}`",
    'var jwtSecret string = "{}"',
    "<password>{}</password>",
    "| secret | {} |",
    "SECRET_KEY_BASE={}",
    'login("admin", password=f"{}")',
    "DB_PASS={}",
    "https://acme.dev/login?user=bob&password={}&next=/home",
    "PASSWORD={}\\nPORT=80",
    'if passwd == "{}": grant()',
    'auth = ("password", "{}")',
    "我的密码是{}，不要记下来",
)
ASSIGNED_TOKENS = (
    'api_key = "{}"',
    '"apiKey": "{}"',
    "export ACME_TOKEN={}",
    "X-Api-Key: {}",
    'os.environ["ACME_API_KEY"] = "{}"',
    "token: {}",
    "acme login --token {}",
    'const accessToken: string = "{}";',
    "aws_secret_access_key = {}",
    "//registry.npmjs.org/:_authToken={}",
    'headers={{"X-Auth-Token": "{}"}}',
    '<add key="ApiKey" value="{}" />',
    "my access token is {} (expires tomorrow)",
    'credentials = "{}"',
    "https://api.acme.dev/v1/list?token={}",
)
# Passwords as people choose them.
CHOSEN = (
    "hunter{}",
    "Tr0ub4dor&{}",
    "S3cret!{}x",
    "p@ssw0rd{}",
    "Winter-20{}4",
    "qwe{}rtz!",
    "correct-horse-4{}",
)
# Quotes tell where a value ends, so that it may have any character in it.
ANY = ALNUM + "!#$%&()*+,-./:;<=>?@[]^_{|}~"
QUOTED = tuple(form for form in ASSIGNED_PASSWORDS if any(f"{quote}{{}}" in form for quote in "\"'`"))


def _assigned(d: Draw) -> Iterator[Planted]:
    for form, chosen in zip(ASSIGNED_PASSWORDS, itertools.cycle(CHOSEN), strict=False):
        # In a query & ends a value.
        secret = chosen.format(d.of("23456789", 1)).replace("&", "_" if "?user=" in form else "&")
        yield Planted("chosen password", form.format(secret), secret)
        yield Planted(
            "drawn password", form.format(secret := d.of(ALNUM, 16) + d.of("0123456789", 2)), secret
        )
    for form in QUOTED:
        secret = d.of(ALNUM, 1) + d.of(ANY, 14) + d.of("0123456789", 1)
        yield Planted("drawn with punctuation", form.format(secret), secret)
    for form in ASSIGNED_TOKENS:
        yield Planted("assigned base62", form.format(secret := d.of(ALNUM, 32)), secret)
        yield Planted("assigned hex", form.format(secret := d.of(HEX, 40)), secret)
        yield Planted("assigned uuid", form.format(secret := d.uuid()), secret)
        yield Planted("assigned base64", form.format(secret := d.of(ALNUM + "+/", 39) + "7"), secret)


@functools.cache
def planted() -> tuple[Planted, ...]:
    """Secrets of more than thirty shapes, each in a text of the kind it is met in."""
    out: list[Planted] = []
    for shape, token in TOKENS.items():
        d = Draw(shape)
        out += [Planted(shape, form.format(secret := token(d)), secret) for form in WITHIN]
    for shape, wholes in WHOLES.items():
        d = Draw(shape)
        out += [Planted(shape, *whole(d)) for whole in wholes]
    return (*out, *_assigned(Draw("assigned")))


WORDS = ("billing", "search", "ledger", "mailer", "gateway", "importer", "catalogue", "scheduler")
NAMES = ("Invoice", "Session", "Order", "Webhook", "Retry", "Cursor", "Tenant", "Snapshot")
STAND_INS = (
    *("...", "your-api-key", "YOUR_TOKEN_HERE", "<token>", "xxxxxxxx", "changeme", "***", "{{ secret }}", ""),
    *("example", "sk-...", "<your password>", "placeholder", "$TOKEN", "${DB_PASSWORD}", "env:NAME", "TODO"),
)
# What a clean sentence is filled with.
FILLERS: dict[str, Callable[[Draw], str]] = {
    "edge": lambda _: "PRIVATE" + " KEY-----",
    "colon": lambda _: ":",
    "uuid": Draw.uuid,
    "git": lambda d: d.of(HEX, 40),
    "short": lambda d: d.of(HEX, 8),
    "sha256": lambda d: d.of(HEX, 64),
    "sri": lambda d: d.base64(64),
    "mem": lambda d: "mem_" + d.uuid(),
    "ev": lambda d: f"ev_{d.of('123456789', 20)}_{d.of(HEX, 8)}",
    "n": lambda d: str(d.random.randrange(2, 9000)),
    "v": lambda d: f"{d.random.randrange(12)}.{d.random.randrange(30)}.{d.random.randrange(90)}",
    "colour": lambda d: "#" + d.of(HEX, 6),
    "date": lambda d: (
        f"2026-{d.random.randrange(1, 12):02}-{d.random.randrange(1, 28):02}T10:{d.of('12345', 2)}:07Z"
    ),
    "word": lambda d: d.one(*WORDS),
    "name": lambda d: d.one(*NAMES),
    "verb": lambda d: d.one("refresh", "validate", "rotate", "parse", "load", "revoke", "mask", "renew"),
    "secretive": lambda d: d.one("password", "token", "secret", "API key", "passphrase", "credential"),
    "var": lambda d: d.one(
        "API_KEY", "DB_PASSWORD", "GITHUB_TOKEN", "JWT_SECRET", "OPENAI_API_KEY", "PGPASSWORD"
    ),
    "key": lambda d: d.one("api_key", "password", "token", "client_secret", "access_token", "apiKey"),
    "stand_in": lambda d: d.one(*STAND_INS),
    "b64": lambda d: base64.b64encode(
        d.one("hello world", "lorem ipsum dolor", "status: ok").encode()
    ).decode(),
    "host": lambda d: d.one("localhost", "api.acme.dev", "10.0.3.17", "registry.acme.dev", "db-2.internal"),
    "kind": lambda d: d.one(
        "string", "str | None", "Optional[str]", "SecretStr", "bytes", "&str", "char(64)"
    ),
}
# Of coding conversations, without a secret in them; the names in braces are those of FILLERS.
SENTENCES = (Path(__file__).parent / "clean_sentences.txt").read_text(encoding="utf-8").splitlines()


@functools.cache
def clean_sentences() -> tuple[str, ...]:
    """2,000 different sentences of coding conversations without a secret in them."""
    d = Draw("clean")
    sentences: dict[str, None] = {}
    for sentence in itertools.cycle(SENTENCES):
        if len(sentences) == 2000:
            return tuple(sentences)
        sentences[_filled(sentence, d)] = None
    raise AssertionError("unreachable")


class _Fillers(dict[str, str]):
    def __init__(self, d: Draw) -> None:
        self._d = d

    def __missing__(self, key: str) -> str:
        return FILLERS[key](self._d)


def _filled(sentence: str, d: Draw) -> str:
    return sentence.format_map(_Fillers(d))
