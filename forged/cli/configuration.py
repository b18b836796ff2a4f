"""`forgectl config`: show, locate, start or check the user's configuration. Asks no daemon.

`config classifier` takes a name such as `cli:claude`, looks into PATH, and prints lines for the file. `config
init` writes the file once, from the configuration's own types, all commented out, so that it pins no default.
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
from forged.cli.commands import reads
from forged.cli.exits import Stop
from forged.cli.tables import columns
from forged.cli.terminal import escape_line, tell
from forged.config import Config
from forged.errors import ConfigError
from forged.importing import new_file

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
    "memory.pinned_token_budget": "of them for memories that come once with each session; 0 is none",
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
    "trust.mode": "follow (also what is merged later) or locked: what `forgectl trust` means",
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


@click.command("classifier", short_help="Print what makes your own agent the classifier.")
@click.argument("name")
@click.option("--program", default="", metavar="PATH", help="Where it is, if not in PATH.")
@reads
def classifier_command(call: Invocation, name: str, program: str) -> None:
    """Print what to write into the configuration so that NAME decides what is kept, as in cli:claude.

    Nothing is written and nothing is called.
    """
    if not config.is_program(name):
        raise Stop("usage", f"{name} names no program, as cli:claude does")
    if reason := config.unusable_reason("classifier", name):
        raise Stop("usage", f"{name}: {reason}")
    command = shlex.quote(_found(call, program or config.parts_of(name)[1]))
    path = str(config.config_path(call.environ))
    lines = ("[memory]", f"classifier_model = {_text(name)}", "", "[llm]", f"command = {_text(command)}")
    show(call, {"path": path, "classifier_model": name, "command": command}, map(escape_line, lines))
    for line in () if call.as_json else _meaning(name, path):
        tell(line)


def _found(call: Invocation, wanted: str) -> str:
    """The absolute path of a program; none of the repository in which the person stands."""
    found = shutil.which(wanted, path=call.environ.get("PATH", ""))
    if found is None or not os.path.isabs(found):
        raise Stop("not_found", f"there is no program {wanted}: say by --program where it is, from / on")
    here, home = (os.path.realpath(each) for each in (call.workspace, call.environ.get("HOME", "/")))
    lies_here = any(f"{each}/".startswith(f"{here}/") for each in (found, os.path.realpath(found)))
    if lies_here and here != home:
        raise Stop("declined", f"{found} lies where you stand, and no repository may bring the program")
    return found


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _meaning(name: str, path: str) -> tuple[str, ...]:
    agent = config.parts_of(name)[1]
    adds = config.AGENTS.get(agent)
    goes = "on its standard input" if adds is None else f"by your own login of {agent}"
    more = "its text" if adds is None else f"its text and about {adds:,} tokens"
    return (
        f"to be written into {path}; finished turns are then sent to it {goes},",
        f"and each call takes {more}: `forgectl doctor --try` makes one, `forgectl usage` counts them,",
        "`memory.daily_token_limit` limits them",
    )


@click.group("config")
def config_command() -> None:
    """Show, locate, start or check the configuration."""


config_command.add_command(classifier_command)


@config_command.command("show", short_help="Print every key and its value.")
@click.option("--origin", is_flag=True, help="Also say where each value comes from.")
@reads
def show_command(call: Invocation, origin: bool) -> None:
    """Print every key with the value that holds. Keys of endpoints are masked."""
    loaded = _loaded(call)
    rows = [(s.key, f"= {escape_line(s.value)}", escape_line(s.origin)) for s in loaded.settings]
    lines = [
        line.rstrip() for line in columns((row if origin else row[:2] for row in rows), width=call.width)
    ]
    show(call, {"settings": loaded.settings, "warnings": loaded.warnings}, lines)
    _tell_warnings(call, loaded)


@config_command.command("path", short_help="Print where the file is.")
@reads
def path_command(call: Invocation) -> None:
    """Print where the configuration file is, whether or not there is one."""
    path = config.config_path(call.environ)
    show(call, {"path": str(path), "exists": path.exists()}, (escape_line(str(path)),))


@config_command.command("init", short_help="Write a commented configuration file, once.")
@reads
def init_command(call: Invocation) -> None:
    """Write a commented configuration file, once; an existing one is never touched."""
    path = config.config_path(call.environ)
    _write_new(path, template())
    show(call, {"path": str(path)}, (f"wrote {escape_line(str(path))}",))


@config_command.command("check", short_help="Say whether the configuration is valid.")
@reads
def check_command(call: Invocation) -> None:
    """Check the configuration: exit code 78 with key, value, range and origin when it is wrong."""
    loaded = _loaded(call)
    _tell_warnings(call, loaded)
    about = {"path": str(config.config_path(call.environ)), "warnings": loaded.warnings}
    show(call, about, ("the configuration is valid",))


def _loaded(call: Invocation) -> config.Loaded:
    try:
        return config.load(call.environ)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error


def _tell_warnings(call: Invocation, loaded: config.Loaded) -> None:
    for warning in () if call.as_json else loaded.warnings:
        tell(f"warning: {warning}")


def _write_new(path: Path, text: str) -> None:
    try:
        descriptor = new_file(str(path))
    except FileExistsError as error:
        raise Stop("conflict", f"{path} is there already and is left as it is") from error
    except OSError as error:
        raise Stop("unavailable", f"{path} cannot be written: {error.strerror}") from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
