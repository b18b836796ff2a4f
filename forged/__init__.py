"""The version, and how a package's door fetches a name when it is first asked for."""

from collections.abc import Callable, Sequence
from importlib import import_module

__version__ = "0.1.0"


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
