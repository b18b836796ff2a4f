"""Version, encoding of the process, and lazy exports of packages."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

__version__ = "0.1.0"


def ensure_utf8() -> None:
    """Restart this program in Python's UTF-8 mode if the locale has another encoding.

    The protocol and the memory files are UTF-8; so arguments and paths are, too.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, (sys.executable, "-X", "utf8", *sys.orig_argv[1:]))  # noqa: S606 - itself


def lazy_exports(package: str, **modules: Sequence[str]) -> Callable[[str], object]:
    """Return a module's `__getattr__` that imports a package's modules when one of their names is used.

    `modules` maps each module to its exported names. So the capture worker and the fast verbs of forgectl
    start without numpy, httpx and sqlite. Raises AttributeError for any other name.
    """
    known = {name: module for module, names in modules.items() for name in names}

    def fetch(name: str) -> object:
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{known[name]}"), name)

    return fetch
