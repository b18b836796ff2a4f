"""What the capture worker is told of its classifier, from the configuration; or why it has none.

A model that cannot be had is a reason and no error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from forged.capture import WorkerSettings
from forged.config import BUILTIN_RULES, Config, find_program, is_program
from forged.errors import ConfigError
from forged.models import classifier_key
from forged_client import address

CLASSIFIER_TIMEOUT_S = 60.0  # for one event


def worker_settings(config: Config, env: Mapping[str, str]) -> tuple[WorkerSettings, str]:
    """What the worker is told, and why it has no classifier. The rules never decide in a model's place."""
    if config.classifier == BUILTIN_RULES:
        return WorkerSettings(timeout_s=CLASSIFIER_TIMEOUT_S), ""
    if is_program(config.classifier):
        return _program_settings(config, env)
    key, lacking = classifier_key(config, env)
    base_url, network = "" if lacking else config.llm.base_url, config.network
    settings = WorkerSettings(
        config.classifier, base_url, key, CLASSIFIER_TIMEOUT_S, network.proxy, network.plain_http_hosts
    )
    return settings, "" if capture_off(config) else lacking


def _program_settings(config: Config, env: Mapping[str, str]) -> tuple[WorkerSettings, str]:
    """The same where a program is the classifier."""
    settings = WorkerSettings(config.classifier, timeout_s=CLASSIFIER_TIMEOUT_S)
    try:
        program = find_program(config, env)
    except ConfigError as error:
        return settings, "" if capture_off(config) else str(error)
    scratch = os.path.join(address.state_dir(env), "classifier")
    return msgspec.structs.replace(settings, program=program, scratch=scratch), ""


def capture_off(config: Config) -> str:
    """Why nothing is captured, or nothing; capture does not depend on retrieval."""
    if not config.memory.enabled:
        return "memory.enabled is false"
    return "" if config.capture.enabled else "capture.enabled is false"
