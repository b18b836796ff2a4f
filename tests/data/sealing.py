"""Write hashes of the sealed sets after one was sealed: `python -m tests.data.sealing`."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation import sealed

DATA = Path(__file__).parent
LIST = Path(sealed.__file__).with_name("sealed.txt")
SAID = ("sessions/sealed/sessions.jsonl", "said/sealed/said.jsonl", *(
    f"minds/sealed/{name}.jsonl" for name in ("minds", "alike", "attacks")
))  # fmt: skip


def listed() -> str:
    found = frozenset[str]().union(*(sealed.fingerprints(DATA / place) for place in SAID))
    return "".join(f"{each}\n" for each in sorted(found))


if __name__ == "__main__":
    LIST.write_text(listed())
