"""The architecture page says how many files each flow of data enters; here they are recorded afresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walks import report
from tests.walks.flows import walks
from tests.walks.stage import PROCESSES

PAGE = Path(__file__).parents[2] / "forged/docs/architecture.md"
# A busy machine puts some work into another run than an idle one does.
TOLERANCE = 2


@pytest.mark.long
def test_each_flow_enters_as_many_files_as_the_architecture_page_says():
    said, wrong = report.read(PAGE), []

    for flow in walks():
        for process in PROCESSES:
            walk, count = getattr(flow, process), said.pop((flow.title, process), 0)
            least, most = len(walk.always), len({*walk.files, *walk.sometimes})
            if not least - TOLERANCE <= count <= most + TOLERANCE:
                wrong.append(
                    f"{flow.title}, {process}: {least} files, in one run or another {most}; said {count}"
                )

    wrong += [f"{', '.join(key)}: is not recorded any more" for key in said]
    assert not wrong, "\n".join(["run `make flows WRITE=forged/docs/architecture.md` and say why:", *wrong])
