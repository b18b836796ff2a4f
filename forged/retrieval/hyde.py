"""HyDE: sentences that a relevant memory might contain, written by a chat model from the window.

Memories are terse and declarative, conversation is neither; hypotheses in the memories' own register are
what makes embeddings of the two comparable (ADR-0047). Models number, bullet, fence and explain although
told not to; the parser takes the sentences and leaves the rest (bugs 34, 35).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forged import conversation
from forged.conversation import Utterance
from forged.providers import ChatModel

_SYSTEM = """\
You are a memory retrieval assistant for an AI coding agent.
From a piece of conversation you write short declarative sentences that could stand in a memory file about
a past preference, convention, decision or correction that matters now. Write the facts themselves, as if
they were known, not descriptions of the question. One sentence per line. No numbering, no explanation.
"""

# A marker is one only if a space follows: "3.12 is the newest" must stay whole.
_MARKER = re.compile(r"^(?:[-*•‣–]|\(?\d{1,2}[.)])(?:\s+|$)")
_NOISE = re.compile(r"^(?:```.*|</?[a-z_]+>|(?:here|sure|certainly|okay|ok)\b.*:)$", re.IGNORECASE)
_WORD = re.compile(r"\w")
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


async def hypotheses(
    model: ChatModel, window: Sequence[Utterance], *, count: int, deadline: float
) -> tuple[str, ...]:
    """Ask for `count` hypotheses; `deadline` is `time.monotonic()` seconds. Empty window: no call (B48).

    Raises ProviderError.
    """
    if not window:
        return ()
    user = (
        f"Conversation window:\n\n{conversation.as_text(window)}\n\n"
        f"Write {count} hypothetical memory sentences."
    )
    completion = await model.complete(_SYSTEM, user, deadline=deadline)
    return parse(completion.text, count)


def parse(reply: str, count: int) -> tuple[str, ...]:
    """Return at most `count` sentences of a model's reply, in order, none twice."""
    lines = (line.strip() for line in _THINKING.sub("", reply).splitlines())
    sentences = (_MARKER.sub("", line).strip() for line in lines if not _NOISE.match(line))
    return tuple(dict.fromkeys(s for s in sentences if _WORD.search(s)))[:count]
