#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The gate of dependencies: advisories and `deny` refuse packages and the layers that have them, and each tenant has a quota of
layers."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest

import harness
from session_case import Session
from test_deps import wheel

CONFIG = """node:
  images: {folder}/images
packages:
  advisories: {folder}/osv
  advisories_seconds: {seconds}
  pypi:
    index: {folder}/wheels
  rules:
    undated: allow
"""


class Gate(unittest.TestCase):
    SECONDS = 0

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-gate."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.wheels = self.folder / "wheels"
        for each in ("wheels", "osv"):
            (self.folder / each).mkdir()
        for version in ("1.0", "1.1", "2.0"):
            wheel(self.wheels, "demo", version)
        wheel(self.wheels, "user", "1.0", requires=["demo==1.1"])
        wheel(self.wheels, "fine", "1.0")

    def serve(self, more=""):
        return self.enterContext(harness.Server(CONFIG.format(folder=self.folder, seconds=self.SECONDS) + more))

    def advise(self, name, events, identity="GHSA-aaaa-bbbb-cccc", **rest):
        """An advisory in the form of OSV; the file comes whole."""
        record = {"schema_version": "1.6.0", "id": identity, "summary": "remote code execution", "modified": "2026-01-01T00:00:00Z",
                  "affected": [{"package": {"ecosystem": "PyPI", "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}],
                  **rest}
        path = self.folder / "osv" / f"{identity}.json"
        path.with_suffix(".new").write_text(json.dumps(record))
        os.rename(path.with_suffix(".new"), path)
        return path

    def run_code(self, server, code, **request):
        return server.run(language="python", code=code, artifacts=[], **request)

    def denied(self, run, *texts):
        self.assertEqual((run["status"], run["error"]["type"]), ("denied", "PERMISSION_DENIED"), run)
        for text in texts:
            self.assertIn(text, json.dumps(run["error"]))

    def test_a_new_layer(self):
        self.advise("Demo", [{"introduced": "1.1"}, {"fixed": "2.0"}])
        server = self.serve()
        for deps in (["demo==1.1"], ["user"]):
            self.denied(self.run_code(server, "pass", deps=deps), "demo 1.1", "GHSA-aaaa-bbbb-cccc", "packages.advisories")
        done = self.run_code(server, "import demo; print(demo.VERSION)", deps=["demo<2"])
        self.assertEqual(done["stdout"], "1.0\n", done)
        metrics = server.request("GET", "/metrics").text
        self.assertRegex(metrics, r'cloister_package_refusals_total\{rule="packages.advisories"\} [1-9]')

    def test_a_layer_that_exists(self):
        server = self.serve()
        code = "import demo; print(demo.VERSION)"
        self.assertEqual(self.run_code(server, code, deps=["user"])["stdout"], "1.1\n")
        with Session(server, language="python", deps=["user"]) as session:
            self.assertEqual(session.exec(code, language="python")["stdout"], "1.1\n")
            path = self.advise("demo", [{"introduced": "0"}, {"fixed": "2.0"}])
            refused = self.run_code(server, code, deps=["user"])
            self.denied(refused, "demo 1.1", "GHSA-aaaa-bbbb-cccc", "remote code execution", "2.0 or later")
            self.assertEqual(refused["stdout"], "")
            self.denied(session.exec(code, language="python"), "GHSA-aaaa-bbbb-cccc")
        answer = server.request("POST", "/v1/sessions", {"language": "python", "deps": ["user"]})
        self.assertEqual(answer.status, 403, answer.body)
        self.assertIn("GHSA-aaaa-bbbb-cccc", answer.json()["error"]["message"])
        self.assertEqual(self.run_code(server, code, deps=["demo>=2"])["stdout"], "2.0\n")
        self.assertEqual(self.run_code(server, "print(1)")["stdout"], "1\n")
        path.unlink()
        self.assertEqual(self.run_code(server, code, deps=["user"])["stdout"], "1.1\n")

    def test_a_record_that_cannot_be_read(self):
        server = self.serve()
        self.assertEqual(self.run_code(server, "print(1)", deps=["fine"])["stdout"], "1\n")
        (self.folder / "osv" / "broken.json").write_text("{")
        refused = server.submit("print(1)", deps=["fine"], artifacts=[])
        self.assertEqual(refused.status, 503, refused.body)
        self.assertIn("broken.json", refused.json()["error"]["message"])
        (self.folder / "osv" / "broken.json").unlink()
        self.advise("fine", [{"introduced": "0"}], withdrawn="2026-02-01T00:00:00Z")
        self.assertEqual(self.run_code(server, "print(1)", deps=["fine"])["stdout"], "1\n")

    def test_a_rule_that_came_later(self):
        server = self.serve()
        self.assertEqual(self.run_code(server, "print(1)", deps=["user"])["stdout"], "1\n")
        server.stop()
        server._config = server._config.replace("undated: allow\n", "undated: allow\n    deny: ['demo<2']\n")
        server.start()
        self.denied(self.run_code(server, "print(1)", deps=["user"]), "demo 1.1", "packages.deny")
        self.assertEqual(self.run_code(server, "print(1)", deps=["fine"])["stdout"], "1\n")


class Lately(Gate):
    """The folder is looked at no more often than the setting says."""
    SECONDS = 3600
    test_a_new_layer = test_a_layer_that_exists = test_a_record_that_cannot_be_read = test_a_rule_that_came_later = None

    def test_how_often_the_folder_is_looked_at(self):
        server = self.serve()
        self.assertEqual(self.run_code(server, "print(1)", deps=["demo==1.0"])["stdout"], "1\n")
        self.advise("demo", [{"introduced": "0"}])
        self.assertEqual(self.run_code(server, "print(1)", deps=["demo==1.0"])["stdout"], "1\n")


class Quota(Gate):
    """The layers of a tenant."""
    test_a_new_layer = test_a_layer_that_exists = test_a_record_that_cannot_be_read = test_a_rule_that_came_later = None

    def test_how_many(self):
        server = self.serve("  layers_per_tenant: 1\n")
        for dep in ("demo==1.0", "fine"):
            self.assertEqual(self.run_code(server, "print(1)", deps=[dep])["stdout"], "1\n")
        listed = server.request("GET", "/v1/deps").json()["layers"]
        self.assertEqual([each["deps"] for each in listed], [["fine"]])
        rows = [json.loads(line) for line in server.request("GET", "/v1/audit/export").text.splitlines()]
        evicted, = [row for row in rows if row["action"] == "layer.evicted"]
        made = [row for row in rows if row["action"] == "layer.made"]
        self.assertEqual(evicted["subject"], made[0]["subject"])
        self.assertEqual(self.run_code(server, "import demo; print(demo.VERSION)", deps=["demo==1.0"])["stdout"], "1.0\n")

    def test_how_large(self):
        wheel(self.wheels, "large", "1.0", body=f"DATA = {os.urandom(1 << 20).hex()!r}\n")
        server = self.serve("  layers_mb_per_tenant: 1\n")
        self.assertEqual(self.run_code(server, "print(1)", deps=["fine"])["stdout"], "1\n")
        refused = self.run_code(server, "print(1)", deps=["large"])
        self.assertIn("packages.layers_mb_per_tenant", json.dumps(refused["error"]))
        self.assertEqual(self.run_code(server, "print(1)", deps=["fine"])["stdout"], "1\n")


if __name__ == "__main__":
    unittest.main()
