# SPDX-License-Identifier: Apache-2.0
"""GET /v1/doctor: the report of `cloister doctor`, by role, with what the service finds about itself."""

import json
import os
import signal
import unittest

import harness
from api_case import DOCUMENT, ApiTest, start_server
from test_tls import SERVER_NAMES, Authority, config_of

MACHINE = ("node", "runtimes", "weakened", "languages", "findings", "max_sandboxes", "memory_bytes", "cpus",
           "image_digest", "version")


def setUpModule():
    start_server()


def states(report, area="service"):
    return {each["name"]: each["state"] for each in report["findings"] if each["area"] == area}


class Doctor(ApiTest):
    def report(self, key=None):
        return self.call("GET", "/v1/doctor", key=key, status=200).json()

    def test_all_of_it(self):
        report = harness.wait_for("a report of the node", lambda: self.pool_of(self.report()) and self.report(), 20)
        self.assertEqual((report["detail"], report["connected"], report["usable"]), ("full", True, True))
        found = states(report)
        self.assertEqual({"node": "ok", "ledger": "ok", "egress": "ok"},
                         {name: found[name] for name in ("node", "ledger", "egress")}, report["findings"])
        self.assertEqual(set(found), {"node", "ledger", "disk", "egress", "pool"}, "no certificate without TLS")
        counts = report["counts"]
        for state in ("ok", "reduced", "missing"):
            self.assertEqual(counts[state], sum(each["state"] == state for each in report["findings"]))
        self.assertEqual(report["complete"], counts["missing"] == 0)
        node = self.call("GET", "/v1/node", status=200).json()
        for name in ("node", "runtimes", "weakened", "languages", "cpus"):
            self.assertEqual(report[name], node[name])
        told = {(each["area"], each["name"]) for each in report["findings"]}
        self.assertLessEqual({(each["area"], each["name"]) for each in node["findings"]}, told)
        self.assertTrue(any("--boot" in each for each in report["only_command"]), report["only_command"])

    def pool_of(self, report):
        return [each for each in report["findings"] if each["name"] == "pool"]

    def test_the_disk_is_that_of_the_state(self):
        disk = next(each for each in self.report()["findings"] if each["name"] == "disk")
        info = os.statvfs(self.server.state)
        self.assertIn(f"of {info.f_blocks * info.f_frsize >> 20} MiB", disk["detail"])

    def test_by_role(self):
        for role in ("viewer", "agent", "approver", "tenant-admin"):
            report = self.report(self.new_key("acme", roles=[role])["secret"])
            self.assertEqual((report["detail"], report["usable"]), ("summary", True))
            self.assertEqual([name for name in MACHINE if name in report], [], "nothing about the machine")
            self.assertGreater(report["counts"]["ok"], 3)
        self.assertEqual(self.report(self.new_key("acme", roles=["operator"])["secret"])["detail"], "full")
        self.assertEqual(self.server.request("GET", "/v1/doctor", key=False).status, 401)

    def test_the_command_says_the_same(self):
        told = json.loads(self.server.cli("doctor", "--json").stdout)
        self.assertEqual(states(told), states(self.report()))
        text = self.server.cli("doctor").stdout
        self.assertRegex(text, r"(?m)^service$")
        self.assertRegex(text, r"(?m)^  ok +ledger +accepts writes$")
        viewer = self.new_key("acme", roles=["viewer"])["secret"]
        text = self.server.cli("doctor", env={"CLOISTER_API_KEY": viewer}).stdout
        self.assertIn("runs are possible here", text, "with the node's lines, as before")


class Faults(unittest.TestCase):
    def test_a_lost_egress(self):
        with harness.Server() as server:
            def now():
                answer = server.request("GET", "/v1/doctor")
                DOCUMENT.check("GET", "/v1/doctor", answer)
                return answer.json()

            egress, = [pid for pid in harness.descendants(server.process.pid)
                       if harness.program_of(pid) == "cloister-egress"]
            os.kill(server.process.pid, signal.SIGSTOP)  # the supervisor starts no other one
            try:
                os.kill(egress, signal.SIGKILL)
                lost = harness.wait_for("the loss", lambda: states(now())["egress"] == "missing" and now(), 10)
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            self.assertFalse(lost["complete"])
            self.assertTrue(lost["usable"], "runs without a network are possible")
            harness.wait_for("a new egress", lambda: states(now())["egress"] == "ok", 20)

    def test_a_certificate_near_its_end(self):
        with Authority("the company") as authority:
            certificate = authority.issue("server", SERVER_NAMES, "serverAuth", days=5)
            with harness.Server(config=config_of(authority, certificate), tls=authority.trusting()) as server:
                report = server.request("GET", "/v1/doctor").json()
                found = next(each for each in report["findings"] if each["name"] == "certificate")
                self.assertRegex(found["detail"], r"^valid until 20\d\d-")
                self.assertEqual(found["state"], "reduced")
                self.assertIn("renew", found["remedy"])


if __name__ == "__main__":
    unittest.main()
