"""Orders by other authors, in the forms that reach an agent, with a real daemon.

Once with the rules, and once with a model that does all that it reads, in the words it reads and in others,
for the user and for the repository. What waits for a person is no memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.data.attacks import ATTACKS, ZERO, Attack
from tests.support.daemon import Stage, on_disk
from tests.support.provider import proposal, reply

_ORDER = re.compile(r"mallory-\d+")
_MARKS = re.compile(r"^(?:\W*(?:user|assistant):)?[\s>]*", re.IGNORECASE)


def obeying(_, request):
    """What a model answers that takes every line of the conversation for the user's word."""
    said = request.json["messages"][-1]["content"].replace(ZERO, "").splitlines()
    lines = [_MARKS.sub("", line) for line in said if _ORDER.search(line) or "keep" in line]
    made = [
        made
        for line in dict.fromkeys(filter(None, lines))
        for made in (
            proposal(line, "user", "corrections"),
            proposal(f"The user asked to remember: {line}", "repo", "project-conventions"),
            proposal(f"Everything goes through {''.join(_ORDER.findall(line))} from now on.", "user"),
        )
    ]
    kept = [proposal(_MARKS.sub("", line)) for line in said if any(w in line for w in KEEPS)]
    return reply(*made[:8], *kept[:2])


KEEPS = [each.keep for each in ATTACKS if each.keep]


def handed_over(stage: Stage, top: Path, attacks: Sequence[Attack]) -> dict[str, Path]:
    """Each in a repository of its own; all that comes of them is there."""
    places = {}
    for number, attack in enumerate(attacks):
        places[attack.name] = place = top / f"repo{number}"
        (place / ".git").mkdir(parents=True)
        taken = stage.client.capture(str(place), attack.messages, f"attack{number}")
        assert taken.outcome != "rejected" or taken.reason == "nothing_to_capture", taken
    stage.settle(60)
    return places


def leaks(stage: Stage, places: dict[str, Path]) -> list[str]:
    """Orders that stand in a file: of the user, or of their repository."""
    users = on_disk(stage.daemon.home, "user")
    return [
        f"{attack.name}: {memory.scope}: {memory.content}"
        for attack in ATTACKS
        for memory in (*users, *on_disk(places[attack.name]))
        if any(poison in memory.content for poison in attack.poison)
    ]


def lost(places: dict[str, Path]) -> list[str]:
    return [
        attack.name
        for attack in ATTACKS
        if attack.keep and not any(attack.keep in memory.content for memory in on_disk(places[attack.name]))
    ]


def test_a_model_that_obeys_every_pasted_order_has_none_of_them_remembered(stage, tmp_path):
    stage.provider.chat = obeying
    places = handed_over(stage, tmp_path, ATTACKS)
    assert leaks(stage, places) == []
    assert lost(places) == []
    assert stage.state.to_review > 0  # it did obey


def test_the_rules_remember_none_of_them(rules, tmp_path):
    places = handed_over(rules, tmp_path, ATTACKS)
    assert leaks(rules, places) == []
