"""`decide` against memories that a test names: no maps, and no rows of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forged.capture.decision import ForgottenSince
from forged.capture.decision import decide as decide_against
from forged.capture.existing import ExistingMemories, TentativeStatements
from forged.capture.values import Classified, Tally
from forged.files import Root
from forged.memory import Memory
from forged.state import DecidedMemory, Event


def decide(
    event: Event,
    classified: Classified,
    by_root: Mapping[Root, Sequence[Memory]],
    forgotten: ForgottenSince,
    now: str,
    *,
    tentative: TentativeStatements | None = None,
) -> tuple[tuple[DecidedMemory, ...], Tally]:
    """Decide about an answer as the committer does."""
    existing = ExistingMemories(event, by_root, tentative or TentativeStatements())
    return decide_against(event, classified, existing, forgotten, now)
