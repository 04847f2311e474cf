# SPDX-License-Identifier: Apache-2.0
"""Each tier's runs are in the tier's runtime, after an approval if the tier demands one; if the node has no such
runtime they are refused, with the remedy."""

import platform
import unittest

import harness
from api_case import ApiTest, CONFIG
from test_gvisor import needs_runsc
from test_microvm import EMULATED, needs_image

# (tier, runtime, how many people must approve), as in policies/default.yaml.
TIERS = (("Auto", "process", 0), ("Assisted", "gvisor", 0), ("HumanApprove", "gvisor", 1), ("ManualOnly", "microvm", 2))
REMEDIES = {"gvisor": "runsc", "microvm": "image"}
COMMAND = ["cat", "/proc/sys/kernel/osrelease"]
RISKY = {"command": "sudo rm -rf /; dd of=/dev/sda"}
SHELLS_OUT = {"language": "python", "code": "import os\nos.system('rm -rf /')"}
WITHOUT = f"{CONFIG}gvisor:\n  runsc: ''\nmicrovm:\n  image: /nonexistent\n"


@needs_runsc
@needs_image
class Tiers(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=EMULATED)
        cls.enterClassContext(cls.server)

    def test_each_runs_in_its_runtime(self):
        agent = self.new_key("default", roles=["agent"], user="dev")["secret"]
        people = [self.new_key("default", roles=["approver"], user=user)["secret"] for user in ("lead", "owner")]
        for tier, runtime, quorum in TIERS:
            with self.subTest(tier):
                wait = 0 if quorum else 60
                done = self.call("POST", f"/v1/executions?wait={wait}", {"command": COMMAND, "tier": tier}, key=agent).json()
                for person in people[:quorum]:
                    self.assertEqual(self.call("GET", f"/v1/executions/{done['id']}").json()["status"], "blocked")
                    escalation = done["error"]["details"]["escalation_id"]
                    self.call("POST", f"/v1/escalations/{escalation}:approve", {}, key=person, status=200)
                if quorum:
                    done = self.server.wait_end(done["id"])
                self.assertEqual((done["status"], done["provenance"]["runtime"]), ("completed", runtime), done)
                self.assertEqual(done["stdout"].strip() == platform.release(), runtime == "process", done)

    def test_a_stronger_one_is_given_and_a_weaker_one_refused(self):
        stronger = self.call("POST", "/v1/executions?wait=60", {"command": COMMAND, "runtime": "gvisor"}, status=200).json()
        self.assertEqual((stronger["status"], stronger["provenance"]["runtime"]), ("completed", "gvisor"), stronger)
        body = {"command": COMMAND, "tier": "Assisted", "runtime": "process"}
        weaker = self.call("POST", "/v1/executions?wait=60", body).json()
        self.assertNotEqual(weaker.get("status"), "completed", weaker)
        self.assertIn("gvisor", str(weaker))

    def test_the_score_chooses_the_runtime(self):
        agent = self.new_key("default", roles=["agent"], user="dev")["secret"]
        for body in (RISKY, SHELLS_OUT):
            done = self.call("POST", "/v1/executions?wait=60", body, key=agent).json()
            self.assertEqual(done["provenance"]["runtime"], "gvisor", done)


class Without(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=WITHOUT)
        cls.enterClassContext(cls.server)

    def test_what_the_node_lacks_is_refused(self):
        for tier, runtime, _ in TIERS:
            with self.subTest(tier):
                told = self.call("POST", "/v1/executions?wait=20", {"command": COMMAND, "tier": tier}).json()
                if runtime == "process":
                    self.assertEqual(told["status"], "completed", told)
                    continue
                self.assertEqual((told["status"], told["error"]["type"]), ("denied", "PERMISSION_DENIED"), told)
                self.assertRegex(told["error"]["message"], rf"{runtime}.*{REMEDIES[runtime]}")
                self.assertIsNone(told["started_at"], told)

    def test_a_high_score_is_refused_and_ordinary_work_is_not(self):
        agent = self.new_key("default", roles=["agent"], user="dev")["secret"]
        for body in (RISKY, SHELLS_OUT):
            told = self.call("POST", "/v1/executions?wait=20", body, key=agent).json()
            self.assertEqual((told["status"], told["started_at"]), ("denied", None), told)
            self.assertRegex(told["error"]["message"], "gvisor.*tier Assisted.*runsc")
        for body in ({"command": "ls -la && git status"}, {"language": "bash", "code": "echo a | wc -c"},
                     {"language": "python", "code": "import subprocess\nsubprocess.run(['ls'])"}):
            done = self.call("POST", "/v1/executions?wait=60", body, key=agent).json()
            self.assertEqual((done["status"], done["provenance"]["runtime"]), ("completed", "process"), done)


class AllowWeaker(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=f"{WITHOUT}policy:\n  allow_weaker: true\n")
        cls.enterClassContext(cls.server)

    def weakened(self, record):
        return [each for each in record["provenance"]["weakened"] if "policy.allow_weaker" in each]

    def test_what_policy_wants_is_replaced_and_named(self):
        agent = self.new_key("default", roles=["agent"], user="dev")["secret"]
        done = self.call("POST", "/v1/executions?wait=60", {"command": "sudo rm -rf /nowhere; dd of=/dev/null"},
                         key=agent).json()
        self.assertEqual((done["status"], done["provenance"]["runtime"]), ("completed", "process"), done)
        self.assertRegex(self.weakened(done)[0], "runtime process in place of gvisor.*Assisted")
        plain = self.call("POST", "/v1/executions?wait=60", {"command": "ls"}, key=agent).json()
        self.assertEqual(self.weakened(plain), [])
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=agent, status=201).json()
        ran = self.call("POST", f"/v1/sessions/{session['id']}/exec?wait=60",
                        {"command": "sudo rm -rf /nowhere; dd of=/dev/null"}, key=agent).json()
        self.assertEqual(ran["status"], "completed", ran)
        self.assertEqual(len(self.weakened(ran)), 1, ran)

    def test_what_a_request_asks_for_is_not(self):
        told = self.call("POST", "/v1/executions?wait=20", {"command": COMMAND, "tier": "Assisted"}).json()
        self.assertEqual(told["status"], "denied", told)


if __name__ == "__main__":
    unittest.main()
