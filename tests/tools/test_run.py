# SPDX-License-Identifier: Apache-2.0
"""What the test runner makes of a suite: what fails it, what is kept of it, and what its table must hold."""

import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import results  # noqa: E402
import run  # noqa: E402
import suite_run  # noqa: E402
import suites  # noqa: E402
import verdict  # noqa: E402

EVERYTHING = [verdict.Skip("no such machine *", "some machines lack it")]


class Judging(unittest.TestCase):
    """A generated suite runs as every suite does."""

    def outcome_of(self, body, **options):
        # Not in /tmp, which the suite has for itself.
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=suite_run.work_folder())))
        path = folder / "test_planted.py"
        path.write_text("import os, threading, time, unittest\nclass Planted(unittest.TestCase):\n"
                        + textwrap.indent(textwrap.dedent(body), "    "))
        suite = suites.Suite("tools/planted", [suites.PYTHON, str(TESTS / "worker.py"), str(path), "REPORT"], **options)
        return suite_run.run(suite, jailed=True, counts=False)

    def failures(self, outcome):
        return [(case.name, case.detail) for case in outcome.cases if case.outcome == "failed"]

    def test_a_suite_that_passes(self):
        outcome = self.outcome_of("def test(self): pass")
        verdict.judge_skips(outcome, [])
        self.assertEqual(verdict.judge_costs([outcome], {outcome.suite.name: suites.Row(suites.LANDING, 30, 30)}), [])
        self.assertEqual([(case.name, case.outcome) for case in outcome.cases], [("Planted.test", "passed")])

    def test_a_thread_that_dies_fails_its_case(self):
        outcome = self.outcome_of("""
            def test(self):
                thread = threading.Thread(target=lambda: 1 / 0)
                thread.start()
                thread.join()
        """)
        (name, detail), = self.failures(outcome)
        self.assertEqual(name, "Planted.test")
        self.assertIn("ZeroDivisionError", detail)

    def test_a_skip_fails_for_a_reason_that_is_not_listed(self):
        body = "def test(self): self.skipTest('today no such machine here')"
        for allowed in ([], EVERYTHING):
            outcome = self.outcome_of(body)
            verdict.judge_skips(outcome, allowed)
            (name, detail), = self.failures(outcome)
            self.assertIn("today no such machine here", detail)

    def test_a_skip_stays_one_for_a_reason_that_is_listed(self):
        outcome = self.outcome_of("def test(self): self.skipTest('no such machine here')")
        verdict.judge_skips(outcome, EVERYTHING)
        self.assertEqual([case.outcome for case in outcome.cases], ["skipped"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root: an ordinary user's jail has no cgroups of its own")
    def test_a_suite_above_its_budget_fails(self):
        outcome = self.outcome_of("""
            def test(self):
                while time.process_time() < 1: pass
        """)
        self.assertGreater(outcome.cpu, 1)
        outcome.cpu += 10  # beyond all slack
        self.assertEqual(verdict.judge_costs([outcome], {outcome.suite.name: suites.Row(suites.LANDING, 100, 100)}), [])
        self.assertEqual(verdict.judge_costs([outcome], {outcome.suite.name: suites.Row(suites.LANDING, 2, 100)}), [outcome])
        self.assertEqual([name for name, _ in self.failures(outcome)], ["(budget)"])

    def test_a_slow_machine_fails_no_suite(self):
        outcomes = [suite_run.Outcome(suites.Suite(f"a/{n}", []), [], "", 1, 18.0) for n in range(10)]
        table = {outcome.suite.name: suites.Row(suites.LANDING, 10, 10) for outcome in outcomes}
        self.assertEqual(verdict.judge_costs(outcomes, table), [])
        outcomes[3].cpu = 30.0
        self.assertEqual(verdict.judge_costs(outcomes, table), [outcomes[3]])

    def test_a_whole_run_above_its_budget_fails(self):
        outcomes = [suite_run.Outcome(suites.Suite("a/one", []), [], "", 1, cpu) for cpu in (30, 40)]
        self.assertIsNone(verdict.judge_total(outcomes, suites.Row(suites.LANDING, 60, 100)))
        self.assertTrue(verdict.judge_total(outcomes, suites.Row(suites.LANDING, 50, 100)).failed)

    def test_a_suite_that_never_ends_fails(self):
        outcome = self.outcome_of("def test(self): time.sleep(1000)", timeout=2)
        self.assertEqual([name for name, _ in self.failures(outcome)], ["Planted.test", "(time-out)"])

    def test_a_suite_that_runs_nothing_fails(self):
        self.assertEqual([name for name, _ in self.failures(self.outcome_of("pass"))], ["(nothing)"])

    def test_a_suite_that_ends_in_the_middle_fails(self):
        outcome = self.outcome_of("def test(self): os._exit(0)")
        self.assertEqual(self.failures(outcome), [("Planted.test", "it did not end")])


class Retries(unittest.TestCase):
    ROW = verdict.Retry("2026-01-31", "fault/*", "Kill.*", "a race in the test")

    def test_only_until_the_date(self):
        self.assertTrue(verdict.may_retry([self.ROW], "fault/kill", "Kill.test", today="2026-01-31"))
        self.assertFalse(verdict.may_retry([self.ROW], "fault/kill", "Kill.test", today="2026-02-01"))

    def test_only_what_is_listed(self):
        self.assertFalse(verdict.may_retry([self.ROW], "fault/kill", "Other.test", today="2026-01-01"))
        self.assertFalse(verdict.may_retry([self.ROW], "integration/api", "Kill.test", today="2026-01-01"))


class Table(unittest.TestCase):
    def table_of(self, *lines):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            return suites.table(pathlib.Path(file.name))

    def test_each_suite_has_one_row(self):
        rows = self.table_of("a/one\tlanding\t5\t6", "a/two\tlong\t-\t-")
        self.assertEqual(suites.problems(rows, ["a/one", "a/two"]), [])
        self.assertIn("a/three", suites.problems(rows, ["a/one", "a/two", "a/three"])[0])
        self.assertIn("a/two", suites.problems(rows, ["a/one"])[0])
        with self.assertRaisesRegex(ValueError, "a/one is there twice"):
            self.table_of("a/one\tlong\t-\t-", "a/one\tlong\t-\t-")

    def test_the_landing_tier_has_budgets_and_short_suites(self):
        self.assertIn("budget", suites.problems(self.table_of("a/one\tlanding\t-\t6"), ["a/one"])[0])
        self.assertIn("60 s", suites.problems(self.table_of("a/one\tlanding\t5\t60"), ["a/one"])[0])
        self.assertEqual(suites.problems(self.table_of("a/one\tlanding\t5\t60\tan emulated machine boots"), ["a/one"]), [])

    def test_a_bad_line_is_named(self):
        with self.assertRaisesRegex(ValueError, ":2: "):
            self.table_of("a/one\tlong\t-\t-", "a/two\tsometimes\t-\t-")


class Kept(unittest.TestCase):
    """Results of the long tier: what passed is not run again, and a part has passed when all its suites have."""

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.object(results, "FOLDER", folder))

    def keep(self, suite, outcome):
        results.Results("abc").keep(suite_run.Outcome(suite, [suite_run.Case("one", outcome)], "", 1.0, 2.0))

    def test_a_part_passes_suite_by_suite(self):
        both = [suites.Suite(f"user/hostile/{name}", []) for name in ("kernel", "disk")]
        self.keep(both[0], "passed")
        self.assertTrue(results.Results("abc").passed(both[0].name))
        self.assertFalse(results.Results("other").passed(both[0].name))
        self.assertEqual(self.state(both), "unfinished")
        self.keep(both[1], "failed")
        self.assertEqual(self.state(both), "failed")
        self.keep(both[1], "passed")
        self.assertEqual(self.state(both), "passed")

    def state(self, everything):
        lines, complete = results.Results("abc").report(everything)
        self.assertFalse(complete)  # the other parts never ran
        return next(line.split()[1] for line in lines if line.startswith("user "))

    def test_every_suite_has_a_part(self):
        for suite in suites.discover():
            self.assertIn(suite.part, suites.PARTS, suite.name)


class Choosing(unittest.TestCase):
    def test_without_words_it_is_the_landing_tier(self):
        table = suites.table()
        chosen = {suite.name for suite in run.choose(run.parse([]))}
        self.assertEqual(chosen, {name for name, row in table.items() if row.tier == suites.LANDING and name != "total"})

    def test_a_pattern_takes_from_both_tiers(self):
        chosen = {suite.name for suite in run.choose(run.parse(["hostile/kernel"]))}
        self.assertLessEqual({"hostile/kernel", "user/hostile/kernel", "microvm/hostile/kernel"}, chosen)
        self.assertNotIn("asan/hostile/kernel", chosen)

    def test_a_pattern_means_whole_words_where_it_can(self):
        self.assertEqual([suite.name for suite in run.choose(run.parse(["guest"]))], ["guest"])
        self.assertIn("integration/mcp_clients", [suite.name for suite in run.choose(run.parse(["mcp_cl"]))])

    def test_the_long_tier_has_everything(self):
        chosen = {suite.name for suite in run.choose(run.parse(["--long"]))}
        self.assertEqual(chosen, {suite.name for suite in suites.discover()})
        self.assertEqual({suite.part for suite in run.choose(run.parse(["--long", "user", "opa"]))}, {"user", "opa"})


if __name__ == "__main__":
    unittest.main()
