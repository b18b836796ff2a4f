"""Find memories over the entities that a question names, even without a common word.

Two entities are neighbours if a relation joins them, a memory mentions both, or a link joins their memories.
Two steps lead away from each named entity. Memories that join two named entities come first, then those of
all reached entities by weight. A relation keeps its own weight, other steps weigh less, and an entity counts
less the more memories mention it. All graphs are walked as one, in at most some ten thousand steps.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from forged.entities.graph import EntityGraph, RelationEnd
from forged.entities.names import entity_id
from forged.text.english import EVERYDAY_WORDS, STOP_WORDS

MOST_HOPS = 2
# Weight of a step without a relation: one memory mentions both, or links join two memories.
_TOGETHER, _LINKED = 0.5, 0.25
_FARTHER = 0.5
# Newest memories of an entity that are read, and entities that a step continues from.
_LOOKED_AT = 64
_FRONTIER = 32

Place = tuple[int, str]
"""Memory: index of its graph, and its id."""


class ReachedMemory(msgspec.Struct, frozen=True):
    """Memory found over entities, with the number of steps, its weight, and the path in words."""

    place: Place
    hops: int
    strength: float
    path: str


class _GraphStep(msgspec.Struct, frozen=True):
    """Step from one entity to another; `memories` show that both are neighbours."""

    other: str
    weight: float
    words: str
    memories: tuple[Place, ...]


class _EntityPath(msgspec.Struct, frozen=True):
    """Path from a named entity to another one."""

    key: str
    weight: float = 1.0
    steps: tuple[_GraphStep, ...] = ()

    def extend(self, step: _GraphStep) -> _EntityPath:
        """Return the path extended by a step."""
        return _EntityPath(step.other, self.weight * step.weight, (*self.steps, step))


def two_hops(graphs: Sequence[EntityGraph], named: Sequence[str], most: int) -> tuple[ReachedMemory, ...]:
    """Return up to `most` memories within two steps of named entities; at most half mention one directly."""
    paths = {start: _paths_from(graphs, start) for start in named}
    between = [paths[one][other] for one in named for other in named if other != one and other in paths[one]]
    best = dict[Place, ReachedMemory]()
    for found in (*_memories_between(graphs, between), *_memories_reached(graphs, paths)):
        there = best.get(found.place)
        if there is None or found.strength > there.strength:
            best[found.place] = found
    ordered = sorted(best.values(), key=lambda each: (-each.strength, each.place))
    near = [each for each in ordered if not each.hops][: max(most - most // 2, 0)]
    return tuple(each for each in ordered if each.hops or each in near)[:most]


def _paths_from(graphs: Sequence[EntityGraph], start: str) -> dict[str, _EntityPath]:
    """Return by id a path to each entity up to two steps away: the shortest, then the weightiest."""
    reached = {start: _EntityPath(start)}
    frontier = [reached[start]]
    for _ in range(MOST_HOPS):
        fresh = dict[str, _EntityPath]()
        for path in frontier:
            for step in _steps_from(graphs, path.key):
                extend = path.extend(step)
                there = fresh.get(extend.key)
                if extend.key not in reached and (there is None or extend.weight > there.weight):
                    fresh[extend.key] = extend
        reached |= fresh
        frontier = heapq.nlargest(_FRONTIER, fresh.values(), key=lambda path: (path.weight, path.key))
    return reached


def _steps_from(graphs: Sequence[EntityGraph], key: str) -> Iterator[_GraphStep]:
    """Yield the steps from an entity over relations, common memories and linked memories."""
    for place, graph in enumerate(graphs):
        for relation in graph.relations.get(key, ())[:_LOOKED_AT]:
            weight = min(max(relation.weight, 0.0), 1.0)
            yield _GraphStep(
                relation.other, weight, _step_in_words(graphs, key, relation), ((place, relation.memory_id),)
            )
        for memory_id in graph.mentioned_by.get(key, ())[:_LOOKED_AT]:
            here = (place, memory_id)
            for other in graph.mentions[memory_id]:
                yield _GraphStep(
                    other,
                    _TOGETHER,
                    f"{_entity_name(graphs, key)} with {_entity_name(graphs, other)}",
                    (here,),
                )
            for linked in graph.linked.get(memory_id, ()):
                for other in graph.mentions.get(linked, ()):
                    words = f"{_entity_name(graphs, key)} linked with {_entity_name(graphs, other)}"
                    yield _GraphStep(other, _LINKED, words, (here, (place, linked)))


def _step_in_words(graphs: Sequence[EntityGraph], key: str, relation: RelationEnd) -> str:
    """Return a relation as words: source, relation, target."""
    ends = (_entity_name(graphs, key), _entity_name(graphs, relation.other))
    source, target = reversed(ends) if relation.turned else ends
    return f"{source} {relation.relation} {target}"


def _entity_name(graphs: Sequence[EntityGraph], key: str) -> str:
    """Return the name of an entity in the first graph that has it, else its id."""
    return next((graph.names[key].name for graph in graphs if key in graph.names), key)


def _memories_between(
    graphs: Sequence[EntityGraph], between: Sequence[_EntityPath]
) -> Iterator[ReachedMemory]:
    """Yield the memories along paths between two named entities, weighted above all others."""
    for path in between:
        words = _path_in_words(graphs, path)
        for step in path.steps:
            for place in step.memories:
                yield ReachedMemory(place, len(path.steps), 1.0 + path.weight, words)


def _memories_reached(
    graphs: Sequence[EntityGraph], paths: dict[str, dict[str, _EntityPath]]
) -> Iterator[ReachedMemory]:
    """Yield the memories that mention an entity at the end of a path, with their weights."""
    for path in (each for reached in paths.values() for each in reached.values()):
        mentioned_by = [(place, graph.mentioned_by.get(path.key, ())) for place, graph in enumerate(graphs)]
        much = 1.0 + math.log2(1 + sum(len(ids) for _, ids in mentioned_by))
        strength = path.weight * _FARTHER ** len(path.steps) / much
        words = _path_in_words(graphs, path)
        for place, ids in mentioned_by:
            for memory_id in ids[:_LOOKED_AT]:
                yield ReachedMemory((place, memory_id), len(path.steps), strength, words)


def _path_in_words(graphs: Sequence[EntityGraph], path: _EntityPath) -> str:
    """Return the steps of a path as words, the entity's name for a path without steps."""
    return "; ".join(step.words for step in path.steps) or _entity_name(graphs, path.key)


# --- what a question names ------------------------------------------------------------------------------

# Runs of the question's words, the longest first, as names and aliases; names in a script without blanks,
# anywhere. Else a name with all its parts present: `deploy_worker` for "the worker that does the deploy".
MOST_NAMED, MOST_RUNS = 8, 400
_MOST_CHARACTERS = 4096
_LONGEST_RUN = 6
_PAIRED = "\u3005-\u3007\u3041-\u309f\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_WORD = re.compile(
    rf"[{_PAIRED}]+|(?:\b[OoDd]['’](?=\w))?(?:(?![{_PAIRED}])[\w@./~$+#-]|(?<=\d):(?=\d)|\(\w{{1,4}}\))+"
)
_UNSPACED = re.compile(f"[{_PAIRED}]")
_NUMBER = re.compile(r"[v#]?\d", re.IGNORECASE)
# The end of a name that names nothing apart from the word before it: "a service" is not Service A.
_ENDS_IN_NUMBER = re.compile(r" (?:\d\S*|\w)\Z")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_COMMON = STOP_WORDS.union(EVERYDAY_WORDS)


def named_in(graphs: Sequence[EntityGraph], question: str) -> tuple[str, ...]:
    """Return the ids of known entities that a question names, at most MOST_NAMED, in order."""
    question = question[:_MOST_CHARACTERS]
    found = dict.fromkeys((*_named_by_runs(graphs, question), *_named_unspaced(graphs, question)))
    return tuple(found or dict.fromkeys(_named_by_parts(graphs, question)))[:MOST_NAMED]


def possible_entity_ids(question: str) -> tuple[str, ...]:
    """Return ids of entities that a question may name, to seek in a database; single words first.

    At most MOST_RUNS of them, without aliases and names of which only the parts are present.
    """
    words = [word.strip(",-").rstrip(".,-") for word in _WORD.findall(question[:_MOST_CHARACTERS])]
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


def _named_by_runs(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    """Yield the ids of entities named by runs of words: at each word the longest run that names one."""
    words = [word.strip(",-").rstrip(".,-") for word in _WORD.findall(question)]
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST_RUN, len(words) - at), 0, -1):
            behind = words[at + length] if at + length < len(words) else ""
            named = _known_entities(graphs, " ".join(words[at : at + length]), behind)
            if named:
                yield from named
                break
        else:
            length = 1
        at += length


def _known_entities(graphs: Sequence[EntityGraph], name: str, behind: str) -> tuple[str, ...]:
    """Return the ids of entities with a name or alias; everyday lower-case words name none."""
    if name in _COMMON:
        return ()
    key = entity_id(name)
    known = [key] if key and any(key in graph.names for graph in graphs) else []
    others = [thing for graph in graphs for thing in graph.aliases.get(key, ())]
    if others and _NUMBER.match(behind):  # "Java 17" asks for no other Java
        others = [thing for thing in others if not thing.startswith(f"{key} ")]
    return tuple(dict.fromkeys((*known, *others)))


def _named_unspaced(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    """Yield the ids of entities that a question names in a script without blanks."""
    folded = entity_id(question) if len(question) < _LONGEST_RUN else question.casefold()
    if not _UNSPACED.search(folded):
        return
    for graph in graphs:
        yield from (key for key in graph.names if len(key) > 1 and _UNSPACED.match(key) and key in folded)


def _named_by_parts(graphs: Sequence[EntityGraph], question: str) -> Iterator[str]:
    """Yield the ids of entities with names of several parts, all in the question, in any order."""
    there = {word.casefold() for word in _PART.findall(question)}
    for graph in graphs:
        for key, entity in graph.names.items():
            parts = [part.casefold() for part in _PART.findall(entity.name)]
            if len(parts) > 1 and there.issuperset(parts) and not _ENDS_IN_NUMBER.search(key):
                yield key
