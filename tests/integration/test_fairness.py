# SPDX-License-Identifier: Apache-2.0
"""Tenants that want more than there is, and a newcomer. The settings are those of docs/CONFIGURATION.md, fairness;
each has its row in docs/EFFECTS.md."""

import os
import unittest

import harness
from session_case import Session

MEMORY_MB = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20) * 8 // 10  # for runs


class Case(unittest.TestCase):
    config = ""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(cls.config))

    def setUp(self):
        self.one, self.two, self.three = (self.key(f"{name}-{self._testMethodName}") for name in ("one", "two", "three"))

    def key(self, tenant):
        body = {"tenant": tenant, "name": "test", "roles": ["agent"]}
        return self.server.request("POST", "/v1/keys", body).json()["secret"]

    def status(self, run, key):
        return self.server.request("GET", f"/v1/executions/{run}", key=key).json()["status"]

    def sleeper(self, key, **request):
        """A run under way until the test ends."""
        asked = self.server.submit("sleep 600", "bash", wait=0, key=key,
                                   **{"memory_mb": 32, "timeout_seconds": 600, **request})
        self.assertEqual(asked.status, 201, asked.body)
        run = asked.json()["id"]
        self.addCleanup(self.end, run, key)
        return run

    def end(self, run, key):
        self.server.request("DELETE", f"/v1/executions/{run}", key=key)
        self.server.wait_end(run)

    def runs(self, run, key):
        harness.wait_for("it to run", lambda: self.status(run, key) == "running")

    def ends(self, key, **request):
        answer = self.server.submit("true", "bash", wait=60, key=key, **{"memory_mb": 32, **request})
        self.assertEqual((answer.status, answer.json()["status"]), (200, "completed"), answer.body)

    def waits(self, key, **request):
        answer = self.server.submit("true", "bash", wait=2, key=key, **{"memory_mb": 32, **request})
        self.assertEqual((answer.status, answer.json()["status"]), (202, "queued"), answer.body)


class Kept(Case):
    config = "run:\n  concurrent: 8\n  queue: 16\nsession:\n  max: 8\n"

    def flood(self):
        sleepers = [self.sleeper(self.one) for _ in range(12)]
        for run in sleepers[:7]:
            self.runs(run, self.one)
        return sleepers

    def test_a_place_for_a_tenant_that_comes(self):
        sleepers = self.flood()
        self.ends(self.two)
        self.ends(self.three)
        self.assertEqual([self.status(run, self.one) for run in sleepers], ["running"] * 7 + ["queued"] * 5)

    def test_a_place_in_the_queue(self):
        sleepers = self.flood()
        for _ in range(10):  # as many as a tenant may have waiting
            sleepers.append(self.server.submit("true", "bash", wait=0, key=self.one, memory_mb=32))
        self.assertEqual([answer.status for answer in sleepers[12:]], [201] * 10)
        refused = self.server.submit("true", "bash", wait=0, key=self.one)
        self.assertEqual(refused.status, 429)
        self.assertIn("fairness.kept_percent", refused.json()["error"]["message"])
        self.ends(self.two)

    def test_sessions_beside_runs(self):
        """A reserve is kept from both together."""
        with harness.Server("node:\n  max_sandboxes: 8\n") as self.server:
            self.setUp()
            for _ in range(6):
                self.runs(self.sleeper(self.one), self.one)
            self.enterContext(Session(self.server, key=self.one, language="bash", memory_mb=32))
            self.sleeper(self.one)
            self.ends(self.two)
            self.doCleanups()

    def test_a_session_of_a_tenant_that_comes(self):
        for _ in range(7):
            self.enterContext(Session(self.server, key=self.one, language="bash", memory_mb=32))
        refused = self.server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32}, key=self.one)
        self.assertEqual(refused.status, 429)
        self.assertIn("fairness.kept_percent", refused.json()["detail"])
        self.enterContext(Session(self.server, key=self.two, language="bash", memory_mb=32))

    def test_nothing_is_kept(self):
        with harness.Server("run:\n  concurrent: 4\nfairness:\n  kept_percent: 0\n") as self.server:
            self.setUp()
            for _ in range(4):
                self.runs(self.sleeper(self.one), self.one)
            self.waits(self.two)
            self.doCleanups()


class WhatDoesNotFit(Case):
    """`two` wants more memory than is left. The next requester is `one`, which uses much, or `three`."""

    limits = f"limits:\n  memory_mb: {MEMORY_MB}\n"
    config = limits + "fairness:\n  skip_seconds: 3600\n"

    def large_one_waits(self):
        self.runs(self.sleeper(self.one, memory_mb=MEMORY_MB // 2), self.one)
        self.large = self.sleeper(self.two, memory_mb=MEMORY_MB * 3 // 4)

    def test_smaller_ones_pass_it(self):
        self.large_one_waits()
        self.ends(self.one)
        self.ends(self.three)
        self.assertEqual(self.status(self.large, self.two), "queued")

    def test_for_a_time(self):
        with harness.Server(self.limits + "fairness:\n  skip_seconds: 0\n") as self.server:
            self.setUp()
            self.large_one_waits()
            self.waits(self.one)
            self.ends(self.three)
            self.assertEqual(self.status(self.large, self.two), "queued")
            self.doCleanups()


class Weights(Case):
    def test_more_of_a_turn(self):
        tenant = f"one-{self._testMethodName}"
        with harness.Server(f"run:\n  concurrent: 1\nfairness:\n  weights: ['{tenant} = 3']\n") as self.server:
            self.setUp()
            first = self.sleeper(self.three)
            self.runs(first, self.three)
            asked = [self.server.submit("true", "bash", wait=0, key=key).json()["id"]
                     for key in (self.two, self.two, self.one, self.one, self.one)]
            self.end(first, self.three)
            harness.wait_for("them to end", lambda: self.status(asked[1], self.two) == "completed")
            ended = [self.server.request("GET", f"/v1/executions/{run}").json() for run in asked]
            order = sorted(range(5), key=lambda at: ended[at]["started_at"])
            self.assertEqual(order, [0, 2, 3, 4, 1])
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()
