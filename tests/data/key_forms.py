"""Random private keys and credentials in addresses and connection strings.

Beside each family stand near misses of the same form that hold no secret: public keys, fingerprints,
addresses without a password, references and stand-ins.
"""

from __future__ import annotations

import base64
import json
import textwrap
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple

from tests.data.secrets import ALNUM, HEX, LOWER, Draw


class Form(NamedTuple):
    """A text, and the parts of it that nobody may read; none where it holds no secret."""

    text: str
    secrets: tuple[str, ...] = ()


Family = Callable[[Draw], Form]
_DASHES = "-" * 5
_BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
# What RFC 7468, OpenSSL, OpenSSH, GnuPG and the SSH programs put between the dashes.
PEM_LABELS = (
    *("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY"),
    *("DH PRIVATE KEY", "OPENSSH PRIVATE KEY", "SSH PRIVATE KEY", "ANY PRIVATE KEY", "ED25519 PRIVATE KEY"),
    *("SM2 PRIVATE KEY", "ENCRYPTED RSA PRIVATE KEY", "X25519 PRIVATE KEY", "TSS2 PRIVATE KEY"),
    *("ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY", "NEBULA ED25519 PRIVATE KEY"),
    "NEBULA X25519 ENCRYPTED PRIVATE KEY",
)
PUBLIC_LABELS = ("PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE", "CERTIFICATE REQUEST", "X509 CRL")


def pem(d: Draw, label: str, *, headers: str = "", dashes: str = _DASHES, size: int = 300) -> str:
    body = "\n".join(textwrap.wrap(d.base64(size), 64))
    return f"{dashes}BEGIN {label}{dashes}\n{headers}{body}\n{dashes}END {label}{dashes}"


def _lines(key: str) -> tuple[str, ...]:
    """The lines of a key's body, each of which is a secret."""
    return tuple(line for line in key.split("\n") if len(line) > 30 and " " not in line)


def _key(text: str, *, said: str = "{}") -> Form:
    return Form(said.format(text), _lines(text))


def _pgp(d: Draw) -> Form:
    headers = d.one("", "Version: GnuPG v2\n\n", "Comment: made by hand\nVersion: 1\n\n", "\n")
    key = pem(d, "PGP PRIVATE KEY BLOCK", headers=headers).replace(
        "\n" + _DASHES + "END", "\n=aB3d\n" + _DASHES + "END"
    )
    return _key(key)


def _ssh2(d: Draw) -> Form:
    body = "\n".join(textwrap.wrap(d.base64(300), 70))
    kind = d.one("SSH2 ENCRYPTED PRIVATE KEY", "SSH2 PRIVATE KEY")
    key = f'---- BEGIN {kind} ----\nComment: "2048-bit rsa, lou"\n{body}\n---- END {kind} ----'
    return _key(key)


def _ppk(d: Draw) -> Form:
    version = d.one("2", "3")
    public = "\n".join(textwrap.wrap(d.base64(140), 64))
    private = "\n".join(textwrap.wrap(d.base64(200), 64))
    argon = "Key-Derivation: Argon2id\nArgon2-Memory: 8192\nArgon2-Salt: 0f1e2d\n" if version == "3" else ""
    cipher = "aes256-cbc" if argon else "none"
    head = f"PuTTY-User-Key-File-{version}: ssh-rsa\nEncryption: {cipher}\nComment: lou key\n"
    lines = f"Public-Lines: {len(public.split())}\n{public}\n{argon}Private-Lines: {len(private.split())}\n"
    mac = d.of(HEX, 40)
    return Form(f"{head}{lines}{private}\nPrivate-MAC: {mac}", (*private.split("\n"),))


def _jwk(d: Draw) -> Form:
    kind = d.one("EC", "RSA", "OKP", "oct")
    if kind == "EC":
        key = {"kty": "EC", "crv": "P-256", "x": d.segment(32), "y": d.segment(32), "d": d.segment(32)}
    elif kind == "OKP":
        key = {"crv": "Ed25519", "d": d.segment(32), "x": d.segment(32), "kty": "OKP"}
    elif kind == "oct":
        key = {"kty": "oct", "alg": "HS256", "k": d.segment(32)}
    else:
        key = {"kty": "RSA", "n": d.segment(256), "e": "AQAB", "d": d.segment(256)}
        key |= {
            "p": d.segment(128),
            "q": d.segment(128),
            "dp": d.segment(128),
            "dq": d.segment(128),
            "qi": d.segment(128),
        }
    secrets = tuple(key[name] for name in ("d", "k", "p", "q", "dp", "dq", "qi") if name in key)
    indent = None if d.one("flat", "deep") == "flat" else 2
    text = json.dumps(key, indent=indent, separators=(",", ":") if d.one("a", "b") == "a" else None)
    return Form(text, secrets)


def _age(d: Draw) -> Form:
    secret = d.one("AGE-SECRET-KEY-1", "AGE-SECRET-KEY-PQ-1") + d.of(_BECH32, 58)
    secret = secret if d.one("upper", "lower") == "upper" else secret.lower()
    return Form(f"# public key: age1{d.of(_BECH32.lower(), 58)}\n{secret}", (secret,))


def _minisign(d: Draw) -> Form:
    secret = "RWRTY0Iy" + d.base64(150)
    name = d.one("minisign encrypted secret key", "signify secret key", "rsign encrypted secret key")
    return Form(f"untrusted comment: {name}\n{secret}", (secret,))


def _wireguard(d: Draw) -> Form:
    secret, shared = d.base64(32), d.base64(32)
    text = (
        f"[Interface]\nAddress = 10.0.0.2/32\nPrivateKey = {secret}\n[Peer]\nPublicKey = {d.base64(32)}\n"
        f"PresharedKey = {shared}\nEndpoint = vpn.example.org:51820"
    )
    return Form(text, (secret, shared))


def _wireguard_command(d: Draw) -> Form:
    secret = d.base64(32)
    text = d.one(
        f"echo {secret} | wg pubkey",
        f"wg set wg0 private-key <(echo {secret})",
        f"echo '{secret}' > privatekey",
    )
    return Form(text, (secret,))


def _one_line(d: Draw) -> Form:
    key = pem(d, d.one(*PEM_LABELS))
    end = d.one("\\n", "\\\\n", "\\r\\n", " ", "%0A", "&#10;", "\n  ", "\r\n", "\n> ", "\n# ", "\n+")
    said = d.one('{{"private_key": "{}"}}', 'KEY="{}"', "the key is {}", "key: |\n  {}\n")
    return Form(said.format(key.replace("\n", end)), _lines(key))


def _concatenated(d: Draw) -> Form:
    key = pem(d, d.one("PRIVATE KEY", "RSA PRIVATE KEY"))
    joint = d.one('\\n" +\n  "', '\\n"\n  "', "\\n' .\n '")
    quote = '"' if '"' in joint else "'"
    return Form(f"key = {quote}{key.replace(chr(10), joint)}{quote}", _lines(key))


def _squeezed(d: Draw) -> Form:
    """All on one line with nothing between, as people paste it into a form or a secret store."""
    key = pem(d, d.one(*PEM_LABELS[:8]))
    lines = _lines(key)
    return Form(f"TLS_KEY={key.replace(chr(10), '')}", lines)


def _base64_of_pem(d: Draw) -> Form:
    secret = base64.b64encode(pem(d, d.one(*PEM_LABELS)).encode()).decode()
    wrapped = "\n  ".join(textwrap.wrap(secret, 76))
    text, parts = d.one(
        (f"  tls.key: {secret}", (secret,)),
        (f"base64 -d <<E\n{secret}\nE", (secret,)),
        (f"tls.key: |\n  {wrapped}", tuple(textwrap.wrap(secret, 76)[:-1])),
    )
    return Form(text, parts)


def _pkcs8_alone(d: Draw) -> Form:
    """The base64 of a PKCS#8 or PKCS#1 or SEC1 structure without its dashes."""
    start = d.one(
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "MIIEpAIBAAKCAQEA",
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg",
        "MC4CAQAwBQYDK2VwBCIEI",
        "MHcCAQEEI",
        "MIIFHDBOBgkqhkiG9w0BBQ0wQ",
    )
    secret = start + d.base64(60 if "MC4" in start else 300)
    return Form(d.one(f'"signing": "{secret}"', f"signer {secret}", f"KEY_DER={secret}"), (secret,))


def _xml_rsa(d: Draw) -> Form:
    private = {name: d.base64(64) for name in ("P", "Q", "DP", "DQ", "InverseQ")} | {"D": d.base64(128)}
    members = "".join(f"<{name}>{value}</{name}>" for name, value in private.items())
    public = f"<Modulus>{d.base64(128)}</Modulus><Exponent>AQAB</Exponent>"
    return Form(f"<RSAKeyValue>{public}{members}</RSAKeyValue>", tuple(private.values()))


KEYS: dict[str, Family] = {
    **{f"PEM {label.lower()}": lambda d, label=label: _key(pem(d, label)) for label in PEM_LABELS},
    "PEM with headers": lambda d: _key(
        pem(d, "RSA PRIVATE KEY", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F1E2D\n\n")
    ),
    "PGP": _pgp,
    "SSH2": _ssh2,
    "PuTTY": _ppk,
    "JWK": _jwk,
    "age": _age,
    "minisign": _minisign,
    "WireGuard": _wireguard,
    "WireGuard on a command line": _wireguard_command,
    "one line": _one_line,
    "concatenated": _concatenated,
    "squeezed": _squeezed,
    "base64 of PEM": _base64_of_pem,
    "DER in base64": _pkcs8_alone,
    "XML": _xml_rsa,
}


def _word(d: Draw) -> str:
    """A password as people choose it or as a machine draws it."""
    return d.one(
        f"{d.one('orchid', 'Winter', 'tango', 'falcon')}{d.of('23456789', 3)}",
        d.of(ALNUM, 16),
        d.one("hunter", "walrus", "sesame") + d.one("!", "#1", "$7"),
        d.of(LOWER, 9),
    )


SCHEMES = (
    *("postgres", "postgresql", "postgresql+asyncpg", "mysql", "mysql+pymysql", "mariadb", "mongodb"),
    *(
        "mongodb+srv",
        "redis",
        "rediss",
        "amqp",
        "amqps",
        "mqtt",
        "mqtts",
        "nats",
        "ftp",
        "ftps",
        "sftp",
        "ssh",
    ),
    *("http", "https", "ldap", "ldaps", "smtp", "smtps", "imap", "imaps", "clickhouse", "cassandra", "neo4j"),
    *("bolt", "neo4j+s", "couchdb", "influxdb", "elasticsearch", "mssql", "sqlserver", "oracle", "snowflake"),
    *(
        "kafka",
        "stomp",
        "socks5",
        "smb",
        "rtsp",
        "git+https",
        "svn",
        "vnc",
        "etcd",
        "rabbitmq",
        "cockroachdb",
    ),
    *("ws", "wss", "jdbc:postgresql", "jdbc:mysql", "tcp", "udp", "telnet", "sip", "xmpp", "s3", "webdav"),
)


def _url(d: Draw) -> Form:
    secret = urllib.parse.quote(_word(d), safe="!$'()*+,;=~._-")
    user, host = (
        d.one("app", "svc-user", "lou%40corp", "admin"),
        d.one("db.internal", "10.0.0.5", "[::1]", "localhost"),
    )
    rest = d.one("", ":5432/app", "/0", ":27017/?authSource=admin", "/path?x=1")
    return Form(
        d.one("see {}", "URL={}", '"{}"', "<{}>", "({})", "curl '{}'").format(
            f"{d.one(*SCHEMES)}://{user}:{secret}@{host}{rest}"
        ),
        (secret,),
    )


def _password_only_url(d: Draw) -> Form:
    secret = d.one(d.of(ALNUM, 20), _word(d))
    return Form(
        f"{d.one('redis', 'rediss', 'amqp', 'mqtt', 'redis+sentinel', 'valkey')}://:{secret}@cache.internal:6379/0",
        (secret,),
    )


def _odd_password_url(d: Draw) -> Form:
    """Characters that should be percent-encoded, as people type them."""
    secret = d.one("p@ss", "w/rd", "a:b", "to#go", "he?lo", "qu@rt/z") + d.of("23456789", 3)
    return Form(
        f"DATABASE_URL={d.one('postgres', 'mysql', 'mongodb', 'amqp')}://app:{secret}@db.internal:5432/app",
        (secret[-3:] + "@", secret),
    )


def _query(d: Draw) -> Form:
    name = d.one(
        "password",
        "passwd",
        "pwd",
        "pass",
        "access_token",
        "auth_token",
        "token",
        "api_key",
        "apikey",
        "client_secret",
        "secret",
        "X-Amz-Signature",
        "X-Goog-Signature",
        "sig",
        "signature",
        "auth",
        "private_token",
        "refresh_token",
        "sslpassword",
        "authToken",
        "key",
    )
    secret = d.of(HEX, 40) if "ignature" in name or name == "sig" else d.of(ALNUM, 24)
    before = d.one("", "user=app&", "a=1&b=2&")
    return Form(
        f"{d.one('https', 'jdbc:postgresql', 'jdbc:mysql', 'mongodb', 'wss')}://db.internal:5432/app?{before}{name}={secret}&ssl=true",
        (secret,),
    )


def _query_word(d: Draw) -> Form:
    """A password of the user's own choice."""
    name, secret = d.one("password", "pwd", "passwd"), _word(d)
    return Form(
        f"jdbc:{d.one('postgresql', 'mysql', 'mariadb', 'db2', 'redshift')}://db.internal:5432/app?user=app&{name}={urllib.parse.quote(secret)}",
        (urllib.parse.quote(secret),),
    )


def _jdbc(d: Draw) -> Form:
    secret = _word(d)
    text = d.one(
        f"jdbc:oracle:thin:app/{secret}@db.internal:1521:XE",
        f"jdbc:oracle:thin:app/{secret}@//db.internal:1521/XE",
        f"jdbc:sqlserver://db.internal:1433;databaseName=app;user=app;password={secret};encrypt=true",
        f"jdbc:jtds:sqlserver://db.internal/app;user=app;password={secret}",
        f"jdbc:db2://db.internal:50000/app:user=app;password={secret};",
        f"jdbc:informix-sqli://db:1/app:INFORMIXSERVER=x;user=app;password={secret}",
        f"jdbc:snowflake://x.example.org/?user=app&password={secret}",
        f"jdbc:h2:mem:app;USER=sa;PASSWORD={secret}",
        f"sqlplus app/{secret}@db.internal",
        f"sqlplus -s system/{secret}@//db.internal:1521/XE",
    )
    return Form(text, (secret,))


def _keywords(d: Draw) -> Form:
    secret = _word(d)
    text = d.one(
        f"Server=db;Database=app;User Id=sa;Password={secret};TrustServerCertificate=True",
        f"Data Source=db;Initial Catalog=app;Integrated Security=False;UID=sa;PWD={secret}",
        f"Driver={{ODBC Driver 18 for SQL Server}};Server=tcp:db,1433;Uid=app;Pwd={{{secret}}};Encrypt=yes",
        f"DSN=warehouse;UID=app;PWD={secret}",
        f"host=db port=5432 dbname=app user=app password={secret} sslmode=require",
        f"host=db user=app password='{secret}' dbname=app",
        f"postgresql: host=db dbname=app password = {secret} user = app",
        f"Host=db;Username=app;Password={secret};Database=app",
        f'Provider=SQLOLEDB;Data Source=db;User ID=sa;Password="{secret}";',
        f"Server = db; Database = app; User Id = sa; Password = {secret};",
        f"cache.internal:6380,password={secret},ssl=True,abortConnect=False",
        f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={d.base64(32)}",
        f"app:{secret}@tcp(db.internal:3306)/app?parseTime=true",
        f"app:{secret}@unix(/run/mysqld/mysqld.sock)/app",
        f"app/{secret}@db.internal:1521/XE",
        f"user=app password={secret} host=db",
        f"mongo --host db -u app -p {secret} --authenticationDatabase admin",
        f"db.internal:5432:app:app:{secret}",
    )
    found = text.rpartition("SharedAccessKey=")[2] if "SharedAccessKey=" in text else secret
    return Form(text, (found,))


CREDENTIALS: dict[str, Family] = {
    "URL": _url,
    "URL with a password alone": _password_only_url,
    "URL with odd characters": _odd_password_url,
    "query": _query,
    "query with a word": _query_word,
    "JDBC": _jdbc,
    "keywords": _keywords,
}

_VARIABLES = (
    *("app:$PASSWORD", "app:${DB_PASSWORD}", "$USER:$PASS", "{user}:{password}", "user:password"),
    *("user:<password>", "user:pass", "${U}:${P}", "app:***", "app:%s", ":$REDIS_PASSWORD", "USER:PASSWORD"),
    *("username:password", "app:[redacted]"),
)
CLEAN: dict[str, Family] = {
    **{f"PEM {label.lower()}": lambda d, label=label: Form(pem(d, label)) for label in PUBLIC_LABELS},
    "PGP public": lambda d: Form(pem(d, "PGP PUBLIC KEY BLOCK", headers="Version: 1\n\n")),
    "PGP message": lambda d: Form(pem(d, "PGP MESSAGE", headers="\n")),
    "PGP signature": lambda d: Form(pem(d, "PGP SIGNATURE", headers="\n")),
    "SSH2 public": lambda d: Form(
        f"---- BEGIN SSH2 PUBLIC KEY ----\n{d.base64(64)}\n---- END SSH2 PUBLIC KEY ----"
    ),
    "SSH public": lambda d: Form(f"ssh-rsa AAAAB3NzaC1yc2E{d.base64(200)} lou@host"),
    "SSH ed25519": lambda d: Form(f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{d.of(ALNUM, 43)} lou@host"),
    "fingerprint": lambda d: Form(f"SHA256:{d.of(ALNUM, 43)} lou@host (ED25519)"),
    "JWK public": lambda d: Form(
        json.dumps({"kty": "EC", "crv": "P-256", "x": d.segment(32), "y": d.segment(32)})
    ),
    "JWK public RSA": lambda d: Form(
        json.dumps({"kty": "RSA", "n": d.segment(256), "e": "AQAB", "kid": d.segment(20)})
    ),
    "JSON with d": lambda d: Form(
        json.dumps(
            {"d": d.one("2026-01-01", "a sentence of prose", "M10 10 L20 20 C30 30 40 40 Z"), "type": "path"}
        )
    ),
    "SVG path": lambda d: Form(
        '<path d="M12 2C6.48 2 2 6.48 2 12s4.48 10 10 10 10-4.48 10-10S17.52 2 12 2z"/>'
    ),
    "age plugin, which names a device": lambda d: Form(f"AGE-PLUGIN-YUBIKEY-1{d.of(_BECH32, 38)}"),
    "age public": lambda d: Form(f"age1{d.of(_BECH32.lower(), 58)}"),
    "minisign public": lambda d: Form(f"untrusted comment: minisign public key\nRWQ{d.base64(40)}"),
    "WireGuard public": lambda d: Form(f"[Peer]\nPublicKey = {d.base64(32)}\nAllowedIPs = 0.0.0.0/0"),
    "dashes in prose": lambda d: Form(
        d.one(
            f"It begins with {_DASHES}BEGIN RSA PRIVATE KEY{_DASHES} and ends with its END.",
            f"Look for `{_DASHES}BEGIN OPENSSH PRIVATE KEY{_DASHES}` in the first line.",
            "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ---- is SSH2's form.",
            "PuTTY-User-Key-File-3 is the newest version of its format.",
            'A JWK is private if it has a "d" member.',
            "wg genkey | tee privatekey | wg pubkey > publickey",
        )
    ),
    "certificate in base64": lambda d: Form(
        f"caBundle: {base64.b64encode(pem(d, 'CERTIFICATE').encode()).decode()}"
    ),
    "DER certificate": lambda d: Form(f"x5c: MIIDdzCCAl+gAwIBAgIE{d.base64(200)}"),
    "DER public": lambda d: Form(f"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA{d.base64(200)}"),
    "URL": lambda d: Form(
        d.one(*SCHEMES)
        + "://"
        + d.one(
            "db.internal:5432/app",
            "user@db.internal/app",
            "10.0.0.5:6379/0",
            "app@db.internal:5432/app?sslmode=require",
            "[::1]:80/",
        )
    ),
    "URL with a variable": lambda d: Form(f"{d.one(*SCHEMES)}://{d.one(*_VARIABLES)}@db.internal:5432/app"),
    "at later in a URL": lambda d: Form(
        d.one(
            "https://example.org:8443/@lou/posts",
            "https://example.org/a:b@c",
            "http://localhost:3000/users/lou@example.org",
            "see https://example.org: mail lou@example.org",
            "https://example.org:443?mail=lou@example.org",
            "npm i https://registry.example.org:443/@scope/package",
            "http://proxy:3128, ask lou@corp",
        )
    ),
    "query": lambda d: Form(
        "https://example.org/search?"
        + d.one(
            "q=password&page=2",
            "token=$TOKEN&x=1",
            "token={token}",
            "key=name&sort=asc",
            "password=<password>",
            "sig=none",
            "password=password",
            "auth=basic",
            "key=title",
            "passwordless=true",
            "token_type=bearer&page=3",
            "pass=true",
        )
    ),
    "keywords": lambda d: Form(
        d.one(
            "Server=db;Database=app;Trusted_Connection=True;",
            "host=db dbname=app user=app sslmode=require",
            "Server=db;User Id=sa;Password=<password>;",
            "host=db user=app password=$PGPASSWORD dbname=app",
            "Server=db;User Id=sa;Password={0};",
            "cache.internal:6380,ssl=True",
            "root@tcp(db:3306)/app",
            "DSN=warehouse;UID=app",
            "jdbc:oracle:thin:@db.internal:1521:XE",
            "jdbc:oracle:thin:@//db:1521/XE",
            "sqlplus / as sysdba",
            "app/${DB_PASSWORD}@db.internal:1521/XE",
            "jdbc:postgresql://db.internal:5432/app?ssl=true&user=app",
            "host=db password= user=app",
            "feature/login@v2",
            "docs/setup@main",
            "see user/repo@1.2.3",
            "actions/checkout@v4",
            "lou/tool@sha256",
            "db.internal:5432:app:app",
            "12:30:15:900",
            "scp lou@host:/tmp/a b",
        )
    ),
}
