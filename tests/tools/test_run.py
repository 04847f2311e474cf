# SPDX-License-Identifier: Apache-2.0
"""The test runner's verdict on a suite: failures, kept results, and the rules of its table."""

import contextlib
import io
import os
import pathlib
import subprocess
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

# In a stand-in for ./dev: the times of compiling a unit.
COMPILED = """cd "$(dirname "$0")"
echo "$@" >arguments
printf 'CMakeFiles/x_test.dir/src/x/x_test.cc.o\\t0m{seconds}s 0m0.0s\\n' >asan/cpu_seconds.tsv"""
EVERYTHING = [verdict.Skip("no such machine *", "some machines lack it")]


class Planted(unittest.TestCase):
    """A generated suite runs as every suite does."""

    def planted(self, body, **options):
        # Not in /tmp, which the suite has for itself.
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=suite_run.work_folder())))
        path = folder / "test_planted.py"
        path.write_text("import os, subprocess, sys, threading, time, unittest\n"
                        f"SECOND = {str(folder / 'second')!r}\nclass Planted(unittest.TestCase):\n"
                        + textwrap.indent(textwrap.dedent(body), "    "))
        return suites.Suite("tools/planted", [suites.PYTHON, str(TESTS / "worker.py"), str(path), "REPORT"], **options)

    def outcome_of(self, body, **options):
        return suite_run.run(self.planted(body, **options), jailed=True, counts=False)


class Judging(Planted):
    """The verdict of a single run on a suite."""

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

    def test_a_suite_without_a_jail_is_measured_with_its_children(self):
        outcome = self.outcome_of("""
            def test(self): subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 1: pass"])
        """, jailed=False)
        self.assertEqual(self.failures(outcome), [])
        self.assertGreater(outcome.cpu, 1)
        outcome.cpu += 2  # the slack
        self.assertEqual(verdict.judge_costs([outcome], {outcome.suite.name: suites.Row(suites.LANDING, 0.5, 100)}), [outcome])
        self.assertTrue(verdict.judge_total([outcome], 1, suites.Row(suites.LANDING, 0.5, 100)).failed)

    def test_a_suite_far_above_its_wall_time_fails(self):
        def judged(wall, budget, others=0):
            slow = suite_run.Outcome(suites.Suite("a/slow", []), [], "", wall, 1.0)
            rest = [suite_run.Outcome(suites.Suite(f"a/{n}", []), [], "", 36.0, 1.0) for n in range(others)]
            table = {outcome.suite.name: suites.Row(suites.LANDING, 10, 20) for outcome in rest}
            failed = verdict.judge_costs([slow, *rest], {"a/slow": suites.Row(suites.LANDING, 10, budget), **table})
            return [case.detail for outcome in failed for case in outcome.cases]

        self.assertEqual(judged(44, 1), [])  # too short to be judged
        self.assertEqual(judged(89, 20), [])
        self.assertIn("91 s, and 20 s of wall time are its budget", judged(91, 20)[0])
        self.assertEqual(judged(107, 20, others=8), [])  # at a pace of 1.8
        self.assertEqual(len(judged(109, 20, others=8)), 1)

    def test_a_slow_machine_fails_no_suite(self):
        outcomes = [suite_run.Outcome(suites.Suite(f"a/{n}", []), [], "", 1, 18.0) for n in range(10)]
        table = {outcome.suite.name: suites.Row(suites.LANDING, 10, 10) for outcome in outcomes}
        self.assertEqual(verdict.judge_costs(outcomes, table), [])
        outcomes[3].cpu = 30.0
        self.assertEqual(verdict.judge_costs(outcomes, table), [outcomes[3]])

    def test_many_suites_above_their_budgets_are_the_machine(self):
        def judged(count, above):
            outcomes = [suite_run.Outcome(suites.Suite(f"a/{n}", []), [], "", 1, 30.0 if n < above else 9.0) for n in range(count)]
            table = {outcome.suite.name: suites.Row(suites.LANDING, 10, 10) for outcome in outcomes}
            return len(verdict.judge_costs(outcomes, table))

        self.assertEqual(judged(100, 10), 10)
        self.assertEqual(judged(100, 11), 0)
        self.assertEqual(judged(79, 11), 11)  # too few to tell

    def test_a_whole_run_above_its_budget_fails(self):
        outcomes = [suite_run.Outcome(suites.Suite("a/one", []), [], "", 1, cpu) for cpu in (30, 40)]
        self.assertIsNone(verdict.judge_total(outcomes, 299, suites.Row(suites.LANDING, 60, 100)))
        self.assertTrue(verdict.judge_total(outcomes, 299, suites.Row(suites.LANDING, 50, 100)).failed)
        self.assertTrue(verdict.judge_total(outcomes, 301, suites.Row(suites.LANDING, 60, 100)).failed)

    def test_a_suite_that_never_ends_fails(self):
        outcome = self.outcome_of("def test(self): time.sleep(1000)", timeout=2)
        self.assertEqual([name for name, _ in self.failures(outcome)], ["Planted.test", "(time-out)"])

    def test_a_suite_that_runs_nothing_fails(self):
        self.assertEqual([name for name, _ in self.failures(self.outcome_of("pass"))], ["(nothing)"])

    def test_a_suite_that_ends_in_the_middle_fails(self):
        outcome = self.outcome_of("def test(self): os._exit(0)")
        self.assertEqual(self.failures(outcome), [("Planted.test", "it did not end")])

    def test_only_the_release_build_has_the_full_counts(self):
        body = "def test(self): self.assertEqual(os.environ['CLOISTER_LONG'], '1')"
        for preset, failed in (("release", []), ("asan", ["Planted.test"]), ("tsan", ["Planted.test"])):
            outcome = suite_run.run(self.planted(body, preset=preset), jailed=True, counts=True)
            self.assertEqual([name for name, _ in self.failures(outcome)], failed, preset)


class Built(unittest.TestCase):
    """A preset built beside the suites, by a `./dev` that writes compile times."""

    def run_after(self, dev):
        """(whether the run is green, its output)."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=suite_run.work_folder())))
        (folder / "dev").write_text(f"#!/bin/sh\nmkdir -p {folder}/asan\n{dev}\n")
        (folder / "dev").chmod(0o755)
        self.folder = folder
        for name in ("REPO", "BUILD"):
            self.enterContext(unittest.mock.patch.object(suites, name, folder))
        program = folder / "x_test"
        program.write_text("#!/bin/sh\necho '<testsuite><testcase classname=\"X\" name=\"ran\"/></testsuite>' >$1\n")
        program.chmod(0o755)
        suite = suites.Suite("asan/unit/x", [str(program), "REPORT"], "gtest", "asan", jailed=False)
        this = run.Run([suite], False, run.Builder(["asan"], [suite]), lambda outcome: None)
        output = self.enterContext(contextlib.redirect_stdout(io.StringIO()))
        this.all()
        return this.printer.summary(this.table), output.getvalue()

    def test_a_build_within_its_budget_passes(self):
        green, output = self.run_after(COMPILED.format(seconds=5))
        self.assertTrue(green, output)
        self.assertIn("1 passed, 0 failed", output)

    def test_a_build_above_its_budget_fails_the_run_and_its_suites_run(self):
        green, output = self.run_after(COMPILED.format(seconds=55))
        self.assertFalse(green, output)
        self.assertIn("asan x_test/src/x/x_test.cc: 55.0 CPU-seconds", output)
        self.assertIn("1 passed, 1 failed", output)
        self.assertEqual((self.folder / "arguments").read_text().split(), ["build", "asan", "--units", "x_test"])

    def test_a_build_that_fails_fails_the_run(self):
        green, output = self.run_after("exit 1")
        self.assertFalse(green, output)
        self.assertIn("0 passed, 1 failed", output)


class Again(Planted):
    """A failed suite runs again, which only excuses cases that pass then and have a row."""

    def green(self, body, retry="tools/planted\t*"):
        """Whether a run of this suite alone is green. `retry`: SUITE TAB CASE of the list."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, row in (("RETRIES", f"2999-12-31\t{retry}\ta race"), ("SKIPS", "no such machine *\tsome machines lack it")):
            (folder / name).write_text(row + "\n")
            self.enterContext(unittest.mock.patch.object(verdict, name, folder / name))
        this = run.Run([self.planted(body, jailed=False)], False, run.Builder([], []), lambda outcome: None)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            this.all()
            green = this.printer.summary(this.table)
        self.output = output.getvalue()
        self.assertIn("again: tools/planted", self.output)
        return green

    FAILS_FIRST = """
        def test(self):
            first = not os.path.exists(SECOND)
            open(SECOND, "w").close()
            self.assertFalse(first)
        def test_other(self): pass
    """

    def test_a_race_that_is_listed_passes_and_is_named(self):
        self.assertTrue(self.green(self.FAILS_FIRST), self.output)
        self.assertIn("2 passed, 0 failed", self.output)
        self.assertIn("Passed when run again, alone:\n  tools/planted Planted.test\n", self.output)

    def test_a_race_that_is_not_listed_fails(self):
        self.assertFalse(self.green(self.FAILS_FIRST, retry="tools/planted\tPlanted.test_other"))
        self.assertIn("Passed when run again, alone:\n  tools/planted Planted.test\n", self.output)

    def test_a_row_for_every_case_of_every_suite_excuses_none(self):
        self.assertFalse(self.green(self.FAILS_FIRST, retry="*\t*"), self.output)

    def test_a_skip_that_nothing_allows_fails_however_often_it_runs(self):
        self.assertFalse(self.green("""
            def test(self): self.skipTest("today no such machine here")
            def test_other(self): pass
        """), self.output)
        self.assertIn("1 passed, 1 failed, 0 skipped", self.output)

    def test_a_skip_that_nothing_allows_fails_the_second_run(self):
        self.assertFalse(self.green("""
            def test_a(self):
                if os.path.exists(SECOND): self.skipTest("today no such machine here")
            def test_b(self):
                first = not os.path.exists(SECOND)
                open(SECOND, "w").close()
                self.assertFalse(first)
        """), self.output)
        self.assertIn("again: tools/planted Planted.test_a\nskipped, and tests/skips.txt allows no such reason", self.output)

    def test_a_thread_that_dies_each_time_fails(self):
        self.assertFalse(self.green("""
            def test(self):
                thread = threading.Thread(target=lambda: 1 / 0)
                thread.start()
                thread.join()
            def test_other(self): pass
        """), self.output)

    def test_a_case_that_is_skipped_the_second_time_has_not_passed(self):
        self.assertFalse(self.green("""
            def test(self):
                if os.path.exists(SECOND): self.skipTest("no such machine any more")
                open(SECOND, "w").close()
                self.fail("the first time")
            def test_other(self): pass
        """), self.output)
        self.assertNotIn("Passed when run again", self.output)

    def test_an_exit_that_does_not_come_again_passes(self):
        self.assertTrue(self.green("""
            def test(self):
                if os.path.exists(SECOND): return
                open(SECOND, "w").close()
                threading.excepthook = None
            @classmethod
            def tearDownClass(cls):
                if threading.excepthook is None: os._exit(3)
        """), self.output)


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
    """Results of the long tier: passed suites are not run again, and a part has passed when all its suites have."""

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

    def test_a_part_whose_cases_were_all_skipped_has_not_passed(self):
        both = [suites.Suite(f"user/hostile/{name}", []) for name in ("kernel", "disk")]
        self.keep(both[0], "skipped")
        self.assertFalse(results.Results("abc").passed(both[0].name))
        self.assertEqual(self.state(both), "unfinished")
        self.keep(both[1], "skipped")
        self.assertEqual(self.state(both), "skipped")
        lines, complete = results.Results("abc").report(both, ["user"])
        self.assertFalse(complete)
        self.assertIn("          skipped whole: user/hostile/disk", lines)
        self.keep(both[1], "passed")
        self.assertEqual(self.state(both), "passed")
        self.assertTrue(results.Results("abc").report(both, ["user"])[1])

    def test_the_status_of_the_report(self):
        suite = suites.Suite("user/hostile/kernel", [])
        self.enterContext(unittest.mock.patch.object(results, "commit", return_value=("abc", "")))
        self.enterContext(unittest.mock.patch.object(suites, "discover", return_value=[suite]))
        for outcome, status in (("skipped", 1), ("failed", 1), ("passed", 0)):
            self.keep(suite, outcome)
            for arguments in (["--report", "user"], ["--long", "user", "--report"]):
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    self.assertEqual(run.act(run.parse(arguments)), status)
                self.assertRegex(output.getvalue(), rf"\nuser +{outcome} ")
                self.assertNotIn("asan", output.getvalue())
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(run.act(run.parse(["--report"])), 1)  # the other parts never ran
        self.assertIn("\nasan ", output.getvalue())

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

    def test_a_pattern_that_no_suite_has_is_refused_and_the_list_is_named(self):
        for arguments in (["nosuch"], ["--list", "nosuch"], ["--needs", "nosuch"]):
            with self.assertRaisesRegex(run.Refused, "no suite has 'nosuch' in its name; ./dev test --long --list names them"):
                run.act(run.parse(arguments))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            run.act(run.parse(["--long", "--list"]))
        self.assertEqual(set(output.getvalue().split()), {suite.name for suite in suites.discover()})

    def test_arguments_that_would_have_no_effect_are_refused(self):
        for arguments in (["unit/", "--long"], ["unit/", "--report"], [""], ["--list", "--report"], ["--rep"], ["a", "b"],
                          ["--list", "--build", "asan"], ["--report", "nosuch"], ["--write-budget", "/nosuch/rows"]):
            with self.subTest(arguments), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as refused:
                run.parse(arguments)
            self.assertEqual(refused.exception.code, 2)


class NotBuilt(unittest.TestCase):
    """In a tree that was never built, the runner reports so, and starts no suite."""

    def run_py(self, *arguments):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        return subprocess.run([sys.executable, TESTS / "run.py", *arguments], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "CLOISTER_BUILD": folder, "CI": "1"}), folder

    def test_the_build_is_named_in_one_line(self):
        for arguments, program, command in ((["integration/policy"], "release/bin/cloister", "./dev build"),
                                            (["unit/base"], "release/bin/base_test", "./dev test unit/base"),
                                            (["asan/unit/base"], "asan/bin/base_test", "./dev build asan"),
                                            (["replay/json"], "asan/bin/fuzz_json", "./dev build asan"),
                                            (["tools/package"], "release/bin/cloister", "./dev build")):
            with self.subTest(arguments):
                done, folder = self.run_py(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr, f"run.py: {folder}/{program} is not built: run {command}\n")

    def test_the_landing_tier(self):
        done, _ = self.run_py()
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^run.py: \S+ is not built: run ./dev build\n$")

    def test_a_suite_of_the_tree_alone_runs(self):
        done, _ = self.run_py("style/layers")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main()
