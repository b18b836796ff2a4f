"""Ledger of all acknowledged acts of a team's machines, by true time, and the state that follows."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from forged.memory import Memory

NEAR_S = 1.0
"""Two acts on one memory, at two machines, within this time: either end is right."""

FORGOTTEN, CHAIN, RESTORED = "forgotten", "chain", "restored"


@dataclass(frozen=True)
class Act:
    """Act on one memory or document at a machine; `at` is the time of its answer."""

    at: float
    machine: str
    kind: str
    detail: str = ""


@dataclass
class Entry:
    """One memory: predecessor when it was written, time of that, and the acts on it."""

    created: float
    older: str = ""
    acts: list[Act] = field(default_factory=list)

    def end(self, also: Iterable[Act] = ()) -> str:
        """Return `live`, `dead`, or `either` where two machines acted within the clocks' error."""
        marks = [each for each in (*self.acts, *also) if each.kind in {FORGOTTEN, CHAIN, RESTORED}]
        marks.sort(key=lambda each: each.at)
        if not marks:
            return "live"
        last = marks[-1]
        near = [each for each in marks if last.at - each.at < NEAR_S and each.machine != last.machine]
        is_live = last.kind == RESTORED
        if any((each.kind == RESTORED) != is_live for each in near):
            return "either"
        return "live" if is_live else "dead"


@dataclass
class Text:
    """One text that was said: id of its memory, and if another one replaced it in the same file."""

    memory_id: str
    is_replaced: bool = False
    is_optional: bool = False


@dataclass
class Book:
    """Ledger of the memories of one owner."""

    owner: tuple[str, str]
    entries: dict[str, Entry] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)

    def remember(self, memory_id: str, text: str, older: str, act: Act) -> None:
        """Record a new memory; the same text on two machines is one memory with two files."""
        entry = self.entries.setdefault(memory_id, Entry(act.at, older))
        entry.acts.append(act)
        self.texts.setdefault(text, Text(memory_id))

    def edit(self, memory_id: str, before: str, text: str, act: Act) -> None:
        self.entries[memory_id].acts.append(act)
        self.texts[before].is_replaced = True
        self.texts[text] = Text(memory_id)

    def mark(self, ids: Iterable[str], act: Act) -> None:
        for each in ids:
            self.entries[each].acts.append(act)

    def restore(self, contents: Mapping[str, str], act: Act) -> None:
        """Record restored memories with their texts; other edits of them may be kept or not."""
        for memory_id, content in contents.items():
            self.entries[memory_id].acts.append(act)
            for text, found in self.texts.items():
                if found.memory_id == memory_id and text != content:
                    found.is_optional = True
            self.texts[content] = Text(memory_id)

    def adopt(self, memory: Memory) -> None:
        """Take the second version of a conflict, under its own id, into the ledger.

        It must have a text that was said for a memory of the same time.
        """
        if memory.id in self.entries:
            return
        found = self.texts.get(memory.content)
        assert found is not None, (
            f"{memory.id} of {self.owner} says {memory.content!r}, which is no text of an act"
        )
        origin = self.entries[found.memory_id]
        assert any(each.kind == "edit" for each in origin.acts), f"{memory.id} doubles {found.memory_id}"
        self.entries[memory.id] = Entry(origin.created, memory.supersedes or "")
        # Whatever befalls the memory that it was, this one may have been there already, or not.
        found.memory_id = memory.id
        found.is_optional = any(each.kind in {FORGOTTEN, CHAIN} for each in origin.acts)

    def ends(self) -> dict[str, str]:
        """Return live, dead or either for each memory, with versions of chains that went unseen."""
        ends = {each: entry.end() for each, entry in self.entries.items()}
        derived: dict[str, list[Act]] = defaultdict(list)
        followers: dict[str, list[str]] = defaultdict(list)
        for each, entry in self.entries.items():
            followers[entry.older].append(each)
        for each, entry in self.entries.items():
            marks = [act for act in entry.acts if act.kind == CHAIN]
            if not marks:
                continue
            mark = marks[-1]
            for follower in self._descendants(each, followers):
                if follower not in ends or any(act.at == mark.at for act in self.entries[follower].acts):
                    continue
                is_sure = ends[each] == "dead" and self.entries[follower].older == each
                if self.entries[follower].created < mark.at - NEAR_S and is_sure:
                    derived[follower].append(mark)
                elif self.entries[follower].created < mark.at + NEAR_S:
                    derived[follower].append(dataclasses.replace(mark, kind="either"))
        for each, acts in derived.items():
            sure = [act for act in acts if act.kind == CHAIN]
            ends[each] = self.entries[each].end(sure)
            restores = [act.at for act in self.entries[each].acts if act.kind == RESTORED]
            if any(act.kind == "either" and act.at > max(restores, default=0) for act in acts):
                ends[each] = "either" if ends[each] == "live" else ends[each]
            if sure and len(self.entries[each].acts) > 1:
                ends[each] = "either"
        return ends

    def _descendants(self, memory_id: str, followers: Mapping[str, list[str]]) -> set[str]:
        found, left = set[str](), [memory_id]
        while left:
            for each in followers.get(left.pop(), ()):
                if each not in found:
                    found.add(each)
                    left.append(each)
        return found

    def faults(self, files: Mapping[str, Memory]) -> list[str]:
        """Return a sentence for each memory or text that is lost, doubled or resurrected in files."""
        for memory in files.values():
            self.adopt(memory)
        ends, said = self.ends(), defaultdict(list)
        for each, memory in files.items():
            said[memory.content].append(each)
        faults = [
            f"resurrected: {each} {files[each].content!r}"
            for each, end in ends.items()
            if end == "dead" and each in files
        ]
        faults += [f"lost: {each}" for each, end in ends.items() if end == "live" and each not in files]
        for text, found in self.texts.items():
            ids, end = said.get(text, []), ends[found.memory_id]
            if not ids and end == "live" and not found.is_replaced and not found.is_optional:
                faults.append(f"lost: text {text!r} of {found.memory_id}")
            if ids and found.is_replaced and not found.is_optional:
                faults.append(f"resurrected: text {text!r} of {found.memory_id} in {ids}")
            if len(ids) > 1:
                faults.append(f"doubled: text {text!r} in {ids}")
        return faults

    def history(self, memory_id: str) -> list[Act]:
        return self.entries[memory_id].acts if memory_id in self.entries else []


@dataclass
class Document:
    """One text of a source, as a document, with the acts on it: ingested and removed."""

    source: str
    text: str
    acts: list[Act] = field(default_factory=list)


@dataclass
class Shelf:
    """Ledger of the team's documents."""

    documents: dict[str, Document] = field(default_factory=dict)

    def ingest(self, document_id: str, source: str, text: str, act: Act, known: Collection[str]) -> None:
        """Record an ingested document, which replaces others of its source.

        Where its files exist, it may come back if another machine has just removed it.
        """
        self.replace(document_id, source, act, known)
        if act.kind == "maybe ingest" and self.end(document_id) == "live":
            return
        self.documents.setdefault(document_id, Document(source, text)).acts.append(act)

    def replace(self, document_id: str, source: str, act: Act, known: Collection[str]) -> None:
        """Record that a document replaces those of its source that the machine knew of.

        Another one, which another machine has ingested meanwhile, may stay or go.
        """
        for each, document in self.documents.items():
            if document.source == source and each != document_id and self.end(each) != "dead":
                kind = "replaced" if each in known else "maybe replaced"
                document.acts.append(dataclasses.replace(act, kind=kind, detail=document_id))

    def remove(self, ids: Iterable[str], act: Act) -> None:
        for each in ids:
            self.documents[each].acts.append(act)

    def end(self, document_id: str) -> str:
        """Return live, dead or either for a document."""
        acts = sorted(self.documents[document_id].acts, key=lambda each: each.at)
        last = acts[-1]
        near = [each for each in acts if last.at - each.at < NEAR_S and each.machine != last.machine]
        is_live = last.kind == "ingest"
        if last.kind.startswith("maybe") or any((each.kind == "ingest") != is_live for each in near):
            return "either"
        return "live" if is_live else "dead"

    def is_kept(self, document_id: str, machine: str) -> bool:
        """Return True if a document is in files of a machine: ingested there, and not removed since."""
        acts = self.documents[document_id].acts
        own = max((each.at for each in acts if (each.kind, each.machine) == ("ingest", machine)), default=0)
        return own > max((each.at for each in acts if each.kind != "ingest"), default=0) + NEAR_S

    def faults(self, there: Iterable[str]) -> list[str]:
        """Return a sentence for each document that is lost or resurrected where these are."""
        found = set(there)
        faults = [f"unknown document {each}" for each in found - self.documents.keys()]
        for each, document in self.documents.items():
            end = self.end(each)
            if end == "dead" and each in found:
                faults.append(f"resurrected: {each} of {document.source}: {document.text!r}")
            if end == "live" and each not in found:
                faults.append(f"lost: {each} of {document.source}: {document.text!r}")
        return faults
