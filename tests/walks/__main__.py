"""Print which files each flow enters; with `--write PAGE` also put that into the section of a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.walks import report
from tests.walks.flows import walks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.walks", description=__doc__)
    parser.add_argument(
        "--write", metavar="PAGE", type=Path, help="a Markdown page with the section's markers"
    )
    page = parser.parse_args().write
    flows = walks()
    for flow in flows:
        print(report.table(flow))
    print(report.summary(flows))
    if page is not None:
        report.write(page, flows)


main()
