"""Read the four keys that a repository may set for itself in its `.forge/config.toml`.

The file is untrusted text. It can name no endpoint, model, key, path or command, and it can switch memory off
but not on. It can never stop a request: each fault is a warning, and the user's value holds.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import msgspec

from forged.config.values import Config, HopDepth, MemoryConfig, TokenBudget, TopK
from forged_client.typed import resolved

# Room for four short keys with comments. The worst file takes 15 ms to parse, 64 KiB took 336 ms.
_MAX_BYTES = 4 * 1024
# tomllib takes time in the square of a dotted key's parts (CPython 3.11). Valid keys have one dot.
_MAX_DOTS_IN_LINE = 24
_NAMES_IN_WARNING = 5


class RepoConfig(msgspec.Struct, frozen=True):
    """Settings of one repository from its `.forge/config.toml`; None where it sets nothing."""

    enabled: bool | None = None
    retrieval_top_k: TopK | None = None
    retrieval_hop_depth: HopDepth | None = None
    injection_token_budget: TokenBudget | None = None


def repo_overrides(top: Path) -> tuple[RepoConfig, tuple[str, ...]]:
    """Read `<top>/.forge/config.toml`; return its settings and at most two warnings. Raises nothing."""
    path = top / ".forge" / "config.toml"
    try:
        tables = tomllib.loads(_read_config(top).decode("utf-8-sig"))
    except FileNotFoundError:
        return RepoConfig(), ()
    except OSError as error:
        return RepoConfig(), (f"{path} is ignored: {error.strerror or error}",)
    except (ValueError, RecursionError):
        # The parser's message could quote the untrusted file.
        return RepoConfig(), (f"{path} is ignored: it is not valid TOML",)
    memory = tables.pop("memory", {})
    if not isinstance(memory, dict):
        return RepoConfig(), (f"{path} is ignored: memory must be a section",)
    return _split_allowed(memory, list(tables), str(path))


def repo_identity(top: Path) -> tuple[int, int, int] | None:
    """Return inode, size and mtime of a repository's config file, to detect changes; None without one."""
    try:
        status = os.stat(top / ".forge" / "config.toml", follow_symlinks=False)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def apply(config: Config, repo: RepoConfig) -> MemoryConfig:
    """Return the user's `[memory]` with a repository's settings; memory can only be switched off."""
    changes = {
        name: value
        for name in RepoConfig.__struct_fields__
        if (value := getattr(repo, name)) is not None and not (name == "enabled" and value)
    }
    return msgspec.structs.replace(config.memory, **changes)


def _split_allowed(
    memory: dict[str, object], sections: list[str], path: str
) -> tuple[RepoConfig, tuple[str, ...]]:
    """Return a repository's allowed settings, and warnings about unknown keys and invalid values."""
    kept: dict[str, object] = {}
    foreign = [*sections, *(f"memory.{name}" for name in memory if name not in RepoConfig.__struct_fields__)]
    unusable: list[str] = []
    for field in msgspec.structs.fields(RepoConfig):
        if field.name in memory:
            try:
                kept[field.name] = msgspec.convert(memory[field.name], resolved(field.type))
            except msgspec.ValidationError:
                unusable.append(f"memory.{field.name}")
    warnings = (
        _name_list(f"{path}: a repository may not set", foreign),
        _name_list(f"{path}: value out of range or of a wrong type for", unusable),
    )
    return msgspec.convert(kept, resolved(RepoConfig)), tuple(text for text in warnings if text)


def _name_list(message: str, names: list[str]) -> str:
    """Return a message with the first few names and the number of the others; "" without any."""
    if not names:
        return ""
    few = ", ".join(ascii(name[:60])[1:-1] for name in names[:_NAMES_IN_WARNING])
    more = len(names) - _NAMES_IN_WARNING
    return f"{message} {few}" + (f" and {more} more" if more > 0 else "")


def _read_config(top: Path) -> bytes:
    """Return a repository's config file; refuses links, pipes, too many bytes, too many dots in a line."""
    folder = os.open(top / ".forge", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open("config.toml", flags, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("not a regular file")
            content = file.read(_MAX_BYTES + 1)
    finally:
        os.close(folder)
    if len(content) > _MAX_BYTES:
        raise OSError(f"larger than {_MAX_BYTES} bytes")
    if any(line.count(b".") > _MAX_DOTS_IN_LINE for line in content.splitlines()):
        raise OSError(f"a line has more than {_MAX_DOTS_IN_LINE} dots")
    return content
