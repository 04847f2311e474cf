# SPDX-License-Identifier: Apache-2.0
"""A fuzzer's finding of any kind is always reported, and its input kept: shown with a target full of defects."""

import base64
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
FUZZING = REPO / "tests" / "fuzzing.py"
SOURCE = REPO / "tests" / "data" / "planted_fuzz.cc"
sys.path.insert(0, str(FUZZING.parent))
import fuzzing  # noqa: E402

# The words of its defects, with the expected report of each.
DEFECTS = {
    "abort": "deadly signal",
    "grow": "out-of-memory|hard rss limit exhausted",
    "huge": "out-of-memory",
    "leak": "detected memory leaks",
    "loop": "timeout after",
    "stale": "heap-use-after-free",
}


class Fuzzing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-fuzz.")))
        cls.program = cls.folder / "fuzz_planted"
        subprocess.run(["clang++-19", "-std=c++23", "-O1", "-c", "-fsanitize=address", SOURCE, "-o", cls.folder / "planted.o"],
                       check=True)
        subprocess.run(["clang++-19", "-fsanitize=address,fuzzer", cls.folder / "planted.o", "-o", cls.program], check=True)

    def run_on(self, word, *mode):
        """The target over a corpus of this single input → the ended processes."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "kept").mkdir()
        (folder / "kept" / "input").write_text(word)
        return subprocess.run([sys.executable, FUZZING, self.program, *mode, "--found", folder, "--corpus", folder / "kept"],
                              capture_output=True, text=True, timeout=120)

    def check_found(self, done, word, said):
        self.assertEqual(done.returncode, 1, done.stderr[-3000:])
        self.assertRegex(done.stderr, said)
        path, size, text = re.search(r"\n  (/\S+) \((\d+) bytes\)\n    base64: (\S+)\n", done.stderr).groups()
        self.assertEqual((pathlib.Path(path).read_text(), int(size)), (word, len(word)))
        self.assertEqual(base64.b64decode(text).decode(), word)

    def test_each_kind_of_finding(self):
        for word, said in DEFECTS.items():
            with self.subTest(word):
                limit = ["--timeout", "1"] if word == "loop" else []
                self.check_found(self.run_on(word, "--replay", *limit), word, said)

    def test_a_timed_run_finds_it_as_well(self):
        self.check_found(self.run_on("abort", "--seconds", "30"), "abort", "deadly signal")

    def test_a_target_that_is_killed_has_failed(self):
        done = self.run_on("kill", "--replay")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"killed by signal 9\n  no new input was kept.*\n +\S*fuzz_planted -seed=\d+ ")

    def test_no_finding(self):
        for mode in (["--replay"], ["--seconds", "1"]):
            with self.subTest(mode):
                done = self.run_on("harmless", *mode)
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_command_lines(self):
        names = sorted(path.stem for path in (REPO / "fuzz").glob("*.cc"))
        found = fuzzing.commands(self.folder, REPO, 10 * len(names), replay=False)
        self.assertEqual([name for name, _, _ in found], names)
        for name, command, limit in found:
            program, *rest = command[2:]
            self.assertEqual(program, str(self.folder / "bin" / f"fuzz_{name}"))
            self.assertEqual(rest[:2], ["--seconds", "10"])
            self.assertEqual(rest[-2:], ["--corpus", str(REPO / "fuzz" / "corpus" / name)])
            self.assertGreater(limit, 10)
        for _, command, _ in fuzzing.commands(self.folder, REPO, 600, replay=True):
            self.assertIn("--replay", command)
            self.assertNotIn("--seconds", command)


if __name__ == "__main__":
    unittest.main()
