"""`forgectl config`: show, locate, create or check the user's configuration, without the daemon.

`config classifier` takes a name such as `cli:claude`, finds the program in PATH, and prints lines for the
file. `config init` writes the file once from the types of the configuration. Every line is a comment, so that
no default is fixed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from forged import config
from forged.cli.call import Invocation, show
from forged.cli.commands import with_json_option
from forged.cli.exits import Stop
from forged.cli.tables import columns
from forged.cli.terminal import escape_line, tell
from forged.config import Config
from forged.errors import ConfigError
from forged.importing import new_file

_HEAD = """\
# Configuration of forged. A line that starts with # has no effect; it shows the default.
# Environment variables override this file: FORGED_<SECTION>__<KEY>, such as FORGED_MEMORY__RETRIEVAL_TOP_K=5.
# Write keys as references: "env:NAME", "file:PATH" or "cmd:COMMAND".
# `forgectl config check` checks this file; `forgectl config show --origin` shows each value and its source.
"""

MEANINGS = {
    "memory.enabled": "false switches everything off",
    "memory.embedding_model": '"" switches retrieval off, "builtin:lexical" needs no model',
    "memory.embedding_model_dir": 'folder of a "fastembed:NAME" model; "" is models/NAME in your data folder',
    "memory.embedding_base_url": "OpenAI-compatible endpoint for embeddings",
    "memory.embedding_api_key": 'key of that endpoint; "auto": the usual variable of its host',
    "memory.query_prefix": "words before a query, for models that need them; known models have their own",
    "memory.passage_prefix": "words before a memory, for models that need them",
    "memory.cjk_embedding_model": "second model for Chinese, Japanese and Korean texts; empty: none",
    "memory.retrieval_model": "chat model that writes hypotheses; required by the strategy hyde",
    "memory.retrieval_strategy": "auto, hyde or direct",
    "memory.retrieval_lexical_weight": "weight of keywords, 0 to 2; 0 is embeddings only",
    "memory.retrieval_top_k": "at most this many memories per retrieval, 1 to 100",
    "memory.retrieval_hop_depth": "links to follow from a memory that was found, 0 to 3",
    "memory.retrieval_hypothesis_count": "hypotheses per message, 1 to 10",
    "memory.retrieval_min_score": "strictness of the gate, 0 (off) to 1; lower injects more; not set: 0.95",
    "memory.retrieval_timeout_s": "time limit of a retrieval, 0.05 to 60 s",
    "memory.injection_token_budget": (
        "at most this many tokens per injection; 0 is no limit (4,000 in a session)"
    ),
    "memory.pinned_token_budget": "tokens of it for pinned memories, at the start of a session; 0 is none",
    "memory.classifier_model": 'model that decides what to save; "": llm.model, retrieval_model, or built-in',
    "memory.git": "captured memories of a repository: exclude (git ignores them) or commit (git sees them)",
    "memory.daily_token_limit": "for all models together, embeddings too; 0 is no limit",
    "llm.model": "chat model that decides what to save if memory.classifier_model is empty",
    "llm.base_url": "OpenAI-compatible endpoint for chat models",
    "llm.api_key": 'key of that endpoint, as a reference or "auto"',
    "llm.command": 'absolute path and arguments of the classifier "cli:NAME" or "cmd:NAME"',
    "capture.enabled": "false: nothing is captured",
    "capture.batch_turns": "turns of a session that a model judges at once",
    "capture.tell": "false: replies do not report what was saved or refused",
    "network.proxy": "URL of a proxy (CONNECT) for https endpoints",
    "network.plain_http_hosts": "hosts that may get a key over plain http; separated by blanks or commas",
    "scopes.retrieve": "session, agent, org: also inject from these; separated by blanks or commas",
    "scopes.session_ttl_minutes": "lifetime of a session's memories, unless it ends before",
    "scopes.session_max_memories": "at most this many memories per session",
    "scopes.max_results": "at most this many memories of user and agent in a search of scopes",
    "scopes.min_importance": "memories with less importance are neither promoted nor found",
    "knowledge.chunk_size": "tokens per part of a document",
    "knowledge.overlap": "tokens that a part shares with the previous one",
    "shared.url": "PostgreSQL of a team, such as postgresql://HOST/DATABASE; empty: none",
    "shared.user": "role on that server",
    "shared.password": "reference to the password of the role",
    "shared.scopes": "session, user, agent, org: share these; separated by blanks or commas",
    "shared.user_id": "your name on that server; empty: your login name",
    "shared.team_agents": "agents that the team has in common; all others are yours",
    "shared.dimension": "numbers per embedding, checked on insert",
    "shared.cjk_dimension": "numbers per embedding of memory.cjk_embedding_model",
    "shared.documents_mib": "most MiB of copies of the team's documents, the newest first",
    "trust.mode": "follow (also what is merged later) or locked: meaning of `forgectl trust`",
}


def template() -> str:
    """Return the text of a new configuration file: TOML in which every key is a comment."""
    sections = msgspec.structs.asdict(Config()).items()
    return _HEAD + "".join("\n".join(("", *_section_lines(name, values), "")) for name, values in sections)


def _section_lines(section: str, values: msgspec.Struct) -> Iterator[str]:
    """Yield a section of a new configuration file: each key's meaning and default, as comments."""
    yield f"[{section}]"
    for name, default in msgspec.structs.asdict(values).items():
        yield f"# {MEANINGS[f'{section}.{name}']}"
        # JSON's text, numbers and booleans are TOML's too; TOML has no null.
        yield f"# {name} =" + ("" if default is None else f" {json.dumps(default)}")


@click.command("classifier", short_help="Print the lines that make an agent of yours the classifier.")
@click.argument("name")
@click.option(
    "--program", default="", metavar="PATH", help="Absolute path of the program, if it is not in PATH."
)
@with_json_option
def classifier_command(call: Invocation, name: str, program: str) -> None:
    """Print the lines of the configuration that let NAME, such as cli:claude, decide what to save.

    It writes no file and calls no program.
    """
    if not config.is_program(name):
        raise Stop(
            "usage", f"unknown classifier {name!r}; expected cli:NAME (such as cli:claude) or cmd:NAME"
        )
    if reason := config.unusable_reason("classifier", name):
        raise Stop("usage", f"{name}: {reason}")
    command = shlex.quote(_program_path(call, program or config.split_program_name(name)[1]))
    path = str(config.config_path(call.environ))
    lines = (
        "[memory]",
        f"classifier_model = {_toml_string(name)}",
        "",
        "[llm]",
        f"command = {_toml_string(command)}",
    )
    show(call, {"path": path, "classifier_model": name, "command": command}, map(escape_line, lines))
    for line in () if call.as_json else _classifier_notes(name, path):
        tell(line)


def _program_path(call: Invocation, wanted: str) -> str:
    """Find a program in PATH; return its path. Raises Stop if absent or in the current folder."""
    found = shutil.which(wanted, path=call.environ.get("PATH", ""))
    if found is None or not os.path.isabs(found):
        raise Stop("not_found", f"`{wanted}` was not found; give its absolute path with --program")
    here, home = (os.path.realpath(each) for each in (call.workspace, call.environ.get("HOME", "/")))
    is_here = any(f"{each}/".startswith(f"{here}/") for each in (found, os.path.realpath(found)))
    if is_here and here != home:
        raise Stop(
            "declined", f"{found} is in the current folder; the program must be outside of the repository"
        )
    return found


def _toml_string(value: str) -> str:
    """Quote a text as a TOML string, in JSON's form, which TOML reads, too."""
    return json.dumps(value, ensure_ascii=False)


def _classifier_notes(name: str, path: str) -> tuple[str, ...]:
    """Return lines for a person: where to add the classifier's settings, and how to limit its cost."""
    agent = config.split_program_name(name)[1]
    adds = config.AGENTS.get(agent)
    how = "on its standard input" if adds is None else f"with your login of {agent}"
    more = "its text" if adds is None else f"its text and about {adds:,} tokens"
    return (
        f"add these lines to {path}; finished turns are then sent to it {how}",
        f"each call uses {more}: `forgectl doctor --try` makes one, `forgectl usage` counts them,",
        "`memory.daily_token_limit` limits them",
    )


@click.group("config")
def config_command() -> None:
    """Show, locate, create or check the configuration."""


config_command.add_command(classifier_command)


@config_command.command("show", short_help="Print every key and its value.")
@click.option("--origin", is_flag=True, help="Also show the source of each value.")
@with_json_option
def show_command(call: Invocation, origin: bool) -> None:
    """Print every key with its value. Keys of endpoints are masked."""
    loaded = _load_configuration(call)
    rows = [(s.key, f"= {escape_line(s.value)}", escape_line(s.origin)) for s in loaded.settings]
    lines = [
        line.rstrip() for line in columns((row if origin else row[:2] for row in rows), width=call.width)
    ]
    show(call, {"settings": loaded.settings, "warnings": loaded.warnings}, lines)
    _tell_warnings(call, loaded)


@config_command.command("path", short_help="Print the path of the file.")
@with_json_option
def path_command(call: Invocation) -> None:
    """Print the path of the configuration file, even if it does not exist."""
    path = config.config_path(call.environ)
    show(call, {"path": str(path), "exists": path.exists()}, (escape_line(str(path)),))


@config_command.command("init", short_help="Write a commented configuration file, once.")
@with_json_option
def init_command(call: Invocation) -> None:
    """Write a commented configuration file; an existing one is never changed."""
    path = config.config_path(call.environ)
    _write_new(path, template())
    show(call, {"path": str(path)}, (f"wrote {escape_line(str(path))}",))


@config_command.command("check", short_help="Check the configuration.")
@with_json_option
def check_command(call: Invocation) -> None:
    """Check the configuration: exit code 78 with key, value, range and source if it is wrong."""
    loaded = _load_configuration(call)
    _tell_warnings(call, loaded)
    about = {"path": str(config.config_path(call.environ)), "warnings": loaded.warnings}
    show(call, about, ("the configuration is valid",))


def _load_configuration(call: Invocation) -> config.Loaded:
    """Load the user's configuration, without the daemon. Raises Stop if it is invalid."""
    try:
        return config.load(call.environ)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error


def _tell_warnings(call: Invocation, loaded: config.Loaded) -> None:
    """Print the configuration's warnings on stderr, but not with `--json`, where they are a field."""
    for warning in () if call.as_json else loaded.warnings:
        tell(f"warning: {warning}")


def _write_new(path: Path, text: str) -> None:
    """Write a new configuration file, private to the user. Raises Stop if it exists or cannot be written."""
    try:
        descriptor = new_file(str(path))
    except FileExistsError as error:
        raise Stop("conflict", f"{path} exists already and was not changed") from error
    except OSError as error:
        raise Stop("unavailable", f"{path} cannot be written: {error.strerror}") from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
