# SPDX-License-Identifier: Apache-2.0
"""sandbox:dry-run: a forecast that comes true, and leaves no trace."""

import json
import sqlite3
import time

import harness
from agent_case import AgentCase
from api_case import start_server


def setUpModule():
    start_server()


class DryRun(AgentCase):
    def setUp(self):
        super().setUp()
        self.give("standard")
        self.key = self.secret()

    def ask(self, body, query="", status=200, key=None):
        answer = self.call("POST", f"{self.path}:dry-run{query}", body, key=key, status=status)
        return answer.json()

    def decided(self, **request):
        """What becomes of a request, in the words of a forecast, and its id."""
        execution = self.run_as(self.key, **request)
        if execution["status"] == "blocked":
            self.call("DELETE", f"/v1/executions/{execution['id']}", status=200)
            return "approve", execution["id"]
        return ("deny" if execution["status"] == "denied" else "allow"), execution["id"]

    def rows(self):
        return self.call("GET", "/v1/audit?limit=1000", status=200).json()["entries"]

    def test_the_forecast_is_what_then_happens(self):
        requests = ({"command": "ls /"}, {"command": "cat /etc/passwd"}, {"command": "sudo id"},
                    {"language": "python", "code": "print(1)"}, {"language": "bash", "code": "rm -rf /tmp/none"},
                    {"command": ["true"], "memory_mb": 256}, {"command": "true", "timeout_seconds": 100},
                    {"language": "bash", "code": "curl http://example.org/"},
                    {"command": "true", "files": [{"path": "a.txt", "content": "a"}]})
        first = [self.decided(**each) for each in requests]
        self.forgive("standard")
        for change in ({"level": "restricted"}, {"level": "isolated"}, {"level": "training"},
                       {"revoke": ["command_execution"]}, {"limits": {"memory_mb": 128, "time_seconds": 50}},
                       {"add": {"forbidden_commands": ["ls *"], "allowed_commands": ["true"]}}):
            with self.subTest(json.dumps(change)):
                present = self.call("GET", self.path, status=200).json()
                forecast = self.ask(change, f"?limit={len(requests)}")
                self.assertEqual((forecast["replayed"], forecast["not_replayable"]), (len(requests), 0), forecast)
                before = {}
                after = {}
                for group in forecast["groups"]:
                    for each in group["examples"]:
                        before[each], after[each] = group["from"]["decision"], group["to"]["decision"]
                self.call("POST", self.path + ":update", change, status=200)
                again = [self.decided(**each) for each in requests]
                for (was, ident), (now, _), request in zip(first, again, requests):
                    if ident in before:  # not one of a large group's others
                        self.assertEqual((before[ident], after[ident]), (was, now), (request, change, forecast))
                for kind in ("allow", "approve", "deny"):
                    self.assertEqual(forecast["before"][kind], sum(each == kind for each, _ in first))
                    self.assertEqual(forecast["after"][kind], sum(each == kind for each, _ in again), (change, again))
                self.assertEqual(forecast["changed"], sum(a != b for (a, _), (b, _) in zip(first, again)))
                self.call("DELETE", self.path, status=204)
                self.give("standard")
                self.assertEqual(present["level"], "standard")
                first = [self.decided(**each) for each in requests]
                self.forgive("standard")

    def used(self):
        found = self.call("GET", "/v1/quotas?tenant=default", status=200).json()["quotas"]
        return next(each["use"] for each in found if each["agent"] is None)

    def test_it_has_no_effect(self):
        self.call("PUT", "/v1/quotas/tenants/default", {"runs_per_minute": 10000}, status=200)
        for request in ({"command": "ls /"}, {"command": "sudo id"}, {"language": "python", "code": "print(1)"}):
            self.decided(**request)
        quota = self.used()
        escalations = self.call("GET", "/v1/escalations", status=200).json()
        sandbox = self.call("GET", self.path, status=200).json()
        violations, rows = self.violations(), self.rows()
        executions = self.call("GET", "/v1/executions?limit=100", status=200).json()
        for change in ({"level": "isolated"}, {"level": "training"}, {"revoke": ["network"]}):
            self.ask(change)
        self.assertEqual(self.rows(), rows)
        self.assertEqual(self.violations(), violations)
        self.assertEqual(self.call("GET", self.path, status=200).json(), sandbox)
        self.assertEqual(self.call("GET", "/v1/escalations", status=200).json(), escalations)
        self.assertEqual(self.call("GET", "/v1/executions?limit=100", status=200).json(), executions)
        for name, value in self.used().items():
            self.assertLessEqual(value, quota[name], name)

    def test_of_an_agent_without_a_sandbox(self):
        self.call("DELETE", self.path, status=204)
        self.assertEqual(self.decided(command="ls /")[0], "allow")
        forecast = self.ask({"level": "isolated", "granted_operations": ["file_read"]})
        self.assertEqual((forecast["level"], forecast["before"]["allow"], forecast["replayed"]), ("isolated", 1, 1))
        self.assertEqual(self.call("GET", self.path).status, 404, "none was made")

    def test_the_number_and_the_newest(self):
        ids = [self.decided(command="true")[1] for _ in range(4)]
        forecast = self.ask({"revoke": ["command_execution"]}, "?limit=2")
        self.assertEqual((forecast["replayed"], forecast["changed"]), (2, 2))
        group, = forecast["groups"]
        self.assertEqual(set(group["examples"]), set(ids[-2:]))
        self.assertEqual((group["count"], group["from"]["decision"], group["to"]["by"]), (2, "allow", "agent"))

    def test_what_can_no_longer_be_decided(self):
        kept = self.decided(command="true")[1]
        visited = self.call("POST", "/v1/sessions", {"language": "bash"}, key=self.secret(agent=self.agent + "-maker"),
                            status=201).json()["id"]
        own = self.call("POST", "/v1/sessions", {"language": "bash"}, key=self.key, status=201).json()["id"]
        for session in (visited, own):
            path = f"/v1/sessions/{session}/exec?wait=30"
            answer = self.call("POST", path, {"command": "true"}, key=self.key)
            self.assertIn(answer.status, (200, 404), answer.body)
        gone = self.decided(command="ls /")[1]
        with sqlite3.connect(f"{self.server.state}/ledger/ledger.db", timeout=10) as ledger:
            ledger.execute("DELETE FROM requests WHERE execution=(SELECT seq FROM executions WHERE id=?)", (gone,))
            ledger.execute("UPDATE requests SET encrypted=1, body='AAAA' WHERE execution="
                           "(SELECT seq FROM executions WHERE id=?)", (kept,))
        forecast = self.ask({"level": "isolated"})
        self.assertEqual({name: forecast["not_replayable_why"][name] for name in ("forgotten", "illegible")},
                         {"forgotten": 1, "illegible": 1}, forecast)
        self.assertEqual(forecast["not_replayable"], sum(forecast["not_replayable_why"].values()))
        self.assertGreaterEqual(forecast["replayed"], 1, "the program of its own session")
        for session in (visited, own):
            self.call("DELETE", f"/v1/sessions/{session}")

    def test_who_may_and_what(self):
        self.decided(command="true")
        for role in ("viewer", "operator", "approver", "agent"):
            self.ask({"level": "isolated"}, key=self.new_key("default", roles=[role])["secret"], status=403)
        self.ask({"level": "isolated"}, key=self.new_key("default", roles=["tenant-admin"])["secret"])
        stranger = self.new_key("elsewhere", roles=["tenant-admin"])["secret"]
        self.ask({"level": "isolated"}, "?tenant=default", status=404, key=stranger)
        own = self.ask({"level": "isolated"}, key=stranger)
        self.assertEqual((own["tenant"], own["replayed"]), ("elsewhere", 0), "an agent of this name of its own")
        for body, field in (({"level": "none"}, "level"), ({"grant": ["fly"]}, "grant"), ({"x": 1}, "x"),
                            ({"limits": {"memory_mb": 0}}, "limits.memory_mb"), ({}, "level")):
            self.assertProblem(self.call("POST", f"{self.path}:dry-run", body), 422, field=field)
        for bad in ("limit=0", "limit=1001", "more=1"):
            self.assertEqual(self.call("POST", f"{self.path}:dry-run?{bad}", {"level": "isolated"}).status, 400)

    def test_the_command(self):
        ident = self.decided(command="true")[1]
        flags = ("--agent", self.agent, "--tenant", "default", "--dry-run")
        told = self.server.cli("agent", "revoke", "--operation", "command_execution", *flags)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertRegex(told.stdout, r"^Nothing was changed\. Of the last 1 requests 1 would be decided otherwise\.\n"
                                      rf"  1  allow.* -> approve \(.*\): {ident}\n$")
        for words in (("update", "--level", "isolated"), ("limit", "--memory", "64MB"), ("forbid", "--path", "/etc/*"),
                      ("filter", "--whitelist", "on"), ("grant", "--operation", "file_write"),
                      ("allow", "--command", "true", "--json")):
            told = self.server.cli("agent", *words, *flags)
            self.assertEqual(told.returncode, 0, f"{words}: {told.stderr}")
        self.assertEqual(json.loads(told.stdout)["replayed"], 1)
        self.assertEqual(self.call("GET", self.path, status=200).json()["level"], "standard")

    def test_a_thousand_are_decided_in_seconds(self):
        for _ in range(20):
            self.decided(command="true")
        began = time.monotonic()
        self.ask({"level": "isolated"}, "?limit=1000")
        self.assertLess(time.monotonic() - began, harness.limit(5))


if __name__ == "__main__":
    import unittest
    unittest.main()
