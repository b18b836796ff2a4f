"""An inotify instance for one test, where it counts them."""

from __future__ import annotations

import gc

import pytest

from forged.files import arrivals


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> arrivals._Kernel:
    """An instance that roots of other tests neither share, nor give back while this test counts."""
    if arrivals.instances_held():
        gc.collect()
    own = arrivals._Kernel()
    for name, value in (("_KERNEL", own), ("tidy", own.tidy), ("refusal_of", own.refusal_of)):
        monkeypatch.setattr(arrivals, name, value)
    return own
