"""Identity of the installed code, which distinguishes two builds with one version number.

The hashes come from the RECORD of an installed package; in a checkout they are computed. The daemon reads its
id at the start, before another build can replace its files. A client reads it to compare.
"""

from __future__ import annotations

import hashlib
import os
from binascii import b2a_base64
from collections.abc import Iterator
from importlib.util import find_spec

_PACKAGES = (("forged_memory", "forged"), ("forged_memory_client", "forged_client"))
_CODE = (".py", ".toml", ".txt", ".bin", ".md")
_DIGITS = 12
_URL_SAFE = str.maketrans("+/", "-_", "=")


def build_id() -> str:
    """Return 12 hexadecimal digits that identify the code of forged and its client; "" if unreadable."""
    try:
        lines = [
            line for dist, name in _PACKAGES for line in sorted(file_hashes(dist, _package_folder(name)))
        ]
    except OSError:
        return ""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]


def _package_folder(package: str) -> str:
    """Return the folder of an installed package. Raises FileNotFoundError."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(package)
    return os.path.dirname(found.origin)


def file_hashes(dist: str, top: str) -> Iterator[str]:
    """Yield path and SHA-256 of each code file of a package, in the form of RECORD. Raises OSError."""
    above, name = os.path.split(top)
    for each in os.listdir(above):
        if each.startswith(f"{dist}-") and each.endswith(".dist-info"):
            with open(os.path.join(above, each, "RECORD"), encoding="utf-8") as record:
                for line in record:
                    path, _, rest = line.partition(",")
                    if path.startswith(f"{name}/") and path.endswith(_CODE):
                        yield f"{path},{rest.partition(',')[0]}"
            return
    for folder, folders, files in os.walk(top):
        folders[:] = [each for each in folders if each != "__pycache__"]
        for each in files:
            if each.endswith(_CODE):
                path = os.path.join(folder, each)
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).digest()
                encoded = b2a_base64(digest, newline=False).decode().translate(_URL_SAFE)
                yield f"{os.path.relpath(path, above)},sha256={encoded}"
