#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/agents/{agent}/runtime: what the runs and sessions of an agent get where a request names nothing."""

import unittest

from agent_case import AgentCase
from api_case import start_server


def setUpModule():
    start_server()


class Runtime(AgentCase):
    def setUp(self):
        super().setUp()
        self.path = f"/v1/agents/{self.agent}/runtime"
        self.key = self.secret()

    def test_runs_and_sessions_get_it_unless_they_name_their_own(self):
        self.call("GET", self.path, status=404)
        stored = self.call("PUT", self.path, {"runtime": "process", "memory_mb": 96, "vcpus": 0.5}, status=200).json()
        self.assertEqual({name: stored[name] for name in ("agent", "runtime", "kernel", "memory_mb", "vcpus", "version")},
                         {"agent": self.agent, "runtime": "process", "kernel": None, "memory_mb": 96, "vcpus": 0.5, "version": 1})
        session = self.call("POST", "/v1/sessions", {}, key=self.key, status=201).json()
        self.assertEqual((session["limits"]["memory_mb"], session["limits"]["cpu_millis"]), (96, 500))
        other = self.call("POST", "/v1/sessions", {"memory_mb": 128}, key=self.key, status=201).json()
        self.assertEqual((other["limits"]["memory_mb"], other["limits"]["cpu_millis"]), (128, 500))
        done = self.run_as(self.key, language="python", code="x = bytearray(150 << 20)")
        self.assertNotEqual(done["exit_code"], 0, "a run has 96 MiB")
        self.assertEqual(self.run_as(self.key, language="python", code="x = bytearray(150 << 20)", memory_mb=256)["exit_code"], 0)
        plain = self.call("POST", "/v1/sessions", {}, key=self.secret(agent="another"), status=201).json()
        self.assertEqual(plain["limits"]["memory_mb"], 256, "other agents keep the defaults")
        self.call("DELETE", self.path, status=204)
        self.call("DELETE", self.path, status=404)
        after = self.call("POST", "/v1/sessions", {}, key=self.key, status=201).json()
        self.assertEqual(after["limits"]["memory_mb"], 256)

    def test_a_runtime_that_no_node_has_is_refused(self):
        self.call("PUT", self.path, {"runtime": "microvm", "kernel": "default"}, status=200)
        done = self.run_as(self.key, language="python", code="print(1)")
        if done["status"] == "completed":
            self.assertEqual(done["provenance"]["runtime"], "microvm")
        else:
            self.assertEqual(done["status"], "denied")
            self.assertIn("microvm", done["error"]["message"])

    def test_bad_input_is_named(self):
        for body, field in (({"runtime": "docker"}, "runtime"), ({"kernel": "vmlinux"}, "kernel"), ({"kernel": "default"}, "kernel"),
                            ({"memory_mb": 1}, "memory_mb"), ({"vcpus": 0}, "vcpus"), ({"cores": 1}, "cores")):
            self.assertProblem(self.call("PUT", self.path, body), 422, field=field)

    def test_who_may(self):
        self.call("PUT", self.path, {"memory_mb": 96}, key=self.key, status=403)
        stranger = self.secret(tenant="globex", role="tenant-admin", agent="")
        self.call("PUT", self.path, {"memory_mb": 64}, status=200)
        self.call("GET", self.path, key=stranger, status=404)


if __name__ == "__main__":
    unittest.main()
