"""Which things a question names, of those that memories speak of.

Looked for are runs of its words, the longest first, as they are and as other names of a thing. Names in a
script without spaces are looked for anywhere. Where that finds nothing, a name of several words or parts
counts whose parts all stand in the question: `deploy_worker` for "the worker that does the deploy".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forged.entities.graph import EntityGraph
from forged.entities.names import entity_id
from forged.text.english import STOP_WORDS
from forged.text.everyday import WORDS

MOST_NAMED, MOST_RUNS = 8, 400
_MOST_CHARACTERS = 4096
_LONGEST_RUN = 6
_PAIRED = "\u3005-\u3007\u3041-\u309f\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_WORD = re.compile(rf"[{_PAIRED}]+|(?:(?![{_PAIRED}])[\w@./~$+#-])+")
_UNSPACED = re.compile(f"[{_PAIRED}]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_COMMON = frozenset(WORDS) | STOP_WORDS


def named_in(graphs: Sequence[EntityGraph], question: str) -> tuple[str, ...]:
    """Ids of at most MOST_NAMED things, in the order in which they are named."""
    question = question[:_MOST_CHARACTERS]
    found = dict.fromkeys((*_runs(graphs, question), *_unspaced(graphs, question)))
    return tuple(found or dict.fromkeys(_by_parts(graphs, question)))[:MOST_NAMED]


def may_name(question: str) -> tuple[str, ...]:
    """Ids of all things that a question may name, single words first; for a database.

    At most MOST_RUNS of them. Other names of a thing, and names of which only the parts are there, are not
    among them.
    """
    words = [word.strip(".,-") for word in _WORD.findall(question[:_MOST_CHARACTERS])]
    runs = [
        " ".join(words[at : at + length])
        for length in range(_LONGEST_RUN, 0, -1)
        for at in range(len(words) - length + 1)
    ]
    unspaced = (word for word in words if _UNSPACED.match(word))
    parts = [
        word[at : at + length]
        for word in unspaced
        for length in range(min(_LONGEST_RUN, len(word)), 1, -1)
        for at in range(len(word) - length + 1)
    ]
    found = dict.fromkeys(entity_id(run) for run in (*reversed(runs), *parts) if run not in _COMMON)
    return tuple(key for key in found if key)[:MOST_RUNS]


def _runs(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    words = [word.strip(".,-") for word in _WORD.findall(question)]
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST_RUN, len(words) - at), 0, -1):
            key = _known(graphs, " ".join(words[at : at + length]))
            if key:
                yield key
                break
        else:
            length = 1
        at += length


def _known(graphs: Sequence[EntityGraph], name: str) -> str:
    """The id of a thing of this name, or nothing; an everyday word in small letters names none."""
    if name in _COMMON:
        return ""
    key = entity_id(name)
    for graph in graphs:
        if key and (key in graph.names or key in graph.aliases):
            return key if key in graph.names else graph.aliases[key]
    return ""


def _unspaced(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    folded = entity_id(question) if len(question) < _LONGEST_RUN else question.casefold()
    if not _UNSPACED.search(folded):
        return
    for graph in graphs:
        yield from (key for key in graph.names if len(key) > 1 and _UNSPACED.match(key) and key in folded)


def _by_parts(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    there = {word.casefold() for word in _PART.findall(question)}
    for graph in graphs:
        for key, entity in graph.names.items():
            parts = [part.casefold() for part in _PART.findall(entity.name)]
            if len(parts) > 1 and there.issuperset(parts):
                yield key
