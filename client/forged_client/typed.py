"""Resolve the classes of typed decoding, in one thread at a time.

msgspec resolves the fields of a class when a decoder first asks for it. It stores the class before it has the
classes of the fields. A second thread that decodes meanwhile reads a null pointer: SIGSEGV ends the process
(msgspec up to 0.22). So every decoder of the project is made of a `resolved` class. A fork waits for a thread
that resolves, as the child could not finish its work.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from typing import TypeVar

import msgspec

T = TypeVar("T")

_resolving = allocate_lock()
os.register_at_fork(
    before=_resolving.acquire, after_in_parent=_resolving.release, after_in_child=_resolving.release
)
_resolved = set[object]()


def resolved(kind: T) -> T:
    """Return a type unchanged, after msgspec has resolved it (once) with all classes in it."""
    if kind not in _resolved:
        with _resolving:
            msgspec.msgpack.Decoder(kind)
            _resolved.add(kind)
    return kind
