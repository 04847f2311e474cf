# SPDX-License-Identifier: Apache-2.0
"""tests/worker.py: the reported outcome for each kind of case."""
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

WORKER = pathlib.Path(__file__).resolve().parents[1] / "worker.py"


class Worker(unittest.TestCase):
    def run_file(self, text):
        """Runs these cases → {last word of the case's name: (outcome, detail)}."""
        with tempfile.TemporaryDirectory() as folder:
            path, report = pathlib.Path(folder) / "test_made.py", pathlib.Path(folder) / "report"
            path.write_text("import os, subprocess, threading, time, unittest\n" + textwrap.dedent(text))
            done = subprocess.run([sys.executable, str(WORKER), str(path), str(report)], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            cases = [json.loads(line) for line in report.read_text().splitlines()]
        return {case["name"].split(".")[-1]: (case["outcome"], case["detail"])
                for case in cases if case["outcome"] != "started"}

    def outcomes(self, text):
        return {name: outcome for name, (outcome, _) in self.run_file(text).items()}

    def test_outcomes(self):
        cases = self.run_file("""
            class Cases(unittest.TestCase):
                def test_passes(self): self.assertTrue(True)
                def test_fails(self): self.assertEqual(1, 2)
                def test_breaks(self): raise OSError("broken")
                def test_skips(self): self.skipTest("no moon")
                def test_parts(self):
                    with self.subTest("one"): self.fail("of two")
                    with self.subTest("two"): pass
                def test_threads(self):
                    each = threading.Thread(target=lambda: None)
                    each.start()
                    each.join()
        """)
        self.assertEqual({name: outcome for name, (outcome, _) in cases.items()},
                         {"test_passes": "passed", "test_fails": "failed", "test_breaks": "failed", "test_skips": "skipped",
                          "test_parts": "failed", "test_threads": "passed"})
        self.assertIn("OSError: broken", cases["test_breaks"][1])
        self.assertEqual(cases["test_skips"][1], "no moon")

    def test_a_thread_that_dies_fails_its_test(self):
        cases = self.run_file("""
            def dies(): raise KeyError("half the load")
            class Cases(unittest.TestCase):
                def test_a_dies(self):
                    each = threading.Thread(target=dies, name="client 7")
                    each.start()
                    each.join()
                def test_b_is_fine(self): pass
        """)
        self.assertEqual(cases["test_b_is_fine"], ("passed", ""))
        outcome, detail = cases["test_a_dies"]
        self.assertEqual(outcome, "failed")
        for word in ("client 7", "half the load", "in dies"):
            self.assertIn(word, detail)

    def test_a_thread_that_dies_later_fails_what_runs_then(self):
        self.assertEqual(self.outcomes("""
            go = threading.Event()
            def dies():
                go.wait()
                raise ValueError("late")
            thread = threading.Thread(target=dies)
            class Cases(unittest.TestCase):
                def test_a_starts(self): thread.start()
                def test_b_runs(self):
                    go.set()
                    thread.join()
        """), {"test_a_starts": "passed", "test_b_runs": "failed"})

    def test_a_thread_that_dies_after_the_last_test_fails_the_suite(self):
        self.assertEqual(self.outcomes("""
            def dies():
                threading.main_thread().join()
                raise ValueError("last")
            class Cases(unittest.TestCase):
                def test_starts(self): threading.Thread(target=dies, name="late").start()
        """), {"test_starts": "passed", "(thread late died)": "failed"})

    def test_an_exception_that_cannot_be_raised_fails_its_test(self):
        self.assertEqual(self.outcomes("""
            class Broken:
                def __del__(self): raise ValueError("lost")
            class Cases(unittest.TestCase):
                def test_loses(self): Broken()
                def test_other(self): pass
        """), {"test_loses": "failed", "test_other": "passed"})

    def test_nothing_outlives_the_worker(self):
        with tempfile.NamedTemporaryFile() as lock:
            self.run_file(f"""
                class Cases(unittest.TestCase):
                    def test_leaves(self): subprocess.Popen(["flock", {lock.name!r}, "sleep", "60"], start_new_session=True)
            """)
            self.assertEqual(subprocess.run(["flock", "-w", "10", lock.name, "true"], check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
