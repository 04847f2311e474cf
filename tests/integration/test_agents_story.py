# SPDX-License-Identifier: Apache-2.0
"""A day of a team with three agents, on the command line alone: a stopped task that may continue after an approval,
an exceeded limit, and every command of `sandbox` and `escalation` on the way."""

import os
import pathlib
import re
import tempfile
import time
import unittest

import harness
import hooks

POLICY = """
version: 2
rules:
  - name: deploys
    why: what is deployed is looked at first
    match: {tool_types: [deploy]}
    effect: approve
    approve: {roles: [approver]}
  - {name: rest, why: all else runs, effect: allow}
"""


class Day(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "policy.yaml").write_text(POLICY)
        (folder / "secret").write_text("s" * 32)
        os.chmod(folder / "secret", 0o600)
        cls.hook = hooks.webhook()
        cls.addClassCleanup(cls.hook.shutdown)
        cls.server = harness.Server(config=f"policy: {folder}/policy.yaml\nescalation:\n"
                                    f"  webhook: {{url: 'http://127.0.0.1:{cls.hook.server_port}/security-team', "
                                    f"secret_file: {folder}/secret}}\n")
        cls.enterClassContext(cls.server)
        cls.folder = folder
        cls.keys = {"admin": None}
        for name, role in (("boss", "tenant-admin"), ("security-lead", "approver"), ("junior-agent", "agent"),
                           ("alice", "agent"), ("measured", "agent"), ("busy", "agent")):
            who = {"agent": name} if role == "agent" else {"user": name}
            made = cls.server.request("POST", "/v1/keys", {"tenant": "acme", "name": name, "roles": [role], **who})
            cls.keys[name] = made.json()["secret"]

    def as_(self, who, *line, status=0):
        """Runs a command line as `who` → its output, on either stream."""
        done = self.server.cli(*line, env={"CLOISTER_API_KEY": self.keys[who]} if self.keys[who] else None)
        self.assertEqual(done.returncode, status, (line, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def said(self, who, *lines, status=0):
        return "".join(self.as_(who, *line, status=status) for line in lines)

    def test_1_a_path_that_takes_a_word_of_the_security_team(self):
        self.as_("boss", "sandbox", "create", "--agent", "junior-agent", "--level", "standard")
        self.as_("boss", "sandbox", "forbid", "--agent", "junior-agent", "--path", "/workspace/src/security/*")
        session = self.as_("junior-agent", "session", "create", "-l", "bash").strip()
        self.as_("junior-agent", "exec", session, "--", "mkdir", "-p", "src")
        change = self.folder / "auth.rs"
        change.write_text("fn main() {}\n")
        target = f"{session}:src/security/auth.rs"
        blocked = self.as_("junior-agent", "cp", change, target, status=3)
        self.assertIn("path /workspace/src/security/auth.rs is forbidden for agents at level standard", blocked)
        self.assertIn("ask for an approval", blocked)
        made = self.as_("junior-agent", "escalation", "request", "--operation", "file_write", "--path",
                        "/workspace/src/security/auth.rs", "--reason", "auth refactoring task")
        self.assertRegex(made, r"✓ Escalation request created: ESC-\d{4}-\d{3}\n")
        escalation = re.search(r"ESC-\d{4}-\d{3}", made).group()
        self.assertIn("   Decided by: ", made)
        self.assertIn("   Notification goes to: ", made)
        harness.wait_for("the security team to hear of it", lambda: any(
            escalation.encode() in body for _, body in self.hook.received))
        pending = self.as_("security-lead", "escalation", "pending")
        self.assertIn(escalation, pending)
        self.assertIn("auth refactoring task", self.as_("security-lead", "escalation", "show", escalation))
        self.as_("junior-agent", "escalation", "approve", escalation, status=3)
        self.as_("junior-agent", "cp", change, target, status=3)
        self.assertEqual(self.as_("security-lead", "escalation", "approve", escalation, "--approver", "security-lead"),
                         "✓ Escalation approved\n   Agent: junior-agent\n"
                         "   Operation: file_write to /workspace/src/security/auth.rs\n"
                         "   Temporary permission granted (expires in 2 hours)\n")
        self.assertRegex(self.as_("junior-agent", "escalation", "show", escalation),
                         r"   Automatic permission revocation in: (2h 0|1h 5\d)min\n")
        self.as_("junior-agent", "exec", session, "--", "mkdir", "-p", "src/security")
        self.as_("junior-agent", "cp", change, target)
        self.assertRegex(self.as_("boss", "sandbox", "show", "--agent", "junior-agent"),
                         rf"Approved for a time: 2: file_\w+ /workspace/src/security/auth\.rs \({escalation}, until \d{{4}}-\S+\), file_")
        self.as_("security-lead", "escalation", "deny", "--request", escalation, "--reason", "the task is done")
        self.as_("junior-agent", "cp", change, target, status=3)
        self.assertIn("/workspace/src/security", self.as_(
            "boss", "sandbox", "violations", "--agent", "junior-agent", "-o", "wide"))
        self.as_("junior-agent", "session", "end", session)

    def test_2_a_limit_that_is_met(self):
        self.said("boss", ("sandbox", "create", "--agent", "alice", "--level", "standard"),
                  ("sandbox", "limit", "--agent", "alice", "--memory", "2GB"),
                  ("sandbox", "limit", "--agent", "alice", "--cpu", "50%"),
                  ("sandbox", "limit", "--agent", "alice", "--time", "30min"))
        session = self.as_("alice", "session", "create", "-l", "bash", "--memory", "1900").strip()
        self.assertRegex(self.as_("boss", "sandbox", "monitor", "--agent", "alice"),
                         r"→ Agent alice resource usage:\n   Memory: [1-5]?\dMB / 2\.0GB, 1\.9GB reserved\n"
                         r"   CPU: \d+% / 50%, 50% reserved\n")
        blocked = self.as_("alice", "run", "-l", "bash", "-c", "echo tests", "--memory", "1536", status=125)
        self.assertIn("insufficient memory_mb: requires 1536, only 148 of 2048 are available to agent alice", blocked)
        self.assertIn("wait for what the agent runs to end", blocked)
        self.as_("alice", "session", "end", session)
        harness.wait_for("its memory to be given back", lambda: "Memory: 0MB" in self.as_(
            "boss", "sandbox", "monitor", "--agent", "alice"))
        self.assertEqual(self.as_("alice", "run", "-l", "bash", "-c", "echo tests", "--memory", "1536"), "tests\n")

    def usage(self, agent):
        return self.server.request("GET", f"/v1/agents/{agent}/sandbox/usage?tenant=acme").json()

    def start(self, agent, **request):
        """A run that lasts until the test's end."""
        answer = self.server.request("POST", "/v1/executions", {"timeout_seconds": 600, **request},
                                     key=self.keys[agent])
        self.assertEqual(answer.status, 201, answer.body)
        execution = answer.json()["id"]
        self.addCleanup(self.server.wait_end, execution)
        self.addCleanup(self.server.request, "DELETE", f"/v1/executions/{execution}")
        return execution

    def test_5_monitoring_measures(self):
        self.said("boss", ("sandbox", "create", "--agent", "measured", "--level", "standard"),
                  ("sandbox", "limit", "--agent", "measured", "--memory", "1000MB"))
        idle = self.start("measured", language="python", memory_mb=200, code="import time; time.sleep(600)")
        self.server.wait_status(idle, "running")
        self.assertLess(self.usage("measured")["memory_mb"]["used"], 60)
        self.start("measured", language="python", memory_mb=800, code="""if True:
            import time
            block = b"x" * (700 << 20)
            time.sleep(600)""")
        used = harness.wait_for("700 MB to be seen", lambda: (
            found := self.usage("measured")["memory_mb"])["used"] >= 700 and found, 60)
        self.assertLessEqual(used["used"], 760)
        self.assertEqual(used["reserved"], 1000)
        self.assertFalse(used["warning"])
        self.said("boss", ("sandbox", "limit", "--agent", "measured", "--memory", "760MB"))
        shown = self.as_("boss", "sandbox", "monitor", "--agent", "measured")
        self.assertRegex(shown, r"\(9\d% - Warning\)\n")
        self.assertIn("⚠️  WARNING: Memory usage approaching limit", shown)
        self.assertRegex(self.as_("boss", "sandbox", "stats", "--agent", "measured"), r"\b7[0-6]\dMB\b")

    def test_6_the_processor_is_for_all_that_an_agent_runs(self):
        self.said("boss", ("sandbox", "create", "--agent", "busy", "--level", "standard"),
                  ("sandbox", "limit", "--agent", "busy", "--cpu", "25%"))
        runs = [self.start("busy", language="bash", memory_mb=64, code="while :; do :; done") for _ in range(4)]
        for execution in runs:
            self.server.wait_status(execution, "running")

        def used():
            return sum(self.server.get(execution)["resource_usage"]["cpu_ms"] for execution in runs)

        def window():
            """Their use of a processor in four seconds, in percent: never more than their limit."""
            began, before = time.monotonic(), used()
            time.sleep(4)  # the time of the measurement
            percent = (used() - before) / 10 / (time.monotonic() - began)
            self.assertLessEqual(percent, 30)
            self.assertLessEqual(self.usage("busy")["cpu_percent"]["used"], 32)
            return percent >= 20

        harness.wait_for("their part, on a busy machine", window, 60)
        harness.wait_for("it to be shown", lambda: self.usage("busy")["cpu_percent"]["used"] >= 20, 60)
        for execution in runs[1:]:
            self.server.request("DELETE", f"/v1/executions/{execution}")

        def alone():
            before = self.server.get(runs[0])["resource_usage"]["cpu_ms"]
            time.sleep(2)  # the same
            return self.server.get(runs[0])["resource_usage"]["cpu_ms"] - before >= 300

        harness.wait_for("one to have what the others left", alone, 60)

    def test_3_a_task_goes_on_once_it_is_approved(self):
        asked = self.server.request("POST", "/v1/executions", {
            "language": "bash", "code": "echo deployed", "metadata": {"tool_type": "deploy"}},
            key=self.keys["junior-agent"]).json()
        self.assertEqual(asked["status"], "blocked")
        escalation = asked["error"]["details"]["escalation_id"]
        self.assertIn("echo deployed", self.as_("security-lead", "escalation", "show", escalation))
        told = self.as_("security-lead", "escalation", "approve", "--request", escalation, "--wait", "30")
        self.assertIn(f"→ Resuming blocked execution: {asked['id']}\n", told)
        self.assertIn("✓ Execution completed with the approval (exit code 0", told)
        self.assertIn("   The approval is used, and lets nothing else run\n", told)
        self.assertEqual(self.server.wait_end(asked["id"])["stdout"], "deployed\n")
        again = self.server.request("POST", "/v1/executions", {
            "language": "bash", "code": "echo twice", "metadata": {"tool_type": "deploy"}},
            key=self.keys["junior-agent"]).json()
        denied = self.as_("security-lead", "escalation", "deny", "--request", again["error"]["details"]["escalation_id"],
                          "--reason", "unsafe")
        self.assertIn("✓ Escalation denied\n", denied)
        self.assertEqual(self.server.wait_end(again["id"])["status"], "denied")

    def test_4_what_is_safe_needs_nobody(self):
        self.as_("boss", "sandbox", "create", "--agent", "helper", "--level", "restricted")
        note = "note: no key of tenant acme has the agent keyed (see `cloister key create --agent`)\n"
        create = ("boss", "agent", "create", "--agent", "keyed", "--level", "standard")
        self.assertIn(note, self.as_(*create), "as after a typing error in the name")
        self.said("boss", ("agent", "delete", "--agent", "keyed"), ("key", "create", "--agent", "keyed"))
        self.assertNotIn("note: ", self.as_(*create))
        self.assertIn("Auto-approve: safe (no policy is set; the level restricted says so)\n",
                      self.as_("boss", "escalation", "policy", "--agent", "helper"))
        self.assertIn("Approved by rule: what is safe, by the level\n", self.as_("boss", "sandbox", "show", "--agent", "helper"))
        self.assertIn("Auto-approve: none\n", self.as_("boss", "escalation", "policy", "--agent", "helper", "--auto-approve", "none"))
        self.assertIn("Approved by rule: nothing, by its escalation policy\n",
                      self.as_("boss", "sandbox", "show", "--agent", "helper"))
        self.assertIn("safe", self.as_("boss", "escalation", "policy", "--agent", "helper", "--auto-approve", "safe"))
        for line in (("audit", "--agent", "helper", "--period", "7d"), ("stats", "--all-agents"), ("health-check",),
                     ("grant", "--agent", "helper", "--operation", "file_write"),
                     ("revoke", "--agent", "helper", "--operation", "network"),
                     ("allow", "--agent", "helper", "--command", "cargo build"),
                     ("update", "--agent", "helper", "--level", "standard"), ("delete", "--agent", "helper")):
            self.as_("boss", "sandbox", *line)


if __name__ == "__main__":
    unittest.main()
