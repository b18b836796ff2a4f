"""Hook program that a harness runs at each event: `PYTHON -I -S hook.py HARNESS [SIGN...]`.

Both paths are absolute. The event's payload on stdin goes to the daemon unchanged, and the daemon's answer
goes to stdout unchanged. Whatever happens (no daemon, a stopped, slow or broken one, a closed stream, a
signal), the process ends with 0 within 2.5 s and has printed nothing. So an agent never fails or waits when
its memory does.

A SIGN shows that a script runs the harness. `--headless=NAME=VALUE` is a variable of the environment.
`--headless=WORD` is an argument of the harness's own process, which is looked up where there is a /proc.

It costs as little as an interpreter. It imports only modules of the interpreter itself, and one timer is the
deadline of everything. A test compares its frames with the protocol. Rare cases are in hook_slow_path.py.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys
import time

TYPE_CHECKING = False  # `typing` itself costs more than all this; see __init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

VERSION = b"0.1.0"
DEADLINE_S = 2.5
# Part of the deadline that is kept for the daemon's answer.
_MARGIN_S = 0.2
# Bytes: of a payload as it is sent, of one that is read at all, and of a reply's frame.
SENT, READ, _REPLY = 1_500_000, 32 << 20, 4 << 20

_VERSION = b"\xa7version" + bytes((0xA0 + len(VERSION),)) + VERSION
HELLO = b"\x84\xa4type\xa5hello\xa2id\x01\xa6client\xabforged-hook" + _VERSION
_HOOK = b"\x88\xa4type\xa4hook\xa2id\x02\xa7harness"
# Keys of the payloads whose values are paths; True for the path of a file.
_PATH_KEYS = ((b'"cwd"', False), (b'"workspace_roots"', False), (b'"transcript_path"', True))
_MOST_PATH = 8192
_SIGNALS = (_signal.SIGALRM, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_PEER_BYTES = 12  # pid, uid, gid
_MISMATCH = b"\xb1protocol_mismatch"
_SIGN = "--headless="
# Shells that may run between a harness and its hook, and how many of them at most.
_SHELLS, _MOST_SHELLS = (b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"fish", b"busybox"), 4
# Bytes of a path that fit into an address; hook_slow_path.py connects to longer ones.
_PATH = 103 if sys.platform == "darwin" else 107


def main(arguments: list[str]) -> None:
    """Run the hook within 2.5 s, print the daemon's answer if there is one, and end the process with 0."""
    try:
        for number in _SIGNALS:
            _signal.signal(number, _exit_on_signal)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _SIGNALS)
        _signal.setitimer(_signal.ITIMER_REAL, DEADLINE_S)
        ends = time.monotonic() + DEADLINE_S
        payload = _read_stdin()
        posix.fstat(1)  # where stdout is closed, the socket gets its number
        harness, signs = arguments[:1], [each[len(_SIGN) :] for each in arguments if each.startswith(_SIGN)]
        is_called = len(harness) + len(signs) == len(arguments) > len(signs)
        if is_called and payload and not _is_bypassed(posix.environ):
            headless = bool(signs) and is_headless([each.encode() for each in signs])
            _write_stdout(answer(harness[0].encode(), payload, ends, headless=headless))
    except BaseException:  # noqa: BLE001, S110 - the harness must never see an error
        pass
    finally:
        posix._exit(0)


def _exit_on_signal(*_: object) -> None:
    posix._exit(0)


def _read_stdin() -> bytes:
    """Return all of stdin; nothing if it has 32 MiB or more."""
    data: list[bytes] = []
    while sum(map(len, data)) < READ:
        data.append(posix.read(0, 1 << 20))
        if not data[-1]:
            return b"".join(data)
    return b""


def _write_stdout(output: bytes) -> None:
    while output:
        output = output[posix.write(1, output) :]


def _is_bypassed(env: "Mapping[bytes, bytes]") -> bool:
    return env.get(b"FORGED_BYPASS", b"").strip().lower() not in {b"", b"0", b"false", b"no"}


def is_headless(signs: "list[bytes]", proc: bytes = b"/proc") -> bool:
    """Return True if a sign, a variable or an argument of the harness, shows that a script runs it."""
    named = [each.partition(b"=") for each in signs if not each.startswith(b"-")]
    if any(posix.environ.get(name) == value for name, is_named, value in named if is_named):
        return True
    words = [each for each in signs if each.startswith(b"-") or b"=" not in each]
    try:
        called = _harness_command(proc) if words else []
    except (OSError, ValueError):
        return False
    return any(each in words or each.partition(b"=")[0] in words for each in called[1:])


def _harness_command(proc: bytes) -> "list[bytes]":
    """Return the command line of the harness: the first process above this one that is no shell."""
    pid = posix.getppid()
    for _ in range(_MOST_SHELLS):
        called = _read_file(b"%s/%d/cmdline" % (proc, pid)).split(b"\0")[:-1]
        if not called or called[0].rpartition(b"/")[2].lstrip(b"-") not in _SHELLS:
            return called
        pid = int(_read_file(b"%s/%d/stat" % (proc, pid)).rpartition(b")")[2].split()[1])
    return []


def _read_file(path: bytes) -> bytes:
    number = posix.open(path, posix.O_RDONLY)
    try:
        return posix.read(number, 1 << 16)
    finally:
        posix.close(number)


def answer(harness: bytes, payload: bytes, ends: float, *, headless: bool = False) -> bytes:
    """Send a payload; return the daemon's answer, or a notice of a wrong address or version."""
    if len(payload) > SENT:
        payload = bytes(_import_slow_path().shortened(payload, SENT))
    try:
        sock = _connect_or_start(ends)
    except Exception as error:  # noqa: BLE001 - as in `main`, but some errors need a notice
        return bytes(_import_slow_path().address_notice(error, payload))
    left_ms = max(int((ends - time.monotonic() - _MARGIN_S) * 1000), 1)
    asked = encode_request(harness, payload, left_ms, headless=headless)
    sock.sendall(_add_length(HELLO) + _add_length(asked))
    if _MISMATCH in (greeting := _receive_body(sock)):
        return bytes(_import_slow_path().protocol_notice(fields_of(greeting)[b"message"], payload))
    return output_of(_receive_body(sock))


def encode_request(harness: bytes, payload: bytes, within_ms: int, *, headless: bool = False) -> bytes:
    """Return the body of a `Hook` request as msgpack."""
    sizes = len(harness).to_bytes(1, "big"), len(payload).to_bytes(4, "big"), within_ms.to_bytes(2, "big")
    named, sent, within = b"\xd9" + sizes[0] + harness, b"\xc6" + sizes[1] + payload, b"\xcd" + sizes[2]
    rest = _encode_seen(payload) + _VERSION + b"\xa8headless" + (b"\xc3" if headless else b"\xc2")
    return _HOOK + named + b"\xa7payload" + sent + b"\xa9within_ms" + within + rest


def _encode_seen(payload: bytes) -> bytes:
    """Return the field `seen` as msgpack: device and inode of the payload's paths, by path."""
    found = dict[bytes, bytes]()
    for path, is_file in _paths(payload):
        try:
            status = posix.stat(path)
            found[path] = b"%x:%x" % (status.st_dev, status.st_ino)
        except (OSError, ValueError):
            if not is_file:
                found[path] = b""
    sized = (b"\xda" + len(each).to_bytes(2, "big") + each for pair in found.items() for each in pair)
    return b"\xa4seen" + bytes((0x80 + len(found),)) + b"".join(sized)


def _paths(payload: bytes) -> "list[tuple[bytes, bool]]":
    """Return the absolute paths of a payload, each with True for the path of a file."""
    found = list[tuple[bytes, bool]]()
    for key, is_file in _PATH_KEYS:
        at = payload.find(key)
        if at < 0:
            continue
        start = payload.find(b'"', at + len(key), at + len(key) + 8) + 1
        end = payload.find(b'"', start, start + _MOST_PATH) if start else -1
        path = payload[start:end] if end > 0 else b""
        is_plain = not payload[at + len(key) : start - 1].strip(b" \t\r\n:[") and path[:1] == b"/"
        if not is_plain or b"\\" in path or payload.find(key, at + 1) >= 0:
            return list(_import_slow_path().paths(payload, _MOST_PATH))
        found.append((path, is_file))
    return found


def output_of(body: bytes) -> bytes:
    """Return the output in a `Hooked` for the harness. Raises LookupError or ValueError for other replies."""
    fields = fields_of(body)
    if (fields[b"type"], fields[b"id"]) != (b"hooked", b"\x02"):
        raise ValueError
    return fields[b"output"]


def fields_of(body: bytes) -> "dict[bytes, bytes]":
    """Return the fields of a reply as bytes: texts, bytes and small numbers. Raises as `output_of`."""
    at, values = 1, list[bytes]()
    while at < len(body):
        value, at = _read_value(body, at)
        values.append(value)
    return dict(zip(values[::2], values[1::2], strict=True))


def _read_value(body: bytes, at: int) -> tuple[bytes, int]:
    """Return the text, bytes or small number at `at`, and the place after it."""
    kind = body[at]
    if kind < 0x80:
        return body[at : at + 1], at + 1
    if kind & 0xE0 == 0xA0:
        size, start = kind & 0x1F, at + 1
    else:
        start = at + 1 + {0xC4: 1, 0xD9: 1, 0xC5: 2, 0xDA: 2, 0xC6: 4, 0xDB: 4}[kind]
        size = int.from_bytes(body[at + 1 : start], "big")
    return body[start : start + size], start + size


def _add_length(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _receive_body(sock: _socket.socket) -> bytes:
    size = int.from_bytes(_receive_exactly(sock, 4), "big")
    if size > _REPLY:
        raise ValueError
    return _receive_exactly(sock, size)


def _receive_exactly(sock: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _connect_or_start(ends: float) -> _socket.socket:
    """Return a connection to this user's or root's daemon before `ends`; start it if none listens."""
    path = address(posix.environ)
    try:
        if path and len(path) <= _PATH:
            return _check_peer(_connect(path))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        pass
    sock: _socket.socket = _import_slow_path().connect_or_start(ends - time.monotonic())
    return _check_peer(sock)


def _connect(path: bytes) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def _check_peer(sock: _socket.socket) -> _socket.socket:
    """Return the socket if this user or root listens at its other end. Raises PermissionError."""
    if hasattr(_socket, "SO_PEERCRED"):
        who = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER_BYTES)
        if int.from_bytes(who[4:8], sys.byteorder) not in (posix.geteuid(), 0):
            raise PermissionError
    return sock


def address(env: "Mapping[bytes, bytes]", run_user: bytes = b"/run/user") -> bytes:
    """Return the socket path as `forged_client.address.socket_path`; empty where only that finds it."""
    if chosen := env.get(b"FORGED_SOCKET"):
        return chosen
    for runtime in (env.get(b"XDG_RUNTIME_DIR", b""), b"%s/%d" % (run_user, posix.geteuid())):
        if _is_private(runtime):
            return runtime.rstrip(b"/") + b"/forged/forged.sock"
    state, home = env.get(b"XDG_STATE_HOME", b""), env.get(b"HOME", b"")
    if not state.startswith(b"/"):
        if sys.platform == "darwin" or not home.startswith(b"/"):
            return b""
        state = home.rstrip(b"/") + b"/.local/state"
    return state.rstrip(b"/") + b"/forged/run/forged.sock"


def _is_private(path: bytes) -> bool:
    """Return True for a folder of this user that is closed to others."""
    if not path.startswith(b"/"):
        return False
    try:
        found = posix.lstat(path.rstrip(b"/"))
    except (OSError, ValueError):
        return False
    return found.st_uid == posix.geteuid() and found.st_mode == 0o040700


def _import_slow_path() -> "ModuleType":
    """Import and return the module of rare cases; its package is not on the path of a program."""
    folder = __file__.rpartition("/")[0].rpartition("/")[0]
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that no module of Python is hidden
    from forged_client import hook_slow_path  # noqa: PLC0415

    return hook_slow_path


if __name__ == "__main__":
    main(sys.argv[1:])
