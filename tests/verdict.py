# SPDX-License-Identifier: Apache-2.0
"""What a run of the tests may not do: skip a case for an unlisted reason, pass only at the second try, cost too much.

tests/skips.txt   REASON TAB WHY: a case may be skipped for this reason
tests/retries.tsv UNTIL TAB SUITE TAB CASE TAB WHY: until that date a case may fail, if it passes when run again, alone
Reasons, suites and cases are patterns of fnmatch(3).
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
OVER = 1.2  # times its budget of processor time that a suite may take
SLACK = 2.0  # CPU-seconds above that, for noise
FEW = 8  # with fewer suites the pace of the machine is unknown
PACE_UNKNOWN, PACE_MOST = 1.5, 2.0
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
    """A case that was skipped for a reason that nothing allows has failed."""
    for case in outcome.cases:
        reason = case.detail.strip() or "no reason given"
        if case.outcome == "skipped" and not any(fnmatch.fnmatchcase(reason, row.reason) for row in allowed):
            case.outcome = "failed"
            case.detail = f"skipped, and tests/skips.txt allows no such reason: {reason}"


def pace(outcomes, table):
    """How much slower than the machine of the budgets this one is: the median over the suites, never below 1."""
    ratios = [outcome.cpu / row.cpu for outcome in outcomes if outcome.cpu and (row := table.get(outcome.suite.name))
              and row.cpu]
    return min(max(statistics.median(ratios), 1.0), PACE_MOST) if len(ratios) >= FEW else PACE_UNKNOWN


def judge_costs(outcomes, table):
    """Fails the suites that took a fifth more processor time than their budgets → their outcomes."""
    factor = OVER * pace(outcomes, table)
    failed = []
    for outcome in outcomes:
        row = table.get(outcome.suite.name)
        if row is None or row.cpu is None or outcome.cpu is None or outcome.cpu <= row.cpu * factor + SLACK:
            continue
        detail = (f"{outcome.cpu:.1f} CPU-s, and {row.cpu:.0f} are its budget: make it cheaper, or raise the budget in "
                  "tests/suites.tsv and say why")
        outcome.cases.append(Case("(budget)", "failed", detail))
        failed.append(outcome)
    return failed


def judge_total(outcomes, row):
    """→ an outcome of its own, failed, if all suites together took a fifth more than their budget; otherwise None."""
    took = sum(outcome.cpu or 0 for outcome in outcomes)
    if row is None or took <= row.cpu * OVER:
        return None
    detail = f"all suites took {took:.0f} CPU-s, and {row.cpu:.0f} are their budget (tests/suites.tsv)"
    return Outcome(suites.Suite(TOTAL, []), [Case("(budget)", "failed", detail)], "", 0)


def may_retry(retries, suite, case, today=None):
    today = today or datetime.date.today().isoformat()
    return any(today <= row.until and fnmatch.fnmatch(suite, row.suite) and fnmatch.fnmatch(case, row.case)
               for row in retries)


def worst(outcomes, table):
    """The most expensive suites, as lines."""
    def line(outcome):
        row = table.get(outcome.suite.name)
        budget = f" of {row.cpu:.0f}" if row and row.cpu is not None else ""
        return f"  {outcome.cpu or 0:7.1f} CPU-s{budget:9} {outcome.wall:6.1f} s  {outcome.suite.name}"

    return [line(outcome) for outcome in sorted(outcomes, key=lambda one: -(one.cpu or 0))[:WORST]]


def budget_lines(outcomes, table):
    """Rows for tests/suites.tsv with what these suites took, rounded up."""
    def figure(value):
        return f"{math.ceil(value) + 1}" if value is not None else "-"

    lines = []
    for outcome in sorted(outcomes, key=lambda one: one.suite.name):
        row = table.get(outcome.suite.name) or suites.Row(suites.LANDING, None, None)
        fields = [outcome.suite.name, row.tier, figure(outcome.cpu), figure(outcome.wall)]
        lines.append("\t".join(fields + ([row.note] if row.note else [])))
    return lines
