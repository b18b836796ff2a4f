"""Compare files, tables, answers, copies and status of a team's machines with the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from forged.errors import MemoryFormatError
from forged.files import parse
from tests.faults.team.troubles import Troubles
from tests.faults.team.world import World, document_of, heads
from tests.postgres.meeting import Machine

COLUMNS = {"user": ("user_memories", "user_id"), "agent": ("agent_memories", "agent_id")}
ASKED = 4


def disagreements(world: World, troubles: Troubles) -> list[str]:
    """Return a sentence for each difference between ledger and machines; answers only if files agree."""
    faults = [*_in_files(world), *_of_documents(world)]
    faults = faults or [*_in_tables(world), *_in_status(world, troubles)]
    return faults or list(_in_answers(world))


def _in_files(world: World) -> Iterator[str]:
    for owner, book in world.books.items():
        seen: dict[str, bytes] | None = None
        for machine in world.machines:
            if owner not in world.owners(machine):
                continue
            files = world.files(machine, owner)
            try:
                memories = {each: parse(data, owner[0], each) for each, data in files.items()}
            except MemoryFormatError as error:
                yield f"{machine.name} {owner}: {error}"
                continue
            yield from (f"{machine.name} {owner}: {each}" for each in book.faults(memories))
            if seen is not None and seen != files:
                differ = [each for each in seen.keys() | files.keys() if seen.get(each) != files.get(each)]
                yield f"{machine.name} {owner}: differs from another machine in {differ}"
            seen = files


def _in_tables(world: World) -> Iterator[str]:
    sql = world.database.sql
    for owner, book in world.books.items():
        scope, name = owner
        table, column = COLUMNS[scope]
        machine = next(each for each in world.machines if owner in world.owners(each))
        memories = world.memories(machine, owner)
        rows = sql(f"SELECT id, content, is_head FROM forged.{table} WHERE {column} = %s", (name,))
        there = {each: (content, is_head) for each, content, is_head in rows}
        current = heads(memories)
        here = {each: (memory.content, each in current) for each, memory in memories.items()}
        for each in there.keys() | here.keys():
            if there.get(each) != here.get(each):
                yield f"table {owner}: {each} is {there.get(each)}, in files {here.get(each)}"
        marks = sql("SELECT id, kind FROM forged.tombstones WHERE scope = %s AND owner = %s", (scope, name))
        dead = {each for each, kind in marks if kind != "restored"}
        yield from (f"table {owner}: {each} lives and is marked" for each in dead & memories.keys())
        ends = book.ends()
        unknown = {each for each in dead if ends.get(each) == "live"}
        yield from (f"table {owner}: {each} is marked as forgotten" for each in unknown)
    owners = {name for _, name in world.books}
    others = sql("SELECT user_id FROM forged.user_memories UNION SELECT agent_id FROM forged.agent_memories")
    yield from (f"table: rows of {name}, an unknown owner" for (name,) in others if name not in owners)


def _of_documents(world: World) -> Iterator[str]:
    rows = world.database.sql(
        "SELECT document_id, chunk_index, content FROM forged.organizational_memories ORDER BY 1, 2"
    )
    there = {document: [piece for each, *piece in rows if each == document] for document, _, _ in rows}
    yield from (f"table of documents: {each}" for each in world.shelf.faults(there))
    for each, pieces in there.items():
        if [index for index, _ in pieces] != list(range(len(pieces))):
            yield f"lost or doubled: pieces {[index for index, _ in pieces]} of {each}"
        whole = "\n".join(content for _, content in pieces)
        if each in world.shelf.documents:
            lines = document_of(world.shelf.documents[each].text).split("\n\n")
            yield from (f"lost: {line!r} of {each}" for line in lines if line not in whole)
    for machine in world.machines:
        here = machine.documents()
        yield from (
            f"{machine.name}: resurrected in files: {each}"
            for each in here
            if world.shelf.end(each) == "dead"
        )
        yield from (f"{machine.name}: only in files: {each}" for each in here - set(there))
        kept = {each for each in world.shelf.documents if world.shelf.is_kept(each, machine.name)}
        yield from (f"{machine.name}: lost in files: {each}" for each in kept - here)


def _in_status(world: World, troubles: Troubles) -> Iterator[str]:
    (total,) = world.database.sql("SELECT count(DISTINCT document_id) FROM forged.organizational_memories")
    for machine in world.machines:
        yield from (f"{machine.name} says: {each}" for each in troubles.sentences(machine))
        yield from (f"{machine.name} warns: {each}" for each in machine.warnings if "server" in each)
        report = machine.status
        if report is None or report.copies is None:
            yield f"{machine.name} knows of no server"
            continue
        if (report.state, report.listening, report.waiting) != ("ok", True, 0):
            yield f"{machine.name} is {report.state}, listens: {report.listening}, {report.waiting} waiting"
        owners = {(each.scope, each.owner) for each in report.sync if each.in_sync_s is not None}
        if lacking := set(world.owners(machine)) - owners:
            yield f"{machine.name} does not synchronize {lacking}"
        yield from (f"{machine.name}: {each}" for each in report.sync if each.behind or each.kept_here)
        expected = total[0] - len(machine.documents())
        if report.copies.documents != expected:
            copied = f"{report.copies}, and files of {machine.documents()}"
            yield f"{machine.name}: copies of {report.copies.documents} documents, not {expected}: {copied}"


def _in_answers(world: World) -> Iterator[str]:
    for machine in world.machines:
        for owner in world.owners(machine):
            current = heads(world.memories(machine, owner))
            listed = world.listed(machine, owner)
            if listed != current:
                differ = listed.keys() ^ current.keys() or "texts"
                yield f"{machine.name} {owner} lists others than its files: {differ}"
            yield from _recalls(world, machine, owner, set(current.values()))
            yield from _turns(world, machine, owner, set(current.values()))
        yield from _documents_in_answers(world, machine)


def _recalls(world: World, machine: Machine, owner: tuple[str, str], living: set[str]) -> Iterator[str]:
    """Ask for living and dead texts of an owner, and for those of the other user."""
    sample = world.random.sample(sorted(living), min(len(living), 2))
    dead = sorted(world.books[owner].texts.keys() - living)
    others = sorted(
        {text for book in world.books.values() for text in book.texts} - world.books[owner].texts.keys()
    )
    asked = [*sample, *dead[-2:], *world.random.sample(dead, min(len(dead), 2))]
    for text in (*asked, *world.random.sample(others, min(len(others), 2))):
        found = world.recalled(machine, owner, text)
        if text in living and text not in found:
            yield f"{machine.name} {owner} does not recall {text!r}"
        wrong = (set(found) - living) & {*dead, *others}
        yield from (f"{machine.name} {owner} recalls {each!r}, which is no current memory" for each in wrong)


def _turns(world: World, machine: Machine, owner: tuple[str, str], living: set[str]) -> Iterator[str]:
    """Let an agent ask for a living text of an owner, a dead one, and another user's.

    A turn may show the text that a living memory replaces, but none that is in no file of this machine.
    """
    agent = owner[1].rpartition("/")[2] if owner[0] == "agent" else ""
    here = {each.content for mine in world.owners(machine) for each in world.memories(machine, mine).values()}
    own = world.books[owner].texts.keys()
    said = {text for book in world.books.values() for text in book.texts}
    for texts in (living, own - here, said - own - here):
        for text in world.random.sample(sorted(texts), min(len(texts), 1)):
            injected = machine.turn(text, agent=agent)
            if text in living and text not in injected:
                yield f"{machine.name} {owner}: no turn has {text!r}"
            for each in (each for each in said - here if each in injected):
                ids = [book.texts[each].memory_id for book in world.books.values() if each in book.texts]
                yield f"{machine.name} {owner}: a turn has {each!r} of {ids}, which is not in its files"


def _documents_in_answers(world: World, machine: Machine) -> Iterator[str]:
    """Ask for documents by their whole text, which finds those of one piece, and for removed ones of any."""
    documents = world.shelf.documents
    for wanted in ("live", "dead"):
        found = sorted(each for each in documents if world.shelf.end(each) == wanted)
        if wanted == "live":
            found = [each for each in found if document_of(documents[each].text) == documents[each].text]
        for each in world.random.sample(found, min(len(found), ASKED)):
            text = world.shelf.documents[each].text
            is_in_turn = text in machine.turn(text)
            is_recalled = any(text in piece for piece in world.recalled(machine, ("org", ""), text))
            if (is_in_turn, is_recalled) != (wanted == "live",) * 2:
                yield f"{machine.name}: {wanted} {each} {text!r}: turn {is_in_turn}, recall {is_recalled}"
