"""Vectors in the hands of systemd, so that neither a restart nor a crash of the daemon embeds them anew.

systemd keeps descriptors for a service (`FileDescriptorStoreMax=`) and passes them to the next process that
it starts for it: `received` are those that came. While the daemon runs, what has changed is packed again once
a minute (`run`), and at its end once more (`keep`): what was forgotten is out of there by then. A root that
nobody has opened yet keeps what is stored of it, for as long as its parcel waits.

Without systemd nothing happens. Nothing is raised: what cannot be stored is embedded after a crash.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from weakref import ref

from forged.daemon import systemd
from forged.maps import MOST_PARCELS, Indexer, Remembered, RootIndex, name_of

# How long a text that was forgotten may live on as a vector, and how much a crash may cost.
EVERY_S = 60.0
_PREFIX = "vectors-"


class FdStore:
    """What systemd holds for us, by the names under which it does. Outlives a configuration."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._is_there = systemd.is_service(env, os.getpid()) and "NOTIFY_SOCKET" in env
        found = systemd.stored(env, os.getpid(), _PREFIX)
        self.received = tuple(descriptor for _, descriptor in found)
        self._held: dict[str, object] = {name: None for name, _ in found}  # and what of the root it is

    async def run(self, indexer: Indexer, remembered: Remembered) -> None:
        """Store what has changed, once a minute."""
        while self._is_there:
            await asyncio.sleep(EVERY_S)
            await self.keep(indexer, remembered)

    async def keep(self, indexer: Indexer, remembered: Remembered) -> None:
        """Store what has changed since the last time, and nothing else."""
        if not self._is_there:
            return
        used = sorted(indexer.indexes(), key=lambda index: index.used_at)[-MOST_PARCELS:]
        for index in used:
            await self._store(index, indexer)
        wanted = {*(name_of(index.root) for index in used), *remembered.parcels.roots}
        for name in self._held.keys() - set(map(_named, wanted)):
            self._drop(name)

    async def _store(self, index: RootIndex, indexer: Indexer) -> None:
        name, now = _named(name_of(index.root)), (ref(index), index.builder.moment)
        if self._held.get(name) == now:
            return
        parcel = await indexer.packed(index)
        if name in self._held:
            self._drop(name)
        state = f"FDSTORE=1\nFDNAME={name}"
        if parcel is not None and systemd.notify(self._env, state, (parcel.descriptor,)):
            self._held[name] = now

    def _drop(self, name: str) -> None:
        systemd.notify(self._env, f"FDSTOREREMOVE=1\nFDNAME={name}")
        del self._held[name]


def _named(root: str) -> str:
    """What systemd calls the vectors of a root: it shows names to whoever asks, and they allow no colon."""
    return _PREFIX + hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:16]
