"""The version, the encoding of a process, and how a package's door fetches a name."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

__version__ = "0.1.0"


def be_utf8() -> None:
    """Run this program again in Python's UTF-8 mode where the locale names another encoding.

    Arguments, paths and files are UTF-8 then, as the protocol and the memory files are.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, (sys.executable, "-X", "utf8", *sys.orig_argv[1:]))  # noqa: S606 - itself


def door(package: str, **modules: Sequence[str]) -> Callable[[str], object]:
    """A `__getattr__` for a package whose modules are not all wanted by everybody who imports one of them.

    `modules` says which names each of them has to offer. The capture worker and the quick verbs of forgectl
    start without numpy, httpx and sqlite this way. Raises AttributeError for any other name.
    """
    known = {name: module for module, names in modules.items() for name in names}

    def fetch(name: str) -> object:
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{known[name]}"), name)

    return fetch
