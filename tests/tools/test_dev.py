# SPDX-License-Identifier: Apache-2.0
"""./dev refuses wrong arguments, and answers questions, before it installs, builds or deletes anything."""

import os
import pathlib
import subprocess
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
# Stand-ins for the programs that ./dev starts. Each call is recorded; dpkg-query reports every package as installed.
TOOLS = {"dpkg-query": 'shift 3; printf "installed %s\\n" "$@"', "apt-get": "exit 100", "cmake": "", "ninja": "",
         "clang-format-19": ""}
# {arguments: the words of the refusal}. "{folder}" is an existing one.
WRONG = {
    ("tset",): "no command tset",
    ("run", "nosuch.py"): "no file 'nosuch.py'; run ./dev run FILE",
    ("run", ""): "no file ''",
    ("run", "{folder}"): "no file ",
    ("build", "relaese"): "no preset relaese; the presets are release, quick, asan and tsan",
    ("build", "release", "cloister"): "build release takes nothing else, and got: cloister",
    ("build", "asan", "store_test"): "build asan does not know store_test; name units as in: ./dev build asan --units store_test",
    ("build", "asan", "--units", "store_test", "nosuch_test"): "no unit nosuch_test; a unit is a folder of src/",
    ("build", "tsan", "--units", "../src/store_test"): "no unit ../src/store_test",
    ("package", "x"): "package takes no argument, and got: x; run ./dev package",
    ("package", "--sign", "x"): "--sign is for the container image; run ./dev package oci --sign KEY.pem",
    ("package", "oci", "--sign"): "--sign needs the file of a key; run ./dev package oci --sign KEY.pem",
    ("fmt", "x"): "fmt takes no argument",
    ("lint", "x"): "lint takes no argument",
    ("clean", "release"): "clean takes no argument",
    ("fuzz", "abc"): "fuzz takes a number of seconds, and got: abc; run ./dev fuzz 600",
    ("fuzz", "0"): "fuzz takes a number of seconds",
    ("fuzz", ""): "fuzz takes a number of seconds",
    ("fuzz", "60", "70"): "fuzz takes a number of seconds, and got: 60 70",
    ("bench", "nosuch"): "no benchmark nosuch; there are: agent",
    ("images", "--all"): "--all is no name of a Debian package",
    ("test", "nosuch"): "no suite has 'nosuch' in its name; ./dev test --long --list names them",
    ("test", ""): "PATTERN is empty",
    ("test", "unit/", "--long"): "PATTERN 'unit/' and --long or --report",
    ("test", "unit/", "style/"): "unrecognized arguments: style/",
    ("test", "--long", "nosuch"): "invalid choice: 'nosuch'",
    ("test", "--list", "nosuch"): "no suite has 'nosuch' in its name",
    ("test", "--report", "--list"): "not allowed with argument --report",
    ("test", "--report", "--write-budget", "rows"): "--build and --write-budget are for a run",
    ("test", "style", "--write-budget", "nosuch/rows"): "there is no such folder",
}
COMMANDS = ("run", "build", "package", "bench", "images", "fmt", "lint", "fuzz", "clean")


class Dev(unittest.TestCase):
    """A copy of ./dev in a tree of its own, with the tests of this tree."""

    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-dev."))).resolve()
        (self.root / "dev").write_text((REPO / "dev").read_text())
        for name in ("tests", "src", "bench"):
            (self.root / name).symlink_to(REPO / name)
        self.calls, self.built = self.root / "calls", self.root / "build" / "quick" / "bin"
        for name, body in TOOLS.items():
            self.write(self.root / "bin" / name, f'echo {name} "$@" >>{self.calls}\n{body}')
        self.write(self.built / "cloister", 'echo "ran $*"; head -n 1 "$2"')

    def write(self, path, body):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def dev(self, *arguments, cwd=None, **env):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.run(["bash", self.root / "dev", *arguments], capture_output=True, text=True, timeout=120, cwd=cwd,
                              env={**os.environ, "CI": "", "CLOISTER_BASE": "", "PATH": path, **env})

    def check_untouched(self):
        self.assertFalse(self.calls.exists(), self.calls.exists() and self.calls.read_text())
        self.assertTrue((self.built / "cloister").exists(), "build/ is gone")
        self.assertEqual([path.name for path in (self.root / "build").iterdir()], ["quick"])


class Refused(Dev):
    def test_before_anything_is_changed(self):
        for arguments, words in WRONG.items():
            with self.subTest(arguments):
                done = self.dev(*(word.format(folder=self.root) for word in arguments))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.check_untouched()

    def test_a_command_that_there_is_not_with_the_usage(self):
        done = self.dev("tset")
        self.assertIn("usage: ./dev COMMAND", done.stderr)
        self.assertTrue(done.stderr.endswith("dev: no command tset; the commands are above\n"), done.stderr[-300:])

    def test_a_key_that_cannot_sign(self):
        (self.root / "tools").symlink_to(REPO / "tools")
        for arguments in (("package", "oci", "--sign", "nosuch.pem"), ("images", "oci", "--sign", "nosuch.pem", "bash")):
            with self.subTest(arguments):
                done = self.dev(*arguments, cwd=self.root / "bin")
                self.assertIn(done.returncode, (1, 2))
                self.assertIn(f"--sign: {self.root}/bin/nosuch.pem: reading it: No such file or directory\n", done.stderr)
                self.check_untouched()

    def test_a_language_that_has_no_image(self):
        (self.root / "tools").symlink_to(REPO / "tools")
        done = self.dev("images", "oci", "nosuch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no language nosuch; there are bash", done.stderr)


class Asked(Dev):
    def test_help_after_a_command_is_the_usage(self):
        for command in COMMANDS:
            for flag in ("-h", "--help"):
                with self.subTest(command):
                    done = self.dev(command, flag)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn("usage: ./dev COMMAND", done.stdout)
                    self.check_untouched()
        self.assertIn("usage: ./dev COMMAND", self.dev("build", "asan", "--help").stdout)

    def test_questions_to_the_runner_need_no_build(self):
        for arguments, words in ((["--help"], "--write-budget"), (["style", "--list"], "style/commits\n"),
                                 (["--long", "--list"], "fuzz/json\n"), (["--needs", "unit/base"], "units\n")):
            with self.subTest(arguments):
                done = self.dev("test", *arguments)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(words, done.stdout)
                self.check_untouched()

    def test_the_report_is_printed(self):
        for arguments in (["--report"], ["--long", "--report"], ["--long", "asan", "--report"]):
            with self.subTest(arguments):
                done = self.dev("test", *arguments)
                self.assertRegex(done.stdout, "^(long tier on |no results: )")
                self.check_untouched()


class Run(Dev):
    def test_a_file_is_found_where_the_caller_is(self):
        (self.root / "elsewhere").mkdir()
        (self.root / "elsewhere" / "x.py").write_text("its first line\n")
        done = self.dev("run", "x.py", cwd=self.root / "elsewhere")
        self.assertEqual((done.returncode, done.stdout), (0, "ran run x.py\nits first line\n"), done.stderr)


class Package(Dev):
    def test_the_key_is_found_where_the_caller_is(self):
        (self.root / "tools").mkdir()
        for name, text in (("build_web.py", ""), ("package.py", "print('a.deb')"), ("package_oci.py", "import sys\nprint(*sys.argv[1:])")):
            (self.root / "tools" / name).write_text(text + "\n")
        (self.root / "tools" / "image_signature.py").symlink_to(REPO / "tools" / "image_signature.py")
        (self.root / "tests").unlink()  # of the real one, budget.py would read a build
        (self.root / "tests").mkdir()
        (self.root / "tests" / "budget.py").write_text("")
        (self.root / "build" / "web").mkdir()
        (self.root / "build" / "web" / "index.html").write_text("")
        (self.root / "build" / "release").mkdir()
        (self.root / "elsewhere").mkdir()
        key = self.root / "elsewhere" / "key.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], check=True, capture_output=True)
        for sign, words in (([], ""), (["--sign", "key.pem"], f"--sign {key} ")):
            done = self.dev("package", "oci", *sign, cwd=self.root / "elsewhere")
            self.assertEqual((done.returncode, done.stdout), (0, f"a.deb\n{words}a.deb {self.root}/build/package\n"), done.stderr)


class Ci(Dev):
    """With CI set, a run that would test less does not go on."""

    def prepare(self, image):
        self.write(self.root / "tools" / "microvm_image.py", "")
        (self.root / "tools" / "microvm_image.py").write_text(f"import sys\nsys.exit({image})\n")
        (self.root / "tests").unlink()
        runner = "import sys\nprint('microvm' if '--needs' in sys.argv else 'the suites ran')\n"
        (self.root / "tests").mkdir()
        for name, text in (("run.py", runner), ("budget.py", "")):
            (self.root / "tests" / name).write_text(text)

    def test_without_an_image_for_microvm(self):
        self.prepare(image=1)
        done = self.dev("test", CI="1")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("no image (see build/microvm.log): CI does not go on without microvm", done.stderr)
        done = self.dev("test")
        self.assertEqual((done.returncode, done.stdout), (0, "the suites ran\n"), done.stderr)
        self.assertIn("no image (see build/microvm.log): without microvm", done.stderr)

    def test_with_everything(self):
        self.prepare(image=0)
        done = self.dev("test", CI="1")
        self.assertEqual((done.returncode, done.stdout), (0, "the suites ran\n"), done.stderr)

    def test_ci_is_set_by_what_it_runs(self):
        (self.root / ".ci").mkdir()
        self.write(self.root / "dev", 'echo "CI=$CI: dev $*"')
        (self.root / ".ci" / "run").write_text((REPO / ".ci" / "run").read_text())
        done = subprocess.run(["bash", self.root / ".ci" / "run"], capture_output=True, text=True,
                              env={name: value for name, value in os.environ.items() if name != "CI"})
        self.assertEqual(done.stdout, "CI=1: dev test\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
