"""Write hashes of the sealed sets after one was sealed: `python -m tests.data.sealing`."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation import sealed

DATA = Path(__file__).parent
LIST = Path(sealed.__file__).with_name("sealed.txt")
FILES = {
    "minds": ("minds", "alike", "attacks"),
    "stores": ("chats", "pairs", "shapes"),
    "replies": ("answers", "attacks", "dialogues", "first"),
    "talk": ("act", "alike", "foreign", "negated", "clauses", "scope"),
}
SAID = (
    *("sessions/sealed/sessions.jsonl", "said/sealed/said.jsonl"),
    *(f"{folder}/sealed/{name}.jsonl" for folder, names in FILES.items() for name in names),
)


def listed() -> str:
    found = frozenset[str]().union(*(sealed.fingerprints(DATA / place) for place in SAID))
    return "".join(f"{each}\n" for each in sorted(found))


if __name__ == "__main__":
    LIST.write_text(listed())
