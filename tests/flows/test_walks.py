"""The architecture page names the files that each flow of data enters; here they are recorded afresh."""

from __future__ import annotations

from pathlib import Path

from tests.walks import report
from tests.walks.flows import walks

PAGE = "forged/docs/architecture.md"


def test_the_architecture_page_names_the_files_that_each_flow_enters():
    said = report.read(Path(__file__).parents[2] / PAGE)
    walked = report.sets(walks())

    wrong = []
    for key in sorted(said.keys() | walked.keys()):
        then, now = said.get(key, frozenset()), walked.get(key, frozenset())
        if now != then:
            wrong.append(f"{', '.join(key)}: entered now {sorted(now - then)}, no more {sorted(then - now)}")

    assert not wrong, "\n".join([f"run `make flows WRITE={PAGE}` and say in the commit why:", *wrong])
