"""Daemons of several machines, each with its own HOME, that meet at one real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forged.files import parse
from forged.memory import Scope
from forged.postgres.statements import CHANNEL
from forged.postgres.values import EmbeddingModel
from forged.postgres.writing import payload
from forged_client import Client
from forged_client.protocol import Document, Ingest, RemoveDocument, SharedReport
from tests.support.clock import eventually
from tests.support.daemon.process import ALTERED, DaemonProcess
from tests.support.postgres import Database, make_database, migrated
from tests.support.provider import ScriptedProvider
from tests.support.reading import bytes_of
from tests.support.scratch_server import ScratchServer

SCOPES = "user agent"


class Machine:
    """A machine with a daemon. `cut` takes its way to the server away, as a train in a tunnel does.

    With `ahead_s` its clock is so many seconds fast.
    """

    def __init__(
        self,
        name: str,
        place: Path,
        database: Database,
        user_id: str = "ada",
        scopes: str = SCOPES,
        *,
        role: str = "postgres",
        provider: ScriptedProvider | None = None,
        retrieve: str = "agent",
        cjk_model: str = "",
        ahead_s: float = 0.0,
        **settings: str | int,
    ) -> None:
        self.name, self.user_id = name, user_id
        self.home = place / name
        self.workspace = self.home / "project"
        self.workspace.mkdir(parents=True)
        self._database = database
        self._way = Path(tempfile.mkdtemp(prefix="fgw", dir="/tmp")) / "way"
        self.mend()
        query = f"host={self._way}&port={database.server.port or 5432}&application_name={name}"
        self.shared = {
            "url": f"postgresql://{role}@/{database.name}?{query}",
            "scopes": scopes,
            "user_id": user_id,
            **settings,
        }
        self.retrieve, self.ahead_s = retrieve, ahead_s
        self._memory = f'embedding_model = "{database.model.name}"\n'
        if provider is not None:
            self._memory += f'embedding_base_url = "{provider.base_url}"\n'
        self._memory += f'cjk_embedding_model = "{cjk_model}"\n' if cjk_model else ""
        altered: dict[str, Any] = {}
        if ahead_s:
            altered = {"command": ALTERED, "env": {"FORGED_TEST_CLOCK_AHEAD_S": str(ahead_s)}}
        self.daemon = DaemonProcess(self.home, config=self._config(self.shared), **altered)

    def _config(self, shared: Mapping[str, str | int]) -> str:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in shared.items())
        scopes = f'[scopes]\nretrieve = "{self.retrieve}"\n'
        return f"[memory]\n{self._memory}{scopes}[shared]\n{lines}dimension = 8\n"

    def restart(self, **changed: str | int | None) -> None:
        """Start the daemon again with other settings of `[shared]`; None takes one away."""
        self.daemon.stop()
        self.configure(**changed)
        self.daemon.start()

    def configure(self, **changed: str | int | None) -> None:
        """Write other settings of `[shared]` for the daemon's next start; None takes one away."""
        shared = {key: value for key, value in (self.shared | changed).items() if value is not None}
        (self.home / ".config/forged/config.toml").write_text(self._config(shared))

    @property
    def status(self) -> SharedReport | None:
        with self.client() as client:
            return client.status().shared

    def cut(self) -> None:
        self._way.unlink()
        self._database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (self.name,)
        )

    def mend(self) -> None:
        self._way.symlink_to(self._database.server.folder)

    def client(self) -> Client:
        return self.daemon.client()

    def remember(self, content: str, **options: object) -> str:
        with self.client() as client:
            return client.remember(str(self.workspace), content, **{"scope": "user", **options}).memory_id

    @property
    def warnings(self) -> tuple[str, ...]:
        with self.client() as client:
            return client.status().warnings

    def ingest(self, source: str, text: str) -> str:
        """Ingest a document; return its id."""
        asked = Ingest(documents=(Document(source=source, text=text),))
        with self.client() as client:
            (outcome,) = client.ask(asked).outcomes
        assert outcome.result in {"new", "replaced"}, outcome
        return outcome.document_id

    def remove_document(self, name: str) -> bool:
        """Remove a document; return True if the server gets the removal later."""
        with self.client() as client:
            return client.ask(RemoveDocument(name=name)).waits

    def documents(self) -> set[str]:
        """Return the ids of the documents in files."""
        files = bytes_of((self.home / ".forge/org/memory").glob("*.md"))
        pieces = [parse(data, "org", path.stem).piece for path, data in files.items()]
        return {each.document_id for each in pieces if each is not None}

    def turn(self, message: str, **options: object) -> str:
        """Return the text that an agent gets for a message."""
        with self.client() as client:
            asked = [{"role": "user", "content": message}]
            return client.retrieve(str(self.workspace), asked, **options).text

    def forget(self, memory_id: str, **options: object) -> None:
        with self.client() as client:
            client.forget(str(self.workspace), memory_id, **options)

    def restore(self, memory_id: str) -> None:
        with self.client() as client:
            client.restore(str(self.workspace), memory_id)

    def recalled(self, query: str, **options: object) -> list[str]:
        with self.client() as client:
            options = {"scopes": ["user"], **options}
            found = client.recall(query, workspace=str(self.workspace), **options)
            return [each.content for each in found.memories]

    def listed(self, **options: object) -> dict[str, str]:
        with self.client() as client:
            found = client.list(str(self.workspace), scope="user", **options).memories
            return {each.id: each.content for each in found}

    def history(self, memory_id: str) -> tuple[list[str], tuple[str, ...]]:
        with self.client() as client:
            chain = client.history(str(self.workspace), memory_id, scope="user")
            return [each.id for each in chain.memories], chain.flags

    def files(self) -> dict[str, bytes]:
        folder = self.home / ".forge/memory"
        return {path.name: held for path, held in bytes_of(folder.glob("*.md")).items()}

    def path(self, memory_id: str) -> Path:
        return self.home / f".forge/memory/{memory_id}.md"

    def looks_again(self) -> None:
        """Wait until it has compared its files with the server once more, and nothing was to do."""
        began = time.monotonic()
        self._database.sql("SELECT pg_notify(%s, %s)", (CHANNEL, payload((Scope.USER, self.user_id))))

        def has_looked() -> bool:
            shared = self.status
            assert shared is not None
            user = [each for each in shared.sync if (each.scope, each.owner) == ("user", self.user_id)]
            ages = [each.in_sync_s for each in user if not each.behind]
            return any(age is not None and age < time.monotonic() - began for age in ages)

        eventually(has_looked)

    def is_in_step(self) -> bool:
        with self.client() as client:
            shared = client.status().shared
        assert shared is not None
        user = [each for each in shared.sync if (each.scope, each.owner) == ("user", self.user_id)]
        return [each.behind for each in user if each.in_sync_s is not None] == [0]

    def close(self) -> None:
        self.daemon.close()
        shutil.rmtree(self._way.parent)


def a_meeting(
    server: ScratchServer, name: str = "forged_machines", model: str = "builtin:lexical"
) -> Database:
    """A database for daemons without a model of their own, or with one of an endpoint."""
    made = make_database(server, name)
    made = Database(server, made.name, EmbeddingModel(model, 8))
    asyncio.run(migrated(made, made.model))
    return made


@contextlib.contextmanager
def running(*machines: Machine) -> Iterator[None]:
    try:
        for each in machines:
            each.daemon.start()
        yield
        for each in machines:
            each.daemon.stop()
            each.daemon.assert_no_traceback()
    finally:
        for each in machines:
            each.close()


def alike(one: Machine, other: Machine, *, count: int = -1) -> None:
    """Wait until both have the same files, byte for byte, and say that they are in step."""
    try:
        eventually(lambda: one.files() == other.files() and count in {-1, len(one.files())})
        eventually(lambda: one.is_in_step() and other.is_in_step())
    except AssertionError as error:
        for machine in (one, other):
            error.add_note(f"{machine.name}: {len(machine.files())} files, {machine.status}")
        raise
