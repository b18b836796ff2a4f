"""What capture keeps of a message: no injected text and no secrets.

`take_in` gets utterances without tool content and returns them as they may wait, be stored or leave for a
model; it raises nothing, and nothing waits, is stored or leaves that has not passed here. What forged itself
injected must not be learnt. Secrets are looked for a second time before a file is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from forged.conversation import Utterance
from forged.text.injected_text import InjectedText
from forged.text.redaction import redact

# Characters; no secret is longer, not even a private key.
LONGEST_SECRET = 16_000


class Intake(msgspec.Struct, frozen=True):
    """What is left of each message, None where that is nothing; how many secrets and echoes were cut."""

    window: tuple[Utterance | None, ...] = ()
    redacted: int = 0
    echoes: int = 0


def take_in(
    utterances: Sequence[Utterance], injected: Collection[str], *, begun: bool = False, goes_on: bool = False
) -> Intake:
    """Return all messages without echoes and secrets.

    `injected` holds the contents of memories that were injected into this session. The first message may be
    the rest of one that is `begun` and the last one only the beginning of one that `goes_on`: where they were
    cut, so much stands in both that each leaves away what may be the half of a secret.
    """
    ours = InjectedText(injected)
    window: list[Utterance | None] = []
    secrets = echoes = 0
    for place, utterance in enumerate(utterances):
        text, cut = ours.cut(utterance.text, inline=utterance.role == "assistant")
        clean = redact(text.rstrip())
        echoes += cut
        secrets += clean.count
        start = LONGEST_SECRET if begun and not place else 0
        end = LONGEST_SECRET if goes_on and place == len(utterances) - 1 else 0
        kept = clean.text[start : len(clean.text) - end]
        window.append(Utterance(utterance.role, kept) if kept.strip() else None)
    return Intake(tuple(window), secrets, echoes)
