# SPDX-License-Identifier: Apache-2.0
"""Sessions for which policy wants an approval: blocked with an escalation, made after the approval, by every way to
ask."""

import concurrent.futures
import unittest

import harness
import mcp_client
from escalation_case import Escalations


class Sessions(Escalations):
    """The making of a session waits for its approval, as a run does."""

    def make(self, tenant="acme", status=202, **more):
        return self.call("POST", "/v1/sessions", {"language": "bash", **more}, key=self.agent(tenant), status=status).json()

    def reached(self, session, *statuses, tenant="acme"):
        def there():
            now = self.call("GET", f"/v1/sessions/{session['id']}", key=self.agent(tenant), status=200).json()
            return now if now["status"] in statuses else None

        return harness.wait_for(f"{session['id']} {statuses}", there, 30, every=0.05)

    def end(self, session, tenant="acme"):
        return self.call("DELETE", f"/v1/sessions/{session['id']}", key=self.agent(tenant), status=200).json()

    def test_it_is_made_once_it_is_approved(self):
        held, alike, other = self.make(), self.make(), self.make(metadata={"task": "2"})
        self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), held)
        escalation = self.id_of(held)
        self.assertEqual(self.id_of(alike), escalation)
        self.assertNotEqual(self.id_of(other), escalation, "the approval of one with other metadata")
        self.assertIn("\nmetadata: task=2\n", self.show(self.id_of(other))["display"])
        self.end(other)
        shown = self.show(escalation)
        self.assertEqual((shown["operation"], shown["session_id"], shown["waiting"]), ("session", held["id"], 2))
        self.assertTrue(shown["display"].startswith("make a session\nlanguage: bash\n"), shown["display"])
        told = self.server.cli("escalation", "show", escalation, env={"CLOISTER_API_KEY": self.boss()})
        self.assertIn("Waiting: 2 requests\n", told.stdout, told.stderr)
        early = self.call("POST", f"/v1/sessions/{held['id']}/exec", {"command": "true"}, key=self.agent(), status=409)
        self.assertIn(escalation, early.json()["detail"])
        self.vote(escalation, self.agent(), status=403)
        self.vote(escalation, self.boss())
        for each in (held, alike):
            made = self.reached(each, "running", "ended")
            self.assertEqual((made["status"], made["error"]), ("running", None), made)
            self.call("PUT", f"/v1/sessions/{each['id']}/files/a", b"x", key=self.agent())
            self.end(each)
        actions = [row["action"] for row in self.audit(held["id"])]
        self.assertEqual(actions[:3], ["session.created", "session.resumed", "session.started"])
        self.assertEqual(self.show(escalation)["status"], "used")

    def test_it_ends_where_it_is_not(self):
        denied, late, ended = self.make(cwd="/tmp"), self.make("hurried"), self.make(cwd="/home")
        self.vote(self.id_of(denied), self.boss(), "deny", reason="not today")
        why = self.reached(denied, "ended")["end_reason"]
        self.assertEqual((why["type"], why["details"]["reason"]), ("APPROVAL_REQUIRED", "approval_denied"))
        self.assertIn("not today", why["message"])
        why = self.reached(late, "ended", tenant="hurried")["end_reason"]
        self.assertEqual(why["details"]["reason"], "approval_expired")
        self.assertEqual(self.end(ended)["end_reason"]["type"], "CANCELLED")
        harness.wait_for("the end of the request", lambda: self.show(self.id_of(ended))["status"] == "expired", 10)
        self.assertEqual(self.audit(self.id_of(ended))[-1]["action"], "escalation.withdrawn")
        self.assertEqual(self.audit(self.id_of(late))[-1]["action"], "escalation.expired")

    def test_a_restart_leaves_it_waiting(self):
        held = self.make(env={"A": "1"})
        self.server.stop()
        self.server.start()
        self.assertEqual(self.reached(held, "blocked", "ended")["status"], "blocked")
        self.vote(self.id_of(held), self.boss())
        self.assertEqual(self.reached(held, "running", "ended")["env"], {"A": "1"})
        self.end(held)

    def test_it_begins_with_its_snapshot(self):
        made = self.make("free", status=201)
        self.call("PUT", f"/v1/sessions/{made['id']}/files/notes", b"kept", key=self.agent("free"))
        taken = self.call("POST", f"/v1/sessions/{made['id']}/snapshots", {}, key=self.agent("free"), status=201).json()
        self.end(made, "free")
        held = self.make("free", tier="HumanApprove", from_snapshot=taken["id"])
        self.assertEqual(held["status"], "blocked")
        self.server.stop()
        self.server.start()
        self.vote(self.id_of(held), self.boss("free"))
        self.reached(held, "running", tenant="free")
        there = self.call("GET", f"/v1/sessions/{held['id']}/files/notes", key=self.agent("free"), status=200)
        self.assertEqual(there.body, b"kept")
        self.end(held, "free")

    def test_one_approval_is_no_more_than_the_agent_may_have(self):
        self.call("POST", "/v1/agents/coder/sandbox?tenant=other", {"level": "unrestricted", "limits": {"concurrent": 1}},
                  status=201)
        both = [self.make("other") for _ in range(2)]
        self.assertEqual(self.id_of(both[0]), self.id_of(both[1]))
        self.vote(self.id_of(both[0]), self.boss("other"))
        became = sorted(self.reached(each, "running", "ended", tenant="other")["status"] for each in both)
        self.assertEqual(became, ["ended", "running"])
        for each in both:
            self.end(each, "other")

    def test_it_is_made_as_it_was_approved(self):
        """Not for a key revoked meanwhile, and not if the agent's sessions must differ now."""
        made = self.call("POST", "/v1/keys", {"tenant": "counted", "name": "lost", "roles": ["agent"], "agent": "coder"},
                         status=201).json()
        held = self.call("POST", "/v1/sessions", {"language": "bash"}, key=made["secret"], status=202).json()
        self.call("DELETE", f"/v1/keys/{made['id']}", status=204)
        other = self.make("counted", cwd="/tmp")
        self.call("POST", "/v1/agents/coder/sandbox?tenant=counted", {"level": "unrestricted", "nested": True}, status=201)
        for each, why in ((held, "revoked"), (other, "nested")):
            self.vote(self.id_of(each), self.boss("counted"), status=409 if each is held else 200)
            self.assertIn(why, self.reached(each, "running", "ended", tenant="counted")["end_reason"]["message"])

    def test_a_tier_asks_for_it(self):
        """A tier that demands approval, without any other demand of the policy."""
        for tier, people in (("HumanApprove", 1), ("ManualOnly", 2)):
            held = self.make("free", tier=tier)
            escalation = self.id_of(held)
            for n in range(people):
                self.assertEqual(self.reached(held, "blocked", "running", tenant="free")["status"], "blocked", tier)
                self.vote(escalation, self.boss("free", f"lead-{n}"))
            self.reached(held, "running", tenant="free")
            self.end(held, "free")

    def test_over_mcp(self):
        with mcp_client.Http(self.server, "modern", key=self.agent()) as client:
            told = client.tool("create_session", language="bash", cwd="/mcp")
            held = told["structuredContent"]
            self.assertEqual(held["status"], "blocked", told)
            self.assertIn(held["escalation_id"], told["content"][0]["text"])
            self.vote(held["escalation_id"], self.boss())
            self.reached({"id": held["session_id"]}, "running")
            listed = client.ok("list_sessions", state="running")["sessions"]
            self.assertIn(held["session_id"], [each["session_id"] for each in listed])
            client.ok("terminate", session_id=held["session_id"])

    def test_on_the_command_line(self):
        env = {"CLOISTER_API_KEY": self.agent()}
        left = self.server.cli("session", "create", "--language", "python", env=env)
        self.assertEqual(left.returncode, 125, left.stderr)
        self.assertRegex(left.stderr, r"cloister: blocked: it is made once it is approved: .* \(ESC-\d{4}-\d{3}\)")
        made = {"id": left.stdout.strip()}
        self.assertIn(self.id_of(self.reached(made, "blocked")), left.stderr)
        self.end(made)

        def approve():
            asked = self.call("GET", "/v1/escalations?status=pending&limit=100", key=self.boss(), status=200).json()
            mine = [each["id"] for each in asked["escalations"] if each["subject"] == "for node"]
            return mine and self.vote(mine[0], self.boss())

        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = pool.submit(self.server.cli, "session", "create", "--language", "node", "--wait-approval", env=env)
            harness.wait_for("its request", approve, 30, every=0.1)
            done = waits.result()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.reached({"id": done.stdout.strip()}, "running", "ended")["status"], "running")
        self.end({"id": done.stdout.strip()})


if __name__ == "__main__":
    unittest.main()
