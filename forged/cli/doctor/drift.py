"""The part of `forgectl doctor` that compares the daemon's configuration with the one that holds here.

A daemon reads its configuration when it starts, and again when a rebuild is asked for. What it reports are
values, so a file that was merely touched is no finding, and where each came from: a variable of this shell
is not one of the daemon's, and no rebuild makes it one. Secrets are masked on both sides: of a key that
stands in the file itself, and of the arguments of a `cmd:`, a change is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from forged import config
from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.doctor.keys import asks_chat, needs_endpoint
from forged.config import Setting
from forged.errors import ConfigError
from forged_client.protocol import SettingReport, StatusReport

_NAME = "configuration in use"
_NAMED = 3
_Pair = tuple[Setting, SettingReport]


def in_use(report: StatusReport, environ: Mapping[str, str]) -> Iterator[Check]:
    """Whether the daemon uses what holds here; what differs is newer, or a matter of its environment."""
    try:
        loaded = config.load(environ)
    except ConfigError:
        return  # `keys.configuration` has said so
    newer, foreign = [], []
    for mine, theirs in _differing(loaded, report):
        if not _is_of_an_environment(mine, theirs):
            newer.append((mine, theirs))
        elif _is_used(mine.key, loaded.config):
            foreign.append((mine, theirs))
    if newer:
        fix = "`forgectl rebuild` takes up the new one"
        yield Check(_NAME, WARN, f"the daemon has an older one: {_named(newer)}", fix)
    if foreign:
        detail = f"the daemon was started with other variables than this shell has: {_named(foreign)}"
        fix = f"write it into {config.config_path(environ)}, or start the daemon anew (kill {report.pid})"
        yield Check(_NAME, WARN, detail, fix)
    if report.settings and not newer and not foreign:
        yield Check(_NAME, OK, "the daemon has the same")


def _differing(loaded: config.Loaded, report: StatusReport) -> Iterator[_Pair]:
    """What holds here, and what the daemon uses instead."""
    here = {setting.key: setting for setting in loaded.settings}
    for theirs in report.settings:
        mine = here.get(theirs.key)
        if mine is not None and mine.value != theirs.value and not _are_defaults(mine, theirs):
            yield mine, theirs
        elif theirs.key == "memory.embedding_model" and report.embedding_model != loaded.config.embedder:
            resolved = Setting(theirs.key, loaded.config.embedder, "default")  # another `auto`
            yield resolved, SettingReport(theirs.key, report.embedding_model, "default")


def _are_defaults(mine: Setting, theirs: SettingReport) -> bool:
    """Whether they differ for the sake of another key, as prefixes do for that of the model."""
    return mine.origin.startswith("default") and theirs.origin.startswith("default")


def _is_of_an_environment(mine: Setting, theirs: SettingReport) -> bool:
    return mine.origin.startswith("environment") or theirs.origin.startswith("environment")


def _is_used(key: str, chosen: config.Config) -> bool:
    """False for an endpoint that nobody asks: shells have OPENAI_BASE_URL for other programs."""
    if key in {"memory.embedding_base_url", "memory.embedding_api_key"}:
        return needs_endpoint(chosen.memory.embedding_model)
    return key not in {"llm.base_url", "llm.api_key"} or asks_chat(chosen)


def _named(pairs: Sequence[_Pair]) -> str:
    told = [
        f"{mine.key} is {theirs.value or 'empty'} there and {mine.value or 'empty'} here"
        for mine, theirs in pairs[:_NAMED]
    ]
    more = len(pairs) - _NAMED
    return ", ".join(told) + (f", and {more} more" if more > 0 else "")
