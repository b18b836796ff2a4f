"""What capture keeps of a conversation: the newest messages that fit, without injected text and secrets.

`take_in` gets utterances without tool content and returns the window of one event; it raises nothing. Nothing
waits, is stored or leaves for a model that has not passed here. What forged itself injected must neither be
learnt nor take up room. Secrets are looked for a second time in `documents`, before a file is written.
Messages are read from the newest back, so the cost is that of the window and not that of the conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from forged.conversation import Utterance
from forged.text.injected_text import InjectedText
from forged.text.redaction import Redacted, redact

# Characters.
WINDOW_LIMIT = 64_000
# Characters; no secret is longer, not even a private key.
_LONGEST_SECRET = 16_000


class Intake(msgspec.Struct, frozen=True):
    """The window of one event, and how many secrets and echoes were cut out of it."""

    window: tuple[Utterance, ...] = ()
    redacted: int = 0
    echoes: int = 0


def take_in(utterances: Sequence[Utterance], injected: Collection[str]) -> Intake:
    """Return the newest whole messages of at most WINDOW_LIMIT characters, without echoes and secrets.

    `injected` holds the contents of memories that were injected into this session. Messages that are blank
    without them are left out; a newest one that is too long alone is kept as its end.
    """
    ours = InjectedText(injected)
    newest_first: list[Utterance] = []
    room, secrets, echoes = WINDOW_LIMIT, 0, 0
    for utterance in reversed(utterances):
        text, cut = ours.cut(utterance.text, inline=utterance.role == "assistant")
        echoes += cut
        if not text.strip():
            continue
        clean = _clean(text.rstrip())
        if newest_first and len(clean.text) > room:
            break
        newest_first.append(Utterance(utterance.role, clean.text[-room:]))
        secrets += clean.count
        room -= len(clean.text)
        if room <= 0:
            break
    return Intake(tuple(reversed(newest_first)), secrets, echoes)


def _clean(text: str) -> Redacted:
    """`text` without secrets, or its end if it is longer than any window.

    The half of a secret that a cut goes through could not be recognised, so where half a secret might stand
    is cut off too.
    """
    looked_at = text[-(WINDOW_LIMIT + _LONGEST_SECRET) :]
    clean = redact(looked_at)
    if len(looked_at) < len(text):
        return Redacted(clean.text[_LONGEST_SECRET:], clean.count)
    return clean
