"""`forged serve` with the same memory ids in each run: the daemon's generator of ids is seeded."""

from __future__ import annotations

import random
import sys

if __name__ == "__main__":
    from forged import memory

    assert isinstance(memory._numbers, random.Random)
    memory._numbers.seed(30)
    from forged.__main__ import main

    sys.exit(main())
