"""Known models: names that need no endpoint, and prefixes for queries and passages.

Most retrieval models were trained with such prefixes and silently lose 4-6 points of recall without them. A
value of the user wins. An unknown model gets none, which is right for the OpenAI family. Names are matched
loosely, because servers spell them differently.
"""

from __future__ import annotations

import re

import msgspec

from forged.config.program_names import is_program, program_name_problem

AUTO = "auto"
"""Selects the best embedding model without an endpoint; `Config.embedder` resolves it."""

BUILTIN_LEXICAL = "builtin:lexical"
"""No embedding model: the lexical index alone."""

BUILTIN_RULES = "builtin:rules"
"""The classifier that needs no model."""

LOCAL = "local:multilingual-e5-small"
"""The embedding model of the extra `local`. It adds its own prefixes to every text."""

DEFAULT_MIN_SCORE = 0.95
"""Default share of unrelated messages for which nothing is injected."""

# Names that need no endpoint and no file, by role.
_BUILT_IN = {
    "embedder": (AUTO, BUILTIN_LEXICAL, LOCAL),
    "cjk": (LOCAL,),
    "chat": (),
    "classifier": (BUILTIN_RULES,),
}
_IN_PROCESS = ("local:", "fastembed:")
# The rest of such a name becomes the name of a folder.
_FASTEMBED = re.compile(r"fastembed:([\w-][\w.-]*/)?[\w-][\w.-]*", re.ASCII)

_SENTENCE = "Represent this sentence for searching relevant passages: "
_SENTENCE_ZH = "为这个句子生成表示以用于检索相关文章："
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"


class ModelPrefixes(msgspec.Struct, frozen=True):
    """Prefixes of queries and passages of one model family, with their trailing blank if any."""

    query_prefix: str = ""
    passage_prefix: str = ""


# The first match wins. Prefixes of bare names, with the texts of the model cards.
_FAMILIES: tuple[tuple[re.Pattern[str], ModelPrefixes], ...] = tuple(
    (re.compile(pattern), ModelPrefixes(query, passage))
    for pattern, query, passage in (
        (r"(multilingual-)?e5-.*instruct", f"{_TASK}Query: ", ""),
        (r"(multilingual-)?e5-(small|base|large)", "query: ", "passage: "),
        (r"bge-(small|base|large)-en", _SENTENCE, ""),
        (r"bge-(small|base|large)-zh", _SENTENCE_ZH, ""),
        (r"nomic-embed-text", "search_query: ", "search_document: "),
        (r"mxbai-embed-large", _SENTENCE, ""),
        (r"snowflake-arctic-embed(2|-[lm]-v2)", "query: ", ""),
        (r"snowflake-arctic-embed", _SENTENCE, ""),
        (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
        (r"qwen3-embedding", f"{_TASK}Query:", ""),
        (r"(3-(small|large)|ada-002)$", "", ""),
        (r"(gemini|mistral|codestral)-embed|embed-(english|multilingual|v4)|voyage-", "", ""),
        (r"bge-m3|all-minilm|jina-embeddings|gte-|granite-embedding", "", ""),
    )
)


def prefixes_of(name: str) -> ModelPrefixes:
    """Return the prefixes of queries and passages that a model was trained with, empty if unknown."""
    bare = bare_name(name).removeprefix("text-embedding-")
    return next((known for pattern, known in _FAMILIES if pattern.match(bare)), ModelPrefixes())


def has_calibrated_scores(name: str) -> bool:
    """Return True if a model's scores are calibrated: known by name, or without an endpoint."""
    bare = bare_name(name).removeprefix("text-embedding-")
    return name.startswith(("builtin:", *_IN_PROCESS)) or any(family.match(bare) for family, _ in _FAMILIES)


def bare_name(name: str) -> str:
    """Return a model's name in lower case, without `local:` or `fastembed:` and without the publisher."""
    kind = next((kind for kind in _IN_PROCESS if name.startswith(kind)), "")
    return name.removeprefix(kind).lower().rsplit("/", 1)[-1]


def runs_in_process(name: str) -> bool:
    """Return True if a name is of a model that the daemon itself loads: `local:`, `fastembed:`."""
    return name.startswith(_IN_PROCESS)


def unusable_reason(role: str, name: str) -> str:
    """Return why a name is no model for a role (embedder, cjk, chat, classifier), or ""."""
    if name in _BUILT_IN[role]:
        return ""
    if role == "cjk" and name == AUTO:
        return "auto is only for memory.embedding_model; name a model"
    if name.startswith("builtin:"):
        return "there is no such built-in model"
    if is_program(name):
        return program_name_problem(role, name)
    if not runs_in_process(name):
        return ""
    if role not in {"embedder", "cjk"}:
        return "only embedding models run in process"
    if name.startswith("local:"):
        return f"there is one local model, {LOCAL}"
    wanted = "fastembed: takes the name of a model, as in fastembed:bge-small-en-v1.5"
    return "" if _FASTEMBED.fullmatch(name) else wanted
