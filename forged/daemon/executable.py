"""Which program clients may start: on record in the state directory, so that none is looked for elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from forged.daemon import listening
from forged.errors import ForgedError
from forged.files import atomic
from forged_client.autostart import RECORD_NAME

logger = logging.getLogger(__name__)


def record(state_dir: str) -> None:
    """Write down the `forged` beside this interpreter, if there is one; a failure is only logged."""
    program = os.path.join(os.path.dirname(sys.executable), "forged")
    if not os.access(program, os.X_OK):
        return
    try:
        listening.private_directory(state_dir)
        file, line = Path(state_dir, RECORD_NAME), os.fsencode(f"{program}\n")
        if not file.exists() or file.read_bytes() != line:
            atomic.replace(str(file), line)
    except (OSError, ForgedError) as error:
        logger.warning("cannot record executable error=%s", error)
