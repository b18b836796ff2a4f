"""The commented configuration file that `forgectl config init` writes once.

Made from the configuration's own types, so that no default is written down twice; a test holds that every
key has its line here. Everything is commented out: a fresh file changes nothing and pins no default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from forged.config import Config

_HEAD = """\
# Configuration of forged. A line that starts with # is off; what it shows is the default.
# Environment variables win over this file: FORGED_<SECTION>__<KEY>, as in FORGED_MEMORY__RETRIEVAL_TOP_K=5.
# Keys by reference: "env:NAME", "file:PATH" or "cmd:COMMAND".
# Check with `forgectl config check`; `forgectl config show --origin` says what holds and why.
"""

MEANINGS = {
    "memory.enabled": "false switches everything off",
    "memory.embedding_model": '"" switches retrieval off, "builtin:lexical" needs no model',
    "memory.embedding_model_dir": 'folder of a "fastembed:NAME" model; "" is models/NAME among your data',
    "memory.embedding_base_url": "OpenAI-compatible endpoint for embeddings",
    "memory.embedding_api_key": 'key of that endpoint; "auto": the one that the environment has for its host',
    "memory.query_prefix": "words before a query, for models that want them; known models bring their own",
    "memory.passage_prefix": "words before a memory, likewise",
    "memory.cjk_embedding_model": "another model for Chinese, Japanese and Korean; empty: one for everything",
    "memory.retrieval_model": "chat model that writes hypotheses; needed for the strategy hyde",
    "memory.retrieval_strategy": "auto, hyde or direct",
    "memory.retrieval_lexical_weight": "0 to 2; 0 is plain cosine",
    "memory.retrieval_top_k": "1 to 100 memories a retrieval",
    "memory.retrieval_hop_depth": "0 to 3 steps along related memories",
    "memory.retrieval_hypothesis_count": "1 to 10",
    "memory.retrieval_min_score": "share of unrelated messages that are not strong; 0 is off; not set: 0.95",
    "memory.retrieval_timeout_s": "0.05 to 60 s for a whole retrieval",
    "memory.injection_token_budget": "most tokens an injection may have; 0 is no limit (in a session 4,000)",
    "memory.standing_token_budget": "of them for memories that come once with each session; 0 is none",
    "memory.classifier_model": 'chat model that decides what to keep; "": llm.model, retrieval_model, rules',
    "memory.git": "of what is captured in a repository: exclude (git ignores it) or commit (as you like)",
    "memory.daily_token_limit": "of all models together, embeddings too; 0 is no limit",
    "llm.model": "chat model for whatever names none of its own",
    "llm.base_url": "OpenAI-compatible endpoint for chat models",
    "llm.api_key": "key of that endpoint, likewise",
    "llm.command": 'path of the program of a classifier "cli:NAME" or "cmd:NAME", and arguments',
    "capture.enabled": "false: finished turns are not turned into memories",
    "capture.batch_turns": "with a model, how many turns of a session are judged at once",
    "capture.tell": "false: the next reply does not say what was kept or refused",
    "network.proxy": "URL of a proxy that https endpoints are called through, by CONNECT",
    "network.plain_http_hosts": "hosts that may be sent a key over plain http; names, by blanks or commas",
    "scopes.retrieve": "which of session, agent and org an injection may hold as well, by blanks or commas",
    "scopes.session_ttl_minutes": "a session's memories live so long, or until it ends",
    "scopes.session_max_memories": "newest memories that a session keeps",
    "scopes.max_results": "most of user and agent together in a recall",
    "scopes.min_importance": "what matters less is neither promoted nor recalled",
    "knowledge.chunk_size": "tokens of a piece of a document",
    "knowledge.overlap": "tokens that a piece shares with the one before it",
    "shared.url": "PostgreSQL of a team, as postgresql://HOST/DATABASE; empty: nothing is shared",
    "shared.user": "role there",
    "shared.password": "a reference to its password",
    "shared.scopes": "which of session, user, agent and org are shared, by blanks or commas",
    "shared.user_id": "who you are there; empty: your login name",
    "shared.dimension": "numbers of a vector, checked on insert",
    "trust.mode": "follow (also what is merged later) or pin: what `forgectl trust` means",
}


def template() -> str:
    """The file's text: valid TOML in which only the section headers are not comments."""
    sections = msgspec.structs.asdict(Config()).items()
    return _HEAD + "".join("\n".join(("", *_section(name, values), "")) for name, values in sections)


def _section(section: str, values: msgspec.Struct) -> Iterator[str]:
    yield f"[{section}]"
    for name, default in msgspec.structs.asdict(values).items():
        yield f"# {MEANINGS[f'{section}.{name}']}"
        # JSON's text, numbers and booleans are TOML's too; TOML has no null.
        yield f"# {name} =" + ("" if default is None else f" {json.dumps(default)}")
