# SPDX-License-Identifier: Apache-2.0
"""A developer's landing tier has the sanitized units that a change can affect, and no others (tests/affected.py)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import affected  # noqa: E402
import run  # noqa: E402
import suites  # noqa: E402

LAYERS = """# lowest first
base:
model: base
store: base model
runner: base
sandbox: base
auth: base store
api: base auth
"""
UNITS = ("api", "auth", "base", "model", "runner", "sandbox", "store")
OTHERS = [suites.Suite("integration/api", ["worker.py"]), suites.Suite("asan/integration/api", ["worker.py"], preset="asan"),
          suites.Suite("replay/json", ["fuzz_json"], "fuzz", "asan")]
SUITES = [*OTHERS, *(suites.Suite(f"asan/unit/{name}", [f"/build/{name}_test"], "gtest", "asan") for name in UNITS)]


class Clone(unittest.TestCase):
    """A git repository with a commit with the tag v1."""

    def setUp(self):
        self.repo = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.dict(os.environ))
        for name in ("CI", affected.VARIABLE):
            os.environ.pop(name, None)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("src/layers.txt", LAYERS)
        for name in UNITS:
            self.write(f"src/{name}/{name}.cc", "// one\n")
            self.write(f"src/{name}/{name}_test.cc", "// two\n")
        self.write("src/auth/auth_test.cc", 'readFile(std::string(CLOISTER_SOURCE_DIR) + "/docs/IDENTITY.md");\n')
        self.write("docs/IDENTITY.md", "who\n")
        self.write("docs/OTHER.md", "what\n")
        self.write("cmake/unity.cmake", "# batches\n")
        self.commit()
        self.git("tag", "v1")

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.repo), *arguments], check=True,
                       capture_output=True)

    def write(self, path, text):
        file = self.repo / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")

    def units(self):
        """The remaining units; suites other than sanitized units always remain."""
        left, self.line = affected.narrow(SUITES, self.repo)
        self.assertEqual(left[:len(OTHERS)], OTHERS)
        return [suite.unit for suite in left if suite.unit]


class Chosen(Clone):
    def test_a_folder_that_changed_and_those_above_it(self):
        self.write("src/store/store.cc", "// changed\n")
        self.commit()
        self.assertEqual(self.units(), ["api", "auth", "store"])  # api may include store through auth alone
        self.assertEqual(self.line, "asan units left out: base, model, runner, sandbox; no change since the tag v1 affects "
                                    "them")

    def test_files_that_are_not_committed_or_new_or_moved_away(self):
        self.write("src/auth/auth.cc", "// changed\n")
        self.assertEqual(self.units(), ["api", "auth"])
        self.write("src/sandbox/new.cc", "// new\n")
        self.assertEqual(self.units(), ["api", "auth", "sandbox"])
        self.git("mv", "src/runner/runner.cc", "src/api/runner.cc")
        self.assertIn("runner", self.units())

    def test_the_base_of_the_variable_goes_before_the_tag(self):
        self.write("src/base/base.cc", "// changed\n")
        self.commit()
        self.assertEqual(self.units(), list(UNITS))
        os.environ[affected.VARIABLE] = "HEAD"
        self.write("src/api/api.cc", "// changed\n")
        self.assertEqual(self.units(), ["api"])
        self.assertIn("CLOISTER_BASE=HEAD", self.line)

    def test_units_that_run_programs(self):
        self.write("src/runner/runner.cc", "// changed\n")
        self.assertEqual(self.units(), ["runner", "sandbox"])

    def test_documents_affect_only_the_units_that_read_them(self):
        self.write("docs/OTHER.md", "changed\n")
        self.assertEqual(self.units(), [])
        self.write("docs/IDENTITY.md", "changed\n")
        self.assertEqual(self.units(), ["api", "auth"])

    def test_any_other_file_affects_all(self):
        self.write("cmake/unity.cmake", "# changed\n")
        self.assertEqual(self.units(), list(UNITS))
        self.assertEqual(self.line, "asan units of all folders: cmake/unity.cmake changed since the tag v1")

    def test_without_a_base_all(self):
        self.git("tag", "--delete", "v1")
        self.assertEqual(self.units(), list(UNITS))
        self.assertIn("CLOISTER_BASE is not set, and there is no tag", self.line)

    def test_ci_builds_all(self):
        os.environ.update({"CI": "true", affected.VARIABLE: "HEAD"})
        self.assertEqual(self.units(), list(UNITS))
        self.assertIn("CI builds all", self.line)


class Refused(Clone):
    def test_a_base_that_is_no_commit(self):
        for name in ("nonsense", "0" * 40, "--help", "HEAD:docs"):
            os.environ[affected.VARIABLE] = name
            with self.assertRaisesRegex(affected.BadBase, f"CLOISTER_BASE={name}: this clone has no such commit; set it to"):
                self.units()

    def test_before_anything_is_built(self):
        os.environ[affected.VARIABLE] = "nonsense"
        for arguments in (["--needs"], []):
            done = subprocess.run([sys.executable, str(TESTS / "run.py"), *arguments], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("CLOISTER_BASE=nonsense: this clone has no such commit", done.stderr)


class Run(Clone):
    """The runner builds and runs the remaining units."""

    def test_the_landing_tier_alone_is_narrowed(self):
        seen = self.enterContext(unittest.mock.patch.object(affected, "narrow", side_effect=lambda chosen: (chosen[:1], "")))
        run.needs(run.parse([]))
        self.assertEqual(seen.call_count, 1)
        for arguments in (["asan/unit/store"], ["--long", "asan"]):
            run.needs(run.parse(arguments))
        self.assertEqual(seen.call_count, 1)

    def test_only_the_units_of_the_run_are_built(self):
        self.write("src/auth/auth.cc", "// changed\n")
        left, _ = affected.narrow(SUITES, self.repo)
        self.assertEqual(run.units(left, "asan"), ["api_test", "auth_test"])
        self.assertEqual(run.units(left, "tsan"), [])

    def test_dev_builds_the_units_that_it_is_asked_for(self):
        for arguments, wanted in (([], {"api_test", "store_test"}), (["--units", "api_test"], {"api_test"}), (["--units"], set())):
            with self.subTest(arguments):
                self.assertEqual({name for name in self.built(arguments) if name.endswith("_test")}, wanted)
                self.assertLessEqual({"cloisterd", "fuzz_json"}, self.built(arguments))

    def built(self, arguments):
        """The targets that `./dev build asan` gives to ninja, in a tree with everything installed."""
        tools = {"dpkg-query": 'shift 3; printf "installed %s\\n" "$@"', "cmake": "exit 0",
                 "ninja": 'if [ "$3" = -t ]; then printf "%s: phony\\n" api_test store_test fuzz_json; else echo "$@" >&2; fi'}
        for name, body in tools.items():
            self.write(f"tools/{name}", f"#!/bin/sh\n{body}\n")
            (self.repo / "tools" / name).chmod(0o755)
        self.write("dev", (TESTS.parent / "dev").read_text())
        done = subprocess.run(["bash", str(self.repo / "dev"), "build", "asan", *arguments], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.repo}/tools:{os.environ['PATH']}"})
        return set((self.repo / "build" / "asan" / "build.log").read_text().split() if done.returncode == 0 else [done.stderr])


if __name__ == "__main__":
    unittest.main()
