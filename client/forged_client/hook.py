"""Run by a harness at each of its events: `ABSOLUTE-PYTHON -I -S ABSOLUTE-PATH/hook.py HARNESS [SIGN...]`.

The event's payload on stdin goes to the daemon as it came, and its answer to stdout as it is. Whatever
happens (no daemon, a stopped, slow or broken one, a closed stream, a signal), the process ends with 0 within
2.5 s and has printed nothing: an agent never fails or waits because its memory does.

A SIGN shows that a script runs the harness: `--headless=NAME=VALUE` is a variable of the environment,
`--headless=WORD` an argument of the harness's own process, looked up where there is a /proc.

It costs as little as an interpreter: only modules of the interpreter are imported, a test holds the frames
against the protocol, and one timer is the deadline of everything. hook_beside.py has what is seldom needed.
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
# Of the deadline, what the daemon's answer needs to come out in.
_MARGIN_S = 0.2
# Bytes: of a payload as it is sent, of one that is read at all, and of a reply's frame.
SENT, READ, _REPLY = 1_500_000, 32 << 20, 4 << 20

_VERSION = b"\xa7version" + bytes((0xA0 + len(VERSION),)) + VERSION
HELLO = b"\x84\xa4type\xa5hello\xa2id\x01\xa6client\xabforged-hook" + _VERSION
_HOOK = b"\x88\xa4type\xa4hook\xa2id\x02\xa7harness"
# Keys of the harnesses' payloads behind which a path is, and whether it is that of a file.
_PATH_KEYS = ((b'"cwd"', False), (b'"workspace_roots"', False), (b'"transcript_path"', True))
_MOST_PATH = 8192
_SIGNALS = (_signal.SIGALRM, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_PEER_BYTES = 12  # pid, uid, gid
_MISMATCH = b"\xb1protocol_mismatch"
_SIGN = "--headless="
# Between a harness and its hook, and how many of them at most.
_SHELLS, _MOST_SHELLS = (b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"fish", b"busybox"), 4
# Bytes of a path that fit into an address; hook_beside.py has a way for longer ones.
_PATH = 103 if sys.platform == "darwin" else 107


def main(arguments: list[str]) -> None:
    """Do all of it; the process ends here."""
    try:
        for number in _SIGNALS:
            _signal.signal(number, _end)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _SIGNALS)
        _signal.setitimer(_signal.ITIMER_REAL, DEADLINE_S)
        ends = time.monotonic() + DEADLINE_S
        payload = _read()
        posix.fstat(1)  # where stdout is closed its number is the socket's
        harness, signs = arguments[:1], [each[len(_SIGN) :] for each in arguments if each.startswith(_SIGN)]
        is_called = len(harness) + len(signs) == len(arguments) > len(signs)
        if is_called and payload and not _is_bypassed(posix.environ):
            headless = bool(signs) and is_headless([each.encode() for each in signs])
            _write(answer(harness[0].encode(), payload, ends, headless=headless))
    except BaseException:  # noqa: BLE001, S110 - the edge of the harness's process: it must not hear of it
        pass
    finally:
        posix._exit(0)


def _end(*_: object) -> None:
    posix._exit(0)


def _read() -> bytes:
    """All of stdin, or nothing if it is too much."""
    data: list[bytes] = []
    while sum(map(len, data)) < READ:
        data.append(posix.read(0, 1 << 20))
        if not data[-1]:
            return b"".join(data)
    return b""


def _write(output: bytes) -> None:
    while output:
        output = output[posix.write(1, output) :]


def _is_bypassed(env: "Mapping[bytes, bytes]") -> bool:
    return env.get(b"FORGED_BYPASS", b"").strip().lower() not in {b"", b"0", b"false", b"no"}


def is_headless(signs: "list[bytes]", proc: bytes = b"/proc") -> bool:
    """Return True if one of these signs shows that a script runs the harness; False if none is readable."""
    named = [each.partition(b"=") for each in signs if not each.startswith(b"-")]
    if any(posix.environ.get(name) == value for name, is_named, value in named if is_named):
        return True
    words = [each for each in signs if each.startswith(b"-") or b"=" not in each]
    try:
        called = _harness(proc) if words else []
    except (OSError, ValueError):
        return False
    return any(each in words or each.partition(b"=")[0] in words for each in called[1:])


def _harness(proc: bytes) -> "list[bytes]":
    """The words with which the harness was called: the first process above this one that is no shell."""
    pid = posix.getppid()
    for _ in range(_MOST_SHELLS):
        called = _bytes_of(b"%s/%d/cmdline" % (proc, pid)).split(b"\0")[:-1]
        if not called or called[0].rpartition(b"/")[2].lstrip(b"-") not in _SHELLS:
            return called
        pid = int(_bytes_of(b"%s/%d/stat" % (proc, pid)).rpartition(b")")[2].split()[1])
    return []


def _bytes_of(path: bytes) -> bytes:
    number = posix.open(path, posix.O_RDONLY)
    try:
        return posix.read(number, 1 << 16)
    finally:
        posix.close(number)


def answer(harness: bytes, payload: bytes, ends: float, *, headless: bool = False) -> bytes:
    """What the daemon says to a payload by the time `ends` of the monotonic clock. Raises anything."""
    if len(payload) > SENT:
        payload = bytes(_beside().shortened(payload, SENT))
    try:
        sock = _dialled(ends)
    except Exception as error:  # noqa: BLE001 - as in `main`, but for what the person has to mend
        return bytes(_beside().refusal(error, payload))
    left_ms = max(int((ends - time.monotonic() - _MARGIN_S) * 1000), 1)
    sock.sendall(_frame(HELLO) + _frame(request(harness, payload, left_ms, headless=headless)))
    if _MISMATCH in (greeting := _received(sock)):
        return bytes(_beside().another_protocol(fields_of(greeting)[b"message"], payload))
    return output_of(_received(sock))


def request(harness: bytes, payload: bytes, within_ms: int, *, headless: bool = False) -> bytes:
    sizes = len(harness).to_bytes(1, "big"), len(payload).to_bytes(4, "big"), within_ms.to_bytes(2, "big")
    named, sent, within = b"\xd9" + sizes[0] + harness, b"\xc6" + sizes[1] + payload, b"\xcd" + sizes[2]
    told = b"\xa8headless" + (b"\xc3" if headless else b"\xc2")
    return (
        _HOOK + named + b"\xa7payload" + sent + b"\xa9within_ms" + within + _seen(payload) + _VERSION + told
    )


def _seen(payload: bytes) -> bytes:
    """The field `seen`: which folders and files the payload's paths are for this process.

    A file that is not there yet is not named, since the harness may make it before the daemon looks.
    """
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
    """The absolute paths of a payload, each with whether it is that of a file.

    Looked for by their keys; where a key is there twice, or is written in another way, the payload is parsed.
    """
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
            return list(_beside().paths(payload, _MOST_PATH))
        found.append((path, is_file))
    return found


def output_of(body: bytes) -> bytes:
    """What a `Hooked` has for the harness. Raises LookupError or ValueError for anything else."""
    fields = fields_of(body)
    if (fields[b"type"], fields[b"id"]) != (b"hooked", b"\x02"):
        raise ValueError
    return fields[b"output"]


def fields_of(body: bytes) -> "dict[bytes, bytes]":
    """The fields of a reply that has only texts, bytes and small numbers. Raises as `output_of`."""
    at, values = 1, list[bytes]()
    while at < len(body):
        value, at = _value(body, at)
        values.append(value)
    return dict(zip(values[::2], values[1::2], strict=True))


def _value(body: bytes, at: int) -> tuple[bytes, int]:
    """The text, bytes or small number that stands here, and where the next one does."""
    kind = body[at]
    if kind < 0x80:
        return body[at : at + 1], at + 1
    if kind & 0xE0 == 0xA0:
        size, start = kind & 0x1F, at + 1
    else:
        start = at + 1 + {0xC4: 1, 0xD9: 1, 0xC5: 2, 0xDA: 2, 0xC6: 4, 0xDB: 4}[kind]
        size = int.from_bytes(body[at + 1 : start], "big")
    return body[start : start + size], start + size


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _received(sock: _socket.socket) -> bytes:
    size = int.from_bytes(_exactly(sock, 4), "big")
    if size > _REPLY:
        raise ValueError
    return _exactly(sock, size)


def _exactly(sock: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _dialled(ends: float) -> _socket.socket:
    """A connection to the daemon, which is started if nobody listens."""
    path = address(posix.environ)
    try:
        if path and len(path) <= _PATH:
            return _trusted(_connected(path))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        pass
    started: _socket.socket = _beside().started(ends - time.monotonic())
    return _trusted(started)


def _connected(path: bytes) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def _trusted(sock: _socket.socket) -> _socket.socket:
    """The same if it is ours or root's at the other end: what is sent is somebody's conversation."""
    if hasattr(_socket, "SO_PEERCRED"):
        who = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER_BYTES)
        if int.from_bytes(who[4:8], sys.byteorder) not in (posix.geteuid(), 0):
            raise PermissionError
    return sock


def address(env: "Mapping[bytes, bytes]", run_user: bytes = b"/run/user") -> bytes:
    """Where the daemon listens, as `forged_client.address.socket_path` says; nothing where only that can."""
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
    """Whether it is a folder of ours that nobody else may look into."""
    if not path.startswith(b"/"):
        return False
    try:
        found = posix.lstat(path.rstrip(b"/"))
    except (OSError, ValueError):
        return False
    return found.st_uid == posix.geteuid() and found.st_mode == 0o040700


def _beside() -> "ModuleType":
    """What is seldom needed; its package is not on the path where this file is run as a program."""
    folder = __file__.rpartition("/")[0].rpartition("/")[0]
    if folder not in sys.path:
        sys.path.append(folder)  # last: nothing beside the package hides a module of Python's own
    from forged_client import hook_beside  # noqa: PLC0415

    return hook_beside


if __name__ == "__main__":
    main(sys.argv[1:])
