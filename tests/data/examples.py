"""One example of every message of the contract, and the golden frames made from them.

`python -m tests.data.examples`, from the repository root, writes the frames anew: what changed on the wire is
then a line of the diff.
"""

from __future__ import annotations

from pathlib import Path

from forged_client import protocol as p
from forged_client.framing import encode

FRAMES = Path(__file__).parent / "frames.txt"

_EDGE = p.Edge(id="mem_b", relationship="refines")
_HIT = p.MemoryRecord(
    id="mem_a",
    scope="repo",
    category="user-facts",
    version=2,
    content="naïve 你好",
    created_at="2026-01-02T03:04:05Z",
    found=p.Ranking(
        score=1.5,
        cosine=0.25,
        lexical=3.0,
        found_by="link",
        older=(p.Version(id="mem_0", version=1, created_at="2026-01-01T00:00:00Z", first_line="old"),),
    ),
)
_RECORD = p.MemoryRecord(
    id="mem_a",
    scope="user",
    category="user-facts",
    version=1,
    content="text",
    created_at="2026-01-02T03:04:05Z",
    updated_at="2026-01-02T03:04:05Z",
    session_id="s",
    trigger="explicit",
    root="/r",
    supersedes="mem_0",
    related=(_EDGE,),
    is_head=False,
)
_ROOT = p.RootReport(
    root="/r",
    scope="repo",
    state="ready",
    memories=3,
    problems=(p.FileProblem(path="/r/x.md", reason="bad"),),
)
_DOCUMENT = p.DocumentRecord(
    document_id="doc_0a",
    source="docs/a.md",
    pieces=3,
    of=3,
    created_at="2026-01-02T03:04:05Z",
    agent_id="claude",
    metadata={"team": "core"},
)
_DEAD = p.DeadEvent(
    id="ev_1",
    kind="compaction",
    session_id="s",
    root="/r",
    received_at="2026-01-02T03:04:05Z",
    died_at="2026-01-02T03:05:05Z",
    reason="timeout",
    bytes=700,
    text="user: q",
)
_WITHHELD = p.WithheldFile(
    id="mem_a",
    path="/r/.forge/memory/mem_a.md",
    sha256="0123456789abcdef",
    why="never trusted",
    effect="replaces mem_b",
    category="patterns",
    created_at="2026-01-02T03:04:05Z",
    bytes=700,
    text="text",
)
_TRUST = p.RootTrust(
    root="/r",
    state="trusted",
    mode="follow",
    branch="refs/heads/main",
    trusted_at="2026-01-02T03:04:05Z",
    accepted=3,
    withheld=1,
    shown="d",
    sample=(_WITHHELD,),
    reason="why",
)
_MESSAGES = (p.Message("user", "q"), p.Message("assistant", (p.ContentPart(text="a"),)), p.Message("tool"))

_CAPTURED = p.CapturedEntry(
    at="2026-01-02T03:04:05.000000Z",
    text="text",
    memory_id="mem_a",
    session_id="s",
    agent="claude",
    kind="turn",
    why="rule",
    classifier="builtin:rules",
    scope="repo",
    category="patterns",
    root="/r",
    supersedes="mem_0",
    is_there=True,
)

EXAMPLES: tuple[p.Request | p.Reply, ...] = (
    p.Import(
        id=40,
        workspace="/w",
        scope="user",
        drafts=(
            p.ImportedDraft(
                memory_id="mem_a",
                content="text",
                category="patterns",
                created_at="2026-01-02T03:04:05Z",
                updated_at="2026-01-02T03:04:05Z",
                source="CLAUDE.md",
                cues=("when",),
                related=(_EDGE,),
            ),
            p.ImportedDraft(memory_id="mem_c", file=b"text", name="mem_c.md"),
        ),
        preview=True,
        own=True,
        allow_secret=True,
    ),
    p.Imported(
        id=40,
        outcomes=(p.ImportOutcome(result="new", memory_id="mem_a", reason="why", replaces="mem_0"),),
        root="/r",
        scope="user",
        generation="e:1",
    ),
    p.Hello(id=1, client="agent", version="0.1.0", pid=42),
    p.Ping(id=2),
    p.Status(id=3, workspace="/w"),
    p.Retrieve(
        id=4,
        workspace="/w",
        session_id="s",
        turn_id="t",
        messages=_MESSAGES,
        last_summary_index=1,
        hypotheses=("h",),
        token_budget=100,
        timeout_s=1.5,
        min_generation="e:1",
        known_digest="d",
    ),
    p.Search(id=5, workspace="/w", query="q", limit=3),
    p.Recall(
        id=60,
        query="q",
        session_id="s",
        user_id="u",
        agent_id="claude",
        filters={"topic": "debug", "turn": 5, "done": False},
        scopes=("session", "user"),
        token_budget=200,
    ),
    p.Ingest(
        id=61,
        documents=(p.Document(source="docs/a.md", text="# A\n\nnaïve 你好", is_markdown=True),),
        agent_id="claude",
        metadata={"team": "core"},
        preview=True,
    ),
    p.ListDocuments(id=62, offset=5, limit=5),
    p.RemoveDocument(id=63, name="docs/a.md"),
    p.RemoveDocuments(id=64, document_ids=("doc_0a",), below="/srv/docs"),
    p.Why(id=6, workspace="/w", session_id="s"),
    p.Remember(id=7, workspace="/w", content="text", scope="user", category="user-facts", related=(_EDGE,)),
    p.Capture(id=8, workspace="/w", session_id="s", kind="compaction", messages=_MESSAGES),
    p.GetMemories(id=9, workspace="/w", ids=("mem_a",)),
    p.ListMemories(id=10, workspace="/w", scope="repo", all_versions=True, limit=5, offset=5),
    p.History(id=11, workspace="/w", memory_id="mem_a"),
    p.Forget(id=12, workspace="/w", memory_id="mem_a", erase_now=True),
    p.Rebuild(id=13, workspace="/w", full=True, wait=True),
    p.Events(id=14, workspace="/w"),
    p.Undo(id=15, workspace="/w", session_id="s", preview=True),
    p.Pause(id=16, workspace="/w", everywhere=True, paused=False),
    p.Dead(id=17, action="retry", ids=("ev_1",)),
    p.Cost(id=18, days=3),
    p.Egress(id=41, days=3),
    p.Trust(id=19, workspace="/w", action="trust", mode="locked", shown="d"),
    p.Review(id=20, workspace="/w", accept=("mem_a", "01234567"), shown="d"),
    p.Try(id=42),
    p.Edit(
        id=43,
        workspace="/w",
        memory_id="mem_a",
        content="text",
        base="mem_a",
        relate=(_EDGE,),
        unrelate=("mem_c",),
        key="k",
    ),
    p.Move(id=45, workspace="/w", memory_id="mem_a", to="user", key="k"),
    p.Restore(id=46, workspace="/w", memory_id="mem_a", key="k"),
    p.HandOver(id=47, pid=44, version="0.1.0"),
    p.HandedOver(id=47, pid=43),
    p.Failed(id=2, code="invalid", message="no"),
    p.Welcome(id=1, protocol=1, version="0.1.0", pid=43, epoch="e"),
    p.Pong(id=2),
    p.StatusReport(id=3, version="0.1.0", roots=(_ROOT,), counters={"retrieves": 1}, warnings=("w",)),
    p.Retrieved(id=4, text="block", memories=(_HIT,), included=1, digest="d", indexes=("lexical",)),
    p.Found(id=5, memories=(_HIT,), indexes=("lexical", "dense"), generation="e:1", elapsed_ms=0.5),
    p.Ingested(
        id=61,
        outcomes=(
            p.DocumentOutcome(source="docs/a.md", result="new", document_id="doc_0a", pieces=3, written=3),
        ),
        root="/home/ann/.forge/org",
        generation="e:2",
    ),
    p.Documents(id=62, documents=(_DOCUMENT,), total=1, root="/home/ann/.forge/org", generation="e:2"),
    p.DocumentRemoved(id=63, documents=(_DOCUMENT,), pieces=3, generation="e:3"),
    p.Recalled(
        id=60,
        memories=(
            p.MemoryRecord(
                id="mem_a",
                scope="session",
                content="naïve 你好",
                category="user-facts",
                version=1,
                found=p.Ranking(score=0.75, distance=0.25),
                memory_type="fact",
                importance=0.5,
                access_count=2,
                last_accessed="2026-01-02T03:04:05Z",
                created_at="2026-01-02T03:04:05Z",
                expires_at="2026-01-02T04:04:05Z",
                metadata={"topic": "debug"},
                agent_id="claude",
                user_id="u",
                session_id="s",
                root="session:s",
            ),
        ),
        text="block",
        included=1,
        degraded=("shared was late",),
        indexes=("dense",),
        elapsed_ms=0.5,
        embedding_ms=0.25,
    ),
    p.Explained(id=6, session_id="s", turn_id="t", memories=(_HIT,), omitted_ids=("mem_c",)),
    p.Remembered(id=7, memory_id="mem_a", version=1, path="/r/mem_a.md", generation="e:2"),
    p.Captured(id=8, outcome="durable"),
    p.Memories(id=9, memories=(_RECORD,), total=1, missing=("mem_x",)),
    p.Chain(id=11, memories=(_RECORD,), flags=("fork",)),
    p.Forgotten(id=12, ids=("mem_a",), trash="/t", unreachable=("backups",)),
    p.Rebuilt(id=13, status="not_ready", generation="e:3", roots=(_ROOT,)),
    p.Progress(id=14, event="embedding", root="/r", done=1, total=2),
    p.Undone(id=15, memories=(_RECORD,), trash="/t", generation="e:4"),
    p.Paused(id=16, paused=("*", "/r")),
    p.DeadEvents(id=17, events=(_DEAD,), missing=("ev_2",)),
    p.Costs(
        id=18,
        days=(p.DayCost(day="2026-01-02", purpose="capture", calls=3, failed=1, prompt_tokens=9),),
        tokens_today=9,
        token_limit=100,
        calls_per_minute=60,
        resets_at="2026-01-03T00:00:00Z",
    ),
    p.Trusted(id=19, roots=(_TRUST,)),
    p.EgressReport(id=41, days=(p.DayEgress("2026-01-02", "h:1", "build", 3, 1, 9, 70),)),
    p.Reviewed(id=20, root=_TRUST, files=(_WITHHELD,), accepted=("mem_b",)),
    p.Tried(
        id=42,
        trials=(p.Trial(host="h", model="m", uses=("HyDE",), took_ms=1.5, reason="auth", message="no key"),),
    ),
    p.Moved(
        id=45, memory_id="mem_b", path="/u/mem_b.md", scope="user", ids=("mem_a",), trash="/t", unlinked=1
    ),
    p.Restored(
        id=46,
        memories=(_RECORD,),
        restorable=(
            p.Trashed(
                id="mem_a",
                ids=("mem_0", "mem_a"),
                scope="repo",
                root="/r",
                why="forget",
                taken_at="2026-01-02T03:04:05Z",
                until="2026-01-09T03:04:05Z",
                first_line="text",
            ),
        ),
    ),
    p.Learn(
        id=50,
        workspace="/w",
        session_id="s",
        agent="codex",
        messages=_MESSAGES,
        said_at=(1.5, 0.0),
        mark="m",
    ),
    p.Learned(id=50, outcome="waiting", waits_for="calls fail", to_review=3),
    p.ListPast(id=51, agents=("codex", "claude")),
    p.PastSessions(
        id=51,
        marks={"codex": {"s": "m"}},
        classifier="model",
        call_characters=9,
        call_tokens=8,
        tokens_left=7,
        token_limit=6,
        to_review=5,
        most_to_review=4,
    ),
    p.ListCaptured(id=31, workspace="/w", since="2026-01-02T00:00:00Z", session_id="s", limit=9, offset=1),
    p.CapturedPage(
        id=31,
        captured=(
            _CAPTURED,
            p.CapturedEntry(at="2026-01-02T03:04:05.000000Z", text="it", reason="why", why="request"),
        ),
        total=2,
    ),
    p.ListInjections(id=32, workspace="/w", since="2026-01-02T00:00:00Z", session_id="s", limit=9, offset=1),
    p.InjectionsPage(
        id=32,
        injections=(
            p.InjectedTurn(
                at="2026-01-02T03:04:05.000000Z",
                roots=("/w",),
                session_id="s",
                agent="claude",
                turn_id="t",
                strategy="direct",
                memories=(
                    p.InjectedMemory(
                        id="mem_a", root="/w", version=2, found_by="search", admitted_as="strong", sessions=3
                    ),
                ),
            ),
        ),
        total=2,
    ),
    p.Hook(
        id=48,
        harness="claude",
        payload=b'{"hook_event_name":"Stop","session_id":"s"}',
        within_ms=2300,
        version="0.1.0",
    ),
    p.Hooked(id=48, output=b'{"systemMessage":"kept"}'),
)


def name_of(message: p.Request | p.Reply) -> str:
    side = "request" if isinstance(message, p.Request) else "reply"
    return f"{side}-{type(message).__struct_config__.tag}"


def message_types() -> set[type]:
    return {*p.REQUESTS, *p.REPLIES}


def frames() -> str:
    """The frame of every example, one a line, behind its name."""
    return "".join(f"{name_of(message)} {bytes(encode(message)).hex()}\n" for message in EXAMPLES)


if __name__ == "__main__":
    FRAMES.write_text(frames())
