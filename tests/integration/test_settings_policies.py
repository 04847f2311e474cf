# SPDX-License-Identifier: Apache-2.0
"""Members of a policy document, each by the changed decision (docs/EFFECTS.md, tests/mutate_settings.py)."""

import json
import unittest

import yaml

import harness

LS = {"command": "ls"}
MAX = {"timeout_seconds": 20, "cpu_seconds": 20, "cpu_millis": 700, "memory_mb": 100, "disk_mb": 100, "inodes": 1000,
       "file_size_mb": 50, "open_files": 100, "pids": 50, "max_output_bytes": 1000}
# A condition: a match, and a mismatch.
MATCH = {
    "tenants": (["acme*"], {"principal": {"tenant": "acme1"}}, {"principal": {"tenant": "other"}}),
    "apps": (["ci"], {"principal": {"app": "ci"}}, {"principal": {"app": "web"}}),
    "agents": (["bot*"], {"principal": {"agent": "bot7"}}, {"principal": {"agent": "robot"}}),
    "users": (["ann"], {"principal": {"user": "ann"}}, {"principal": {"user": "bob"}}),
    "roles": (["operator"], {"principal": {"roles": ["operator"]}}, {"principal": {"roles": ["agent"]}}),
    "languages": (["bash"], {"request": {"language": "bash", "code": "ls"}}, {"request": LS}),
    "network_tiers": (["full"], {"request": {**LS, "network_policy": {"tier": "full"}}}, {"request": LS}),
    "tool_types": (["deploy"], {"request": {**LS, "metadata": {"tool_type": "deploy"}}}, {"request": LS}),
    "operations": (["session"], {"operation": "session"}, {"operation": "run"}),
    "dependencies": ("any", {"request": {**LS, "deps": ["x"]}}, {"request": LS}),
    "any_of": ({"any_of": ["req*"]}, {"request": {**LS, "deps": ["requests"]}}, {"request": {**LS, "deps": ["flask"]}}),
    "only": ({"only": ["a", "b"]}, {"request": {**LS, "deps": ["a"]}}, {"request": {**LS, "deps": ["a", "c"]}}),
    "session": (True, {"session": True}, {"session": False}),
    "at_least": ({"at_least": 50}, {"request": {"command": "sudo ls"}}, {"request": LS}),
}
WITHIN = {"any_of": "dependencies", "only": "dependencies", "at_least": "risk"}
RISK = {
    "languages": ({"python": 7, "other": 1}, {"language": "python", "code": "1"}, 7),
    "commands": ({"forbidden_command": 60, "other": 0}, {"command": "sudo ls"}, 60),
    "network": ({"full": 8, "other": 0}, {**LS, "network_policy": {"tier": "full"}}, 8),
    "roles": ({"agent": 5, "other": 0}, LS, 5),
    "tenants": ({"acme": 9, "other": 0}, LS, 9),
    "dependencies": ({"each": 3, "most": 5}, {**LS, "deps": ["a", "b"]}, 5),
    "secrets": ({"each": 4, "most": 6, "names": ["*_TOKEN"]}, {**LS, "env": {"A_TOKEN": "x", "B_TOKEN": "x", "C": "x"}}, 6),
}
# A member of a destination: the entry, and questions that it allows and denies.
ENTRY = {"name": "m.example.net", "ports": [80, 8080], "protocol": "http"}
DESTINATIONS = {
    "ports": ({**ENTRY, "name": "*", "ports": [8080]}, {"url": "http://m.example.net:8080/"}, {"url": "http://m.example.net/"}),
    "protocol": ({**ENTRY, "ports": [8080]}, {"url": "http://m.example.net:8080/"}, {"url": "https://m.example.net:8080/"}),
    "methods": ({**ENTRY, "methods": ["GET"]}, {"url": "http://m.example.net/"}, {"url": "http://m.example.net/", "method": "POST"}),
    "paths": ({**ENTRY, "paths": ["/a/*"]}, {"url": "http://m.example.net/a/b"}, {"url": "http://m.example.net/b"}),
}
APPROVE = {"roles": ["operator"], "quorum": 3, "ttl_seconds": 77, "fallback": "deny"}


class Policies(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())

    def explain(self, *rules, request=None, principal=None, operation="run", session=False, **document):
        rules = [{"name": f"rule {n}", "why": "test", **rule} for n, rule in enumerate(rules)]
        document = json.loads(json.dumps({"version": 2, "rules": rules, **document}))  # has nothing twice, so no anchors
        body = {"document": yaml.safe_dump(document), "request": request or LS,
                "principal": {"tenant": "acme", "roles": ["agent"], **(principal or {})}, "operation": operation, "session": session,
                "runtimes": ["process", "gvisor", "microvm"]}
        answer = self.server.request("POST", "/v1/policies:explain", body)
        self.assertEqual(answer.status, 200, answer.body[:1000])
        return answer.json()

    def test_conditions(self):
        for name, (value, hit, miss) in MATCH.items():
            with self.subTest(name):
                match = {WITHIN.get(name, name): value}
                rules = ({"effect": "deny", "match": match}, {"effect": "allow"})
                document = {"risk": {"commands": {"forbidden_command": 60, "other": 0}}}
                met, other = self.explain(*rules, **document, **hit), self.explain(*rules, **document, **miss)
                self.assertEqual((met["rule"], other["rule"]), ("rule 0", "rule 1"))

    def test_weights(self):
        for name, (table, request, points) in RISK.items():
            with self.subTest(name):
                risk = self.explain({"effect": "allow"}, request=request, risk={name: table})["risk"]
                self.assertIn(points, [term["points"] for term in risk["terms"]], risk)

    def test_most_of_a_grant(self):
        for name, most in MAX.items():
            with self.subTest(name):
                rule = {"effect": "allow", "max": {name: most}}
                decided = [self.explain(rule, request={**LS, name: most + more})["decision"] for more in (0, 1)]
                self.assertEqual(decided, ["allow", "deny"])

    def test_what_a_grant_gives(self):
        self.assertEqual(self.explain({"effect": "allow", "runtime": "gvisor"})["runtime"], "gvisor")
        self.assertIn("tools", self.explain({"effect": "allow", "image": "tools"})["reason"], "an image that is not here")
        for image, allowed in (("py3", True), ("ruby", False)):
            said = self.explain({"effect": "allow", "images": ["py*"]}, request={**LS, "image": image})
            self.assertEqual("is not on this node" in said["reason"], allowed, said["reason"])
        for operation, decision in (("run", "allow"), ("session", "deny")):
            self.assertEqual(self.explain({"effect": "allow", "operations": ["run"]}, operation=operation)["decision"], decision)
        self.assertEqual(self.explain({"effect": "allow", "tier": "Assisted"})["tier"], "Assisted")

    def reach(self, entry, question):
        document = {"version": 2, "rules": [{"name": "net", "why": "test", "effect": "allow", "network": [entry],
                                             "match": {"network_tiers": ["restricted", "full"]}}]}
        tier = "full" if entry["name"] == "*" else "restricted"
        answer = self.server.request("POST", "/v1/egress:explain", {"document": yaml.safe_dump(document), "network": tier, **question})
        self.assertEqual(answer.status, 200, answer.body[:1000])
        return answer.json()

    def test_destinations(self):
        for name, (entry, hit, miss) in DESTINATIONS.items():
            with self.subTest(name):
                self.assertEqual([self.reach(entry, each)["allowed"] for each in (hit, miss)], [True, False])
        said = self.reach({**ENTRY, "paths": ["/a"], "on_denied": "ask"}, {"url": "http://m.example.net/b"})
        self.assertEqual((said["rule"], said["on_denied"]), ("net", "ask"))

    def test_secrets(self):
        """`as` and `hosts` of a secret: each by a request that they allow, and one that they refuse."""
        def decided(grant, use):
            rule = {"effect": "allow", "secrets": [grant], "network": ["a.example.net:443", "b.example.net:443"],
                    "match": {"network_tiers": ["none", "restricted"]}}
            tier = {"network_policy": {"tier": "restricted"}} if use["as"] == "broker" else {}
            return self.explain(rule, request={**LS, **tier, "secrets": [{"name": "KEY", **use}]})["decision"]

        self.assertEqual([decided({"name": "K*", "as": ["file"]}, {"as": way}) for way in ("file", "env")], ["allow", "deny"])
        grant = {"name": "KEY", "as": ["broker"], "hosts": ["a.example.net"]}
        self.assertEqual([decided(grant, {"as": "broker", "host": host, "header": "X-Key"})
                          for host in ("a.example.net", "b.example.net")], ["allow", "deny"])

    def test_remedy(self):
        self.assertEqual(self.explain({"effect": "deny", "remedy": "ask us"})["remedy"], "ask us")

    def test_approvals(self):
        said = self.explain({"effect": "approve", "approve": APPROVE})
        self.assertEqual((said["decision"], said["approval"]), ("approve", APPROVE))

    def test_tiers(self):
        tiers = {"Auto": {"runtime": "gvisor"}, "Assisted": {"runtime": "microvm", "from_score": 10},
                 "HumanApprove": {"runtime": "microvm", "from_score": 50, "approve": APPROVE},
                 "ManualOnly": {"runtime": "microvm", "from_score": 100, "approve": APPROVE}}
        risk = {"languages": {"command": 0, "python": 20, "bash": 60, "node": 150}}
        requests = [LS, *({"language": language, "code": "1"} for language in ("python", "bash", "node"))]
        said = [self.explain({"effect": "allow"}, request=request, tiers=tiers, risk=risk) for request in requests]
        self.assertEqual([each["tier"] for each in said], ["Auto", "Assisted", "HumanApprove", "ManualOnly"])
        self.assertEqual([each["runtime"] for each in said], ["gvisor", "microvm", "microvm", "microvm"])
        self.assertEqual([each["approval"] for each in said], [None, None, APPROVE, APPROVE])


if __name__ == "__main__":
    unittest.main()
