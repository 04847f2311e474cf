# SPDX-License-Identifier: Apache-2.0
"""The rules that fail a run of the tests: a case is skipped for an unlisted reason, passes only at the second try, or a
suite costs too much.

tests/skips.txt   REASON TAB WHY: a case may be skipped for this reason
tests/retries.tsv UNTIL TAB SUITE TAB CASE TAB WHY: until that date a case may fail, if it passes when run again, alone
Reasons, suites and cases are patterns of fnmatch(3). A row of retries.tsv for every case of every suite excuses
nothing.
"""

import collections
import datetime
import fnmatch
import math
import pathlib
import statistics

import suites
from suite_run import Case, Outcome

HERE = pathlib.Path(__file__).resolve().parent
SKIPS, RETRIES = HERE / "skips.txt", HERE / "retries.tsv"
OVER = 1.2  # a suite's allowed factor over its budget of processor time
OVER_WALL = 3.0  # the factor over its budget of wall time, which depends on the other users of the machine
SLACK = 2.0  # CPU-seconds beyond the factor, for noise
FEW = 8  # with fewer suites the pace of the machine is unknown
PACE_UNKNOWN, PACE_MOST = 1.5, 2.0
ENOUGH, MANY = 80, 0.1  # of so many suites, more than this part above their budgets: the machine is to blame
WORST = 10
TOTAL = "total"  # the row of the table for a whole run of the landing tier

Skip = collections.namedtuple("Skip", "reason why")
Retry = collections.namedtuple("Retry", "until suite case why")


def rows(path, kind):
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != len(kind._fields) or not all(fields):
                raise ValueError(f"{path.name}:{number}: not {' TAB '.join(kind._fields)}: {line!r}")
            found.append(kind(*fields))
    return found


def judge_skips(outcome, allowed):
    """A case skipped for an unlisted reason has failed."""
    for case in outcome.cases:
        reason = case.detail.strip() or "no reason given"
        if case.outcome == "skipped" and not any(fnmatch.fnmatchcase(reason, row.reason) for row in allowed):
            case.outcome = "failed"
            case.detail = f"skipped, and tests/skips.txt allows no such reason: {reason}"


def pace(outcomes, table, figure="cpu"):
    """The slowness of this machine against the machine of the budgets: the median over the suites, never below 1.
    `figure`: "cpu" or "wall"."""
    ratios = [getattr(outcome, figure) / getattr(row, figure) for outcome in outcomes
              if getattr(outcome, figure) and (row := table.get(outcome.suite.name)) and getattr(row, figure)]
    return min(max(statistics.median(ratios), 1.0), PACE_MOST) if len(ratios) >= FEW else PACE_UNKNOWN


def costs_above(outcomes, table):
    """The suites that took a fifth more processor time than their budgets, or three times the wall time, at the pace
    of this machine → [(outcome, why)]."""
    cpu_factor, wall_factor = OVER * pace(outcomes, table), OVER_WALL * pace(outcomes, table, "wall")
    found = []
    for outcome in outcomes:
        row = table.get(outcome.suite.name)
        details = above(outcome.cpu, outcome.wall, row, cpu_factor, wall_factor) if row is not None else []
        if details:
            found.append((outcome, "; ".join(details)))
    return found


def is_the_machine(over, outcomes):
    """Whether so many suites are above their budgets that the machine is to blame: for example a machine with slow
    system calls, which its pace does not show, because all suites are alike. judge_total() still judges them
    together."""
    return len(outcomes) >= ENOUGH and len(over) > MANY * len(outcomes)


def judge_costs(outcomes, table):
    """Fails the suites of costs_above(), unless the machine is to blame → their outcomes."""
    over = costs_above(outcomes, table)
    if is_the_machine(over, outcomes):
        return []
    for outcome, why in over:
        detail = f"{why}: make it cheaper, or raise the budget in tests/suites.tsv and say why"
        outcome.cases.append(Case("(budget)", "failed", detail))
    return [outcome for outcome, _ in over]


def above(cpu, wall, row, cpu_factor, wall_factor):
    """→ a line for each budget of the row that these seconds exceed. Times below MOST_WALL are never too long."""
    lines = []
    if cpu is not None and row.cpu is not None and cpu > row.cpu * cpu_factor + SLACK:
        lines.append(f"{cpu:.1f} CPU-s, and {row.cpu:.0f} are its budget")
    if row.wall is not None and wall > max(row.wall * wall_factor, suites.MOST_WALL):
        lines.append(f"{wall:.0f} s, and {row.wall:.0f} s of wall time are its budget")
    return lines


def judge_total(outcomes, wall, row):
    """`wall`: seconds of the whole run. → an outcome of its own, failed, if all suites together are above the budget of the
    run; otherwise None."""
    took = sum(outcome.cpu or 0 for outcome in outcomes)
    details = above(took, wall, row, OVER, OVER_WALL) if row is not None else []
    if not details:
        return None
    detail = f"all suites took {'; '.join(details)} (tests/suites.tsv)"
    return Outcome(suites.Suite(TOTAL, []), [Case("(budget)", "failed", detail)], "", 0)


def is_blanket(row):
    """Whether a row of retries.tsv is for every case of every suite."""
    return not (row.suite + row.case).strip("*?./[]!")


def may_retry(retries, suite, case, today=None):
    today = today or datetime.date.today().isoformat()
    return any(today <= row.until and not is_blanket(row) and fnmatch.fnmatch(suite, row.suite)
               and fnmatch.fnmatch(case, row.case) for row in retries)


def judge_second(outcome, second, retries):
    """For a suite that failed and ran again: its failed cases that passed this time, as [(case, how it had failed)].
    Cases excused by `retries` have passed. None of them if the second run failed as well."""
    if second.failed:
        return []
    again = {case.name: case.outcome for case in second.cases}
    later = []
    for case in outcome.cases:
        # Such as "(exit)" and "setUpClass (…)": outside of the suite's cases, and so listed only on a failure.
        around = case.name.startswith(("(", "setUp", "tearDown")) and "passed" in again.values()
        if case.outcome == "failed" and again.get(case.name, "passed" if around else "missing") == "passed":
            later.append((case.name, case.detail))
            if may_retry(retries, outcome.suite.name, case.name):
                case.outcome = "passed"
    return later


def worst(outcomes, table):
    """The most expensive suites, as lines."""
    def line(outcome):
        row = table.get(outcome.suite.name)
        budget = f" of {row.cpu:.0f}" if row and row.cpu is not None else ""
        cpu = "-" if outcome.cpu is None else f"{outcome.cpu:.1f}"
        return f"  {cpu:>7} CPU-s{budget:9} {outcome.wall:6.1f} s  {outcome.suite.name}"

    return [line(outcome) for outcome in sorted(outcomes, key=lambda one: -(one.cpu or 0))[:WORST]]


def budget_lines(outcomes, table):
    """Rows for tests/suites.tsv with the times of these suites, rounded up."""
    def figure(value):
        return f"{math.ceil(value) + 1}" if value is not None else "-"

    lines = []
    for outcome in sorted(outcomes, key=lambda one: one.suite.name):
        row = table.get(outcome.suite.name) or suites.Row(suites.LANDING, None, None)
        fields = [outcome.suite.name, row.tier, figure(outcome.cpu), figure(outcome.wall)]
        lines.append("\t".join(fields + ([row.note] if row.note else [])))
    return lines
