"""The composition root: what a daemon is made of, in which order it starts, and how it ends.

Start: lock, socket, parts, watcher, first scan of the user root, READY. End: stop accepting, let requests
finish, close the parts, remove the socket; a deadline stands behind all of it, so that SIGTERM ends the
daemon in 5 s in any state (design.md section 10).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from socket import socket as Socket  # noqa: N812 - a type here, and a name for values

import msgspec

from forged.capture import Pipeline, WorkerSettings
from forged.config import Config, Loaded
from forged.config import load as load_config
from forged.config.known_models import BUILTIN_LEXICAL, BUILTIN_RULES
from forged.counters import Metrics
from forged.daemon import known_memories, listening, systemd
from forged.daemon.handlers import Daemon, Handlers
from forged.daemon.server import Server
from forged.errors import ForgedError
from forged.files import atomic
from forged.files.roots import Root
from forged.files.watcher import Watcher
from forged.maps.indexer import Indexer
from forged.maps.writer import Writer
from forged.memory import Scope
from forged.models import ChatModel, Embedder
from forged.models.budget import GovernedChat, Governor
from forged.models.factory import ClassifierEndpoint, make_chat_model, make_classifier, make_embedder
from forged.retrieval.ledger import Ledger
from forged.retrieval.retriever import Retriever, Tuning
from forged.state import State
from forged_client import address

logger = logging.getLogger(__name__)

STOP_S = 3.0
_HARD_STOP_S = 4.5
_OWN_SOCKET_S = 30.0
_DAY_S = 24 * 3600.0
_TEMPS_S = 3600.0
# How long a thread may keep the interpreter lock while another waits. The default of 5 ms is what a ping
# would wait behind a rebuild's longest step.
_SWITCH_S = 0.0005


class Models(msgspec.Struct, frozen=True):
    """The models in use and why one of them is missing; a test brings its own.

    `classifier` is the endpoint that the capture worker asks, None for the built-in rules; `no_classifier`
    says why the one that was asked for cannot be used.
    """

    embedder: Embedder | None
    chat: ChatModel | None
    reasons: tuple[str, ...] = ()
    classifier: ClassifierEndpoint | None = None
    no_classifier: str = ""


async def serve(loaded: Loaded, env: Mapping[str, str], models: Models | None = None) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    When the configuration has changed and a rebuild is asked for, everything is taken down as for SIGTERM and
    made anew in this process, under the same lock; a test that brings its own models keeps what it brought.

    Raises AlreadyRunning when another daemon has the address, ForgedError when it cannot be used.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()  # what is imported stays; to look through it again and again takes 15 ms without a ping
    path = address.socket_path(env)
    lock = listening.lock(path)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    following: Loaded | None = loaded
    kept: Socket | None = None
    try:
        while following is not None and not ended.is_set():
            chosen = models or choose_models(following, env)
            life = _Life(following, env, path, chosen, reloads=models is None)
            following, kept = await life.run(ended, kept)
    finally:
        if kept is not None:
            kept.close()
        os.close(lock)


def choose_models(loaded: Loaded, env: Mapping[str, str]) -> Models:
    """Embedder and chat model of a configuration; what cannot be had is a reason, not an error (B12)."""
    memory = loaded.config.memory
    embedding = make_embedder(loaded.config, env)
    chat = make_chat_model(loaded.config, env)
    reasons = []
    if loaded.config.embedder not in {"", BUILTIN_LEXICAL} and embedding.model is None:
        reasons.append(f"no dense leg: {embedding.reason}")
    if memory.retrieval_model and chat.model is None:
        reasons.append(f"no HyDE: {chat.reason}")
    classifier = make_classifier(loaded.config, env)
    asked = loaded.config.classifier != BUILTIN_RULES and capture_off(loaded.config) == ""
    no_classifier = classifier.reason if asked and classifier.model is None else ""
    return Models(embedding.model, chat.model, tuple(reasons), classifier.model, no_classifier)


class _Life:
    """One daemon from start to end."""

    def __init__(
        self, loaded: Loaded, env: Mapping[str, str], path: str, models: Models, *, reloads: bool
    ) -> None:
        self._loaded = loaded
        self._embedder = loaded.config.embedder  # `auto` may mean another one once an extra is installed
        self._reloads = reloads
        self._following: Loaded | None = None
        self._env = env
        self._path = path
        self._models = models
        self._ours: tuple[int, int] | None = None  # the socket that is ours to remove
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._state_dir = address.state_dir(env)
        settings = loaded.config.memory
        self.metrics = Metrics()
        self.watcher = Watcher(self._changed)
        self.disabled = disabled(loaded, models)
        self.indexer = Indexer(
            # What is switched off may still be listed, but calls nobody (B2).
            embedder=None if self.disabled else models.embedder,
            lexical=settings.retrieval_lexical_weight > 0 and not self.disabled,
            metrics=self.metrics,
            gated=loaded.config.min_score > 0,
            on_roots=self.watcher.set_roots,
        )
        self.governor = Governor(
            daily_token_limit=settings.daily_token_limit,
            calls_per_minute=loaded.config.llm.calls_per_minute,
        )
        chat = models.chat if settings.retrieval_strategy != "direct" else None
        self.retriever = Retriever(
            embedder=models.embedder,
            chat=GovernedChat(chat, self.governor, "hyde") if chat is not None else None,
            tuning=Tuning(
                strategy=settings.retrieval_strategy,
                hypothesis_count=settings.retrieval_hypothesis_count,
                lexical_weight=settings.retrieval_lexical_weight,
                min_score=loaded.config.min_score,
            ),
            metrics=self.metrics,
        )
        self._writer = Writer(os.path.join(self._state_dir, "trash"))
        self._home = Root(os.path.realpath(address.home(env)), Scope.USER)
        self.state = State(self._state_dir, self.governor)
        self.capture = self._pipeline(loaded.config, models)
        self.handlers = Handlers(
            Daemon(
                epoch=secrets.token_hex(4),
                home=self._home.top,
                socket=path,
                config=loaded.config,
                settings=loaded.settings,
                warnings=loaded.warnings + models.reasons,
                disabled=self.disabled,
                embedding_model=self._embedder,
                metrics=self.metrics,
                indexer=self.indexer,
                retriever=self.retriever,
                writer=self._writer,
                ledger=Ledger(),
                capture=self.capture,
                governor=self.governor,
                state=self.state,
                started_at=time.monotonic(),
                connections=lambda: len(self.server.connections),
                watch_state=lambda: self.watcher.state,
                watch_count=self.watcher.watch_count_of,
                woken=self.watcher.wake,
                reload=self._reload,
            )
        )
        self.server = Server(self.handlers, self.metrics)

    def _pipeline(self, config: Config, models: Models) -> Pipeline:
        endpoint = models.classifier
        return Pipeline(
            settings=WorkerSettings(
                classifier=config.classifier if endpoint is None else endpoint.model,
                base_url="" if endpoint is None else endpoint.base_url,
                key="" if endpoint is None else endpoint.key,
                timeout_s=config.memory.classifier_timeout_s,
            ),
            state=self.state,
            governor=self.governor,
            metrics=self.metrics,
            rank=partial(known_memories.nearest, indexer=self.indexer, retriever=self.retriever),
            written=self.indexer.mark,
            keeps=config.capture.spool,
            coalesce=config.capture.coalesce,
            off=capture_off(config),
            problem=models.no_classifier,
        )

    async def run(self, ended: asyncio.Event, kept: Socket | None) -> tuple[Loaded | None, Socket | None]:
        """Serve until `ended`, or until the configuration is another one.

        Then return it and the listening socket, on which nobody is turned away meanwhile, for the next life.
        """
        inherited = systemd.inherited_socket(self._env, os.getpid())
        for name in systemd.consumed(self._env):
            os.environ.pop(name, None)  # a child of ours must not think that they are for it
        socket = kept or self._listening(inherited)
        self._begin(self._await_end(ended))
        await self.server.start(socket)
        self._record_executable()
        self._begin(self.state.run())
        if not self.disabled:
            self._begin(self.watcher.run())
            self._begin(self.indexer.run())
            self._begin(self._housekeeping())
            self.indexer.open(self._home)
        self._begin(self.capture.run())
        if inherited is None:
            self._ours = listening.identity(self._path)
            self._begin(self._keep_socket())
        self._begin(self._notify())
        logger.info("serving socket=%s pid=%d", self._path, os.getpid())
        await self._stopping.wait()
        kept = self.server.listening() if self._following is not None else None
        await self._stop(ended)
        return self._following, kept

    def _listening(self, inherited: int | None) -> Socket:
        return listening.bind(self._path) if inherited is None else listening.adopt(inherited)

    async def _await_end(self, ended: asyncio.Event) -> None:
        await ended.wait()
        self._stopping.set()

    async def _reload(self) -> bool:
        """Start over if the configuration is another one now. Raises ConfigError and goes on as before."""
        if not self._reloads:
            return False
        fresh = await asyncio.to_thread(load_config, self._env)
        if (fresh.config, fresh.config.embedder) == (self._loaded.config, self._embedder):
            return False
        logger.info("configuration has changed, starting over")
        self._following = fresh
        self._stopping.set()
        return True

    async def _stop(self, ended: asyncio.Event) -> None:
        """End everything; a thread that is stuck on a disk cannot hold the process."""
        logger.info("stopping")
        hard = threading.Timer(_HARD_STOP_S, os._exit, (0,))
        hard.daemon = True
        hard.start()
        # A manager that is told STOPPING waits for the end of the process, and then kills it.
        starts_over = f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
        systemd.notify(self._env, "STOPPING=1" if self._following is None else starts_over)
        if self._following is None:
            self._remove_socket()
        try:
            async with asyncio.timeout(STOP_S):
                await self.server.stop()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self.capture.close()
                await self.state.close()
                self.retriever.close()
                await self.indexer.close()
                for model in (self._models.embedder, self._models.chat):
                    if model is not None:
                        await model.aclose()
        except TimeoutError:
            logger.warning("stopped late after_s=%s", STOP_S)
            self._following = None  # what has not ended must not share a process with what follows
        if self._following is None or ended.is_set():
            self._remove_socket()
        else:
            hard.cancel()

    def _remove_socket(self) -> None:
        if self._ours is not None and listening.identity(self._path) == self._ours:
            os.unlink(self._path)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Start a task that lives as long as the daemon; its failure ends the daemon, loudly."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                logger.error("task died", exc_info=task.exception())
                self._stopping.set()

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    def _changed(self, top: str, files: frozenset[str]) -> None:
        self.indexer.mark(top, files)

    async def _housekeeping(self) -> None:
        """Once a day: what was forgotten 7 days ago is gone for good, and what killed daemons left behind."""
        while True:
            now = time.time()
            try:
                await asyncio.to_thread(self._writer.empty_trash, now)
                await asyncio.to_thread(atomic.sweep_at, self._state_dir, now - _TEMPS_S)
            except OSError as error:  # untidy, and no reason to end the daemon
                logger.warning("state directory not tidied error=%s", error)
            await asyncio.sleep(_DAY_S)

    async def _notify(self) -> None:
        """Tell the service manager that the socket answers, and then that the loop still turns."""
        systemd.notify(self._env, "READY=1\nSTATUS=serving")
        interval = systemd.watchdog_interval(self._env)
        while interval is not None:
            await asyncio.sleep(interval)
            systemd.notify(self._env, "WATCHDOG=1")

    async def _keep_socket(self) -> None:
        """Bind again when a cleaner took our socket away; give up when another daemon has the place (B4)."""
        while True:
            await asyncio.sleep(_OWN_SOCKET_S)
            there = listening.identity(self._path)
            if there is None:
                logger.warning("socket was removed, binding again path=%s", self._path)
                listening.private_directory(os.path.dirname(self._path))
                await self.server.replace(listening.bind(self._path))
                self._ours = listening.identity(self._path)
            elif there != self._ours:
                raise ForgedError(f"another socket stands at {self._path}")

    def _record_executable(self) -> None:
        """Remember which program clients may start, so that none is looked for in a workspace."""
        program = os.path.join(os.path.dirname(sys.executable), "forged")
        if not os.access(program, os.X_OK):
            return
        try:
            listening.private_directory(self._state_dir)
            fresh = os.path.join(self._state_dir, f"executable.{os.getpid()}~")
            with open(fresh, "w", encoding="utf-8", opener=_private) as file:
                file.write(f"{program}\n")
            os.replace(fresh, os.path.join(self._state_dir, "executable"))
        except (OSError, ForgedError) as error:
            logger.warning("cannot record executable error=%s", error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def capture_off(config: Config) -> str:
    """Why nothing is captured, or nothing; capture does not depend on retrieval (C28)."""
    if not config.memory.enabled:
        return "memory.enabled is false"
    return "" if config.capture.enabled else "capture.enabled is false"


def disabled(loaded: Loaded, models: Models) -> str:
    """Why retrieval is off altogether, or nothing: a state and not an error (B13)."""
    settings = loaded.config.memory
    if not settings.enabled:
        return "memory.enabled is false"
    if settings.embedding_model == "":
        return "memory.embedding_model is empty"
    if settings.retrieval_lexical_weight == 0 and models.embedder is None:
        return "memory.retrieval_lexical_weight is 0 and there is no embedding model"
    if settings.retrieval_strategy == "hyde" and models.chat is None:
        return "memory.retrieval_strategy is hyde and there is no retrieval_model"
    return ""
