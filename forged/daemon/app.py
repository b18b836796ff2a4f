"""Lifetime of the daemon: one process, one lock, and run after run until SIGTERM or SIGINT.

A run ends within 5 s in any state. When the configuration changes or another daemon asks to replace it, its
listening socket is passed on. If that daemon dies first, the next run goes on. Raises AlreadyRunning,
AddressUnusable, and the error of a failed task: the exit code makes the service manager restart the process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from socket import socket as Socket  # noqa: N812 - a type here, and a name for values

from forged.config import Loaded
from forged.config import load as load_config
from forged.daemon import handover, listening, process, systemd
from forged.daemon.build import build, user_top
from forged.daemon.connection import Server
from forged.daemon.handlers import Dispatcher
from forged.daemon.handover import FdStore, Successor
from forged.daemon.models import Models, choose_models
from forged.errors import ConfigError, ForgedError
from forged.files import Root
from forged.maps import ModelCache
from forged.memories import absent, document_store, restore
from forged.memory import Scope
from forged_client import address
from forged_client.errors import AddressError
from forged_client.protocol import HandOver

logger = logging.getLogger(__name__)

STOP_S = 3.0
_HARD_STOP_S, _OWN_SOCKET_S = 4.5, 30.0
_MANAGED = "systemd runs this daemon: `systemctl --user restart forged.service` replaces it"
_SWITCH_S = 0.0005  # that a thread may keep the interpreter lock: at 5 ms a ping would wait for a rebuild


async def serve(
    loaded: Loaded,
    env: Mapping[str, str],
    models: Models | None = None,
    *,
    vector_packs: Sequence[int] = (),
    replace: bool = False,
) -> None:
    """Run the daemon until SIGTERM, SIGINT or a handover; a changed configuration starts another run.

    `vector_packs` are descriptors of another daemon's vectors; `replace` ends a running daemon once ready.
    """
    sys.setswitchinterval(_SWITCH_S)
    asyncio.get_running_loop().set_default_executor(process.Threads())
    gc.freeze()  # imported modules stay: each collection over them would block for 15 ms
    try:
        path = address.socket_path(env)
    except AddressError as error:
        raise ConfigError(str(error)) from error
    model_cache, fd_store = ModelCache(), FdStore(env)

    def make_run(config: Loaded) -> DaemonRun:
        chosen = models or choose_models(config, env)
        reloads = models is None
        return DaemonRun(config, env, chosen, reloads=reloads, model_cache=model_cache, fd_store=fd_store)

    following = make_run(loaded) if replace else None
    place = handover.claim_address(path, replace=replace)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    next_config: Loaded | None = loaded
    listening_socket = place.listening
    model_cache.receive((*vector_packs, *place.vector_packs, *fd_store.received))
    try:
        while next_config is not None and not ended.is_set():
            one, following = following or make_run(next_config), None
            next_config, listening_socket = await one.run(ended, listening_socket)
            if listening_socket is not None and await one.hand_over_if_asked(
                place.lock, listening_socket, ended
            ):
                break
    finally:
        if listening_socket is not None:
            listening_socket.close()
        os.close(place.lock)


class DaemonRun:
    """One run of the daemon with one configuration: makes and ends its socket, parts and tasks."""

    def __init__(
        self,
        loaded: Loaded,
        env: Mapping[str, str],
        models: Models,
        *,
        reloads: bool,
        model_cache: ModelCache,
        fd_store: FdStore,
    ) -> None:
        self._loaded, self._reloads, self._models = loaded, reloads, models
        self._embedder = loaded.config.embedder  # `auto` may choose another one after an extra was installed
        self._next_config: Loaded | None = None
        self._successor: Successor | None = None
        self._died: BaseException | None = None  # error of a task that failed
        self._env, self._path, self._state_dir = env, address.socket_path(env), address.state_dir(env)
        self._remembered, self._fd_store = model_cache, fd_store
        self._ours: tuple[int, int] | None = None  # identity of the socket that this run removes
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._daemon = build(
            loaded,
            env,
            models,
            connections=lambda: len(self._server.connections),
            reload=self._reload,
            model_cache=model_cache,
        )
        self._server = Server(Dispatcher(self._daemon), self._daemon.metrics, give_way=self._give_way)
        self._is_late = False  # a task goes on and cannot be ended

    async def run(
        self, ended: asyncio.Event, listening_socket: Socket | None
    ) -> tuple[Loaded | None, Socket | None]:
        """Serve until stopped; return configuration and socket for a next run, None without one."""
        await self._start_serving(ended, listening_socket)
        await self._stopping.wait()
        listening_on = self._server.listening() if self._is_followed else None
        await self._stop(ended)
        if self._died is not None:
            raise self._died
        return self._next_config, listening_on

    async def hand_over_if_asked(self, lock: int, listening_socket: Socket, ended: asyncio.Event) -> bool:
        """Give lock, socket and vectors to a daemon that asked to replace this one; True if it took them."""
        if (successor := self._successor) is None:
            return False
        vector_packs = self._remembered.vector_packs.descriptors
        given = await asyncio.to_thread(successor.give, lock, listening_socket, vector_packs)
        logger.info("handed over to pid=%d" if given else "not handed over to pid=%d", successor.pid)
        if given and self._is_late:
            os._exit(os.EX_OK)  # tasks that hang end before the other daemon begins
        if not given and (ended.is_set() or self._is_late):
            self._remove_socket()  # no daemon serves it now
        successor.close()
        return given

    @property
    def _is_followed(self) -> bool:
        """True if another run or another daemon takes over the socket after this run."""
        return self._next_config is not None or self._successor is not None

    def _give_way(self, request: HandOver, peer: Socket) -> None:
        """End this run for another daemon; refuse that if systemd runs this one, or it is ending already."""
        successor = Successor(peer, request)
        if systemd.is_service(self._env, os.getpid()):
            successor.refuse("not_permitted", _MANAGED)
        elif self._stopping.is_set():
            successor.refuse("busy", "the daemon is ending")
        else:
            logger.info("asked for its place pid=%d version=%s", request.pid, request.version)
            self._successor, self._next_config = successor, self._loaded
            self._stopping.set()

    async def _start_serving(self, ended: asyncio.Event, listening_socket: Socket | None) -> None:
        inherited = systemd.inherited_socket(self._env, os.getpid())
        for name in systemd.variables_to_unset(self._env):
            os.environ.pop(name, None)  # child processes must not take them as theirs
        self._start_task(self._stop_when_ended(ended))
        if listening_socket is None:
            bound = listening.bind(self._path) if inherited is None else listening.adopt(inherited)
        await self._server.start(listening_socket or bound)
        process.record_program(self._state_dir)
        self._start_background_tasks()
        if inherited is None:
            self._ours = listening.identity(self._path)
            self._start_task(self._rebind_if_removed())
        self._start_task(systemd.report_readiness(self._env))
        logger.info("serving socket=%s pid=%d", self._path, os.getpid())

    def _start_background_tasks(self) -> None:
        daemon = self._daemon
        self._start_task(daemon.state.run())
        if not daemon.disabled:
            self._start_task(daemon.watcher.run())
            self._start_task(daemon.indexer.run())
            for queue in daemon.indexer.queues:
                self._start_task(queue.run())
            self._start_task(self._fd_store.run(daemon.indexer, self._remembered))
            self._start_task(process.housekeeping(daemon, self._state_dir))
            self._start_task(process.sweep_sessions(daemon))
            self._start_task(absent.sweep_absent_daily(daemon.memories))
            daemon.indexer.events.listen(partial(process.record_seen_memories, daemon))
            self._start_task(restore.resume(daemon.memories))
            self._start_task(daemon.trust.remove_unwanted_lines())
            self._start_task(process.try_disks(daemon, self._state_dir))
            daemon.indexer.open(Root(user_top(self._env), Scope.USER))
            if daemon.sharing.server is not None:
                self._start_task(daemon.sharing.server.run())
                self._start_task(document_store.follow_documents(daemon.memories))
            for each in (daemon.memories.copies, daemon.sharing.machines):
                if each is not None:
                    self._start_task(each.run())
        self._start_task(daemon.capture.run())
        self._start_task(daemon.sessions.run())

    async def _stop_when_ended(self, ended: asyncio.Event) -> None:
        await ended.wait()
        self._stopping.set()

    async def _reload(self) -> bool:
        """End this run if the configuration has changed, and return True then. Raises ConfigError."""
        if not self._reloads:
            return False
        fresh = await asyncio.to_thread(load_config, self._env)
        if (fresh.config, fresh.config.embedder) == (self._loaded.config, self._embedder):
            return False
        logger.info("configuration has changed, starting over")
        self._next_config = fresh
        self._stopping.set()
        return True

    async def _stop(self, ended: asyncio.Event) -> None:
        """Stop server, tasks and parts; a timer exits the process at 4.5 s unless a run follows."""
        logger.info("stopping")
        code = os.EX_OK if self._died is None else os.EX_SOFTWARE
        hard = process.HardStop(_HARD_STOP_S, code)
        # After STOPPING the manager waits for the end of the process, and then kills it.
        starts_over = f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
        systemd.notify(self._env, starts_over if self._is_followed else "STOPPING=1")
        if not self._is_followed:
            self._remove_socket()
        try:
            async with asyncio.timeout(STOP_S):
                await self._server.stop()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._close_parts()
        except TimeoutError:
            logger.warning("stopped late after_s=%s", STOP_S)
            self._next_config, self._is_late = None, True  # the next run must not share a process with it
        if not self._is_followed or (ended.is_set() and self._successor is None):
            self._remove_socket()
        elif not self._is_late:
            hard.cancel()

    async def _close_parts(self) -> None:
        """Capture waiting messages, keep vectors for the next run or in systemd, and close all parts."""
        daemon = self._daemon
        await daemon.sessions.hand_over(all_of_them=True)
        await daemon.capture.close()
        await daemon.state.close()
        daemon.retriever.close()
        daemon.resolver.close()
        if self._is_followed:  # so that the next run embeds no text again
            await daemon.indexer.pack()
        else:
            await self._fd_store.keep(daemon.indexer, self._remembered)
        await daemon.indexer.close()
        for model in (self._models.embedder, self._models.chat, self._models.cjk):
            if model is not None:
                await model.aclose()

    def _remove_socket(self) -> None:
        """Remove the socket's file if this run bound it and no other socket has replaced it."""
        if self._ours is not None and listening.identity(self._path) == self._ours:
            os.unlink(self._path)

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        """Start a task that lives as long as the run; if it fails, the run ends and raises its error."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                logger.error("task died error=%r", task.exception())
                self._died = self._died or task.exception()
                self._stopping.set()

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _rebind_if_removed(self) -> None:
        """Every 30 s, bind a removed socket again; raise ForgedError if another daemon bound the path."""
        while True:
            await asyncio.sleep(_OWN_SOCKET_S)
            there = listening.identity(self._path)
            if there is None:
                logger.warning("socket was removed, binding again path=%s", self._path)
                listening.ensure_private_directory(os.path.dirname(self._path))
                await self._server.replace(listening.bind(self._path))
                self._ours = listening.identity(self._path)
            elif there != self._ours:
                raise ForgedError(f"another socket is bound at {self._path}")
