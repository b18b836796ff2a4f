"""Record the story anew: `python -m tests.replay`, at the commit that others are held to."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.replay.stage import RECORDING, played

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="replay") as top:
        steps = played(Path(top))
    RECORDING.write_text(
        "".join(json.dumps(step, ensure_ascii=False, sort_keys=True) + "\n" for step in steps)
    )
    print(f"{len(steps)} steps")
