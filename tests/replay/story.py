"""Requests of two repositories, a user, five agents and their sessions to one daemon.

Everything is asked by plain fields and waits until it can be found, so that the same answers come each time.
"""

from __future__ import annotations

import json
from typing import Any

from tests.replay.player import Player
from tests.support.git import git

_REPO_FACTS = (
    ("project-conventions", "Deployments of the billing service leave every Friday at noon."),
    ("project-conventions", "Database migrations run with the tool called sqitch, never by hand."),
    ("architectural-decisions", "The search service keeps its index in memory and rebuilds it at a start."),
    ("architectural-decisions", "Uploads go to object storage through a signed URL."),
    ("corrections", "The login page is served by nginx, not by the application."),
    ("corrections", "Reports are made by the worker queue, not by cron."),
    ("patterns", "A handler returns early when the workspace is paused."),
    ("patterns", "Every importer reads its file line by line."),
    ("coding-preferences", "Functions stay shorter than forty lines in this repository."),
    ("project-conventions", "Alarms of the audit service go to the team that built it."),
    ("project-conventions", "Release notes are written in English and kept in CHANGELOG.md."),
    ("architectural-decisions", "Mail is sent by a service of its own, which retries for a day."),
    ("patterns", "Retries wait twice as long each time, up to a minute."),
    ("project-conventions", "Backups of the customer tables are kept for ninety days."),
    ("corrections", "The export writes UTF-8 with a byte order mark, because a spreadsheet needs it."),
    ("project-conventions", "Die Rechnungen werden nachts um drei Uhr gedruckt."),
    ("project-conventions", "Las pruebas de integración usan PostgreSQL de verdad."),
    ("architectural-decisions", "検索サービスは毎晩三時に索引を作り直す。"),
    ("patterns", "Une erreur dit toujours quelle commande la répare."),
    ("project-conventions", "Screenshots belong into the design folder."),
)
_USER_FACTS = (
    ("user-facts", "The user lives in Lisbon and works on European time."),
    ("coding-preferences", "The user wants four spaces and never tabs."),
    ("coding-preferences", "The user reads short answers first and details later."),
    ("user-facts", "The user's editor is Helix."),
    ("coding-preferences", "The user prefers pytest over unittest."),
)
_QUESTIONS = (
    "When do deployments of billing leave?",
    "With which tool do migrations run?",
    "Where do uploads go?",
    "Who serves the login page?",
    "How long are backups of customer tables kept?",
    "Which editor does the user have?",
    "Wann werden die Rechnungen gedruckt?",
    "¿Qué base de datos usan las pruebas de integración?",
    "検索サービスはいつ索引を作り直しますか。",
    "Tabs or spaces?",
    "How long does a retry wait?",
    "What is the weather like on Mars?",
)
_SAID = (
    "From now on, always run the linter before you commit.",
    "Please remember that the staging cluster is called heron.",
    "We decided to use Redis for the session store.",
    "From now on, use pnpm instead of npm in this repository.",
    "No, the importer reads semicolons, not commas.",
    "I prefer composition over inheritance in all my projects.",
    "Don't remember this: my door code is on the fridge.",
    "Can you have a look at the failing test?",
    "Ab jetzt bitte immer auf Deutsch antworten.",
    "Remember: the reviewer of this repository is Ines.",
)
_AGENTS = ("claude", "codex", "gemini", "qwen")
_PROMPTS = {
    "claude": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "qwen": "UserPromptSubmit",
}
_STOPS = {"claude": "Stop", "codex": "Stop", "gemini": "AfterAgent", "qwen": "Stop"}


def play(player: Player) -> None:
    """Ask everything, chapter by chapter."""
    repo = str(player.repo)
    ids = _remembered(player, repo)
    _refused(player, repo, ids)
    _searched(player, repo)
    _retrieved(player, repo)
    _recalled(player, repo)
    _edited(player, repo, ids)
    _moved_and_restored(player, repo, ids)
    _captured(player, repo)
    _hooked(player, repo)
    _documents(player, repo)
    _imported(player, repo)
    _trusted(player)
    _managed(player, repo)
    player.look()


def _remembered(player: Player, repo: str) -> list[str]:
    ids = []
    for number, (category, text) in enumerate(_REPO_FACTS):
        extras: dict[str, Any] = {}
        if number % 4 == 0:
            extras["cues"] = (f"subject {number}", "operations")
        if number % 5 == 0:
            extras["evidence"] = ("README.md",)
        if number % 6 == 0:
            extras |= {"metadata": {"team": "core", "rank": number}, "importance": 0.5}
        if ids and number % 3 == 0:
            extras["related"] = ({"id": ids[-1], "relationship": "refines"},)
        reply = player.written("remember", workspace=repo, content=text, category=category, **extras)
        assert "memory_id" in reply, reply
        ids.append(reply["memory_id"])
    for number, (category, text) in enumerate(_USER_FACTS):
        kind = ("fact", "preference", "summary")[number % 3]
        ids.append(
            player.written(
                "remember", workspace=repo, content=text, category=category, scope="user", memory_type=kind
            )["memory_id"]
        )
    for agent in ("alpha", "beta"):
        for kind in ("learning", "persona"):
            text = f"Agent {agent} keeps a {kind}: it answers in haiku."
            player.written(
                "remember", workspace=repo, content=text, scope="agent", agent_id=agent, memory_type=kind
            )
    for session in ("one", "two"):
        player.ask(
            "remember",
            workspace=repo,
            content=f"In session {session} the cache was cleared at noon.",
            scope="session",
            session_id=session,
            agent_id="alpha",
            metadata={"step": session},
        )
    player.look()
    return ids


def _refused(player: Player, repo: str, ids: list[str]) -> None:
    """Ask for what cannot be carried out, and for what is there already."""
    ask = player.ask
    ask(
        "remember",
        workspace=repo,
        content=_REPO_FACTS[0][1],
        related=({"id": ids[0], "relationship": "odd"},),
    )
    ask("remember", workspace=repo, content=_REPO_FACTS[0][1])
    ask("remember", workspace=repo, content="")
    ask("remember", workspace=repo, content="The key is AKIAIOSFODNN7EXAMPLQ and it is live.")
    ask("remember", workspace=repo, content="It is for an agent.", scope="agent")
    ask("remember", workspace=repo, content="It is for a session.", scope="session")
    ask("remember", workspace="relative/path", content="Nowhere.")
    ask("remember", workspace=repo, content="New.", supersedes="mem_not-there")
    ask("remember", workspace=repo, content="New.", evidence=("not-there.md",))
    ask("remember", workspace=repo, content="New.", importance=2.0)
    ask("get", workspace=repo, ids=("mem_not-there",))
    ask("history", workspace=repo, memory_id="mem_not-there")
    ask("forget", workspace=repo, memory_id="mem_not-there")
    ask("edit", workspace=repo, memory_id="mem_not-there", content="x")
    ask("edit", workspace=repo, memory_id=ids[0], content="x", base="7")
    ask("move", workspace=repo, memory_id="mem_not-there", to="user")
    ask("restore", workspace=repo, memory_id="mem_not-there")
    ask("search", workspace=repo, query="")
    ask("recall", query="")
    ask("not_a_verb", workspace=repo)


def _searched(player: Player, repo: str) -> None:
    for number, question in enumerate(_QUESTIONS):
        player.ask("search", workspace=repo, query=question)
        player.ask("search", workspace=repo, query=question, limit=3, rated=True)
        if number % 2:
            player.ask("search", workspace=repo, query="", hypotheses=(question, "Something else entirely."))
        else:
            player.ask("search", workspace=repo, query=question, agent="alpha", session_id="one")
        player.ask("why", workspace=repo, query=question)


def _retrieved(player: Player, repo: str) -> None:
    for mode in ("block", "append", "plain"):
        for number, question in enumerate(_QUESTIONS):
            asked = {
                "workspace": repo,
                "messages": _chat(question),
                "session_id": f"{mode}-{number // 4}",
                "turn_id": f"turn-{number}",
                "mode": mode,
                "agent": "alpha" if number % 2 else "",
                "timeout_s": 30.0,
            }
            reply = player.ask("retrieve", **asked)
            if number % 3 == 0:  # the same turn again, and with the block that the caller has
                player.ask("retrieve", **asked)
                player.ask("retrieve", **asked, known_digest=reply.get("digest", ""))
        player.ask("why", workspace=repo, session_id=f"{mode}-1")
        player.ask(
            "retrieve",
            workspace=repo,
            messages=_chat("Tell me about uploads."),
            hypotheses=("Uploads go to object storage.", "Backups are kept for ninety days."),
            mode=mode,
            session_id=f"{mode}-given",
            token_budget=120,
        )
    player.ask("retrieve", workspace=repo, messages=())
    player.ask("list_injections", workspace=repo)
    player.ask("list_injections", workspace=repo, session_id="block", limit=3)


def _recalled(player: Player, repo: str) -> None:
    for question in _QUESTIONS[:8]:
        player.ask("recall", query=question, workspace=repo, timeout_s=30.0)
        player.ask("recall", query=question, agent_id="alpha", session_id="one", timeout_s=30.0)
    ask = player.ask
    ask(
        "recall",
        query="cache cleared",
        agent_id="alpha",
        session_id="one",
        filters={"step": "one"},
        timeout_s=30.0,
    )
    ask("recall", query="cache cleared", session_id="two", timeout_s=30.0)
    ask(
        "recall",
        query="deployments",
        workspace=repo,
        scopes=("repo",),
        filters={"team": "core"},
        timeout_s=30.0,
    )
    ask("recall", query="editor", scopes=("user",), token_budget=100, timeout_s=30.0)
    ask("recall", query="editor", scopes=("nowhere",), timeout_s=30.0)
    ask("recall", query="haiku", agent_id="beta", scopes=("agent",), timeout_s=30.0)


def _edited(player: Player, repo: str, ids: list[str]) -> None:
    write = player.written
    second = write(
        "edit", workspace=repo, memory_id=ids[1], content="Migrations run with the tool called alembic."
    )
    write("edit", workspace=repo, memory_id=second["memory_id"], category="corrections", base="2")
    write("edit", workspace=repo, memory_id=ids[2], cues=("search index", "start"))
    write("edit", workspace=repo, memory_id=ids[3], evidence=("README.md:1",))
    write("edit", workspace=repo, memory_id=ids[4], content="The login page is served by caddy.", base=ids[4])
    write(
        "edit", workspace=repo, memory_id=ids[4], content="The login page is served by traefik.", base=ids[4]
    )
    write("remember", workspace=repo, content="Mail is sent by a queue.", supersedes=ids[11])
    links = ({"id": ids[6], "relationship": "refines"}, {"id": ids[7]})
    related = write("relate", workspace=repo, memory_id=ids[5], related=links)
    write("relate", workspace=repo, memory_id=related["memory_id"], remove=(ids[7],))
    write("relate", workspace=repo, memory_id=ids[5], related=({"id": "mem_not-there"},))
    twice = {"workspace": repo, "memory_id": ids[8], "content": "Functions stay short.", "key": "a" * 32}
    write("edit", **twice)
    write("edit", **twice)
    write("edit", **{**twice, "content": "Another request under this key."})
    for memory_id in (ids[1], ids[4], ids[5], ids[11]):
        player.ask("history", workspace=repo, memory_id=memory_id)
    for begins in (ids[1][:10], ids[20][4:12], "mem_"):
        player.ask("get", workspace=repo, ids=(begins,))
    player.ask("get", workspace=repo, ids=tuple(ids[:6]))
    player.ask("list", workspace=repo)
    player.ask("list", workspace=repo, scope="user", entities=True)
    player.ask("list", workspace=repo, category="corrections", all_versions=True)
    player.ask("list", workspace=repo, limit=4, offset=3)
    player.ask("list", workspace=repo, scope="agent", agent_id="alpha")
    player.ask("list", workspace=repo, scope="nowhere")
    player.ask("list", workspace=repo, category="nothing")
    player.look()


def _moved_and_restored(player: Player, repo: str, ids: list[str]) -> None:
    write = player.written
    moved = write("move", workspace=repo, memory_id=ids[12], to="user", key="b" * 32)
    write("move", workspace=repo, memory_id=ids[12], to="user", key="b" * 32)
    write("move", workspace=repo, memory_id=ids[20], to="agent", agent_id="alpha", scope="user")
    write("move", workspace=repo, memory_id=moved["memory_id"], to="repo", scope="user")
    write("move", workspace=repo, memory_id=ids[13], to="nowhere")
    write("forget", workspace=repo, memory_id=ids[13])
    write("forget", workspace=repo, memory_id=ids[1], version_only=True)
    write("forget", workspace=repo, memory_id=ids[14], erase_now=True)
    player.ask("restore", workspace=repo)
    write("restore", workspace=repo, memory_id=ids[13])
    write("restore", workspace=repo, memory_id=ids[13])
    write("restore", workspace=repo, memory_id=ids[14])
    write("remember", workspace=repo, content=_REPO_FACTS[14][1])
    for question in _QUESTIONS[:5]:
        player.ask("search", workspace=repo, query=question, rated=True)
    player.look()


def _captured(player: Player, repo: str) -> None:
    for number, text in enumerate(_SAID):
        player.ask(
            "capture", workspace=repo, session_id=f"said-{number % 3}", messages=_chat(text), agent="alpha"
        )
        player.captured()
    player.ask(
        "capture",
        workspace=repo,
        session_id="explicit",
        messages=_chat("The office cat is Miso."),
        kind="explicit",
    )
    player.captured()
    player.ask("capture", workspace=repo, session_id="", messages=_chat("Without a session."))
    player.ask("capture", workspace=repo, session_id="said-0", kind="session_end")
    player.ask("capture", workspace=repo, session_id="odd", kind="nothing", messages=_chat("Hello."))
    player.captured()
    player.ask("list_judged", workspace=repo)
    player.ask("list_judged", workspace=repo, session_id="said-1", limit=5)
    player.written("undo", workspace=repo, preview=True)
    player.written("undo", workspace=repo, key="c" * 32)
    player.written("undo", workspace=repo, key="c" * 32)
    player.ask("restore", workspace=repo)
    for question in ("Which cluster is staging?", "npm or pnpm?", "Who reviews this repository?"):
        player.ask("search", workspace=repo, query=question, rated=True)
        player.ask(
            "retrieve",
            workspace=repo,
            messages=_chat(question),
            session_id="after",
            agent="alpha",
            timeout_s=30.0,
        )
    player.look()


def _hooked(player: Player, repo: str) -> None:
    def hook(agent: str, event: str, **fields: Any) -> None:
        told = {"session_id": f"of-{agent}", "cwd": repo, "hook_event_name": event, **fields}
        player.hook(agent, json.dumps(told).encode())

    for agent in _AGENTS:
        hook(agent, "SessionStart", source="startup")
        for number, question in enumerate(_QUESTIONS[:5]):
            turn = {"prompt_id": f"{agent}-{number}", "turn_id": f"{agent}-{number}"}
            hook(agent, _PROMPTS[agent], prompt=question, **turn)
            answer = {"prompt_response": "It is as I said."} if agent == "gemini" else {}
            hook(
                agent,
                _STOPS[agent],
                prompt=question,
                last_assistant_message="It is as I said.",
                **turn,
                **answer,
            )
        hook(
            agent,
            _PROMPTS[agent],
            prompt=f"Remember: {agent} owns the release of May.",
            prompt_id="last",
            turn_id="last",
        )
        hook(
            agent,
            _STOPS[agent],
            prompt_response="Noted.",
            last_assistant_message="Noted.",
            prompt_id="last",
            turn_id="last",
        )
        player.captured()
        hook(agent, "SessionStart", source="compact")
        hook(agent, _PROMPTS[agent], prompt=_QUESTIONS[0], prompt_id="again", turn_id="again")
        hook(agent, "SessionEnd", reason="other")
        player.captured()
    cursor = {"conversation_id": "of-cursor", "generation_id": "g", "workspace_roots": [repo]}
    for event, fields in (
        ("sessionStart", {}),
        ("beforeSubmitPrompt", {"prompt": "From now on, keep screenshots small."}),
        ("afterAgentResponse", {"text": "I will."}),
        ("stop", {"status": "completed"}),
    ):
        hook("cursor", event, **cursor, **fields)
    player.captured()
    hook("claude", "NoSuchEvent")
    player.hook("nobody", b"{}")
    player.hook("claude", b"not json")
    player.ask("list_judged", workspace=repo, limit=20)
    player.look()


def _documents(player: Player, repo: str) -> None:
    text = "# Runbook\n\nRestart the heron cluster with `make heron`.\n\n## Alarms\n\nCall Ines at night.\n"
    guide = {"source": "runbook.md", "text": text, "is_markdown": True}
    player.ask("ingest", documents=(guide,), workspace=repo, look=True)
    player.written("ingest", documents=(guide,), workspace=repo, metadata={"kind": "runbook"})
    player.written(
        "ingest", documents=(guide, {"source": "b.txt", "text": "Herons sleep standing."}), workspace=repo
    )
    player.pieces(2)
    player.ask("list_documents", workspace=repo)
    player.ask("recall", query="restart the heron cluster", workspace=repo, timeout_s=30.0)
    player.ask("search", workspace=repo, query="restart the heron cluster")
    player.written("remove_document", name="b.txt", workspace=repo)
    player.ask("remove_document", name="c.txt", workspace=repo)
    player.ask("list_documents", workspace=repo)


def _imported(player: Player, repo: str) -> None:
    drafts = (
        {"memory_id": "mem_imported-1", "content": "Otters hold hands while they sleep.", "source": "notes"},
        {"memory_id": "mem_imported-2", "content": "Keys: AKIAIOSFODNN7EXAMPLQ.", "source": "notes"},
        {"memory_id": "mem_imported-3", "content": _REPO_FACTS[0][1], "source": "notes"},
    )
    player.ask("import", workspace=repo, drafts=drafts, look=True)
    player.written("import", workspace=repo, drafts=drafts)
    player.written("import", workspace=repo, drafts=drafts, scope="user")
    player.ask("search", workspace=repo, query="otters hold hands")
    said = [{"role": "user", "content": "From now on, name branches after the ticket."}]
    player.ask(
        "learn",
        workspace=repo,
        session_id="past",
        agent="claude",
        messages=said,
        said_at=(1_700_000_000.0,),
        mark="m",
    )
    player.captured()
    player.ask("learn", workspace=repo, session_id="past", agent="claude")
    player.ask("list_past", agents=("claude",))
    waiting = player.ask("review", workspace=repo)["waiting"]
    player.written("review", workspace=repo, keep=tuple(each["id"] for each in waiting[:1]))
    player.ask("review", workspace=repo)


def _trusted(player: Player) -> None:
    """Foreign memories in another repository: withheld, shown, accepted, and withheld again."""
    other = player.other
    ask, write, place = player.ask, player.written, str(player.other)
    ask("retrieve", workspace=place, messages=_chat("Which bird is the mascot?"), timeout_s=30.0)
    ask("trust", workspace=place)
    listed = ask("review", workspace=place)
    ask("search", workspace=place, query="mascot bird")
    write("review", workspace=place, accept=(listed["files"][0]["id"],))
    ask("search", workspace=place, query="mascot bird")
    ask("trust", workspace=place, action="trust", mode="follow")
    player.seen(place)
    ask("list", workspace=place)
    ask(
        "retrieve",
        workspace=place,
        messages=_chat("Which bird is the mascot?"),
        session_id="o",
        timeout_s=30.0,
    )
    (other / ".forge/memory/mem_foreign-2.md").unlink()
    player.seen(place)
    ask("list", workspace=place)
    git(place, "checkout", "-q", "--", ".")
    player.seen(place)
    ask("list", workspace=place)
    ask("trust", workspace=place, action="revoke")
    player.seen(place)
    ask("list", workspace=place)
    ask("trust", action="list")


def _managed(player: Player, repo: str) -> None:
    ask = player.ask
    ask("pause", workspace=repo)
    ask("retrieve", workspace=repo, messages=_chat(_QUESTIONS[0]), timeout_s=30.0)
    ask("capture", workspace=repo, session_id="paused", messages=_chat(_SAID[0]))
    ask("pause", workspace=repo, paused=False)
    ask("retrieve", workspace=repo, messages=_chat(_QUESTIONS[0]), timeout_s=30.0)
    ask("dead")
    ask("dead", action="show", ids=("nothing",))
    ask("cost")
    ask("outbound")
    ask("ping")
    ask("list_judged", workspace=repo, all_repos=True, limit=200)
    ask("list_injections", all_repos=True, limit=200)
    ask("list", workspace=repo, all_versions=True, limit=200)


def _chat(last: str) -> tuple[dict[str, str], ...]:
    return (
        {"role": "user", "content": "Have a look at the failing job, please."},
        {"role": "assistant", "content": "It is green again; a mirror was slow."},
        {"role": "user", "content": last},
    )
