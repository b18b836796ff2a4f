"""HOME before forged is installed: each agent set up for the scripted API, as its manual says."""

from __future__ import annotations

import json
from pathlib import Path

CLAUDE_KEY = "sk-ant-api03-scripted-0123456789abcdefghij"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def forged(home: Path, _repo: Path, _url: str) -> None:
    """Words alone: the local model would take seconds of a processor that five agents share."""
    _write(home / ".config/forged/config.toml", '[memory]\nembedding_model = "builtin:lexical"\n')


def claude(home: Path, repo: Path, _: str) -> None:
    """A person who has been through its welcome, and has allowed this key and this folder."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [CLAUDE_KEY[-20:]], "rejected": []},
        "projects": {str(repo): project},
    }
    _write(home / ".claude.json", json.dumps(state))


def codex(home: Path, repo: Path, url: str) -> None:
    _write(
        home / ".codex/config.toml",
        f'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "FAKE_KEY"\n\n'
        f'[projects."{repo}"]\ntrust_level = "trusted"\n',
    )


def gemini(home: Path, _repo: Path, _url: str) -> None:
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    settings = {
        "security": auth,
        "model": {"name": "gemini-2.5-flash"},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(home / ".gemini/settings.json", json.dumps(settings, indent=2))


def qwen(home: Path, _repo: Path, _url: str) -> None:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "$version": 3,
    }
    _write(home / ".qwen/settings.json", json.dumps(settings, indent=2))


def opencode(home: Path, _repo: Path, url: str) -> None:
    options = {"baseURL": f"{url}/v1", "apiKey": "fake"}
    models = {"m": {"name": "m"}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": models}
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "model": "scripted/m",
        "autoupdate": False,
        "provider": {"scripted": provider},
    }
    _write(home / ".config/opencode/opencode.json", json.dumps(settings, indent=2))


ALL = (forged, claude, codex, gemini, qwen, opencode)
