"""Whether what a model has written so far can be no thought, told by its finished lines alone.

Some chat templates begin a thought in the prompt, so that only its end tells it from an answer. But models
think about the task: of the user, the message, the notes that they were asked for, themselves. A note that
was asked for is one short plain statement about something else. So a text is `clear` if it has a finished
line and each of them is such a statement, in English or Chinese, as models think in those. Whoever is in
doubt waits for the end of the reply; so a preamble, a question or another language only costs time.
"""

from __future__ import annotations

import re

from forged.retrieval.hypotheses import begins_as_json

# Characters. Thoughts come in paragraphs.
_LONGEST = 200

_MARKER = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_BEGINS_A_THOUGHT = re.compile(
    r"\W*(?:o?kay|ok|so|well|hmm*|ah|oh|wait|alright|all right|right|sure|yes|no|now|then|thus|hence|but|also"
    r"|first(?:ly)?|second(?:ly)?|next|finally|maybe|perhaps|actually|let|given|since|looking|thinking|thought"
    r"|think|consider|analy[sz]\w*|understand\w*|identify|determine|step|goal|task|input|output|constraints?"
    r"|drafts?|here|this|that|it|they|these|there|what|which|how|why|who|to|based|need|must|should)\b",
    re.IGNORECASE,
)
_SPEAKS_OF_THE_TASK = re.compile(
    r"\b(?:i|i'\w+|me|my|let's|user (?:is|was|wants?|asks?|asked|sa(?:id|ys)|mentions?|needs?|has|might|may)"
    r"|user's|assistant|prompt|system message|instructions?|hypothe\w+|messages?|conversation|questions?"
    r"|quer\w+|requests?|requested|asked|asking|asks|notes?|memor(?:y|ies)|sentences?|statements?|bullet|answers?|reply"
    r"|respon[ds]\w*|generat\w+|guess\w*|maybe|perhaps|probably|likely|might|json|above|below|summary|context"
    r"|we (?:need|have to|should|must|can|are|want|know|could|might|don't|do not|may|will))\b"
    r"|[?:…]\W*$|\.\.\.",
    re.IGNORECASE,
)
_SPEAKS_ENGLISH = re.compile(
    r"\b(?:is|are|was|were|the|uses?|runs?|with|of|and|by|has|have|must|from|to|for|on|over|because|prefers?|likes?|lives?|keeps?|works?|goes)\b",
    re.IGNORECASE,
)
_IS_CHINESE = re.compile(r"[\u4e00-\u9fff]{2}")
_THINKS_IN_CHINESE = re.compile(
    r"^\W*(?:嗯|好|首先|那么|现在|接下来|然后|其次|最后|所以|因此|不过|但是|但|让|我(?!们[^需要应可得想])|他|她|它|这|那|需要|根据|分析|考虑|可能|也许)"
    r"|用户(?:的|说|问|想|要|需|在|提|希|是|可|似|询|让|给|发|又)|问题|提示|对话|笔记|记忆|消息|假设|句子|回答|[？?：:…]\W*$"
)


def clear(text: str) -> bool:
    """Whether all finished lines of a text are statements as they were asked for, and there is one.

    Or it is JSON, which no thought begins with.
    """
    if begins_as_json(text):
        return True
    *finished, _ = text.split("\n")
    lines = [line for line in finished if line.strip()]
    return bool(lines) and all(map(_is_statement, lines))


def _is_statement(line: str) -> bool:
    said = _MARKER.sub("", line).strip()
    if len(said) > _LONGEST:
        return False
    if said.isascii():
        muses = _BEGINS_A_THOUGHT.match(said) or _SPEAKS_OF_THE_TASK.search(said)
        return not muses and bool(_SPEAKS_ENGLISH.search(said))
    return bool(_IS_CHINESE.search(said)) and not _THINKS_IN_CHINESE.search(said)
