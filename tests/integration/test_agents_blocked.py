# SPDX-License-Identifier: Apache-2.0
"""Refusals of an agent's sandbox that a person may lift: the run waits, and continues with the approval alone."""

import re
import unittest

import harness
from agent_case import AgentCase
from api_case import start_server
from session_case import Session
from test_gvisor import needs_runsc


def setUpModule():
    start_server()


class Blocked(AgentCase):
    def ask(self, key, **request):
        held = self.run_as(key, **request)
        self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), held)
        self.assertRegex(held["error"]["details"]["escalation_id"], r"^ESC-\d{4}-\d{3}$")
        return held

    def vote(self, held, action="approve"):
        approver = self.new_key("default", roles=["approver"])["secret"]
        escalation = held["error"]["details"]["escalation_id"]
        return self.call("POST", f"/v1/escalations/{escalation}:{action}", {"reason": "looked at it"}, key=approver,
                         status=200).json()

    def test_a_command(self):
        """The program is not in the agent's sandboxes, but in the sandbox of the approved run."""
        self.give("restricted", escalation={"auto_approve_safe": False})
        key = self.secret()
        held = self.ask(key, command="tac /etc/hostname")
        details = held["error"]["details"]
        self.assertEqual((details["level"], details["operation"]), ("restricted", "command_execution"))
        asked = self.call("GET", f"/v1/escalations/{details['escalation_id']}", status=200).json()
        self.assertEqual(asked["lifts"], [{"operation": "command_execution", "target": "tac /etc/hostname"}])
        self.assertIn("its agent may not: command_execution tac /etc/hostname\n", asked["display"])
        self.assertEqual([each["subject"] for each in self.violations()], [held["id"]])
        self.vote(held)
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "cloister\n"), done)
        self.denied(self.run_as(key, command="tac /etc/hostname"))

    def test_a_file(self):
        self.give("standard", forbidden_paths=["/workspace/secrets/*"])
        key = self.secret()
        held = self.ask(key, language="bash", code="cat secrets/key; echo more >> secrets/key && cat secrets/key",
                        files=[{"path": "secrets/key", "content": "inside\n"}])
        self.vote(held)
        self.assertEqual(self.server.wait_end(held["id"])["stdout"], "inside\ninside\nmore\n")

    def test_those_that_are_alike_wait_together(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        key = self.secret()
        one, two = (self.ask(key, command="tac /etc/hostname") for _ in range(2))
        other = self.ask(key, command="tac /etc/passwd")
        self.assertEqual(one["error"]["details"]["escalation_id"], two["error"]["details"]["escalation_id"])
        self.vote(one)
        for each in (one, two):
            self.assertEqual(self.server.wait_end(each["id"])["stdout"], "cloister\n")
        self.assertEqual(self.server.get(other["id"])["status"], "blocked")
        self.denied(other)

    def test_who_may_not_decide_sees_no_values_of_its_environment(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        key = self.secret()
        held = self.ask(key, command="tac /etc/hostname", env={"TOKEN": "hunter2", "MODE": "env: A=hunter2"})
        path = "/v1/escalations/" + held["error"]["details"]["escalation_id"]

        def shown_to(**who):
            return self.call("GET", path, key=who.get("key") or self.new_key("default", **who)["secret"], status=200).json()

        for who in ({"roles": ["approver"]}, {"key": key}):
            self.assertIn("\nenv: TOKEN=hunter2\n", shown_to(**who)["display"])
        self.assertIn("\nenv: TOKEN\n", shown_to(roles=["operator"])["display"], "no rule names that role")
        viewer = self.new_key("default", roles=["viewer"])["secret"]
        self.assertIn("\nenv: TOKEN\n", shown_to(key=viewer)["display"])
        listed = self.call("GET", "/v1/escalations?limit=100", key=viewer, status=200).json()
        self.assertIn(path.rsplit("/", 1)[1], [each["id"] for each in listed["escalations"]])
        self.assertNotIn("hunter2", str(shown_to(key=viewer)) + str(listed))
        self.denied(held)

    def test_denied(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        held = self.ask(self.secret(), command="tac /etc/hostname")
        self.vote(held, "deny")
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["error"]["details"]["reason"]), ("denied", "approval_denied"))

    def test_what_nobody_may_allow_waits_for_nobody(self):
        self.give("standard")
        key = self.secret()
        for request in ({"command": "sudo ls"}, {"command": "true", "memory_mb": 8000},
                        {"command": "true", "env": {"LD_PRELOAD": "/workspace/x.so"}}):
            done = self.run_as(key, **request)
            self.assertEqual((done["status"], done["error"]["type"]), ("denied", "PERMISSION_DENIED"), request)
        both = self.run_as(key, language="bash", code="sudo ls; doas ls")
        self.assertEqual(both["status"], "denied")

    def test_what_is_safe_needs_nobody(self):
        self.give("restricted", escalation={"auto_approve_safe": True})
        key = self.secret()
        held = self.run_as(key, command="tac /etc/hostname")
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "cloister\n"), done)
        asked = self.call("GET", "/v1/escalations?status=used&limit=50", status=200).json()["escalations"]
        mine = next(each for each in asked if each["execution_id"] == held["id"])
        self.assertTrue(mine["decisions"][0]["automatic"])
        self.assertEqual(mine["decisions"][0]["reason"],
                         "safe_operations of the levels has command_execution at level isolated")
        rows = self.call("GET", "/v1/audit?action=escalation.approved&limit=100&order=newest", status=200).json()["entries"]
        row = next(each for each in rows if each["subject"] == mine["id"])
        self.assertEqual((row["details"]["automatic"], row["details"]["reason"]), (True, mine["decisions"][0]["reason"]))
        unsafe = self.ask(key, command="touch /workspace/x")
        self.denied(unsafe)

    def test_at_most_twenty_wait(self):
        self.give("isolated", escalation={"auto_approve_safe": False})
        key = self.secret()
        held = [self.ask(key, command=f"touch {n}") for n in range(20)]
        more = self.run_as(key, command="touch more")
        self.assertEqual((more["status"], more["error"]["type"]), ("denied", "PERMISSION_DENIED"))
        self.assertIn("20 requests of this agent wait already", more["error"]["message"])
        for each in held:
            self.denied(each)

    def test_on_the_command_line(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        env = {"CLOISTER_API_KEY": self.secret()}
        left = self.server.cli("run", "-l", "bash", "-c", "tac /etc/hostname", env=env)
        self.assertEqual(left.returncode, 125)
        self.assertRegex(left.stderr, r"cloister: blocked: it runs once it is approved: .*tac.* \(ESC-\d{4}-\d{3}\)")
        self.server.request("DELETE", "/v1/executions/" + re.search(r"exec_\w+", left.stderr).group())


class InASession(Blocked):
    """Like a run: an action denied to all in the session's sandbox is allowed for the approved program alone."""

    def setUp(self):
        super().setUp()
        self.give("restricted", escalation={"auto_approve_safe": False})
        self.key = self.secret()
        self.session = self.enterContext(Session(self.server, key=self.key, language="bash"))

    def run_as(self, key, **request):
        answer = self.call("POST", f"{self.session.path}/exec?wait=60", request, key=key)
        self.assertIn(answer.status, (200, 202), answer.body[:1000])
        return answer.json()

    def again(self, **request):
        """Once the session is back under its rules."""
        def answered():
            answer = self.call("POST", f"{self.session.path}/exec?wait=60", request, key=self.key)
            return answer.json() if answer.status in (200, 202) else None

        return harness.wait_for("the session", answered, 30, every=0.1)

    @needs_runsc
    def test_in_gvisor(self):
        self.session = self.enterContext(Session(self.server, key=self.key, language="bash", runtime="gvisor"))
        held = self.ask(self.key, command="tac /etc/hostname")
        self.vote(held)
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["provenance"]["runtime"]), ("completed", "gvisor"), done)
        self.denied(self.again(command="tac /etc/hostname"))

    def test_a_command(self):
        self.run_as(self.key, command="git init -q repo")
        held = self.ask(self.key, command="tac /etc/hostname repo/.git/HEAD")
        self.assertEqual(held["session_id"], self.session.id)
        self.assertEqual([each["subject"] for each in self.violations()], [held["id"]])
        self.vote(held)
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "cloister\nref: refs/heads/master\n"), done)
        there = self.again(command="git -C repo status --short --branch")
        self.assertIn("No commits yet", there["stdout"], there)
        self.denied(self.again(command="tac /etc/hostname repo/.git/HEAD"))

    def test_code_of_an_interpreter(self):
        held = self.ask(self.key, code="print(6 * 7)", language="python")
        self.vote(held)
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "42\n"), done)
        self.denied(self.again(code="print(6 * 7)", language="python"))

    def test_a_file_that_it_may_not_write(self):
        """At a level without writing commands: the kernel enforces the rule too."""
        held = self.ask(self.key, command="cp /etc/hostname taken")
        self.vote(held)
        done = self.server.wait_end(held["id"])
        self.assertEqual(done["exit_code"], 0, done)
        self.assertEqual(self.again(command="git hash-object taken")["exit_code"], 0)

    def test_on_the_command_line(self):
        env = {"CLOISTER_API_KEY": self.key}
        left = self.server.cli("exec", self.session.id, "--", "tac", "/etc/hostname", env=env)
        self.assertEqual(left.returncode, 125)
        self.assertRegex(left.stderr, r"cloister: blocked: it runs once it is approved: .*tac.* \(ESC-\d{4}-\d{3}\)")
        behind = self.server.cli("exec", self.session.id, "--background", "--", "tac", "/etc/hostname", env=env)
        self.assertEqual(behind.returncode, 125)
        self.assertIn("cloister: blocked: ", behind.stderr)

    def test_its_end_ends_it(self):
        held = self.ask(self.key, command="tac /etc/passwd")
        self.session.end()
        self.assertEqual(self.server.wait_end(held["id"])["status"], "cancelled")

    def test_what_is_safe_needs_nobody(self):
        self.call("POST", self.path + ":update", {"escalation": {"auto_approve_safe": True}}, status=200)
        held = self.run_as(self.key, command="tac /etc/hostname")
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "cloister\n"), done)

    test_those_that_are_alike_wait_together = test_at_most_twenty_wait = test_denied = test_a_file = None
    test_what_nobody_may_allow_waits_for_nobody = test_who_may_not_decide_sees_no_values_of_its_environment = None


class Restart(unittest.TestCase):
    def test_they_wait_on(self):
        with harness.Server() as server:
            made = server.request("POST", "/v1/agents/coder/sandbox", {"level": "restricted",
                                                                        "escalation": {"auto_approve_safe": False}})
            self.assertEqual(made.status, 201, made.body)
            keys = {}
            for name, role in (("coder", "agent"), ("boss", "approver")):
                who = {"agent": name} if role == "agent" else {"user": name}
                keys[name] = server.request("POST", "/v1/keys", {"tenant": "default", "name": name, "roles": [role],
                                                                 **who}).json()["secret"]
            held = [server.request("POST", "/v1/executions", {"command": "tac /etc/hostname"}, key=keys["coder"]).json()
                    for _ in range(2)]
            server.stop()
            server.start()
            escalation = held[1]["error"]["details"]["escalation_id"]
            voted = server.request("POST", f"/v1/escalations/{escalation}:approve", {}, key=keys["boss"])
            self.assertEqual(voted.status, 200, voted.body)
            for each in held:
                self.assertEqual(server.wait_end(each["id"])["stdout"], "cloister\n")


class OneWaits(AgentCase):
    """With another bound than the default."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(config="escalation:\n  pending_per_agent: 1\n"))

    def test_the_second_is_denied(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        key = self.secret()
        held = self.run_as(key, command="tac /etc/hostname")
        more = self.run_as(key, command="tac /etc/passwd")
        self.assertEqual((held["status"], more["status"]), ("blocked", "denied"), more)
        self.assertIn("1 requests of this agent wait already", more["error"]["message"])
        by_hand = self.call("POST", "/v1/escalations", {"operation": "network", "host": "a.test", "reason": "why"}, key=key)
        self.assertProblem(by_hand, 429, "QUOTA_EXCEEDED")
        self.assertIn("have one of them decided (cloister escalation pending)", by_hand.json()["detail"])


class WithoutASandbox(unittest.TestCase):
    def test_the_default_level_is_named(self):
        with harness.Server(config="agents:\n  default_level: restricted\n") as server:
            for verb in (("show",), ("stats",), ("monitor",), ("update", "--level", "standard"), ("limit", "--memory", "100m")):
                told = server.cli("agent", verb[0], "--agent", "bob", *verb[1:])
                self.assertEqual(told.returncode, 4, told.stderr)
                self.assertIn("agent bob has no sandbox of its own; the level restricted holds it (agents.default_level); "
                              "`cloister agent create` makes a sandbox", told.stderr)
                self.assertNotIn("check the id", told.stderr)


if __name__ == "__main__":
    unittest.main()
