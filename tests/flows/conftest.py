"""Daemons that flows share: one of a module, and of capture one with a model and one with the rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import DaemonProcess, Stage, capturing, running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with capturing(tmp_path_factory.mktemp("home"), classifier_model="m") as stage:
        yield stage


@pytest.fixture
def stage(shared_stage: Stage) -> Stage:
    """A daemon whose classifier is a model; shared, every test has a repo of its own."""
    shared_stage.reset()
    return shared_stage


@pytest.fixture
def alone(home) -> Iterator[Stage]:
    """The same for a test that ends the daemon, or lets calls fail until no more are made."""
    with capturing(home, classifier_model="m") as stage:
        yield stage


@pytest.fixture(scope="session")
def shared_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    keys = {"FORGED_LLM__API_KEY": "k", "OPENAI_API_KEY": "k", "EMBEDDING_API_KEY": "k"}
    with capturing(tmp_path_factory.mktemp("home"), env=keys) as stage:
        yield stage


@pytest.fixture
def rules(shared_rules: Stage) -> Stage:
    """A daemon with addresses and keys of a provider, and no model; shared as well."""
    shared_rules.reset()
    return shared_rules
