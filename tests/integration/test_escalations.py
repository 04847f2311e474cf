# SPDX-License-Identifier: Apache-2.0
"""Escalations with the real service: blocked runs, approvers, the content of an approval, kill -9, received
notifications, and every command line."""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import re
import time
import unittest

import harness
import hooks
from escalation_case import SECRET, Escalations


class Blocked(Escalations):
    def test_blocks_and_goes_on_by_itself(self):
        held = self.ask()
        self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"))
        waited = self.call("POST", "/v1/executions?wait=1", {"language": "bash", "code": "echo other"},
                           key=self.agent(), status=202).json()
        self.assertEqual(waited["status"], "blocked")
        shown = self.show(self.id_of(held))
        self.assertEqual(shown["execution_id"], held["id"])
        self.assertIn("echo hello", shown["display"])
        self.vote(self.id_of(held), self.boss())
        done = self.server.wait_end(held["id"])
        self.assertEqual((done["status"], done["stdout"], done["error"]), ("completed", "hello\n", None))
        told = self.server.cli("audit", "list", "--subject", self.id_of(held), "--oldest-first").stdout.splitlines()
        self.assertRegex(told[0], rf"Z  \S+ requested {self.id_of(held)} \(run .*\)")
        self.assertRegex(told[1], rf"Z  security-lead approved {self.id_of(held)} \(run .*\) for agent coder( in tenant \w+)?$")
        statuses = [data["status"] for event, _, data in self.server.events(held["id"]) if event == "status"]
        self.assertEqual(statuses[-1], "completed")
        self.assertEqual(self.show(self.id_of(held))["status"], "used")
        self.vote(self.id_of(waited), self.boss(), "deny", reason="not that")
        ended = self.server.wait_end(waited["id"])
        self.assertEqual((ended["status"], ended["error"]["details"]["reason"]), ("denied", "approval_denied"))
        self.assertIn("not that", ended["error"]["message"])

    def test_holds_no_place(self):
        held = [self.ask(language="bash", code=f"echo {i}") for i in range(30)]
        started = time.monotonic()
        done = self.call("POST", "/v1/executions?wait=30", {"language": "bash", "code": "echo free"},
                         key=self.key("free"), status=200).json()
        self.assertEqual(done["stdout"], "free\n")
        self.assertLess(time.monotonic() - started, 20)
        for each in held:
            self.call("DELETE", f"/v1/executions/{each['id']}", key=self.agent(), status=200)
        self.assertEqual(self.show(self.id_of(held[0]))["status"], "expired")

    def test_counts_as_any_other_run(self):
        self.call("PUT", "/v1/quotas/tenants/counted", {"runs_per_minute": 2, "memory_mb": 512}, status=200)
        body = {"language": "bash", "code": "echo hello"}
        large = self.call("POST", "/v1/executions", {**body, "memory_mb": 513}, key=self.agent("counted"), status=429)
        self.assertEqual(large.json()["error"]["type"], "QUOTA_EXCEEDED")
        held = [self.ask("counted", **body) for _ in range(2)]
        more = self.call("POST", "/v1/executions", body, key=self.agent("counted"), status=429)
        self.assertEqual(more.json()["error"]["type"], "QUOTA_EXCEEDED")
        for each in held:
            self.call("DELETE", f"/v1/executions/{each['id']}", key=self.agent("counted"), status=200)

    def test_nobody_waits_for_an_approval(self):
        """A waiting client is answered when the run is blocked: at the end of the wait this run is denied."""
        held = self.call("POST", "/v1/executions?wait=30", {"language": "bash", "code": "echo hello"},
                         key=self.agent("hurried"), status=202).json()
        self.assertEqual(held["status"], "blocked")

    def test_nobody_in_time(self):
        held = self.ask("hurried")
        ended = self.server.wait_end(held["id"], 15)
        self.assertEqual((ended["status"], ended["error"]["details"]["reason"]), ("denied", "approval_expired"))
        self.vote(self.id_of(held), self.boss("hurried"), status=409)

    def test_a_hard_denial_is_not_approvable(self):
        denied = self.ask("evil")
        self.assertEqual((denied["status"], denied["error"]["type"]), ("denied", "PERMISSION_DENIED"))
        self.assertNotIn("escalation_id", denied["error"]["details"])
        asked = self.call("POST", "/v1/escalations", {
            "operation": "run", "reason": "please", "request": {"language": "bash", "code": "echo x"}},
            key=self.agent("evil"), status=201).json()
        self.vote(asked["id"], self.boss("evil"))
        again = self.ask("evil", language="bash", code="echo x", approval=asked["id"])
        self.assertEqual((again["status"], again["error"]["type"]), ("denied", "PERMISSION_DENIED"))

    def test_a_program_of_a_session_goes_on_when_it_is_approved(self):
        key = self.agent("mixed")
        first, second = (self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
                         for _ in range(2))

        def execute(session, status, **more):
            return self.call("POST", f"/v1/sessions/{session}/exec?wait=30", {"command": "echo in", **more},
                             key=key, status=status).json()

        for sandbox in ("session", "fresh"):
            held = execute(first, 202, sandbox=sandbox)
            self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"))
            escalation = self.id_of(held)
            self.assertEqual(self.show(escalation, self.boss("mixed"))["session_id"], first)
            self.vote(escalation, self.boss("mixed"))
            done = self.server.wait_end(held["id"], 30)
            self.assertEqual((done["status"], done["stdout"], done["provenance"].get("sandbox")),
                             ("completed", "in\n", "fresh" if sandbox == "fresh" else None), done)
            for session, more in ((second, {}), (first, {"command": "echo out"}), (first, {"cwd": "/tmp"}), (first, {})):
                other = execute(session, 200, approval=escalation, sandbox=sandbox, **more)
                self.assertEqual(other["status"], "denied")
                self.assertIn(other["error"]["details"]["reason"], ("approval_mismatch", "approval_used"))
        denied = execute(first, 202)
        self.call("POST", f"/v1/escalations/{self.id_of(denied)}:deny", {"reason": "no"}, key=self.boss("mixed"))
        self.assertEqual(self.server.wait_end(denied["id"], 30)["error"]["details"]["reason"], "approval_denied")
        waits = execute(second, 202)
        self.call("DELETE", f"/v1/sessions/{second}", key=key)
        self.assertIn(self.server.wait_end(waits["id"], 30)["status"], ("cancelled", "failed"))
        self.call("DELETE", f"/v1/sessions/{first}", key=key)


class WhoDecides(Escalations):
    def test_not_who_asked(self):
        held = self.ask()
        escalation = self.id_of(held)
        refused = {
            "the requester's token": self.agent(),
            "the same user as approver": self.key("acme", "approver", user="dev"),
            "the same agent's name": self.key("acme", "approver", agent="coder"),
            "a viewer": self.key("acme", "viewer", user="v"),
            "another agent": self.key("acme", agent="second", user="second"),
            "a tenant's administrator": self.key("acme", "tenant-admin", user="t"),
        }
        for what, key in refused.items():
            with self.subTest(what):
                self.vote(escalation, key, status=403)
        self.vote(escalation, self.boss("other"), status=404)
        self.vote(escalation, False, status=401)
        self.vote(escalation, self.boss(), status=403, approver="somebody-else")
        self.assertEqual(self.show(escalation)["status"], "pending")
        rows = [row for row in self.audit(escalation) if row["action"] == "escalation.vote_refused"]
        self.assertEqual({row["user"] or row["agent"] for row in rows}, {"dev", "coder", "v", "second", "t",
                                                                         "security-lead"})
        self.assertEqual({row["details"]["requester"]["user"] for row in rows}, {"dev"})
        reasons = " ".join(row["details"]["reason"] for row in rows)
        self.assertIn("lacks the permission escalation.decide", reasons)
        self.assertRegex(reasons, r"this credential is not somebody-else's, it is security-lead's \(key_\w+\); use their own, "
                                  "or name a user, an agent or a key's id")
        self.call("DELETE", f"/v1/executions/{held['id']}", key=self.agent())

    def test_a_quorum_is_of_persons(self):
        held = self.ask("two")
        escalation = self.id_of(held)
        self.assertEqual(self.vote(escalation, self.boss("two"))["status"], "pending")
        second_key = self.key("two", "approver", user="security-lead", app="another-key")
        self.vote(escalation, second_key, status=409)
        self.assertEqual(self.server.get(held["id"])["status"], "blocked")
        self.assertEqual(self.vote(escalation, self.boss("two", "chief"))["status"], "approved")
        self.assertEqual(self.server.wait_end(held["id"])["status"], "completed")

    def credential(self, tenant, *roles, **who):
        """A credential that this test may revoke."""
        return self.call("POST", "/v1/keys", {"tenant": tenant, "name": "test", "roles": roles, **who}, status=201).json()

    def test_a_vote_ends_with_its_credential(self):
        held = self.ask("two")
        wanted = self.id_of(held)
        first = self.credential("two", "approver", user="ann")
        self.vote(wanted, first["secret"])
        self.call("DELETE", f"/v1/keys/{first['id']}", status=204)
        second = self.vote(wanted, self.boss("two", "bob"))
        self.assertEqual((second["status"], second["approvals"]), ("pending", 1))
        self.assertEqual([each["revoked"] for each in second["decisions"]], [True, False])
        self.assertEqual(self.server.get(held["id"])["status"], "blocked")
        self.assertIn("does not count", self.server.cli("escalation", "show", wanted, "--tenant", "two").stdout)
        self.vote(wanted, self.boss("two", "cyd"))
        self.assertEqual(self.server.wait_end(held["id"])["status"], "completed")
        receipt = self.call("GET", f"/v1/executions/{held['id']}/receipt", status=200).json()
        self.assertNotIn(first["id"], json.dumps(receipt))

    def test_a_name_in_capitals_is_of_the_same_user(self):
        self.vote(self.id_of(self.ask()), self.boss(user="DEV"), status=403)
        escalation = self.id_of(self.ask("two"))
        self.vote(escalation, self.boss("two", "ann"))
        self.vote(escalation, self.boss("two", "Ann"), status=409)

    def test_a_revoked_requesters_run_does_not_start(self):
        asker = self.credential("acme", "agent", agent="coder", user="dev")
        held = self.call("POST", "/v1/executions", {"language": "bash", "code": "echo hello"}, key=asker["secret"],
                         status=201).json()
        self.call("DELETE", f"/v1/keys/{asker['id']}", status=204)
        refused = self.vote(self.id_of(held), self.boss(), status=409)
        self.assertIn("ask anew with another credential", refused["error"]["message"])
        ended = self.server.wait_end(held["id"])
        self.assertEqual((ended["status"], ended["error"]["details"]["reason"]), ("denied", "requester_revoked"))
        self.assertIn(asker["id"], ended["error"]["message"])
        self.assertEqual(self.show(self.id_of(held), self.boss())["status"], "denied")

    def test_fifty_votes_at_once_count_once(self):
        held = self.ask()
        key, escalation = self.boss(), self.id_of(held)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self.server.request(
                "POST", f"/v1/escalations/{escalation}:approve", {}, key=key).status, range(50)))
        self.assertEqual(sorted(answers), [200] + [409] * 49)
        self.assertEqual(self.server.wait_end(held["id"])["status"], "completed")
        starts = [row for row in self.audit(held["id"]) if row["action"] == "execution.started"]
        self.assertEqual(len(starts), 1)

    def test_another_tenants_is_none(self):
        escalation = self.id_of(self.ask())
        for method, path, body in (("GET", "", None), ("POST", ":approve", {}), ("POST", ":deny", {"reason": "x"})):
            theirs = self.call(method, f"/v1/escalations/{escalation}{path}", body, key=self.boss("far"), status=404)
            none = self.call(method, f"/v1/escalations/ESC-2020-999{path}", body, key=self.boss("far"), status=404)
            strip = lambda answer: re.sub(r"ESC-[0-9-]+|req_\w+", "", answer.body.decode())  # noqa: E731
            self.assertEqual(strip(theirs), strip(none))
        mine = self.call("GET", "/v1/escalations", key=self.boss("far"), status=200).json()
        self.assertEqual(mine["escalations"], [])


class Binding(Escalations):
    RUN = {"language": "bash", "code": "sh ./script.sh", "args": ["one"], "env": {"A": "1"}, "input": "in",
           "files": [{"path": "script.sh", "content": "cat; echo $A"}], "timeout_seconds": 20, "memory_mb": 256}

    def approved(self, tenant="acme", run=None):
        asked = self.call("POST", "/v1/escalations", {"operation": "run", "reason": "release",
                                                     "request": run or self.RUN},
                          key=self.agent(tenant), status=201).json()
        self.vote(asked["id"], self.boss(tenant))
        return asked["id"]

    def test_each_changed_bit_is_refused(self):
        escalation = self.approved()
        changes = {
            "script": {"files": [{"path": "script.sh", "content": "cat; echo $A "}]},
            "executable": {"files": [{**self.RUN["files"][0], "executable": True}]},
            "code": {"code": "sh ./script.sh;"},
            "argv": {"args": ["two"]},
            "env": {"env": {"A": "2"}},
            "one variable more": {"env": {"A": "1", "LD_PRELOAD": "x"}},
            "input": {"input": "other"},
            "time": {"timeout_seconds": 21},
            "memory": {"memory_mb": 512},
            "processes": {"pids": 65},
            "language": {"language": "python", "code": "print(1)"},
            "artifacts": {"artifacts": []},
            "metadata": {"metadata": {"task": "2"}},
        }
        for what, change in changes.items():
            with self.subTest(what):
                refused = self.ask(**{**self.RUN, **change}, approval=escalation)
                self.assertEqual((refused["status"], refused["error"]["details"].get("reason")),
                                 ("denied", "approval_mismatch"))
        network = self.ask(**{**self.RUN, "network_policy": {"tier": "full"}}, approval=escalation)
        self.assertEqual(network["status"], "denied")
        self.assertEqual(self.show(escalation)["status"], "approved", "nothing of that used it")
        good = self.ask(**self.RUN, approval=escalation)
        done = self.server.wait_end(good["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "in1\n"))
        again = self.ask(**self.RUN, approval=escalation)
        self.assertEqual(again["error"]["details"]["reason"], "approval_used")

    def test_is_not_anothers(self):
        escalation = self.approved()
        body = {**self.RUN, "approval": escalation}
        for key in (self.key("acme", agent="second", user="dev"), self.key("acme", agent="coder", user="other"),
                    self.agent("other")):
            refused = self.call("POST", "/v1/executions", body, key=key, status=201).json()
            self.assertEqual((refused["status"], refused["error"]["details"]["reason"]),
                             ("denied", "approval_mismatch"))
        held = self.ask(**self.RUN)  # the other requester has an escalation of its own
        self.assertNotEqual(self.id_of(held), escalation)
        self.vote(self.id_of(held), self.boss())
        self.server.wait_end(held["id"])
        replay = self.ask(**self.RUN, approval=self.id_of(held))
        self.assertEqual(replay["error"]["details"]["reason"], "approval_used")

    def test_is_for_those_whom_the_rule_names(self):
        """Also for a request by hand: the role of the rule that the run meets."""
        run = {"language": "bash", "code": "echo mine"}
        owner = self.key("owned", "tenant-admin", user="owner")
        asked = self.call("POST", "/v1/escalations", {"operation": "run", "reason": "release", "request": run},
                          key=self.agent("owned"), status=201).json()["id"]
        self.vote(asked, self.boss("owned"), status=403)
        self.vote(asked, owner)
        self.assertEqual(self.server.wait_end(self.ask("owned", **run, approval=asked)["id"])["stdout"], "mine\n")
        deploy = {"language": "python", "code": "print(1)", "metadata": {"tool_type": "deploy"}}
        asked = self.call("POST", "/v1/escalations", {"operation": "run", "reason": "release", "request": deploy},
                          key=self.agent("owned"), status=201).json()["id"]
        self.vote(asked, self.boss("owned"), status=403)
        self.vote(asked, owner)
        refused = self.ask("owned", **{**deploy, "metadata": {}}, approval=asked)
        self.assertEqual((refused["status"], refused["error"]["details"]["reason"]), ("denied", "approval_mismatch"))
        self.assertEqual(self.show(asked, owner)["status"], "approved", "it is not used up")
        self.assertEqual(self.server.wait_end(self.ask("owned", **deploy, approval=asked)["id"])["stdout"], "1\n")

    def test_bad_requests_name_the_field(self):
        run = {"language": "bash", "code": "echo x"}
        for field, body in (("approval", {**run, "approval": "ESC-1"}), ("approval", {**run, "approval": "../x"})):
            self.assertProblem(self.call("POST", "/v1/executions", body, key=self.agent()), 422, field=field)
        for field, body in (("operation", {"operation": "x", "reason": "x"}),
                            ("request.timeout_seconds", {"operation": "run", "reason": "x",
                                                         "request": {**run, "timeout_seconds": -1}})):
            self.assertProblem(self.call("POST", "/v1/escalations", body, key=self.agent()), 422, field=field)
        self.assertProblem(self.call("GET", "/v1/escalations?status=x", key=self.agent()), 400, field="query.status")

    def test_what_is_shown_cannot_lie(self):
        code = "echo safe # \x1b[2K\u202e\u200b\rrm -rf /" + "x" * 20_000
        shown = self.show(self.id_of(self.ask(language="bash", code=code)))
        self.assertIn("\\x1b[2K\\u{202e}\\u{200b}\\rrm -rf /", shown["display"])
        self.assertRegex(shown["display"], r"more bytes\]")
        for bad in "\x1b\r\u202e\u200b":
            self.assertNotIn(bad, shown["display"])
        printed = self.server.cli("escalation", "show", shown["id"], env={"CLOISTER_API_KEY": self.boss()})
        self.assertEqual(printed.returncode, 0, printed.stderr)
        for bad in "\x1b\r\u202e\u200b":
            self.assertNotIn(bad, printed.stdout)

    def whole(self, escalation, key, status=200, tenant=""):
        return self.call("GET", f"/v1/escalations/{escalation}/request{tenant}", key=key, status=status).json()

    def test_the_whole_request_is_shown(self):
        """For approvers, although `display` is cut; an invisible character is named, with its place."""
        end = "rm -rf /tmp/\u0430 \u202e"
        run = {"language": "bash", "code": "#" * 50_000 + "\n" + end, "files": [{"path": "a.sh", "content": "echo a"}],
               "env": {"TOKEN": "hidden"}, "metadata": {"task": "1"}}
        held = self.ask(**run)
        by_hand = self.call("POST", "/v1/escalations", {"operation": "run", "reason": "x", "request": run},
                            key=self.agent(), status=201).json()["id"]
        for escalation in (self.id_of(held), by_hand):
            for key in (self.boss(), self.agent()):
                shown = self.whole(escalation, key)
                for member, value in run.items():
                    if member != "files":
                        self.assertEqual(shown["request"][member], value)
                self.assertEqual(shown["files"], [{"path": "a.sh", "bytes": 6, "executable": False, "text": True,
                                                   "sha256": hashlib.sha256(b"echo a").hexdigest()}])
                self.assertEqual([(each["at"], each["codepoint"], each["offset"]) for each in shown["unusual"]],
                                 [("code", "U+0430", 50_013), ("code", "U+202E", 50_016)])
            self.assertEqual(self.show(escalation)["digest"], shown["digest"])
            self.whole(escalation, self.key("acme", "viewer"), status=403)
            self.whole(escalation, self.key("acme", agent="second", user="x"), status=404)
            self.whole(escalation, self.boss("other"), status=404)
            printed = self.server.cli("escalation", "show", escalation, "--full", env={"CLOISTER_API_KEY": self.boss()})
            self.assertEqual(printed.returncode, 0, printed.stderr)
            self.assertIn("     | rm -rf /tmp/\\u{430} \\u{202e}\n", printed.stdout)
            self.assertIn("code, byte 50013: U+0430, Cyrillic", printed.stdout)
            self.assertGreater(len(printed.stdout), 50_000)
        path = self.call("POST", "/v1/escalations", {"operation": "file_write", "reason": "x", "path": "p\u0430th"},
                         key=self.agent(), status=201).json()
        self.assertIn("p\\u{430}th", path["display"])
        self.assertEqual(self.whole(path["id"], self.boss())["unusual"][0]["at"], "subject")
        self.vote(self.id_of(held), self.boss())
        self.server.wait_end(held["id"])
        self.assertEqual(self.whole(self.id_of(held), self.boss())["request"]["code"], run["code"], "and afterwards")

    def test_the_whole_request_of_a_session(self):
        held = self.call("POST", "/v1/sessions", {"language": "bash", "env": {"A": "1"}}, key=self.agent(), status=202).json()
        self.assertEqual(self.whole(self.id_of(held), self.boss())["request"]["env"], {"A": "1"})
        self.vote(self.id_of(held), self.boss(), "deny", reason="no")


class Restarts(Escalations):
    def test_kill_and_restart_while_blocked(self):
        for end in (lambda: self.server.kill(), lambda: self.server.stop()):
            first, second = self.ask(), self.ask(language="bash", code="echo second")
            end()
            self.server.start()
            self.assertEqual(self.server.get(first["id"])["status"], "blocked")
            self.vote(self.id_of(first), self.boss())
            self.assertEqual(self.server.wait_end(first["id"])["stdout"], "hello\n")
            self.vote(self.id_of(second), self.boss(), "deny", reason="no")
            self.assertEqual(self.server.wait_end(second["id"])["status"], "denied")

    def test_kill_of_the_control_plane_around_the_approval(self):
        held = [self.ask(language="bash", code=f"echo {i}") for i in range(8)]
        for each in held[:4]:
            self.vote(self.id_of(each), self.boss())
        self.server.kill()
        self.server.start()
        for each in held[4:]:
            self.vote(self.id_of(each), self.boss())
        for i, each in enumerate(held):
            done = self.server.wait_end(each["id"])
            if done["status"] == "failed":  # the run was running when the service was killed
                self.assertEqual(done["error"]["type"], "SERVER_RESTART")
                self.assertLess(i, 4)
                continue
            self.assertEqual((done["status"], done["stdout"]), ("completed", f"{i}\n"))
            self.assertEqual(self.show(self.id_of(each))["status"], "used")
        self.assertEqual(self.server.cli("audit", "verify").returncode, 0)


class Notified(Escalations):
    @classmethod
    def make_config(cls):
        cls.certificate = hooks.Certificate()
        cls.hook = hooks.webhook(cls.certificate, failures=2)
        cls.relay = hooks.mail_relay(cls.certificate)
        ca = cls.certificate.ca
        return (f"escalation:\n  notification_pause_ms: 100\n"
                f"  webhook: {{url: 'https://127.0.0.1:{cls.hook.server_port}/hook', secret_file: {cls.dir}/secret,"
                f" ca_file: {ca}}}\n"
                f"  smtp: {{relay: '127.0.0.1:{cls.relay.server_address[1]}', from: cloister@example.org,"
                f" to: [security-team@company.com], ca_file: {ca}}}\n")

    def test_a_webhook_and_a_mail_are_received(self):
        held = self.ask(language="bash", code="echo secret-in-the-code")
        escalation = self.id_of(held)

        def of(event):
            return [(headers, json.loads(body)) for headers, body in self.hook.received
                    if json.loads(body)["event"] == event and json.loads(body)["escalation"]["id"] == escalation]

        harness.wait_for("the webhook, after two failures", lambda: len(self.hook.received) >= 3 and of(
            "escalation.requested"), 20)
        headers, body = self.hook.received[-1]
        stamp = headers["X-Cloister-Timestamp"]
        want = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        self.assertEqual(headers["X-Cloister-Signature"], "v1=" + want)
        self.assertLess(abs(time.time() - int(stamp)), 60)
        self.assertEqual(len({h["X-Cloister-Delivery"] for h, b in self.hook.received[:3]}), 1)
        mail = harness.wait_for("the mail", lambda: self.relay.received, 20)[0]
        self.assertEqual(mail[:3], (True, "<cloister@example.org>", ["<security-team@company.com>"]))
        self.assertIn(f"Subject: [{escalation}] pending: run by agent coder\r\n", mail[3])
        self.assertIn(f"cloister escalation approve {escalation}", hooks.mail_body(mail[3]))
        self.vote(escalation, self.boss())
        harness.wait_for("the approval's webhook", lambda: of("escalation.approved"), 20)
        for told in [body for _, body in self.hook.received] + [hooks.mail_body(m[3]).encode()
                                                               for m in self.relay.received]:
            self.assertNotIn(b"secret-in-the-code", told)

    def test_none_is_lost_by_a_kill(self):
        self.relay.shutdown()
        self.relay.server_close()
        asked = [self.id_of(self.ask(language="bash", code=f"echo {i}")) for i in range(5)]
        self.server.kill()
        again = hooks.Relay(self.relay.server_address, self.relay.RequestHandlerClass)
        again.received = self.relay.received
        type(self).relay = hooks._serve(again)
        self.server.start()

        def told():
            text = "".join(mail[3] for mail in self.relay.received)
            return all(f"[{escalation}] pending" in text for escalation in asked)

        harness.wait_for("the mails of all five", told, 30)

    def test_an_agents_own_settings(self):
        """The channels to notify among the configured, and the time to answer."""
        quiet, hasty = (self.call("POST", "/v1/keys", {"tenant": "default", "name": "test", "roles": ["agent"], "agent": agent},
                                  status=201).json()["secret"] for agent in ("quiet", "hasty"))
        for agent, settings in (("quiet", {"notification_channels": ["smtp"]}), ("hasty", {"timeout_seconds": 1})):
            self.call("POST", f"/v1/agents/{agent}/sandbox", {"level": "standard", "escalation": settings | {"auto_approve_safe": False}}, status=201)
        body = {"operation": "file_write", "path": "/workspace/x", "reason": "why"}
        self.call("POST", "/v1/escalations", body, key=quiet, status=201)
        late = self.call("POST", "/v1/escalations", body, key=hasty, status=201).json()["id"]
        harness.wait_for("the mail", lambda: any("file_write by agent quiet" in mail[3] for mail in self.relay.received), 20)
        harness.wait_for("its end", lambda: self.show(late, self.boss("default"))["status"] == "expired", 20)

        def hooked(agent):
            return any(f'"agent":"{agent}"' in body.decode() for _, body in self.hook.received)

        harness.wait_for("the other's webhook", lambda: hooked("hasty"), 20)
        self.assertFalse(hooked("quiet"), "it was asked for before the other, of which the webhook has heard")


class MailToAnotherName(Escalations):
    @classmethod
    def make_config(cls):
        cls.certificate = hooks.Certificate()  # of 127.0.0.1
        cls.relay = hooks.mail_relay(cls.certificate)
        return (f"escalation:\n  notification_pause_ms: 100\n"
                f"  smtp: {{relay: 'localhost:{cls.relay.server_address[1]}', from: cloister@example.org,"
                f" to: [security-team@company.com], ca_file: {cls.certificate.ca}}}\n")

    def test_is_not_sent(self):
        self.ask()
        said = "mail relay localhost: TLS: certificate verify failed: it is not for localhost"
        harness.wait_for("the refusal", lambda: said in self.server.log.read_text(errors="replace"), 20)
        self.assertEqual(self.relay.received, [])


class MailWithAPassword(Escalations):
    ways = "CRAM-MD5 PLAIN"

    @classmethod
    def make_config(cls):
        cls.certificate = hooks.Certificate()
        cls.relay = hooks.mail_relay(cls.certificate, "cloister", cls.ways)
        cls.relay.password = "not yet this one"
        (cls.dir / "password").write_text("pass word\n")
        return (f"escalation:\n  notification_pause_ms: 100\n"
                f"  smtp: {{relay: '127.0.0.1:{cls.relay.server_address[1]}', from: cloister@example.org,"
                f" to: [security-team@company.com], ca_file: {cls.certificate.ca}, user: cloister,"
                f" password_file: {cls.dir}/password}}\n")

    def test_is_known_to_the_relay(self):
        escalation = self.id_of(self.ask())
        log = lambda: self.server.log.read_text(errors="replace")
        harness.wait_for("the refusal", lambda: "it answers 535 to AUTH" in log(), 20)
        self.assertEqual(self.relay.received, [])
        self.relay.password = "pass word"
        mail = harness.wait_for("the mail", lambda: self.relay.received, 20)[0]
        self.assertTrue(mail[0])
        self.assertIn(escalation, mail[3])
        plain = base64.b64encode(b"\0cloister\0pass word").decode()
        for secret in ("pass word", base64.b64encode(b"pass word").decode(), plain):
            self.assertNotIn(secret, log())


class MailWithAPasswordByLogin(MailWithAPassword):
    ways = "LOGIN"


class CommandLine(Escalations):
    def cli(self, key, *args, status=0):
        done = self.server.cli("escalation", *args, env={"CLOISTER_API_KEY": key})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def junior(self):
        return self.key("acme", agent="junior-agent", user="junior")

    def test_every_line(self):
        made = self.cli(self.junior(), "request", "--operation", "file_write", "--path", "src/security/auth.rs",
                        "--reason", "auth refactoring task")
        self.assertRegex(made, r"✓ Escalation request created: ESC-\d{4}-\d{3}\n")
        escalation = re.search(r"ESC-\d{4}-\d{3}", made).group()
        pending = self.cli(self.boss(), "pending")
        self.assertIn(escalation, pending)
        self.assertIn("junior-agent", pending)
        approved = self.cli(self.boss(), "approve", escalation, "--approver", "security-lead")
        self.assertIn("✓ Escalation approved\n   Agent: junior-agent\n"
                      "   Operation: file_write to /workspace/src/security/auth.rs\n"
                      "   Temporary permission granted (expires in 2 hours)\n", approved)
        second = json.loads(self.cli(self.junior(), "request", "--json", "--operation", "command", "--command",
                                     "make release", "--reason", "release"))["id"]
        self.assertIn("Estimated approval time", self.cli(
            self.junior(), "request", "--operation", "network", "--host", "pypi.org", "--reason", "wheels"))
        denied = self.cli(self.boss(), "deny", "--request", second, "--reason", "unsafe")
        self.assertIn("✓ Escalation denied", denied)
        self.assertIn("unsafe", denied)
        self.assertIn("denied", self.cli(self.boss(), "list", "--status", "denied"))
        error = self.cli(self.boss(), "approve", "--request", second, status=3)
        self.assertIn("it is denied already", error)
        policy = self.cli(self.key("acme", "tenant-admin", user="t"), "policy", "--agent", "alice",
                          "--auto-approve", "safe")
        self.assertIn("Auto-approve: safe", policy)
        alice = self.key("acme", agent="alice", user="alice")
        self.assertIn("Approved by rule", self.cli(alice, "request", "--operation", "file_read", "--path", "/a",
                                                   "--reason", "look"))
        self.assertIn("no escalations", self.cli(alice, "pending", "--agent", "alice"))

    def test_run_leaves_what_is_blocked(self):
        env = {"CLOISTER_API_KEY": self.agent()}
        left = self.server.cli("run", "-l", "bash", "-c", "echo one", env=env)
        self.assertEqual((left.returncode, left.stdout), (125, ""), left.stderr)
        escalation = re.search(r"ESC-\d{4}-\d{3}", left.stderr).group()
        execution = re.search(r"exec_\w+", left.stderr).group()
        self.assertIn(f"cloister escalation approve {escalation}", left.stderr)
        self.assertEqual(self.server.get(execution)["status"], "blocked", "it was ended")
        self.cli(self.boss(), "approve", escalation)
        self.assertEqual(self.server.wait_end(execution)["stdout"], "one\n")

    def test_run_waits_where_it_is_asked_to(self):
        env = {"CLOISTER_API_KEY": self.agent()}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(self.server.cli, "run", "--wait-approval", "-l", "bash", "-c", "echo waited", env=env)
            asked = harness.wait_for("the request", lambda: next((each for each in self.call(
                "GET", "/v1/escalations?status=pending", key=self.boss(), status=200).json()["escalations"]
                if "echo waited" in each["display"]), None))
            self.vote(asked["id"], self.boss())
            done = waiting.result()
        self.assertEqual((done.returncode, done.stdout), (0, "waited\n"), done.stderr)

    def test_run_with_an_approval_and_a_tier(self):
        env = {"CLOISTER_API_KEY": self.agent()}
        refused = self.server.cli("run", "--approval", "ESC-2020-001", "-l", "bash", "-c", "echo two", env=env)
        self.assertEqual(refused.returncode, 125)
        self.assertIn("ESC-2020-001", refused.stderr)
        wrong = self.server.cli("run", "--tier", "Lowest", "-l", "bash", "-c", "echo two", env=env)
        self.assertIn("tier: must be", wrong.stderr)
        key = {"CLOISTER_API_KEY": self.agent("mixed")}
        wrong = self.server.cli("session", "create", "-l", "bash", "--tier", "Lowest", env=key)
        self.assertIn("tier: must be", wrong.stderr)
        made = self.server.cli("session", "create", "-l", "bash", "--tier", "Auto", env=key)
        refused = self.server.cli("exec", made.stdout.strip(), "--approval", "ESC-2020-001", "--", "true", env=key)
        self.assertEqual(refused.returncode, 125)
        self.assertIn("ESC-2020-001", refused.stderr)

    def test_a_blocked_run_goes_on(self):
        held = self.ask()
        out = self.cli(self.boss(), "approve", "--request", self.id_of(held), "--wait", "30")
        self.assertIn(f"→ Resuming blocked execution: {held['id']}", out)
        self.assertIn("✓ Execution completed with the approval (exit code 0)", out)


if __name__ == "__main__":
    unittest.main()
