# SPDX-License-Identifier: Apache-2.0
"""Runs the cases against a product.

    python3 -m doorcheck --driver NAME [--case NUMBER]... [--runtime NAME] [--json FILE] [--count FACTOR]

It changes the network of its namespace, and therefore refuses to run where there is a device besides loopback. As root:
    unshare --net --mount --pid --fork --mount-proc python3 -m doorcheck --driver control
Exit status: 0 if every case passed or is unsupported, 1 otherwise.
"""

import argparse
import json
import pathlib
import sys

import doorcheck.cases  # noqa: F401
from doorcheck import report
from doorcheck.drivers import NAMES, make
from doorcheck.trial import CASES, PASSED, UNSUPPORTED, judge
from doorcheck.world import World


def judge_all(driver, world, numbers=(), count=1.0):
    """→ the verdicts, in order of their numbers."""
    driver.start(world)
    try:
        return [judge(CASES[number], driver, world, count) for number in sorted(numbers or CASES)]
    finally:
        driver.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True, choices=sorted(NAMES))
    parser.add_argument("--case", type=int, action="append", choices=sorted(CASES), default=[], metavar="NUMBER")
    parser.add_argument("--runtime", help="of the driver cloister: the runtime of each sandbox, such as gvisor")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--count", type=float, default=1.0, help="a factor for the sizes of long cases")
    chosen = parser.parse_args()
    if chosen.runtime and chosen.driver != "cloister":
        parser.error(f"--runtime: the driver {chosen.driver} has none")
    driver = make(chosen.driver, **({"request": {"runtime": chosen.runtime}} if chosen.runtime else {}))
    with World() as world:
        verdicts = judge_all(driver, world, chosen.case, chosen.count)
    print(report.as_table(driver.name, verdicts))
    print(report.details(verdicts), file=sys.stderr)
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(driver.name, verdicts), indent=1) + "\n")
    return 0 if all(verdict.outcome in (PASSED, UNSUPPORTED) for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
