"""What the system says about the other end of a Unix socket: whose process it is, and whether it has left."""

from __future__ import annotations

import select
import socket
import struct


def has_left(peer: socket.socket) -> bool:
    """Whether the peer closed altogether, and not only the way from it to us."""
    hung_up = select.poll()
    hung_up.register(peer, 0)
    return bool(hung_up.poll(0))


def uid_of(peer: socket.socket) -> int:
    """User id at the other end; -1 when the system cannot tell, which admits nobody."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    if hasattr(socket, "LOCAL_PEERCRED"):  # macOS: struct xucred, version and uid first
        credentials = peer.getsockopt(0, socket.LOCAL_PEERCRED, 76)
        return int(struct.unpack_from("Ii", credentials)[1])
    return -1
