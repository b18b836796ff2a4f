"""An inotify instance for one test, where it counts them."""

from __future__ import annotations

import gc

import pytest

from forged.files import directory_events


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> directory_events._SharedInotify:
    """An instance that roots of other tests neither share, nor give back while this test counts."""
    if directory_events.count_inotify_instances():
        gc.collect()
    own = directory_events._SharedInotify()
    for name, value in (
        ("_KERNEL", own),
        ("drop_lost_watches", own.drop_lost_watches),
        ("unwatched_reason", own.unwatched_reason),
    ):
        monkeypatch.setattr(directory_events, name, value)
    return own
