# SPDX-License-Identifier: Apache-2.0
"""What an escalation says of its end and of its deciders, to the API and to the command line."""

import json
import re
import unittest

import harness
from escalation_case import POLICY, Escalations


class Records(Escalations):
    def cli(self, key, *args, status=0):
        done = self.server.cli("escalation", *args, env={"CLOISTER_API_KEY": key})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_a_decision_names_the_credential(self):
        """A key without a user: the tenant's name would not tell one approver from another."""
        made = self.call("POST", "/v1/keys", {"tenant": "acme", "name": "test", "roles": ["approver"]}, status=201).json()
        held = self.ask()
        escalation = self.id_of(held)
        self.vote(escalation, made["secret"], "deny", reason="no")
        [decision] = self.show(escalation)["decisions"]
        self.assertEqual(decision["credential"], made["id"])
        told = self.server.cli("escalation", "show", escalation, env={"CLOISTER_API_KEY": self.boss()}).stdout
        self.assertIn(f"Decision: deny by {made['id']} at", told)
        admin = self.call("POST", "/v1/keys", {"tenant": "acme", "name": "test", "roles": ["tenant-admin"]}, status=201).json()
        env = {"CLOISTER_API_KEY": admin["secret"]}
        self.server.cli("escalation", "policy", "--agent", "named", "--auto-approve", "none", env=env)
        self.assertIn(f"Set by: {admin['id']}\n", self.server.cli("escalation", "policy", "--agent", "named", env=env).stdout)
        policy = self.call("GET", "/v1/agents/named/escalation-policy", key=admin["secret"], status=200).json()
        self.assertEqual(policy["set_by_credential"], admin["id"])
        self.server.cli("agent", "create", "--agent", "named", "--level", "standard", env=env)
        told = self.server.cli("agent", "audit", "--agent", "named", env=env)
        self.assertIn(admin["id"], told.stdout, told.stderr)

    def test_a_request_by_hand_runs_from_the_command_line(self):
        """A file without artifacts keeps all of them, and a run of the command line none: the approved request decides."""
        def asked(number, **more):
            file = self.dir / f"by-hand-{number}.json"
            file.write_text(json.dumps({"language": "bash", "code": f"echo by hand {number}", **more}))
            out = self.cli(self.agent(), "request", "--operation", "run", "--run", str(file), "--reason", "x")
            made = re.search(r"ESC-\d{4}-\d+", out).group()
            self.vote(made, self.boss())
            return made

        def run(approval, code):
            return self.server.cli("run", "--approval", approval, "-l", "bash", "-c", code,
                                   env={"CLOISTER_API_KEY": self.agent()})

        for number, more in enumerate(({}, {"artifacts": []}, {"artifacts": ["*.txt"]})):
            approval = asked(number, **more)
            done = run(approval, f"echo by hand {number}")
            self.assertEqual((done.returncode, done.stdout), (0, f"by hand {number}\n"), done.stderr)
        approval = asked(3, artifacts=["*.md"])
        self.assertIn('\nartifacts: "*.md"\n', self.show(approval)["display"])
        refused = run(approval, "echo by hand 4")
        self.assertEqual(refused.returncode, 125, refused.stderr)
        self.assertIn(f"is not what {approval} was approved for: code differs; ask anew", refused.stderr)
        body = {"language": "bash", "code": "echo by hand 3", "approval": approval}
        denied = self.call("POST", "/v1/executions", body, key=self.agent(), status=201).json()
        self.assertIn('artifacts differs: approved ["*.md"], now ["**"]; ask anew', denied["error"]["message"])

    def withdrawn(self, held):
        return harness.wait_for("the end of the request", lambda: next((
            shown for shown in [self.show(self.id_of(held))] if shown["status"] == "expired"), None))

    def test_an_approval_of_a_run_that_is_denied_anew_says_so(self):
        held = self.ask()
        before = self.call("GET", "/v1/policies/current", status=200).json()["document"]
        closed = POLICY.replace("match: {tenants: [evil]}", "match: {tenants: [evil, acme]}")
        self.call("POST", "/v1/policies", {"document": closed}, status=201)
        self.addCleanup(self.call, "POST", "/v1/policies", {"document": before}, status=201)
        out = self.cli(self.boss(), "approve", self.id_of(held), "--wait", "30")
        self.assertEqual(out.count("→ Execution is denied: "), 1, out)
        self.assertIn("nothing runs here", out)
        self.assertNotIn("Resuming", out)
        shown = self.withdrawn(held)
        self.assertRegex(shown["ended_reason"], "^the run ended as denied: .*nothing runs here")
        self.assertIn(f"because {shown['ended_reason']}\n", self.cli(self.boss(), "show", shown["id"]))

    def test_a_destination_that_opens_nothing_is_refused(self):
        for host in ("10.1.2.3", "not a host", "pypi.org:99999", "https://pypi.org/simple"):
            with self.subTest(host):
                answer = self.call("POST", "/v1/escalations", {"operation": "network", "host": host, "reason": "x"},
                                   key=self.agent())
                self.assertProblem(answer, 422, field="host")
                self.assertIn("an approval would open nothing", answer.json()["error"]["message"])

    def test_a_cancelled_run_leaves_no_expiry(self):
        held = self.ask()
        self.call("DELETE", f"/v1/executions/{held['id']}", key=self.agent(), status=200)
        shown = self.withdrawn(held)
        self.assertTrue(shown["ended_reason"].startswith("the run ended as cancelled"), shown)
        text = self.cli(self.boss(), "show", shown["id"])
        self.assertIn("because the run ended as cancelled", text)
        self.assertNotIn("Expires:", text)
        [line] = [each for each in self.cli(self.boss(), "list").splitlines() if each.startswith(shown["id"])]
        self.assertRegex(line, r"\bwithdrawn\b")


if __name__ == "__main__":
    unittest.main()
