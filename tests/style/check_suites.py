# SPDX-License-Identifier: Apache-2.0
"""The tables of the test runner fit the tree: every suite has a tier and a budget, every exception a reason."""

import datetime
import fnmatch
import sys
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "tests"))
import suites  # noqa: E402
import verdict  # noqa: E402

MOST_RETRIES = 5
RETRY_DAYS = 60


class Tables(unittest.TestCase):
    def test_every_suite_has_a_tier_and_a_budget(self):
        found = suites.problems(suites.table(), [suite.name for suite in suites.discover()])
        self.assertEqual(found, [], "\n".join(found))

    def test_the_landing_tier_fits_its_time(self):
        rows = suites.table()
        total = rows.pop("total")
        cpu = sum(row.cpu for row in rows.values() if row.tier == suites.LANDING)
        self.assertLessEqual(cpu, total.cpu, "the suites' budgets are more than the whole run's")

    def test_retries_are_few_and_end(self):
        rows = verdict.rows(verdict.RETRIES, verdict.Retry)
        self.assertLessEqual(len(rows), MOST_RETRIES)
        last = (datetime.date.today() + datetime.timedelta(days=RETRY_DAYS)).isoformat()
        names = [suite.name for suite in suites.discover()]
        for row in rows:
            self.assertLessEqual(row.until, last, row)
            self.assertFalse(verdict.is_blanket(row), f"{row}: it excuses every case of every suite: name some")
            self.assertTrue(fnmatch.filter(names, row.suite), f"{row}: there is no such suite")

    def test_the_rule_of_retries_itself(self):
        for suite, case, blanket in (("*", "*", True), ("*/*", "*.*", True), ("?*", "**", True), ("fault/*", "*", False),
                                     ("*", "Kill.*", False)):
            self.assertEqual(verdict.is_blanket(verdict.Retry("2026-12-11", suite, case, "why")), blanket, (suite, case))


if __name__ == "__main__":
    unittest.main()
