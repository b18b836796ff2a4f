"""Three machines of two users with one server, and the acts of people and agents on them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psycopg

from forged.errors import MemoryFormatError
from forged.files import agent_root, parse, render
from forged.memory import Memory, utc
from forged_client import protocol as wire
from tests.faults.team.ledger import CHAIN, FORGOTTEN, RESTORED, Act, Book, Shelf
from tests.postgres.meeting import Machine
from tests.support.postgres import Database
from tests.support.provider import ScriptedProvider
from tests.support.reading import bytes_of

OWN, TEAM = "scribe", "reviewer"
SOURCES = [f"handbook/page{number}.md" for number in range(8)]
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


class World:
    """Machines, their ledger, and a source of words. Acts are those that a machine has acknowledged."""

    def __init__(self, place: Path, database: Database, provider: ScriptedProvider, seed: int) -> None:
        self.random = random.Random(seed)
        self.database = database
        shared = {"scopes": "user agent org", "team_agents": TEAM, "retrieve": "agent org"}
        self.machines = [
            Machine(name, place, database, user, provider=provider, ahead_s=ahead, **shared)  # type: ignore[arg-type]
            for name, user, ahead in (("laptop", "ada", -300), ("desk", "ada", 300), ("bens", "ben", 0))
        ]
        self.books = {
            owner: Book(owner)
            for owner in (
                ("user", "ada"),
                ("user", "ben"),
                ("agent", f"ada/{OWN}"),
                ("agent", f"ben/{OWN}"),
                ("agent", TEAM),
            )
        }
        self.shelf = Shelf()
        self.counts = Counter[str]()
        self.acts: list[str] = []
        self.acted_on = set[str]()
        self.waiting: dict[str, list[str]] = {each.name: [] for each in self.machines}
        self.authors: dict[str, str] = {}
        self._numbers = itertools.count()

    def summary(self) -> str:
        """Return how often each act and trouble was, and the numbers of memories and documents."""
        memories = sum(len(each.entries) for each in self.books.values())
        return (
            f"{dict(sorted(self.counts.items()))}, {memories} memories, {len(self.shelf.documents)} documents"
        )

    # --- where things are -------------------------------------------------------------------------------

    def owners(self, machine: Machine) -> list[tuple[str, str]]:
        """Return the owners of memories in files of a machine."""
        return [("user", machine.user_id), ("agent", f"{machine.user_id}/{OWN}"), ("agent", TEAM)]

    def folder(self, machine: Machine, owner: tuple[str, str]) -> Path:
        scope, name = owner
        if scope == "user":
            return machine.home / ".forge/memory"
        return Path(agent_root(str(machine.home), name.rpartition("/")[2]).directories[0])

    def files(self, machine: Machine, owner: tuple[str, str]) -> dict[str, bytes]:
        folder = self.folder(machine, owner)
        return {path.stem: data for path, data in bytes_of(folder.glob("*.md")).items()}

    def memories(self, machine: Machine, owner: tuple[str, str]) -> dict[str, Memory]:
        """Return the memories in files of an owner on a machine."""
        return {each: parse(data, owner[0], each) for each, data in self.files(machine, owner).items()}

    # --- acts -------------------------------------------------------------------------------------------

    def act(self, machine: Machine, kind: str) -> None:
        """Carry out one act on a machine, and record it if the machine acknowledges it."""
        getattr(self, f"_{kind}")(machine)

    def _record(self, machine: Machine, kind: str, what: str, detail: str = "") -> Act:
        act = Act(time.time(), machine.name, kind, detail)
        self.counts[kind] += 1
        self.acted_on.add(what)
        self.acts.append(f"{act.at:.3f} {machine.name} {kind} {what} {detail}")
        return act

    def word(self) -> str:
        return "".join(self.random.choices(_SYLLABLES, k=4))

    def text(self) -> str:
        """Return a new text; its number makes it unlike all others."""
        return f"The {self.word()} {self.word()} is kept under {self.word()}{next(self._numbers)}."

    def _place(self, machine: Machine) -> tuple[tuple[str, str], dict[str, str]]:
        """Choose an owner of memories of a machine, with the options that name it in requests."""
        owner = self.random.choice([("user", machine.user_id), *self.owners(machine)])
        return owner, options_of(owner)

    def _target(self, machine: Machine, owner: tuple[str, str]) -> Memory | None:
        """Choose a current memory of an owner; of the team's agent one that this user wrote."""
        memories = self.memories(machine, owner)
        replaced = {each.supersedes for each in memories.values()}
        found = [
            each
            for each in memories.values()
            if each.id not in replaced
            and (owner[1] != TEAM or self.authors.get(each.id) == machine.user_id)
            and (each.id in self.books[owner].entries or owner[1] != TEAM)
        ]
        if not found:
            return None
        memory = self.random.choice(sorted(found, key=lambda each: each.id))
        self.books[owner].adopt(memory)
        self.acted_on.add(memory.id)
        return memory

    def begin(self) -> None:
        """Let each machine remember something for each owner: an agent's files follow where it has worked."""
        for machine in self.machines:
            for owner in self.owners(machine):
                self._say(machine, owner)

    def _remember(self, machine: Machine) -> None:
        owner, _ = self._place(machine)
        self._say(machine, owner)

    def _say(self, machine: Machine, owner: tuple[str, str], supersedes: str = "") -> None:
        text = self.text()
        with machine.client() as client:
            place = str(machine.workspace)
            said = client.remember(place, text, supersedes=supersedes, **options_of(owner))
        kind = "supersede" if supersedes else "remember"
        act = self._record(machine, kind, said.memory_id, f"{owner[1]} {text} for {supersedes}")
        self.authors[said.memory_id] = machine.user_id
        self.books[owner].remember(said.memory_id, text, supersedes, act)

    def _supersede(self, machine: Machine) -> None:
        owner, _ = self._place(machine)
        if (older := self._target(machine, owner)) is not None:
            self._say(machine, owner, older.id)

    def _edit(self, machine: Machine) -> None:
        """Edit a file as with an editor, with or without the time of the change."""
        owner, _ = self._place(machine)
        if (memory := self._target(machine, owner)) is None:
            return
        text = self.text()
        changed = msgspec.structs.replace(memory, content=text)
        if self.random.random() < 0.5:
            changed = msgspec.structs.replace(changed, updated_at=utc(time.time() + machine.ahead_s))
        path = self.folder(machine, owner) / f"{memory.id}.md"
        new = path.with_name(f".{memory.id}.new")
        new.write_bytes(render(changed))
        try:
            is_same = parse(path.read_bytes(), owner[0], memory.id) == memory
        except (FileNotFoundError, MemoryFormatError):
            is_same = False
        if not is_same:
            new.unlink()
            return
        os.replace(new, path)
        act = self._record(machine, "edit", memory.id, f"{owner[1]} {text}")
        self.books[owner].edit(memory.id, memory.content, text, act)

    def _forget(self, machine: Machine) -> None:
        owner, options = self._place(machine)
        if (memory := self._target(machine, owner)) is None:
            return
        version_only = self.random.random() < 0.3
        options = {**options, "version_only": version_only}  # type: ignore[dict-item]
        with machine.client() as client:
            gone = client.forget(str(machine.workspace), memory.id, **options)
        kind = FORGOTTEN if version_only else CHAIN
        self.acted_on.update(gone.ids)
        act = self._record(machine, kind, memory.id, f"{owner[1]} with {gone.ids}")
        self.books[owner].mark(gone.ids, act)
        assert memory.content not in self.recalled(machine, owner, memory.content), "it was just forgotten"

    def _restore(self, machine: Machine) -> None:
        owner, options = self._place(machine)
        with machine.client() as client:
            found = client.restore(str(machine.workspace), **options).restorable
            ids = [each.id for each in found if each.id in self.books[owner].entries]
            if owner[1] == TEAM:
                ids = [each for each in ids if self.authors.get(each) == machine.user_id]
            if not ids:
                return
            chosen = self.random.choice(sorted(ids))
            back = client.restore(str(machine.workspace), chosen, **options)
        if back.memories:
            act = self._record(machine, RESTORED, chosen, f"{owner[1]} {[each.id for each in back.memories]}")
            self.acted_on.update(each.id for each in back.memories)
            self.books[owner].restore({each.id: each.content for each in back.memories}, act)

    def _ingest(self, machine: Machine) -> None:
        """Ingest a text of a source; without a server it would stay on its machine."""
        if machine.status is None:
            return
        source, text = self.random.choice(SOURCES), self.text()
        earlier = [each.text for each in self.shelf.documents.values() if each.source == source]
        if earlier and self.random.random() < 0.2:
            text = self.random.choice(earlier)
        here, there = machine.documents(), self._documents_there(source)
        asked = wire.Ingest(documents=(wire.Document(source=source, text=document_of(text)),))
        with machine.client() as client:
            (outcome,) = client.ask(asked).outcomes
        assert outcome.result in {"new", "replaced", "exists", "completed"}, outcome
        act = self._record(
            machine, "ingest", outcome.document_id, f"{source} {text} {outcome.result} {outcome.shared}"
        )
        known = here | there if outcome.shared == "there" else here
        if outcome.result == "exists":
            act = dataclasses.replace(act, kind="maybe ingest")
        self.shelf.ingest(outcome.document_id, source, text, act, known)
        if outcome.shared.startswith("waits"):
            self.waiting[machine.name].append(outcome.document_id)

    def _documents_there(self, source: str) -> set[str]:
        """Return the ids of the documents of a source on the server; none while it is down."""
        asked = "SELECT document_id FROM forged.organizational_memories WHERE source = %s"
        with contextlib.suppress(psycopg.OperationalError):
            return {each for (each,) in self.database.sql(asked, (source,))}
        return set()

    def _remove(self, machine: Machine) -> None:
        source = self.random.choice(SOURCES)
        with machine.client() as client:
            gone = client.ask(wire.RemoveDocument(name=source))
        if gone.documents:
            ids = [each.document_id for each in gone.documents]
            act = self._record(machine, "remove", ids[0], f"{source} {ids} waits={gone.waits}")
            self.shelf.remove(ids, act)
            if gone.waits:
                self.waiting[machine.name] += ids

    # --- answers ----------------------------------------------------------------------------------------

    def recalled(self, machine: Machine, owner: tuple[str, str], query: str) -> list[str]:
        scope, name = owner
        options = {"agent_id": name.rpartition("/")[2]} if scope == "agent" else {}
        with machine.client() as client:
            found = client.recall(query, workspace=str(machine.workspace), scopes=[scope], **options)
            return [each.content for each in found.memories]

    def listed(self, machine: Machine, owner: tuple[str, str]) -> dict[str, str]:
        with machine.client() as client:
            found = client.list(str(machine.workspace), limit=1000, **options_of(owner)).memories
            return {each.id: each.content for each in found}


def document_of(text: str) -> str:
    """Return a document that begins with a text; every third has more pieces than one."""
    lines = 60 if sum(text.encode()) % 3 == 0 else 0
    return "\n\n".join(
        (text, *(f"Line {number} of its annex has nothing to say of it." for number in range(lines)))
    )


def options_of(owner: tuple[str, str]) -> dict[str, str]:
    """Return the options of a request that name an owner of memories."""
    scope, name = owner
    return {"scope": scope} if scope == "user" else {"scope": scope, "agent_id": name.rpartition("/")[2]}


def heads(memories: Mapping[str, Memory]) -> dict[str, str]:
    """Return the texts of memories that no other replaces, by id."""
    replaced = {each.supersedes for each in memories.values()}
    return {each: memory.content for each, memory in memories.items() if each not in replaced}
