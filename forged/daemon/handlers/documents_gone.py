"""Files of documents that another machine has taken away, or replaced, taken away here as well.

The team's server says that documents have changed; which of those that this machine has in files are gone,
it is asked then, at every new connection, and once a minute. A document that was brought anew since is newer
than the mark of its removal, and stays. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime

from forged.daemon.handlers.context import Context, Daemon
from forged.daemon.handlers.knowledge import documents_there, take_files_away
from forged.daemon.handlers.shared_documents import shared_of, stock_of
from forged.errors import ForgedError
from forged.files import org_root
from forged.memory import Memory, Scope, time_ns

logger = logging.getLogger(__name__)

_AGAIN_S, _PAUSE_S = 60.0, 0.1


async def follow_documents(daemon: Daemon) -> None:
    """Until cancelled."""
    shared, wanted = shared_of(daemon), asyncio.Event()
    if shared is None:
        return
    end = shared.listen(lambda change: wanted.set() if change.scope in {"", Scope.ORG} else None)
    try:
        while True:
            wanted.clear()
            try:
                await _step(daemon)
            except ForgedError as error:
                logger.info("documents are not in step with the shared server error=%s", type(error).__name__)
            await asyncio.sleep(_PAUSE_S)  # who brings many documents tells of each
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await wanted.wait()
    finally:
        end()


async def _step(daemon: Daemon) -> None:
    shared, root = shared_of(daemon), org_root(daemon.resolver.home)
    if shared is None or not await asyncio.to_thread(os.path.isdir, root.directories[0]):
        return
    await daemon.trust.opened()
    async with daemon.ingesting:
        index = daemon.indexer.open(root)
        there = await documents_there(Context(daemon, time.monotonic()), index)
        names = [name for document, some in there.items() for name in (document, *(each.id for each in some))]
        gone = await stock_of(shared).gone(names)
        if dead := tuple(_dead(there, gone)):
            await take_files_away(daemon, index, dead)


def _dead(there: Mapping[str, list[Memory]], gone: Mapping[str, datetime]) -> Iterator[str]:
    for document, some in there.items():
        for each in some:
            marks = (at for at in (gone.get(document), gone.get(each.id)) if at is not None)
            if any(at.timestamp() * 1e9 >= time_ns(each.created_at) for at in marks):
                yield each.id
