# SPDX-License-Identifier: Apache-2.0
"""The official conformance suite of MCP against `cloister serve --mcp-conformance-fixtures`: both sets
of requirements, and the scenarios beyond them, with no list of expected failures."""

import collections
import json
import pathlib
import re
import tempfile
import unittest

import harness
import mcp_npm

MODERN, LEGACY = "2026-07-28", "2025-11-25"
# Scenarios outside of the requirements' scores: (scenario, version).
BEYOND = (
    ("http-header-validation", MODERN),
    ("http-custom-header-server-validation", MODERN),
    ("json-schema-2020-12", MODERN),
    ("json-schema-2020-12", LEGACY),
    ("server-session-lifecycle", LEGACY),
    ("server-sse-polling", LEGACY),
)
OUTPUT = re.compile(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z")  # the directory of a scenario's checks
SCENARIOS = {LEGACY: 30, MODERN: 37}  # scored scenarios


def setUpModule():
    Conformance.npm = mcp_npm.need()
    Conformance.server = harness.Server(args=["--mcp-conformance-fixtures"])
    unittest.enterModuleContext(Conformance.server)


class Conformance(unittest.TestCase):
    npm = server = None

    def suite(self, *options):
        """Runs the suite → ({scenario: its checks}, CompletedProcess)."""
        out = self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-conformance."))
        done = self.npm.run(self.npm.conformance, "server", "--url", f"{self.server.url}/mcp", "-o", out, *options,
                            home=out, timeout=300)
        checks = {}
        for path in sorted(pathlib.Path(out).rglob("checks.json")):
            checks[OUTPUT.fullmatch(path.parent.name)[1]] = json.loads(path.read_text())
        return checks, done

    def scored(self, version):
        """The scenarios scored by a set of requirements; the suite runs and reports others, too."""
        done = self.npm.run(self.npm.conformance, "list", "--requirements", version)
        section = done.stdout.split("Server scenarios", 1)[1].split("\n\n", 1)[0]
        found = re.findall(r"^  - (\S+)$", section, re.MULTILINE)
        self.assertEqual(len(found), SCENARIOS[version], done.stdout)
        return found

    def assertPasses(self, what, *options, only=None):
        checks, done = self.suite(*options)
        if only is not None:
            self.assertLessEqual(set(only), set(checks), "not all of them were run")
            checks = {name: checks[name] for name in only}
        counts = collections.Counter(check["status"] for found in checks.values() for check in found)
        bad = [f"{name}: {check['id']}: {check.get('errorMessage', '')[:600]}"
               for name, found in checks.items() for check in found if check["status"] == "FAILURE"]
        told = ", ".join(f"{count} {status.lower()}" for status, count in sorted(counts.items()))
        print(f"counts: {what}: {len(checks)} scenarios, exit {done.returncode}; checks: {told}", flush=True)
        self.assertEqual(bad, [], "\n" + "\n".join(bad))
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
        self.assertGreater(counts["SUCCESS"], 0, done.stdout[-3000:])
        return checks

    def test_requirements_of_2025_11_25(self):
        self.assertPasses(f"--requirements {LEGACY}", "--requirements", LEGACY, only=self.scored(LEGACY))

    def test_requirements_of_2026_07_28(self):
        self.assertPasses(f"--requirements {MODERN}", "--requirements", MODERN, only=self.scored(MODERN))

    def test_beyond_the_requirements(self):
        for scenario, version in BEYOND:
            with self.subTest(scenario=scenario, version=version):
                checks = self.assertPasses(f"{scenario} at {version}", "--scenario", scenario,
                                           "--spec-version", version)
                skipped = [check["id"] for found in checks.values() for check in found
                           if check["status"] in ("WARNING", "SKIPPED")]
                self.assertEqual(skipped, [])


class Fixtures(unittest.TestCase):
    """The fixtures are for this suite and for nobody else."""

    def test_never_by_default(self):
        with harness.Server() as server:
            answer = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            self.assertNotIn("test_simple_text", answer.text)

    def test_only_on_loopback(self):
        with tempfile.TemporaryDirectory(prefix="cloister-test.") as state:
            done = harness.cli("serve", "--state", state, "--listen", "0.0.0.0:0", "--mcp-conformance-fixtures",
                               timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mcp-conformance-fixtures", done.stderr)


if __name__ == "__main__":
    unittest.main()
