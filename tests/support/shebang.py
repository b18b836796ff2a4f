"""First line of a test's own program; the kernel ends the path of its interpreter at a blank."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def shebang(folder: Path) -> str:
    """Return `#!` and this Python, without its packages, by a link in a folder without blanks."""
    link = folder / "python"
    if not link.is_symlink():
        link.symlink_to(os.path.realpath(sys.executable))
    return f"#!{link}"
