# SPDX-License-Identifier: Apache-2.0
"""Quotas: each dimension refuses or waits as docs/QUOTAS.md says, over HTTP and the command line, and nobody else
notices."""

import itertools
import json
import unittest

import harness
from api_case import CONFIG, ApiTest
from session_case import Session

TENANTS = (f"quota{number}" for number in itertools.count())


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class QuotaCase(ApiTest):
    def setUp(self):
        self.tenant = next(TENANTS)

    def secret(self, role="agent", tenant=None, **more):
        return self.new_key(tenant or self.tenant, roles=[role], **more)["secret"]

    def bound(self, agent=None, key=None, status=200, **quota):
        path = f"/v1/quotas/agents/{agent}?tenant={self.tenant}" if agent else f"/v1/quotas/tenants/{self.tenant}"
        return self.call("PUT", path, quota, key=key, status=status).json()

    def state(self, agent=None, key=None):
        states = self.call("GET", "/v1/quotas?" + harness.query(tenant=self.tenant), key=key, status=200).json()["quotas"]
        return next(state for state in states if state["agent"] == agent)

    def over(self, answer, quota):
        self.assertProblem(answer, 429, "QUOTA_EXCEEDED")
        self.assertIn(f"quota {quota} of ", answer.json()["error"]["message"])
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        return answer

    def ask(self, key, code="echo hi", query="?wait=60", headers=None, **request):
        return self.call("POST", "/v1/executions" + query, {"language": "bash", "code": code, **request}, headers, key)


class Bounds(QuotaCase):
    def test_runs_at_once_wait_and_hold_up_nobody_else(self):
        self.bound(concurrent=2)
        self.bound("alice", concurrent=1)
        alice, bob, other = self.secret(agent="alice"), self.secret(agent="bob"), self.secret(tenant=next(TENANTS))
        first = self.ask(alice, "sleep 60", query="").json()
        self.server.wait_status(first["id"], "running")
        second = self.ask(alice, "echo second", query="").json()
        third = self.ask(bob, "sleep 60", query="").json()
        self.server.wait_status(third["id"], "running")
        fourth = self.ask(bob, "echo fourth", query="").json()
        self.assertEqual(self.ask(other).json()["stdout"], "hi\n")
        for waits in (second, fourth):
            self.assertEqual(self.server.get(waits["id"])["status"], "queued")
        self.assertEqual(self.state()["use"]["concurrent"], 2)
        self.assertEqual(self.state("alice")["use"]["concurrent"], 1)
        self.cancel(third)
        self.assertEqual(self.server.wait_end(fourth["id"])["stdout"], "fourth\n")
        self.assertEqual(self.server.get(second["id"])["status"], "queued", "alice is at her own")
        self.bound("alice", concurrent=2)
        self.assertEqual(self.server.wait_end(second["id"])["stdout"], "second\n", "a change holds at once")
        self.cancel(first)
        harness.wait_for("nothing in use", lambda: self.state()["use"]["concurrent"] == 0)

    def test_runs_in_a_minute(self):
        self.bound("alice", runs_per_minute=3)
        alice = self.secret(agent="alice")
        once = {"Idempotency-Key": "once"}
        for _ in range(4):
            self.assertEqual(self.ask(alice, headers=once).status, 200, "the same run is counted once")
        plan = self.call("POST", "/v1/executions?dry_run=true", {"language": "bash", "code": "ls"}, key=alice)
        self.assertEqual(plan.status, 200)
        self.assertEqual(self.ask(alice).status, 200)
        self.assertEqual(self.ask(alice).status, 200)
        answer = self.over(self.ask(alice), "runs_per_minute")
        self.assertLessEqual(int(answer.headers["retry-after"]), 20)
        self.assertIn("agent alice", answer.json()["error"]["message"])
        self.assertEqual(self.ask(self.secret(agent="bob")).status, 200)
        told = self.server.cli("run", "-l", "bash", "-c", "echo hi", env={"CLOISTER_API_KEY": alice})
        self.assertEqual(told.returncode, 125)
        self.assertIn("runs_per_minute", told.stderr)

    def test_what_is_denied_is_counted(self):
        """A denial's record is kept like a run's, so refusals must not fill the ledger."""
        self.bound("carol", runs_per_minute=2)
        carol = self.secret(agent="carol")
        for _ in range(3):  # the same execution
            denied = self.ask(carol, headers={"Idempotency-Key": "once"}, network_policy={"tier": "full"})
            self.assertEqual(denied.json()["status"], "denied", denied.body)
        self.assertEqual(self.ask(carol, network_policy={"tier": "full"}).json()["status"], "denied")
        self.over(self.ask(carol, network_policy={"tier": "full"}), "runs_per_minute")
        again = self.ask(carol, headers={"Idempotency-Key": "once"}, network_policy={"tier": "full"})
        self.assertEqual(again.json()["id"], denied.json()["id"])

    def test_sessions_and_their_programs(self):
        self.bound(sessions=1)
        key = self.secret()
        made = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        self.over(self.call("POST", "/v1/sessions", {"language": "bash"}, key=key), "sessions")
        self.bound(sessions=1, runs_per_minute=2)
        path = f"/v1/sessions/{made}/exec?wait=60"
        for _ in range(2):
            self.call("POST", path, {"code": "true"}, key=key, status=200)
        self.over(self.call("POST", path, {"code": "true"}, key=key), "runs_per_minute")
        self.call("DELETE", f"/v1/sessions/{made}", key=key)
        harness.wait_for("no session", lambda: self.state()["use"]["sessions"] == 0)
        self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201)

    def test_memory(self):
        self.bound(memory_mb=300)
        key = self.secret()
        for path, body in (("/v1/executions", {"language": "bash", "code": "true"}), ("/v1/sessions", {})):
            never = self.call("POST", path, {**body, "memory_mb": 400}, key=key)
            self.assertProblem(never, 429, "QUOTA_EXCEEDED")
            self.assertNotIn("retry-after", never.headers, "it can never succeed")
            error = never.json()["error"]
            self.assertFalse(error["retryable"])
            self.assertIn("is 300 MiB: 400 MiB are asked for at once; ask for at most 300 MiB, or have the quota raised",
                          error["message"])
        told = self.server.cli("run", "-l", "bash", "--memory", "400m", "-c", "true", env={"CLOISTER_API_KEY": key})
        self.assertEqual(told.returncode, 125)
        self.assertIn("have the quota raised", told.stderr)
        self.assertNotIn("try again", told.stderr)
        first = self.ask(key, "sleep 60", query="", memory_mb=200).json()
        self.server.wait_status(first["id"], "running")
        second = self.ask(key, "echo second", query="", memory_mb=200).json()
        self.assertEqual(self.server.get(second["id"])["status"], "queued")
        self.over(self.call("POST", "/v1/sessions", {"memory_mb": 200}, key=key), "memory_mb")
        self.cancel(first)
        self.assertEqual(self.server.wait_end(second["id"])["stdout"], "second\n")

    def test_storage_of_a_tenant(self):
        key = self.secret()
        self.bound(storage_mb=1)
        self.assertProblem(self.call("PUT", f"/v1/quotas/agents/alice?tenant={self.tenant}", {"storage_mb": 1}), 422,
                           field="storage_mb")
        upload = self.call("POST", "/v1/artifacts?path=big", b"x" * (2 << 20), key=key)
        self.assertProblem(upload, 429, "QUOTA_EXCEEDED")
        self.bound(storage_mb=3)
        self.call("POST", "/v1/artifacts?path=big", b"x" * (2 << 20), key=key, status=201)


class ProcessorTime(QuotaCase):
    def test_is_of_the_hour_and_outlives_a_restart(self):
        burn = "import time\nwhile time.process_time() < 2: pass"
        with harness.Server(config="quotas:\n  agent:\n    cpu_seconds_per_hour: 1\n") as server:
            made = server.request("POST", "/v1/keys", {"tenant": "acme", "name": "t", "roles": ["agent"],
                                                       "agent": "alice"}).json()
            key = made["secret"]
            ask = {"language": "python", "code": burn}
            done = server.request("POST", "/v1/executions?wait=60", ask, key=key).json()
            self.assertGreaterEqual(done["resource_usage"]["cpu_ms"], 1000, done)
            for round_ in range(2):
                refused = server.request("POST", "/v1/executions?wait=60", ask, key=key)
                self.assertEqual(refused.status, 429, refused.body)
                self.assertIn("cpu_seconds_per_hour of agent alice is 1", refused.json()["error"]["message"])
                self.assertLessEqual(int(refused.headers["retry-after"]), 3601)
                if round_ == 0:
                    server.kill()
                    server.start()
                    server.wait_ready()


    def test_of_a_kernel_too(self):
        """A cell is a short program; the interpreter behind the cell does the work."""
        with harness.Server(config="quotas:\n  agent:\n    cpu_seconds_per_hour: 1\n") as server:
            key = server.request("POST", "/v1/keys", {"tenant": "acme", "roles": ["agent"], "agent": "alice"}).json()["secret"]
            with Session(server, language="python", key=key) as session:
                burn = "import time\nwhile time.process_time() < 2: pass"
                done = session.call("POST", "/exec?wait=60", {"code": burn}, status=200).json()
                self.assertEqual(done["status"], "completed", done)
                refused = harness.wait_for("its time to be counted", lambda: (
                    answer := session.call("POST", "/exec?wait=60", {"code": "1"})).status == 429 and answer)
                self.assertIn("cpu_seconds_per_hour of agent alice is 1", refused.json()["error"]["message"])


    LEFT_BEHIND = "setsid sh -c 'while :; do :; done' >/dev/null 2>&1 & echo started"

    def test_of_a_process_left_behind(self):
        """No execution waits for the process, and its session lasts for an hour."""
        with harness.Server(config="quotas:\n  agent:\n    cpu_seconds_per_hour: 2\n") as server:
            key = server.request("POST", "/v1/keys", {"tenant": "acme", "roles": ["agent"], "agent": "alice"}).json()["secret"]
            with Session(server, language="bash", key=key) as session:
                done = session.exec(self.LEFT_BEHIND)
                self.assertEqual((done["status"], done["stdout"]), ("completed", "started\n"), done)
                over = session.wait_ended(60)
            self.assertEqual(over["end_reason"]["type"], "QUOTA_EXCEEDED", over)
            self.assertIn("cpu_seconds_per_hour of agent alice is 2", over["end_reason"]["message"])
            self.assertGreater(over["resource_usage"]["cpu_ms"], 2000)
            self.assertLess(over["resource_usage"]["cpu_ms"], 12000, "two seconds, one more, and the time of some looks")
            refused = server.request("POST", "/v1/executions?wait=60", {"language": "bash", "code": "true"}, key=key)
            self.assertEqual(refused.status, 429, refused.body)
            server.stop()
            server.start()
            server.wait_ready()
            refused = server.request("POST", "/v1/executions?wait=60", {"language": "bash", "code": "true"}, key=key)
            self.assertEqual(refused.status, 429, "it is charged after a restart as well")

    def test_is_charged_once(self):
        """A session's end charges the use beyond its executions'."""
        with harness.Server(config="quotas:\n  agent:\n    cpu_seconds_per_hour: 1000\n") as server:
            key = server.request("POST", "/v1/keys", {"tenant": "acme", "roles": ["agent"], "agent": "alice"}).json()["secret"]
            with Session(server, language="bash", key=key) as session:
                burn = session.exec("(ulimit -t 1; while :; do :; done); true")
                session.exec(self.LEFT_BEHIND)
                harness.wait_for("two seconds more", lambda: session.show()["resource_usage"]["cpu_ms"]
                                 > burn["resource_usage"]["cpu_ms"] + 2000, 60)
                over = session.end()
            states = server.request("GET", "/v1/quotas?tenant=acme").json()["quotas"]
            used = next(state for state in states if state["agent"] == "alice")["use"]["cpu_seconds_per_hour"]
            self.assertGreater(burn["resource_usage"]["cpu_ms"], 500, burn)  # the limit counts by ticks
            self.assertEqual(used, over["resource_usage"]["cpu_ms"] // 1000)


class WhoMay(QuotaCase):
    def test_roles_and_tenants(self):
        boss, agent, rival = self.secret("tenant-admin"), self.secret(agent="alice"), self.secret("tenant-admin",
                                                                                                 tenant=next(TENANTS))
        self.bound("alice", key=boss, concurrent=3)
        self.assertEqual(self.state("alice", key=agent)["own"]["concurrent"], 3)
        for path, key, status in ((f"/v1/quotas/tenants/{self.tenant}", boss, 403),
                                  ("/v1/quotas/agents/alice", agent, 403),
                                  (f"/v1/quotas/agents/alice?tenant={self.tenant}", rival, 404)):
            self.call("PUT", path, {"concurrent": 9}, key=key, status=status)
        self.call("GET", f"/v1/quotas?tenant={self.tenant}", key=rival, status=404)
        self.call("GET", "/v1/quotas?tenant=nobody-there", key=rival, status=404)
        seen = self.call("GET", "/v1/quotas", key=rival, status=200).json()["quotas"]
        self.assertNotIn(self.tenant, {state["tenant"] for state in seen})
        self.assertEqual(self.state("alice")["own"]["concurrent"], 3)
        audit = self.call("GET", "/v1/audit?limit=500", key=boss, status=200).json()["entries"]
        self.assertTrue([row for row in audit if row["action"] == "quota.set"], audit[-3:])

    def test_what_is_no_quota(self):
        for field, body in (("concurrent", {"concurrent": 0}), ("sessions", {"sessions": -1}),
                            ("memory_mb", {"memory_mb": "1"}), ("x", {"x": 1}),
                            ("runs_per_minute", {"runs_per_minute": 1.5})):
            self.assertProblem(self.call("PUT", f"/v1/quotas/tenants/{self.tenant}", body), 422, field=field)

    def test_every_command_line(self):
        def cli(*args, status=0):
            done = self.server.cli("quota", *args)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stdout if status == 0 else done.stderr

        who = ("--tenant", self.tenant)
        shown = cli("set", *who, "--agent", "alice", "--concurrent", "2", "--runs-per-minute", "60")
        self.assertIn(f"Agent alice of tenant {self.tenant}\n   0 of 2 runs at once\n", shown)
        shown = cli("set", *who, "--agent", "alice", "--sessions", "4")
        self.assertIn("0 of 2 runs at once\n   0 of 4 sessions at once\n   0 of 60 runs a minute", shown)
        cli("set", *who, "--storage-mb", "100", "--memory-mb", "1000")
        shown = cli("show", *who)
        self.assertIn(f"Tenant {self.tenant}\n   0 of any number of runs at once", shown)
        self.assertIn("0 of 1000 MiB of limits at once\n   … of 100 MiB kept\n", shown)
        self.assertIn("Agent alice", shown)
        self.assertNotIn("Tenant", cli("show", *who, "--agent", "alice"))
        self.assertEqual(len(json.loads(cli("show", *who, "--json"))["quotas"]), 2)
        self.assertIn("any number of sessions", cli("unset", *who, "--agent", "alice"))
        for args, words in ((("set", *who), "which"), (("set", *who, "--concurrent", "none"), "whole number"),
                            (("set", *who, "--agent", "a", "--storage-mb", "1"), "tenant's")):
            self.assertIn(words, cli(*args, status=2))


if __name__ == "__main__":
    unittest.main()
