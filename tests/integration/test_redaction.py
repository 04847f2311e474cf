# SPDX-License-Identifier: Apache-2.0
"""Redaction of secrets from the audit log: the text goes, and the log stays as whole as before."""

import json
import pathlib
import subprocess
import sys
import unittest

import harness
from api_case import CONFIG, ApiTest

SECRET = "correct-horse-battery"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/verify_audit.py"


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class Redaction(ApiTest):
    @classmethod
    def setUpClass(cls):
        test = cls()
        test.call("POST", "/v1/agents/alice/sandbox", {"level": "standard"}, status=201)
        cls.key = test.new_key("default", roles=["agent"], agent="alice")["secret"]

    def refused(self):
        """A refusal with a secret in it → its entry."""
        self.call("POST", "/v1/executions?wait=60", {"command": f"sudo login --password {SECRET}"}, key=self.key,
                  status=200)
        return [row for row in self.entries() if row["action"] == "agent.violation"][-1]

    def entries(self, key=None):
        return self.call("GET", "/v1/audit?limit=1000", key=key, status=200).json()["entries"]

    def export(self):
        return self.call("GET", "/v1/audit/export").text

    def whole(self):
        done = self.server.cli("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        log = self.export()
        script = subprocess.run([sys.executable, SCRIPT, "-"], input=log, capture_output=True, text=True, check=False)
        self.assertEqual(script.returncode, 0, script.stderr)

    def test_it_is_forgotten(self):
        entry = self.refused()
        self.assertIn(SECRET, entry["details"]["what"])
        before = [(row["position"], row["hash"]) for row in self.entries()]
        self.whole()
        denied = next(row for row in self.entries() if row["subject"] == entry["details"]["of"])
        for position, member in ((denied["position"], "reason"), (entry["position"], "reason"), (entry["position"], "what")):
            told = self.server.cli("audit", "redact", str(position), "--member", member, "--reason", "a password")
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertIn(f"{member} of entry {position} is forgotten (", told.stdout)
        self.assertIn("(agent.violation of agent:default/alice, tenant default)", told.stdout, "which entry it was")
        now = next(row for row in self.entries() if row["position"] == entry["position"])
        self.assertRegex(now["details"]["what"]["sealed"], "^[0-9a-f]{64}$")
        self.assertEqual(now["details"]["rule"], entry["details"]["rule"])
        self.assertEqual([(row["position"], row["hash"]) for row in self.entries()][:len(before)], before)
        last = self.entries()[-1]
        self.assertEqual((last["action"], last["details"]["of"], last["details"]["member"], last["details"]["reason"]),
                         ("audit.redacted", entry["position"], "what", "a password"))
        self.whole()
        for path in ("/v1/audit/export", "/v1/audit?limit=1000", "/v1/agents/alice/sandbox/violations",
                     "/v1/agents/alice/sandbox/audit"):
            self.assertNotIn(SECRET, self.call("GET", path, status=200).text, path)
        again = self.server.cli("audit", "redact", str(entry["position"]), "--member", "what", "--reason", "x")
        self.assertEqual(again.returncode, 4)
        self.assertIn("redacted before", again.stderr)
        self.assertNotIn("check the id", again.stderr)

    def test_the_place_in_the_whole_log_is_shown(self):
        entry = self.refused()
        listed = self.server.cli("sandbox", "audit", "--agent", "alice", "--tenant", "default")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertRegex(listed.stdout, "^POSITION ")
        self.assertRegex(listed.stdout, rf"(?m)^{entry['position']} .*agent\.violation")
        none = self.server.cli("audit", "redact", "99999", "--member", "what", "--reason", "x")
        self.assertEqual(none.returncode, 4)
        self.assertIn("there is no audit entry at position 99999", none.stderr)

    def test_an_export_that_is_not_the_whole_log_is_no_broken_log(self):
        """A tenant's, an export with a later beginning, and an empty one."""
        key = self.new_key("apart", roles=["tenant-admin"])["secret"]
        self.call("POST", "/v1/keys", {"name": "another"}, key=key, status=201)
        own = self.call("GET", "/v1/audit/export", key=key, status=200).text
        later = self.call("GET", "/v1/audit/export?after=4", status=200).text
        for log, said in ((own, "this export is one tenant's, or begins later"),
                          (later, "this export is one tenant's, or begins later"),
                          ("", "the log has no entry")):
            script = subprocess.run([sys.executable, SCRIPT, "-"], input=log, capture_output=True, text=True, check=False)
            self.assertEqual(script.returncode, 1, script.stdout)
            self.assertIn(said, script.stderr)

    def test_who_may_and_what(self):
        position = self.refused()["position"]
        body = {"member": "reason", "reason": "why"}
        for role in ("tenant-admin", "approver", "operator"):
            key = self.new_key("default", roles=[role])["secret"]
            self.call("POST", f"/v1/audit/{position}:redact", body, key=key, status=403)
        for path, asked, status, field in ((f"/v1/audit/{position}:redact", {"member": "rule", "reason": "x"}, 404, None),
                                           ("/v1/audit/999999:redact", body, 404, None),
                                           ("/v1/audit/0:redact", body, 404, None),
                                           ("/v1/audit/x:redact", body, 404, None),
                                           (f"/v1/audit/{position}:redact", {"member": "reason"}, 422, "reason"),
                                           (f"/v1/audit/{position}:redact", {"reason": "x"}, 422, "member"),
                                           (f"/v1/audit/{position}:redact", {**body, "x": 1}, 422, "x")):
            answer = self.call("POST", path, asked)
            self.assertEqual(answer.status, status, answer.body)
            if field:
                self.assertProblem(answer, status, field=field)
        self.assertTrue(any(row["position"] == position and isinstance(row["details"]["reason"], str) for row in self.entries()))
        self.whole()


if __name__ == "__main__":
    unittest.main()
