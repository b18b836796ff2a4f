"""Table for the manual: the facts that each agent got from the others. `matrix.py --write`.

Run from the repository's top, with FORGED_AGENTS as for the tests; without --write it is only printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.agents.stage import AGENTS, World
from tests.agents.walk import RULES, Walk, marks, reply, tell, walk_all

MANUAL = Path(__file__).resolve().parents[2] / "forged/docs/agents.md"
_BEGIN, _END = "<!-- matrix: tests/agents/matrix.py --write -->", "<!-- matrix ends -->"
_PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "qwen": "@qwen-code/qwen-code",
    "opencode": "opencode-ai",
}


def table(walks: Mapping[str, Walk], programs: Path) -> str:
    """In Markdown: a row for each agent that was asked."""
    heads = ("asked", *(f"rule of {agent}" for agent in AGENTS), "second turn", "after a compaction")
    rows = [heads, tuple("---" for _ in heads)]
    rows += [_row(agent, walks[agent], programs) for agent in AGENTS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row(agent: str, walk: Walk, programs: Path) -> tuple[str, ...]:
    package = json.loads((programs.parent / _PACKAGES[agent] / "package.json").read_text())
    reported = (_said(walk.first.count(RULES[other])) for other in AGENTS)
    after = _whole(walk.after) if walk.is_compacted else "was not compacted"
    return (f"{agent} {package['version']}", *reported, _whole(walk.second), after)


def _whole(body: str) -> str:
    counts = {body.count(rule) for rule in RULES.values()}
    return _said(counts.pop()) if len(counts) == 1 and marks(body).is_one else "not as it should be"


def _said(times: int) -> str:
    return {0: "no", 1: "once"}.get(times, f"{times} times")


def write(text: str, manual: Path = MANUAL) -> None:
    """Put the table between its marks."""
    between = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
    manual.write_text(between.sub(lambda _: f"{_BEGIN}\n{text}{_END}", manual.read_text()))


def main() -> None:
    programs = Path(os.environ.get("FORGED_AGENTS", "build/agents")).resolve() / "node_modules/.bin"
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), programs, reply)
        try:
            world.forgectl("setup", "--yes")
            world.trust_codex()
            tell(world)
            text = table(walk_all(world), programs)
        finally:
            world.close()
    print(text)
    if "--write" in sys.argv[1:]:
        write(text)


if __name__ == "__main__":
    main()
