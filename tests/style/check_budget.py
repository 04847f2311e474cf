# SPDX-License-Identifier: Apache-2.0
"""The budget of compiling holds: its file is in order, and a unit above its budget fails (tests/budget.py)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "tests"))
import budget  # noqa: E402

UNITS = {f"cloister_x/unity/x.{i}.cc": 10.0 for i in range(budget.FEW)}


def rows(**more):
    return [budget.Row("release", unit, seconds) for unit, seconds in {**UNITS, **more}.items()]


class File(unittest.TestCase):
    def test_large_units_have_reasons(self):
        self.assertEqual(budget.unreasoned(budget.read_rows()), [])

    def test_is_sorted_and_without_doubles(self):
        keys = [(row.preset, row.unit) for row in budget.read_rows()]
        self.assertEqual(keys, sorted(set(keys)))


class Judged(unittest.TestCase):
    def judge(self, **changed):
        return budget.judge("release", {**UNITS, **changed}, rows())

    def test_what_is_within_it_passes(self):
        self.assertEqual(self.judge(**{"cloister_x/unity/x.0.cc": 13.9}), [])

    def test_a_unit_above_it_fails(self):
        found = self.judge(**{"cloister_x/unity/x.0.cc": 14.1})
        self.assertEqual(len(found), 1)
        self.assertIn("cloister_x/unity/x.0.cc: 14.1 CPU-seconds", found[0])

    def test_a_slow_machine_is_no_failure_and_hides_none(self):
        slow = {unit: 1.5 * seconds for unit, seconds in UNITS.items()}
        self.assertEqual(budget.judge("release", slow, rows()), [])
        slow["cloister_x/unity/x.3.cc"] = 21.0
        self.assertEqual(len(budget.judge("release", slow, rows())), 1)

    def test_a_unit_that_is_not_listed_fails_unless_it_is_small(self):
        self.assertIn("not in", self.judge(**{"cloister_x/src/x/new.cc": 12.1})[0])
        self.assertEqual(self.judge(**{"cloister_x/src/x/new.cc": 11.9}), [])

    def test_a_large_unit_needs_a_reason(self):
        alone = budget.Row("release", "cloister_x/src/x/large.cc", 12.5)
        batch = budget.Row("release", "cloister_x/unity/x.large.cc", 39.0)
        self.assertEqual(len(budget.unreasoned([alone, batch])), 1)
        self.assertEqual(budget.unreasoned([budget.Row("release", alone.unit, 12.5, "one template")]), [])


class Named(unittest.TestCase):
    def test_units_by_their_objects(self):
        self.assertEqual(budget.unit_of("CMakeFiles/cloister_cli.dir/src/cli/api.cc.o"), "cloister_cli/src/cli/api.cc")
        for place in ("build/unity/", "__/unity/", "/a/build/unity/"):
            name = budget.unit_of(f"CMakeFiles/cloister_cli.dir/{place}cli.api.cc.o")
            self.assertEqual(name, "cloister_cli/unity/cli.api.cc")
            self.assertTrue(budget.is_batch(name))
        self.assertEqual(budget.unit_of("fuzz/CMakeFiles/fuzz_json.dir/json.cc.o"), "fuzz_json/json.cc")
        self.assertEqual(budget.unit_of("fuzz/CMakeFiles/fuzz_files.dir/__/src/api/http/http.cc.o"),
                         "fuzz_files/src/api/http/http.cc")


class Measured(unittest.TestCase):
    """From the compiler's launcher to the exit code."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.build = pathlib.Path(held.name)
        (self.build / "release").mkdir()
        (self.build / "release" / "build.ninja").write_text("")
        self.rows = self.build / "compile.tsv"

    def compile(self, script, *more):
        launcher = tree.REPO / "cmake" / "measured.sh"
        return subprocess.run([launcher, "sh", "-c", script, "-o", "CMakeFiles/cloister_x.dir/src/x/one.cc.o", *more],
                              cwd=self.build / "release").returncode

    def verdict(self):
        env = {**os.environ, "CLOISTER_BUILD": str(self.build), "CLOISTER_COMPILE_BUDGET": str(self.rows)}
        return subprocess.run([sys.executable, tree.REPO / "tests" / "budget.py", "compile", "release"], env=env,
                              capture_output=True, text=True)

    def test_cpu_time_of_a_compile_is_recorded_and_judged(self):
        self.assertEqual(self.compile("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"), 0)
        taken = budget.measured("release", self.build)
        self.assertEqual(list(taken), ["cloister_x/src/x/one.cc"])
        self.assertGreater(taken["cloister_x/src/x/one.cc"], 0)
        budget.write_rows([budget.Row("release", "cloister_x/src/x/one.cc", 1.0)], self.rows)
        self.assertEqual(self.verdict().returncode, 0)
        (self.build / "release" / "cpu_seconds.tsv").write_text(
            "CMakeFiles/cloister_x.dir/src/x/one.cc.o\t1m0.500000s 0m0.500000s\n")
        verdict = self.verdict()
        self.assertEqual(verdict.returncode, 1)
        self.assertIn("cloister_x/src/x/one.cc: 61.0 CPU-seconds", verdict.stderr)
        self.assertIn("61.0 of    1.0", verdict.stdout)

    def test_a_failed_compile_fails_and_is_not_recorded(self):
        self.assertEqual(self.compile("exit 3"), 3)
        self.assertEqual(budget.measured("release", self.build), {})


if __name__ == "__main__":
    unittest.main()
