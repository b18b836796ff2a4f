"""Secrets of the fifty shapes that secret-shapes.txt names, in the forms in which people meet them.

Drawn by a seeded generator at run time: none in here was ever a key, and no scanner stops at this file.
"""

from __future__ import annotations

import base64
import functools
import json
import string
from collections.abc import Callable
from pathlib import Path

from tests.data.secrets import ALNUM, HEX, LOWER, TOKENS, UPPER, URL_SAFE, Draw, Planted

SHAPES = tuple((Path(__file__).parent / "secret-shapes.txt").read_text(encoding="utf-8").splitlines())

_DIGITS = string.digits
_STRONG = ALNUM + "!@#%^*_+=-"

# Where a token with a prefix of its own is met.
_ANYWHERE = (
    "{}",
    "Our CI still uses {} and nobody knows why.",
    "export SOME_SETTING='{}'",
    '{{"value":"{}"}}',
    "  thing: {}   # rotate me",
    "See `{}`, it is the old one.",
    "curl -s https://api.acme.dev/v1/me -H 'X-Thing: {}' | jq .",
    "Das ist der neue: {}. Bitte nicht weitergeben.",
)
_PHRASES: dict[str, tuple[str, ...]] = {
    "AWS secret access key in a configuration or environment line": (
        "aws_secret_access_key = {}",
        "export AWS_SECRET_ACCESS_KEY={}",
        '"SecretAccessKey": "{}",',
        "AWS Secret Access Key [None]: {}",
        "aws configure set aws_secret_access_key {}",
        'secret_key = "{}"',
        "AWS_SECRET_KEY: '{}'",
        "secretAccessKey: '{}',",
    ),
    "Twilio auth token or API key, beside its name": (
        "TWILIO_AUTH_TOKEN={}",
        'auth_token = "{}"',
        "Twilio auth token: {}",
        "twilio.authToken = '{}';",
        "the Twilio auth token is {}",
        "TWILIO_API_KEY_SECRET={}",
    ),
    "PGPASSWORD or MYSQL_PWD in front of a command": (
        "PGPASSWORD='{}' psql -h db -U app shop",
        'PGPASSWORD="{}" pg_dump shop > shop.sql',
        "PGPASSWORD={} psql -U postgres",
        "MYSQL_PWD={} mysql -u root shop",
        "MYSQL_PWD='{}' mysqldump shop",
        "docker exec -e PGPASSWORD={} db psql -U app",
        "sh -c \"PGPASSWORD='{}' psql\"",
    ),
    "Password in a .env or YAML line": (
        "DB_PASSWORD={}",
        "POSTGRES_PASSWORD: {}",
        "SMTP_PASS='{}'",
        '  password: "{}"',
        "    passwd: {}",
        "spring.datasource.password={}",
        'ADMIN_PASSWORD="{}"\nLOG_LEVEL=info',
        "redis:\n  host: cache\n  password: {}\n",
        "MAIL_PWD={}",
    ),
    "Hex key given to a name in source code": (
        'SECRET_KEY = "{}"',
        "const encryptionKey = '{}';",
        'key = bytes.fromhex("{}")',
        'AES_KEY = binascii.unhexlify("{}")',
        "const key = Buffer.from('{}', 'hex');",
        'private static final String HMAC_KEY = "{}";',
        'signingKey := "{}"',
        'key, _ := hex.DecodeString("{}")',
        '#define DEVICE_KEY "{}"',
        'let secret = hex::decode("{}").unwrap();',
        "MASTER_KEY = 0x{}",
        'ENCRYPTION_KEY = b"{}"',
        'KEY = "{}"',
    ),
    "Password in an English sentence (the password is ..., log in with password ...)": (
        "The password is {}.",
        "My password for the staging box is {}, please fix the login.",
        "Log in with password {} and check the dashboard.",
        "You can log in as admin with the password {}.",
        "use password {} for the demo account",
        "I changed the root password to {} yesterday.",
        "the wifi password is now {}",
        "Connect as deploy using password {}, then restart it",
        "the db password: {}",
        "password for git.acme.dev is {}",
        "Please use {} as the password.",
        "user is admin and password is {}",
        "sign in with user bob and password {}",
        'the password was set to "{}"',
        "The passphrase of the key is {}",
        "{} is the password for the admin panel",
    ),
    "Password in a German sentence (das Passwort lautet ..., Kennwort: ...)": (
        "Das Passwort lautet {}.",
        "das passwort ist {}",
        "Kennwort: {}",
        "Mein Passwort für den Server ist {}, bitte merken.",
        "Das Kennwort für die Datenbank lautet {}",
        "Melde dich mit dem Passwort {} an.",
        "Logge dich mit Passwort {} ein",
        "Ich habe das Passwort auf {} geändert.",
        "Das neue Passwort heißt {}",
        "Passwort = {}",
        "Benutzer admin, Passwort {}",
        "Nimm {} als Passwort.",
        "Das Root-Passwort ist jetzt {}",
        "Zugang: admin / Passwort: {}",
        'Verwende das Kennwort "{}" für den Login',
    ),
    "Password in a Spanish sentence (la contraseña es ..., clave: ...)": (
        "La contraseña es {}.",
        "la clave es {}",
        "clave: {}",
        "Contraseña: {}",
        "Mi contraseña del servidor es {}, guárdala.",
        "Entra con la contraseña {}",
        "usa la clave {} para entrar",
        "Cambié la contraseña a {} ayer.",
        "usuario admin y contraseña {}",
        "La contraseña de la base de datos es {}",
        "la contraseña nueva es {}",
        'la clave del wifi es "{}"',
        "La contrasena ahora es {}",
    ),
}


def _chosen(d: Draw) -> str:
    """A password as people take or generate it."""
    kind = d.random.randrange(5)
    word = d.one("Sommer", "dragon", "Monkey", "tiger", "Falcon", "winter", "Rocket", "pelican")
    if kind == 0:
        return word + d.of(_DIGITS, d.random.randrange(2, 5)) + d.one("", "!", "#")
    if kind == 1:
        return f"{word}-{d.one('blue', 'Haus', 'tree', 'sol')}-{d.of(_DIGITS, 2)}"
    if kind == 2:
        return d.of(ALNUM, d.random.randrange(10, 17))
    if kind == 3:
        return d.of(ALNUM, 3) + d.of(_STRONG, 8) + d.of(_DIGITS, 2)
    return word.replace("o", "0").replace("e", "3") + d.one("!", "@", "_") + d.of(_DIGITS, 3)


_DRAWN: dict[str, Callable[[Draw], str]] = {
    "AWS secret access key in a configuration or environment line": lambda d: d.of(ALNUM + "+/", 40),
    "Twilio auth token or API key, beside its name": lambda d: d.of(HEX, 32),
    "Hex key given to a name in source code": lambda d: d.of(HEX, d.random.choice((32, 64))),
}

_TOKENS: dict[str, Callable[[Draw], str]] = {
    "AWS access key id": TOKENS["aws key id"],
    "GitHub token (classic)": TOKENS["github classic"],
    "GitHub token (fine-grained)": TOKENS["github fine-grained"],
    "GitLab personal access token": lambda d: "gl" + "pat-" + d.of(URL_SAFE, 20),
    "OpenAI API key": TOKENS["openai"],
    "Anthropic API key": TOKENS["anthropic"],
    "Slack bot or user token": lambda d: (
        "xox" + d.one("b", "p") + f"-{d.of(_DIGITS, 12)}-{d.of(_DIGITS, 13)}-{d.of(ALNUM, 24)}"
    ),
    "Google API key": lambda d: "AI" + "za" + "Sy" + d.of(URL_SAFE, 33),
    "Google OAuth client secret": lambda d: "GOC" + "SPX-" + d.of(URL_SAFE, 28),
    "Stripe secret key (live)": lambda d: "sk" + "_live_" + d.of(ALNUM, d.random.choice((24, 99))),
    "SendGrid API key": lambda d: "SG" + f".{d.of(URL_SAFE, 22)}.{d.of(URL_SAFE, 43)}",
    "npm access token": TOKENS["npm"],
    "PyPI upload token": TOKENS["pypi"],
    "Hugging Face access token": lambda d: "hf" + "_" + d.of(ALNUM, 34),
    "DigitalOcean personal access token": TOKENS["digitalocean"],
    "Databricks personal access token": lambda d: "dapi" + d.of(HEX, 32) + d.one("", "-2"),
    "Telegram bot token": lambda d: (
        d.of("123456789", d.random.choice((8, 9, 10)))
        + ":"
        + d.one("AA" + d.of(URL_SAFE, 33), d.of(ALNUM, 35))
    ),
    "Discord bot token": lambda d: (
        f"{base64.b64encode(d.of('123456789', d.random.choice((18, 19))).encode()).decode().rstrip('=')}"
        f".{d.of(URL_SAFE, 6)}.{d.of(URL_SAFE, d.random.choice((27, 38)))}"
    ),
    "HashiCorp Vault service token": lambda d: "hv" + "s." + d.of(ALNUM, d.random.choice((24, 95))),
    "Docker Hub personal access token": lambda d: "dckr" + "_pat_" + d.of(URL_SAFE, 27),
    "Shopify admin API token": lambda d: "shp" + "at_" + d.of(HEX, 32),
    "Atlassian API token": lambda d: (
        "ATA" + "TT3xFfGF0" + d.of(URL_SAFE, 170) + "=" + d.of(UPPER[-10:] + "ABCDEF", 8)
    ),
    "Grafana service account token": lambda d: "gl" + f"sa_{d.of(ALNUM, 32)}_{d.of(HEX, 8)}",
    "JSON web token": TOKENS["json web token"],
    "age secret key": TOKENS["age"],
}


def _pem(kind: str) -> Callable[[Draw], tuple[str, str]]:
    def draw(d: Draw) -> tuple[str, str]:
        end = d.one("\n", "\n", "\\n", "\r\n", "\n  ")
        encoded = d.base64(d.random.choice((120, 800)))
        body = end.join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
        head = f"Version: GnuPG v2{end}{end}" if "PGP" in kind and d.one("", "v") else ""
        first, last = (f"-----{edge} {kind}-----" for edge in ("BEGIN", "END"))
        return d.one("", "It is this:\n", 'KEY="') + f"{first}{end}{head}{body}{end}{last}", body

    return draw


def _putty(d: Draw) -> tuple[str, str]:
    end = d.one("\n", "\r\n", "\\n")
    lines = [d.base64(48) for _ in range(8)]
    private = end.join(lines[:6])
    text = end.join(
        (
            f"PuTTY-User-Key-File-{d.one('2', '3')}: {d.one('ssh-rsa', 'ssh-ed25519')}",
            "Encryption: none",
            "Comment: rsa-key-20260101",
            "Public-Lines: 2",
            *lines[6:],
            d.one("Key-Derivation: Argon2id", "Argon2-Memory: 8192"),
            "Private-Lines: 6",
            private,
            f"Private-MAC: {d.of(HEX, 64)}",
        )
    )
    return f"the .ppk of the jump host:{end}{text}", private


def _service_account(d: Draw) -> tuple[str, str]:
    encoded = d.base64(600)
    body = "\n".join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
    key = f"-----BEGIN {'PRIVATE'} KEY-----\n{body}\n-----END {'PRIVATE'} KEY-----\n"
    told = {"type": "service_account", "private_key_id": d.of(HEX, 40), "private_key": key}
    return json.dumps(told, indent=d.random.choice((None, 2))), body.replace("\n", "\\n")


def _basic(form: str) -> Callable[[Draw], tuple[str, str]]:
    def draw(d: Draw) -> tuple[str, str]:
        secret = base64.b64encode(f"{d.one('ci', 'deploy', 'a@b.dev')}:{_chosen(d)}".encode()).decode()
        return form.format(secret), secret

    return draw


def _put(form: str, value: Callable[[Draw], str]) -> Callable[[Draw], tuple[str, str]]:
    def draw(d: Draw) -> tuple[str, str]:
        secret = value(d)
        return form.format(secret), secret

    return draw


def _alnum(size: int) -> Callable[[Draw], str]:
    return lambda d: d.of(ALNUM, size)


def _percent(d: Draw) -> str:
    return d.base64(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")


def _broken(form: str, join: str) -> Callable[[Draw], tuple[str, str]]:
    """A vendor's token in two pieces."""

    def draw(d: Draw) -> tuple[str, str]:
        token = _TOKENS[d.one(*_PREFIXED)](d)
        at = d.random.randrange(6, len(token) - 6)
        pieces = token[:at] + join + token[at:]
        return form.format(pieces), pieces

    return draw


_PREFIXED = (
    "AWS access key id",
    "GitHub token (classic)",
    "OpenAI API key",
    "Stripe secret key (live)",
    "npm access token",
    "DigitalOcean personal access token",
    "Slack bot or user token",
    "Google API key",
)
_WHOLES: dict[str, tuple[Callable[[Draw], tuple[str, str]], ...]] = {
    "Slack incoming webhook address": (
        *(
            _put(form.format("https://hooks.slack.com/services/T0AB12CD3/B0XY98ZW7/{}"), _alnum(24))
            for form in ("SLACK_WEBHOOK_URL={}", "curl -X POST -d @body.json {}", '"url": "{}"')
        ),
    ),
    "Discord webhook address": (
        _put("https://discord.com/api/webhooks/112233445566778899/{}", lambda d: d.of(URL_SAFE, 68)),
        _put(
            "hook = 'https://discordapp.com/api/webhooks/998877665544332211/{}'", lambda d: d.of(URL_SAFE, 68)
        ),
    ),
    "Google service account file (JSON with a private key)": (_service_account,) * 3,
    "Docker config.json `auth` entry": (
        _basic('{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}}}}}}'),
        _basic('"registry.acme.dev": {{\n  "auth": "{}"\n}}'),
        _basic("auths:\n  registry.acme.dev:\n    auth: {}"),
        _basic("{{'auth': '{}'}}"),
        _basic('{{\\"auths\\":{{\\"r.acme.dev\\":{{\\"auth\\":\\"{}\\"}}}}}}'),
    ),
    "Azure storage connection string (AccountKey)": (
        _put(
            "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net",
            lambda d: d.base64(64),
        ),
        _put("AZURE_STORAGE_CONNECTION_STRING='AccountName=a;AccountKey={}'", lambda d: d.base64(64)),
        _put("az storage blob list --account-name acme --account-key {}", lambda d: d.base64(64)),
    ),
    "Azure shared access signature address (sig)": (
        _put(
            "https://acme.blob.core.windows.net/c/f.zip?sv=2024-11-04&se=2027-01-01&sr=b&sp=r&sig={}",
            _percent,
        ),
        _put("https://acme.blob.core.windows.net/c?sig={}&sv=2022", _percent),
        _put('"sasToken": "?sv=2024&ss=b&sp=rw&sig={}"', _percent),
        _put("SharedAccessSignature sr=acme.servicebus.windows.net&sig={}&se=1767225600&skn=root", _percent),
        _put("url?sp=r\\u0026sig={}\\u0026se=2027", _percent),
    ),
    "RSA or EC private key in PEM": (_pem("RSA PRIVATE KEY"), _pem("EC PRIVATE KEY"), _pem("PRIVATE KEY"))
    * 2,
    "OpenSSH private key": (_pem("OPENSSH PRIVATE KEY"),) * 4,
    "PGP private key block": (_pem("PGP PRIVATE KEY BLOCK"),) * 4,
    "PuTTY private key file (.ppk)": (_putty,) * 6,
    "Database URL with a password (PostgreSQL, MySQL, MongoDB, Redis or AMQP)": (
        _put("postgresql://app:{}@db.acme.dev:5432/shop", _chosen),
        _put("DATABASE_URL=mysql://root:{}@10.0.0.4/shop", _alnum(12)),
        _put("mongodb+srv://svc:{}@cluster0.ab1cd.mongodb.net/?retryWrites=true", _alnum(16)),
        _put("redis://:{}@cache:6379/0", _alnum(20)),
        _put("rediss://default:{}@cache:6379/0", lambda _: "correcthorse"),
        _put("amqp://svc:{}@mq.internal/vhost", _chosen),
        _put("postgres+asyncpg://app:{}@localhost/x", lambda _: "swordfish"),
        _put("jdbc:postgresql://db:5432/shop?user=app&password={}", _chosen),
    ),
    "SQL Server or ODBC connection string with a password": (
        _put(
            "Server=tcp:acme.database.windows.net,1433;Database=shop;User ID=sa;Password={};Encrypt=True;",
            _chosen,
        ),
        _put("Data Source=db01;Initial Catalog=shop;User Id=app;Pwd={}", lambda _: "swordfish"),
        _put("DRIVER={{ODBC Driver 18 for SQL Server}};SERVER=db;UID=sa;PWD={};Encrypt=yes", _chosen),
        _put('conn = pyodbc.connect("DSN=shop;UID=app;PWD={}")', lambda _: "letmein"),
        _put("Driver={{MySQL ODBC 8.0}};Server=h;Database=d;User=root;Password={};Option=3;", _alnum(9)),
    ),
    "PostgreSQL keyword connection string with a password (host=... password=...)": (
        _put("host=db.acme.dev port=5432 dbname=shop user=app password={}", _chosen),
        _put('psql "host=localhost user=app password={} dbname=shop"', lambda _: "swordfish"),
        _put("conn = psycopg.connect('dbname=shop user=app password={}')", lambda _: "letmein"),
        _put("password={} host=db user=app sslmode=require", _alnum(12)),
    ),
    "Encryption key in base64 given to a name (FERNET_KEY, APP_KEY, WireGuard PrivateKey)": (
        _put("FERNET_KEY={}", lambda d: base64.urlsafe_b64encode(d.random.randbytes(32)).decode()),
        _put("APP_KEY=base64:{}", lambda d: d.base64(32)),
        _put("[Interface]\nPrivateKey = {}\nAddress = 10.0.0.2/32", lambda d: d.base64(32)),
        _put('f = Fernet("{}")', lambda d: base64.urlsafe_b64encode(d.random.randbytes(32)).decode()),
        _put("f = Fernet(b'{}')", lambda d: base64.urlsafe_b64encode(d.random.randbytes(32)).decode()),
        _put('ENCRYPTION_KEY: "{}"', lambda d: d.base64(32)),
        _put("DATA_KEY={}", lambda d: d.base64(16)),
        _put("AIRFLOW__CORE__FERNET_KEY='{}'", lambda d: d.base64(32)),
        _put("PresharedKey = {}", lambda d: d.base64(32)),
        _put('"cookieKey": "{}"', lambda d: d.base64(24) + d.base64(8)),
        _put("wg set wg0 private-key {}", lambda d: d.base64(32)),
    ),
    "HTTP basic authorization header": (
        _basic("Authorization: Basic {}"),
        _basic("curl -H 'Authorization: Basic {}' https://api.acme.dev"),
        _basic('headers = {{"Authorization": "Basic {}"}}'),
        _put("Authorization: Basic {}", lambda d: d.base64(24)),
    ),
    "Bearer token in a header or a curl command": (
        _put("Authorization: Bearer {}", _alnum(40)),
        _put('curl -H "Authorization: Bearer {}" https://api.acme.dev/me', lambda d: d.of(HEX, 64)),
        _put('headers={{"authorization": f"bearer {}"}}', lambda d: d.of(URL_SAFE, 43)),
        _put("-H 'Authorization: Token {}'", lambda d: d.of(HEX, 40)),
        _put("http GET acme.dev Authorization:'Bearer {}'", lambda d: d.of(LOWER, 36)),
    ),
    "Vendor token with a fixed prefix, broken over two lines or over two concatenated strings in code": (
        *(
            _broken('token = "{}"', join)
            for join in (
                '" + "',
                '" "',
                '"\n    "',
                '" +\n  "',
                '"\n  + "',
                '" . "',
                '" .. "',
                '" & "',
                '" \\\n "',
            )
        ),
        _broken("const t = '{}';", "' + '"),
        _broken('KEY = (f"{}")', '"\n       f"'),
        _broken("x = `{}`", "` +\n`"),
        _broken("Use {} for staging.", "\n"),
        _broken("Use {} for staging.", "\n   "),
        _broken("> it was {}\n> and that is all", "\n> "),
        _broken("export X={}", "\\\n"),
        _broken("{}\n\nThat is the one.", "\r\n"),
        _broken('{{"text": "use \\"{}\\""}}', '\\" + \\"'),
        _broken("It is {} I think", "\\n"),
    ),
}


def _forms(shape: str) -> tuple[Callable[[Draw], tuple[str, str]], ...]:
    if shape in _TOKENS:
        return tuple(_put(form, _TOKENS[shape]) for form in _ANYWHERE)
    if shape in _WHOLES:
        return _WHOLES[shape]
    return tuple(_put(form, _DRAWN.get(shape, _chosen)) for form in _PHRASES[shape])


@functools.cache
def named_secrets(seed: str = "named", rounds: int = 2) -> tuple[Planted, ...]:
    """Secrets of each of the fifty shapes, each in a text of the kind it is met in."""
    planted = []
    for shape in SHAPES:
        d = Draw(f"{seed} {shape}")
        forms = _forms(shape)
        planted += [Planted(shape, *form(d)) for form in forms * rounds]
    return tuple(planted)
