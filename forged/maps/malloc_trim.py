"""Gives memory that a long build has freed back to the system.

The C library keeps what is freed between things that stay, and a daemon stays all day: after the first build
of 10,000 memories with vectors that was 28 of 122 MiB. Fewer arenas or a lower threshold for the whole
process were rejected: they make every allocation pay for what one call after a build does in milliseconds.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return freed pages; nothing happens where the C library is not glibc. Takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
