#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The budget of compiling: CPU-seconds of each unit, in tests/budget/compile.tsv.

    tests/budget.py compile PRESET   judge the last build of PRESET (./dev build PRESET does it)
    tests/budget.py record PRESET    write what that build measured into the file

cmake/measured.sh measures each compile that is not a cache hit. A unit fails if it takes 20 % and 2 seconds more
than its budget. A unit above 12 seconds, or 40 if it is a batch of sources, needs a row with a reason. The budget is that
of a busy machine. On one that is slower still, it is multiplied by the pace: the median over the units that were compiled.
"""

import csv
import dataclasses
import os
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", HERE.parent / "build"))
FILE = pathlib.Path(os.environ.get("CLOISTER_COMPILE_BUDGET", HERE / "budget" / "compile.tsv"))
FIELDS = ("preset", "unit", "seconds", "reason")
TOLERANCE = 1.2
SLACK = 2.0  # seconds, for noise
MOST_ALONE, MOST_BATCH = 12.0, 40.0  # seconds, without a reason
FEW = 8  # with fewer measured units the pace of the machine is unknown
PACE_UNKNOWN, PACE_LEAST, PACE_MOST = 1.5, 1.0, 2.0
WORST = 10


@dataclasses.dataclass
class Row:
    preset: str
    unit: str
    seconds: float
    reason: str = ""

    def most(self):
        """The most seconds without a reason."""
        return MOST_BATCH if is_batch(self.unit) else MOST_ALONE


def is_batch(unit):
    """Whether the unit is a batch of cmake/unity.cmake."""
    return "/unity/" in unit


def unit_of(target_object):
    """"target/source" of an object's path, as "cloister_cli/src/cli/api.cc" or "cloister_cli/unity/cli.api.cc"."""
    found = re.fullmatch(r"(?:.*/)?CMakeFiles/([^/]+)\.dir/(?:.*(?=unity/)|(?:__/)+)?(.+?)(?:\.o)?", target_object)
    return "/".join(found.groups()) if found else target_object


def read_rows(path=FILE):
    with open(path, newline="") as file:
        return [Row(row["preset"], row["unit"], float(row["seconds"]), row["reason"] or "")
                for row in csv.DictReader(file, delimiter="\t")]


def write_rows(rows, path=FILE):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(FIELDS)
        for row in sorted(rows, key=lambda row: (row.preset, row.unit)):
            writer.writerow((row.preset, row.unit, f"{row.seconds:.1f}", row.reason))


def seconds_in(times):
    """Of "0m1.230000s 0m0.100000s", both."""
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", times))


def measured(preset, build=BUILD):
    """Seconds by unit of the last build; of a unit compiled twice, the later."""
    path = build / preset / "cpu_seconds.tsv"
    if not path.exists():
        return {}
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return {unit_of(line[0]): seconds_in(line[1]) for line in lines if len(line) == 2}


def pace_of(seconds, budgets):
    """The seconds of this machine, under its present load, for a second of the budget."""
    ratios = [seconds[unit] / budgets[unit].seconds for unit in seconds
              if unit in budgets and budgets[unit].seconds >= SLACK]
    if len(ratios) < FEW:
        return PACE_UNKNOWN
    return min(max(statistics.median(ratios), PACE_LEAST), PACE_MOST)


def unreasoned(rows):
    """The errors in the file itself."""
    return [f"{row.preset} {row.unit}: {row.seconds:.1f} s are more than {row.most():.0f}: make it smaller, or give "
            f"a reason in {FILE.name}" for row in rows if row.seconds > row.most() and not row.reason]


def judge(preset, seconds, rows):
    """Lines about units that break the budget."""
    budgets = {row.unit: row for row in rows if row.preset == preset}
    pace = pace_of(seconds, budgets)
    failures = unreasoned(budgets.values())
    for unit, taken in sorted(seconds.items()):
        row = budgets.get(unit)
        if row is None and taken > Row(preset, unit, taken).most() * pace:
            failures.append(f"{preset} {unit}: {taken:.1f} CPU-seconds, and not in {FILE.name} (tests/budget.py "
                            f"record {preset})")
        elif row and taken > row.seconds * pace * TOLERANCE + SLACK:
            failures.append(f"{preset} {unit}: {taken:.1f} CPU-seconds, at a pace of {pace:.2f}; its budget is "
                            f"{row.seconds:.1f}")
    return failures


def summary(preset, seconds, rows):
    """The total and the ten worst units."""
    if not seconds:
        return [f"{preset}: nothing was compiled"]
    budgets = {row.unit: row for row in rows if row.preset == preset}
    lines = [f"{preset}: {sum(seconds.values()):.0f} CPU-seconds in {len(seconds)} units, pace "
             f"{pace_of(seconds, budgets):.2f}; the most:"]
    for unit, taken in sorted(seconds.items(), key=lambda item: -item[1])[:WORST]:
        budget = f"{budgets[unit].seconds:6.1f}" if unit in budgets else "  none"
        lines.append(f"  {taken:6.1f} of {budget}  {unit}")
    return lines


def record(preset):
    """Scales measurements to the pace of the rest of the file, if the file has any of the preset."""
    seconds = measured(preset)
    rows = read_rows() if FILE.exists() else []
    budgets = {row.unit: row for row in rows if row.preset == preset}
    pace = pace_of(seconds, budgets) if len(budgets) >= FEW else 1.0
    for unit, taken in seconds.items():
        reason = budgets[unit].reason if unit in budgets else ""
        budgets[unit] = Row(preset, unit, taken / pace, reason)
    objects = (BUILD / preset / "build.ninja").read_text()
    known = {unit_of(path) for path in re.findall(r"^build (\S+\.(?:o|pch)):", objects, re.MULTILINE)}
    kept = [row for unit, row in budgets.items() if unit in known and row.seconds >= SLACK]
    write_rows([row for row in rows if row.preset != preset] + kept)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("compile", "record"):
        sys.exit(__doc__)
    command, preset = sys.argv[1:]
    if command == "record":
        return record(preset)
    seconds, rows = measured(preset), read_rows()
    print("\n".join(summary(preset, seconds, rows)))
    failures = judge(preset, seconds, rows)
    if failures:
        sys.exit("\n".join(["above the budget of compiling (tests/budget/compile.tsv):", *failures]))
    return None


if __name__ == "__main__":
    main()
