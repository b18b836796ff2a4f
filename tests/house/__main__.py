"""Print counts with their limits; with `--write` lower the limits to the counts."""

from __future__ import annotations

import argparse
import sys

from tests.house import limits, report
from tests.house.flows import record
from tests.house.sources import REPO, sources

PAGE = REPO / "forged" / "docs" / "architecture.md"
RECORDINGS = 5


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--flows", action="store_true", help="record the flows too; takes half a minute")
    parser.add_argument("--names", action="store_true", help="list what is counted, and the files")
    parser.add_argument("--write", action="store_true", help="lower the limits; records flows five times")
    options = parser.parse_args()
    known, most = sources(), limits.load()
    measured = limits.of_sources(known)
    print(report.of_sources(known, measured, most))
    if options.names:
        print(report.names(known))
    if options.flows:
        recordings = [record() for _ in range(RECORDINGS if options.write else 1)]
        if options.names:
            print("\n".join(map(report.of_flow, recordings[-1])))
        numbers = limits.medians([limits.of_flows(flows) for flows in recordings])
        measured = measured._replace(flows=numbers)
        shown = [flow._replace(has_limit=True) for flow in recordings[-1] if not flow.has_limit]
        print(report.of_flows(numbers | limits.of_flows(shown), most))
    if options.write:
        most = limits.lowered(measured, most)
        limits.write(most)
        report.write(most, PAGE)
    above, slack = limits.exceeded(measured, most), limits.slack(measured, most)
    print("\n".join([*above, *slack, *(["lower them: make house WRITE=1"] if slack else [])]))
    sys.exit(bool(above))


main()
