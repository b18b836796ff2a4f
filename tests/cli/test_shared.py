"""`forgectl shared` against a real PostgreSQL."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from forged.cli.shared_status import shared_facts, shared_troubles
from forged.config import install_command
from forged.postgres.connecting import require_pgvector
from forged_client.protocol import CopiesReport, SharedReport, SyncReport
from tests.support.postgres import MODEL, database, empty_database, make_database, server, template

__all__ = ["database", "empty_database", "server", "template"]

_numbers = itertools.count()


@pytest.fixture
def shared(forgectl, monkeypatch):
    """`forgectl shared VERB` on a database, as one of its roles."""
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", MODEL.name)
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FORGED_SHARED__DIMENSION", str(MODEL.dimension))
    monkeypatch.setenv("FORGED_SHARED__USER_ID", "ada")

    def run(database, *arguments, role="postgres"):
        monkeypatch.setenv("PGVECTOR_URL", database.server.url(role, database.name))
        return forgectl("shared", *arguments)

    return run


@pytest.fixture
def role(database):
    name = f"role_{next(_numbers)}"
    database.sql(f"CREATE ROLE {name} LOGIN")
    return name


def levels(outcome):
    return {each["name"]: each["level"] for each in outcome.json["findings"]}


def test_migrating_an_empty_database_makes_it_whole(shared, empty_database):
    before = shared(empty_database, "check")
    assert (before.code, "run `forgectl shared migrate`" in before.err) == (69, True)

    assert shared(empty_database, "migrate").out == "migration 1 done\nmigration 2 done\nmigration 3 done\n"
    assert shared(empty_database, "migrate").out == "nothing to do: the tables are up to date\n"
    assert set(levels(shared(empty_database, "check", "--json")).values()) == {"ok"}


@pytest.mark.parametrize(
    ("damage", "name", "sentence"),
    [
        ("DROP TABLE forged.relationships", "tables", "relationships is missing"),
        ("DROP INDEX forged.user_memories_near", "indexes", "user_memories_near is missing"),
        (
            "ALTER TABLE forged.organizational_memories DROP COLUMN source CASCADE",
            "columns",
            "organizational_memories.source is missing",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'forged.tombstones_changed'::regclass",
            "indexes",
            "not valid: tombstones_changed",
        ),
        (
            "ALTER TABLE forged.agent_memories DISABLE ROW LEVEL SECURITY",
            "row level security",
            "agent_memories is open to every member",
        ),
        ("DROP POLICY own ON forged.tombstones", "policies", "own tombstones is missing"),
        (
            "ALTER TABLE forged.entities ALTER COLUMN embedding TYPE vector(12)",
            "vectors",
            "entities has 12 numbers in a vector, not 8",
        ),
    ],
)
def test_check_finds_what_someone_did_by_hand(shared, database, damage, name, sentence):
    database.sql(damage)

    found = shared(database, "check", "--json")

    assert found.code == 1
    failed = next(each for each in found.json["findings"] if each["level"] == "fail")
    assert failed["name"] == name
    assert sentence in failed["detail"]
    assert failed["fix"]


def test_doctor_names_what_would_do_the_server_good(shared, database):
    database.sql(
        "INSERT INTO forged.session_memories (session_id, id, agent_id, content, expires_at)"
        " VALUES ('s', 'm', 'a', 'c', now() - interval '2 hours')"
    )
    database.sql(
        "INSERT INTO forged.user_memories (user_id, id, agent_id, content) VALUES ('u', 'm', 'a', 'c')"
    )

    found = shared(database, "doctor")

    assert found.code == 0
    assert (
        "postgres is a superuser: whoever has its password reads and writes the rows of all users"
        in found.out
    )
    assert "expired rows: 1, of sessions, were not removed" in found.out
    assert "rows without an embedding, which cannot be found: 1" in found.out


def test_a_role_is_granted_shown_and_revoked(shared, database, role):
    nothing = shared(database, "status").out
    assert (
        "no role was granted access: the password of postgres gives access to the rows of all users"
    ) in nothing

    granted = shared(database, "grant", "ada", "--agent", "critic", "--documents", "--role", role)
    owned = "user ada, agent critic, the organization"
    assert granted.out == f"role {role} can read documents, and read and write rows of {owned}\n"
    assert f"role {role}: agent critic, the organization, user ada\n" in shared(database, "status").out
    assert shared(database, "doctor", role=role).code == 0

    assert shared(database, "revoke", "ada", "--agent", "critic", "--role", role).code == 0
    again = shared(database, "revoke", "ada", "--agent", "critic", "--role", role)
    assert (again.code, "has no such access" in again.err) == (1, True)
    assert shared(database, "revoke", "ada", "--role", role).code == 0
    refused = shared(database, "status", role=role)
    assert (refused.code, "runs `forgectl shared grant`" in refused.err) == (77, True)


def test_doctor_says_when_the_role_is_not_the_users(shared, database, role):
    shared(database, "grant", "somebody", "--role", role)

    found = shared(database, "doctor", role=role)

    assert found.code == 1
    assert f"{role} was not granted the rows of ada, who you are by shared.user_id" in found.out


def test_who_may_create_nothing_is_informed_what_to_ask_for(shared, empty_database):
    name = f"guest_{next(_numbers)}"
    empty_database.sql(f"CREATE ROLE {name} LOGIN")

    without = shared(empty_database, "migrate", role=name)
    assert (
        without.code,
        "as a superuser of this database, run `CREATE EXTENSION vector`" in without.err,
    ) == (77, True)
    empty_database.sql("CREATE EXTENSION vector")
    bare = shared(empty_database, "migrate", role=name)
    assert (bare.code, "GRANT CREATE ON DATABASE" in bare.err) == (77, True)


def test_an_owner_who_is_no_superuser_sets_everything_up(shared, server):
    name = f"owner_{next(_numbers)}"
    own = make_database(server, f"of_{name}")
    for statement in (
        f"CREATE ROLE {name} LOGIN CREATEROLE",
        f"ALTER DATABASE {own.name} OWNER TO {name}",
        "CREATE EXTENSION vector",
        f"CREATE ROLE {name}_ada LOGIN",
    ):
        own.sql(statement)

    assert shared(own, "migrate", role=name).code == 0
    assert shared(own, "grant", "ada", "--role", f"{name}_ada", role=name).code == 0
    assert f"role {name}_ada: user ada\n" in shared(own, "status", role=name).out
    assert shared(own, "doctor", role=f"{name}_ada").code == 0
    assert shared(own, "revoke", "ada", "--role", f"{name}_ada", role=name).code == 0


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("", 78, "no server is configured: set shared.url"),
        ("nonsense", 78, "shared.url must be a URL such as postgresql://HOST/DATABASE"),
        ("postgresql://127.0.0.1:1/x", 69, "cannot be reached: check that it runs"),
        ("postgresql:///nowhere?host={folder}&user=postgres", 69, "it has no database 'nowhere'"),
        ("postgresql:///postgres?host={folder}&user=eve", 69, "it has no role 'eve': create it there"),
    ],
)
def test_a_server_that_cannot_be_used_is_said_with_what_to_do(forgectl, server, url, code, sentence):
    found = forgectl("shared", "status", environ={"PGVECTOR_URL": url.format(folder=server.folder)})

    assert (found.code, found.out) == (code, "")
    assert sentence in found.err


def test_another_dimension_is_said_with_both_numbers(shared, database, monkeypatch):
    shared(database, "status")
    monkeypatch.setenv("FORGED_SHARED__DIMENSION", "512")

    found = shared(database, "status")

    assert found.code == 78
    assert "have 8 numbers, and shared.dimension is 512: set it to 8" in found.err


def test_a_password_file_that_others_can_read_is_refused(shared, database, monkeypatch, tmp_path):
    password = tmp_path / "password"
    password.write_text("hush")
    password.chmod(0o644)
    monkeypatch.setenv("FORGED_SHARED__PASSWORD", f"file:{password}")

    found = shared(database, "status")

    assert (found.code, f"chmod 600 {password}" in found.err) == (78, True)


def test_without_the_extra_the_message_says_how_to_install_it(shared, database, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    found = shared(database, "status")

    assert (found.code, install_command("postgres") in found.err) == (78, True)


@pytest.mark.parametrize("version", ["0.7.4", "0.5.1"])
def test_a_pgvector_without_patient_scans_is_refused(version):
    with pytest.raises(Exception, match=f"has pgvector {version}, and 0.8 or newer is needed"):
        require_pgvector(version)


def test_a_password_in_the_url_is_never_shown(forgectl, monkeypatch, server):
    monkeypatch.setenv("PGVECTOR_URL", "postgresql://ada:hush@127.0.0.1:1/x")

    shown = [forgectl("shared", verb) for verb in ("status", "migrate", "doctor")]
    shown.append(forgectl("config", "show"))

    assert all("hush" not in each.out + each.err for each in shown)


def test_status_names_what_waits_and_what_stays_here_with_one_reason_each():
    report = SharedReport(
        server="db.example/memories",
        waiting=3,
        waits=("2: it is read-only now", "1: its disk is full"),
        odd=("mem_9",),
        absent_documents=1,
        sync=(
            SyncReport(
                scope="user",
                owner="ada",
                kept_here=5,
                reasons={f"mem_{n}": "looks secret" for n in range(5)},
                refused=1,
                absent=2,
            ),
            SyncReport(scope="agent", owner="ada/coder", problem="the role may not do that"),
        ),
    )

    absent = (
        "not in files here: removed by hand, so left out of answers here; only `forget` removes them there"
    )
    assert list(shared_troubles(report)) == [
        "writes waiting here, 2: it is read-only now",
        "writes waiting here, 1: its disk is full",
        "left out of answers, as they cannot be read: mem_9",
        f"1 document of the server {absent}",
        *(f"mem_{n} of user ada is not on the server: looks secret" for n in range(3)),
        "2 more files of user ada not on the server",
        f"2 memories of user ada on the server {absent}",
        "1 row of user ada on the server are not memories and are skipped",
        "files of agent ada/coder not synced: the role may not do that",
    ]
    without_reason = shared_troubles(msgspec.structs.replace(report, waits=(), sync=()))
    assert next(without_reason) == "3 writes waiting here until the server accepts them"


COPIES = CopiesReport(documents=2, size=3 << 19, limit=16 << 20, is_shown=True, looked_s=12, has_more=True)
OLDER = "older ones are searched on the server"


@pytest.mark.parametrize(
    ("copies", "fact", "troubles"),
    [
        (
            CopiesReport(
                documents=2, size=3 << 19, limit=16 << 20, is_shown=True, looked_s=12, has_more=True
            ),
            (
                "copies of 2 documents of the team (1.5 of 16 MiB, compared 12 s ago, older ones are searched"
                " on the server)"
            ),
            [],
        ),
        (
            CopiesReport(limit=16 << 20, problem="its disk is full"),
            "copies of 0 documents of the team (0.0 of 16 MiB, not compared yet)",
            [
                "documents of the team: its disk is full",
                "documents of the team are left out of turns until the server was read",
            ],
        ),
        (
            CopiesReport(
                documents=1, size=1 << 20, limit=1 << 20, is_shown=True, looked_s=7200, problem="away"
            ),
            "copies of 1 document of the team (1.0 of 1 MiB, compared 2 h ago)",
            [],  # the server's own line says that it is away
        ),
    ],
)
def test_status_says_which_copies_turns_search_and_when_they_were_compared(copies, fact, troubles):
    report = SharedReport(server="db.example/memories", message="away", copies=copies)
    assert fact in list(shared_facts(report))
    assert list(shared_troubles(report)) == troubles
