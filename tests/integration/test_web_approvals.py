# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: approvals."""

import pathlib
import tempfile
import unittest

import harness
from escalation_case import POLICY
from session_case import Session
from web_case import WebCase


class Approvals(WebCase):
    file = "approvals.mjs"

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-policy.")))
        folder.chmod(0o755)
        (folder / "policy.yaml").write_text(POLICY)
        cls.config = f"policy: {folder}/policy.yaml\n"
        super().setUpClass()

    def test_a_blocked_run_resumes_and_a_denied_run_ends(self):
        story = self.story("approve", requester=self.key(agent="coder")[0], approver=self.key(role="approver", user="ann")[0])
        self.assertTrue(story["appears without a reload"])
        self.assertEqual(story["why"], 1)
        self.assertEqual(story["marked"], ["bash"])
        self.assertEqual(story["compared"], 1)
        self.assertTrue(story["order"], "the risks stand above the decision")
        self.assertEqual(story["seconds"], 900)
        self.assertEqual(story["first"], {"status": "completed", "stdout": "approved-42\n"})
        self.assertIn("/ui/executions/exec_", story["execution"])
        self.assertIn("https://old.test", "".join(story["removed"]))
        self.assertIn("https://new.test", "".join(story["added"]))
        self.assertEqual(story["second"]["status"], "denied")
        self.assertEqual(story["second"]["error"]["details"]["reason"], "approval_denied")
        self.assertIn("not on a Friday <b>", str(story["second"]["error"]))

    def test_two_people_see_each_other_s_votes(self):
        keys = {name: self.key("two", "approver", user=name)[0] for name in ("ann", "bob")}
        story = self.story("votes", pair=self.key("two", agent="coder")[0], **keys)
        self.assertIn("ann", story["seen"])
        self.assertTrue(story["cannot vote again"])
        self.assertEqual(story["done"], {"status": "completed", "stdout": "both\n"})

    def test_a_reason_and_a_document_wait_for_their_person(self):
        story = self.story("drafts", requester=self.key(agent="coder")[0], user="cleo", approver=self.key(role="approver", user="cleo")[0])
        self.assertEqual(story["reason"], "typed before the end")
        self.assertIn("# kept", story["document"])
        self.assertNotIn("# kept", story["after a sign-out"])

    def test_an_administrator_decides_for_the_tenant_in_sight(self):
        keys = {tenant: self.key(tenant, agent="coder")[0] for tenant in ("owned", "counted")}
        story = self.story("tenants", **keys)
        self.assertEqual(*story["numbers"])
        self.assertEqual(story["blind"], 0)
        self.assertIn("tenant=counted", story["place"])
        self.assertIn("\\xff", story["raw"])
        self.assertEqual((story["done"], story["other"]), ("RAW-PAYLOAD\n", "pending"))
        self.assertEqual(story["stale"], 0)

    def test_the_files_of_a_session_are_listed(self):
        agent, other = self.key("mixed", agent="coder")[0], self.key("counted", agent="opener")[0]
        with Session(self.server, key=agent, language="bash") as session:
            session.exec("echo 'echo from-a-file' > run.sh; ln -s /etc/passwd link")
            held = session.call("POST", "/exec", {"command": "bash run.sh"}, status=201).json()
            made = self.server.request("POST", "/v1/sessions", {"language": "bash"}, key=other).json()
            used = made["error"]["details"]["escalation_id"]
            approved = self.server.request("POST", f"/v1/escalations/{used}:approve?tenant=counted", {})
            self.assertEqual(approved.status, 200, approved.text)
            path = f"/v1/escalations/{used}?tenant=counted"
            harness.wait_for("the session", lambda: self.server.request("GET", path).json()["status"] == "used", 20)
            story = self.story("session", held=held["error"]["details"]["escalation_id"], used=used,
                               approver=self.key("mixed", "approver", user="ann")[0])
            self.server.request("DELETE", f"/v1/sessions/{made['id']}", key=other)
        self.assertIn("run.sh", story["files"])
        self.assertRegex(story["files"], r"SHA-256 [0-9a-f]{64}")
        self.assertIn("/etc/passwd", story["files"])
        self.assertIn(f"/ui/sessions/{made['id']}", story["link"])
        self.assertEqual(story["buttons"], 0)


if __name__ == "__main__":
    unittest.main()
