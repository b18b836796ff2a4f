"""What of a conversation a session has said before, by the digests of its messages.

`places` says for each message of a window where in the known sequence it stands, or that it is new. Windows
grow at their end, lose their beginning, come late or again, and two agents may share a session; so a window
that lies within what is known is all known, one that goes on where that ends is new from there, and of any
other each message is known as often as it was said. Order is of use, and never needed. Nothing is raised.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

from forged.conversation import Utterance
from forged.state import DIGEST_BYTES


def digests(said: Iterable[Utterance], key: str) -> bytes:
    """One after the other; the same message has another digest under another key.

    Blanks around it do not count: what tells of a session live and what wrote it down differ in them.
    """
    salt = hashlib.blake2b(key.encode(), digest_size=32).digest()
    return b"".join(_digest(each, salt) for each in said)


def _digest(said: Utterance, salt: bytes) -> bytes:
    text = f"{said.role}\n{said.text.strip()}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES, key=salt).digest()


def places(known: bytes, window: bytes) -> tuple[int | None, ...]:
    """Where each message of `window` stands in `known`, None for one that is new."""
    count = len(window) // DIGEST_BYTES
    if (start := _within(known, window)) is not None:
        return tuple(range(start, start + count))
    if overlap := _overlap(known, window):
        end = len(known) // DIGEST_BYTES
        return (*range(end - overlap, end), *[None] * (count - overlap))
    return _by_counts(known, window)


def _within(known: bytes, window: bytes) -> int | None:
    """Where the window begins, the last time that all of it was said in a row."""
    at = known.rfind(window)
    while at > 0 and at % DIGEST_BYTES:
        at = known.rfind(window, 0, at + len(window) - 1)
    return None if at < 0 else at // DIGEST_BYTES


def _overlap(known: bytes, window: bytes) -> int:
    """With how many of its messages the window begins where the known sequence ends: the most."""
    first = window[:DIGEST_BYTES]
    for size in range(min(len(known), len(window)), 0, -DIGEST_BYTES):
        start = len(known) - size
        if known.startswith(first, start) and known[start:] == window[:size]:
            return size // DIGEST_BYTES
    return 0


def _by_counts(known: bytes, window: bytes) -> tuple[int | None, ...]:
    """The newest of the window are the newest that are known."""
    stands = defaultdict[bytes, list[int]](list)
    for place, digest in enumerate(_each(known)):
        stands[digest].append(place)
    newest_first = [stands[digest].pop() if stands[digest] else None for digest in reversed(_each(window))]
    return tuple(reversed(newest_first))


def _each(row: bytes) -> list[bytes]:
    return [row[at : at + DIGEST_BYTES] for at in range(0, len(row), DIGEST_BYTES)]
