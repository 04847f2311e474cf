# SPDX-License-Identifier: Apache-2.0
"""The report of a run: JSON for machines, a table for people."""

from doorcheck.trial import BROKEN, FAILED, PASSED, UNSUPPORTED

OUTCOMES = (PASSED, FAILED, UNSUPPORTED, BROKEN)
MOST_PROBLEMS = 20


def as_json(driver, verdicts):
    return {
        "suite": "doorcheck", "driver": driver, "totals": {each: sum(v.outcome == each for v in verdicts) for each in OUTCOMES},
        "cases": [{"number": v.case.number, "name": v.case.name, "title": v.case.title, "outcome": v.outcome,
                   "seconds": round(v.seconds, 2), "problems": v.problems[:MOST_PROBLEMS]} for v in verdicts]}


def as_table(driver, verdicts):
    lines = [f"| {driver} | outcome | s | case |", "| --- | --- | --- | --- |"]
    for verdict in verdicts:
        lines.append(f"| {verdict.case.number} | {verdict.outcome} | {verdict.seconds:.1f} | {verdict.case.title} |")
    totals = as_json(driver, verdicts)["totals"]
    return "\n".join([*lines, "", ", ".join(f"{count} {name}" for name, count in totals.items() if count)])


def details(verdicts):
    """The problems of each case that did not pass, as lines."""
    return "\n".join(f"{verdict.case.number} {verdict.case.name}: {problem}" for verdict in verdicts
                     if verdict.outcome in (FAILED, BROKEN) for problem in verdict.problems[:MOST_PROBLEMS])
