# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox's own client, unmodified: egress policies, snapshots, pauses, ports, and another tenant's sandboxes."""

import json
import unittest

import opensandbox_case

UNKNOWN = "ses_00000000000000000000000000"

# Every route about a sandbox. A stranger learns nothing from any.
REQUESTS = [
    ("GET", "", None), ("DELETE", "", None), ("PATCH", "/metadata", {"a": "b"}), ("POST", "/pause", {}),
    ("POST", "/resume", {}), ("POST", "/renew-expiration", {"expiresAt": "2999-01-01T00:00:00Z"}),
    ("POST", "/snapshots", {}), ("GET", "/endpoints/44772", None), ("GET", "/endpoints/8000", None),
    ("GET", "/diagnostics/logs", None), ("GET", "/diagnostics/events", None),
    ("GET", "/proxy/44772/ping", None), ("POST", "/proxy/44772/command", {"command": "true"}),
    ("DELETE", "/proxy/44772/command?id=x", None), ("GET", "/proxy/44772/command/status/x", None),
    ("GET", "/proxy/44772/command/x/logs", None), ("POST", "/proxy/44772/session", {}),
    ("POST", "/proxy/44772/session/x/run", {"command": "true"}), ("DELETE", "/proxy/44772/session/x", None),
    ("POST", "/proxy/44772/code/context", {"language": "python"}), ("GET", "/proxy/44772/code/contexts", None),
    ("DELETE", "/proxy/44772/code/contexts?language=python", None), ("GET", "/proxy/44772/code/contexts/x", None),
    ("DELETE", "/proxy/44772/code/contexts/x", None), ("POST", "/proxy/44772/code", {"code": "1"}),
    ("DELETE", "/proxy/44772/code?id=x", None), ("GET", "/proxy/44772/files/info?path=/workspace", None),
    ("DELETE", "/proxy/44772/files?path=/workspace/x", None),
    ("POST", "/proxy/44772/files/mv", [{"src": "a", "dest": "b"}]),
    ("POST", "/proxy/44772/files/permissions", {"a": {"mode": 644}}),
    ("POST", "/proxy/44772/files/replace", {"a": {"old": "x", "new": "y"}}),
    ("GET", "/proxy/44772/files/search?path=/workspace", None),
    ("GET", "/proxy/44772/files/download?path=/workspace/secret", None),
    ("GET", "/proxy/44772/directories/list?path=/workspace", None),
    ("POST", "/proxy/44772/directories", {"d": {"mode": 755}}),
    ("DELETE", "/proxy/44772/directories?path=/workspace/d", None), ("GET", "/proxy/44772/metrics", None),
    ("GET", "/proxy/44772/metrics/watch", None), ("GET", "/proxy/44772/v1/isolated/capabilities", None),
    ("POST", "/proxy/44772/v1/isolated/session", {"workspace": {"path": "/workspace"}}),
    ("GET", "/proxy/44772/v1/isolated/sessions", None), ("GET", "/proxy/44772/v1/isolated/session/x", None),
    ("DELETE", "/proxy/44772/v1/isolated/session/x", None),
    ("POST", "/proxy/44772/v1/isolated/session/x/run", {"code": "true"}),
    ("GET", "/proxy/44772/v1/isolated/session/x/files/info?path=/workspace", None),
    ("GET", "/proxy/44772/v1/isolated/session/x/diff", None), ("GET", "/proxy/44772/nonsense", None),
    ("GET", "/proxy/18080/policy", None),
    ("PATCH", "/proxy/18080/policy", [{"action": "allow", "target": "a.example"}]),
    ("DELETE", "/proxy/18080/policy", ["a.example"]), ("GET", "/proxy/18080/credential-vault", None),
    ("GET", "/proxy/8000/", None), ("POST", "/proxy/8000/x", {}),
]


class Ways(opensandbox_case.OpenSandboxCase):
    def test_snapshots_and_pauses(self):
        story = self.story("snapshots")
        self.assertEqual((story["snapshot"]["name"], story["snapshot"]["status"]["state"]), ("first", "Ready"))
        self.assertEqual(story["get"]["id"], story["snapshot"]["id"])
        self.assertEqual([each["id"] for each in story["list"]["items"]], [story["snapshot"]["id"]])
        self.assertEqual(story["list others"]["items"], [])
        self.assertEqual(story["restore"], {"kept": "kept", "snapshotId": story["snapshot"]["id"]})
        story["delete"]
        self.assertEqual(story.error("deleted")["status"], 404)
        self.assertEqual(story["paused"], "Paused")
        self.assertEqual(len(story["list paused"]["items"]), 1)
        self.assertEqual(story.error("command while paused")["status"], 409)
        self.assertEqual(story.error("pause again")["status"], 409)
        self.assertGreater(story["resume"]["after"], story["resume"]["before"])
        self.assertEqual(story["resume"]["state"], "Running")
        self.assertEqual(story.error("resume again")["status"], 409)
        self.assertEqual(story["end while paused"], "ended")

    def test_isolated_sessions_are_apart(self):
        story = self.story("isolated")
        self.assertTrue(story["capabilities"]["available"])
        self.assertEqual(story["session"]["info"]["workspace"], {"path": "/workspace/w", "mode": "rw"})
        run = story["run"]
        self.assertEqual(run["stdout"][:2], ["/workspace/w", "[1][][3]"])
        self.assertNotIn("mine", run["stdout"], "/tmp is its own")
        self.assertEqual(run["exitCode"], 5)
        self.assertEqual(story["timeout"]["exitCode"], -1)
        self.assertEqual(story["files"], ["data\n", "in"])
        self.assertEqual(story["get"]["status"], "active")
        self.assertGreater(story["get"]["idle_remaining_seconds"], 0)
        self.assertEqual([each["session_id"] for each in story["list"]], [story["session"]["id"]])
        for wrong, field in (("overlay", "workspace.mode"), ("outside", "workspace.path"), ("network", "share_net")):
            self.assertIn("501", story.error(wrong)["message"], wrong)
            self.assertIn(field, story.error(wrong)["message"], wrong)
        self.assertEqual(story["once"], ["once"])
        story["delete"]
        self.assertIn("404", story.error("deleted")["message"])
        self.assertEqual(story.error("files of the deleted")["status"], 404)

    def test_ports_and_tokens(self):
        story = self.story("ports")
        self.assertEqual(story["info"]["entrypoint"], ["python3", "-m", "http.server", "8123"])
        self.assertEqual(story["page"]["body"], "a page")
        self.assertEqual(story["without a key"]["status"], 401)
        self.assertEqual(story["with a wrong key"]["status"], 401)
        self.assertEqual((story["signed"]["status"], story["signed"]["body"]), (200, "a page"))
        inside = story["headers inside"]
        self.assertEqual(inside["x-own"], "kept")
        for secret in ("authorization", "cookie", "open-sandbox-api-key", "x-execd-access-token"):
            self.assertNotIn(secret, inside)
        self.assertNotIn(self.keys["red"], json.dumps(inside))
        self.assertEqual(story["token alone"]["status"], 200)
        self.assertEqual(story["no token"]["status"], 401)
        self.assertEqual(story["forged token"]["status"], 401)
        self.assertEqual(story["token at another port"]["status"], 401)
        self.assertEqual(story["unknown path of execd"]["status"], 404)
        self.assertIn(story["after the end"]["status"], (401, 404))

    def test_a_stranger_finds_nothing(self):
        made = self.call("POST", "/v1/sandboxes", {"image": {"uri": "python"}, "entrypoint": ["sleep", "infinity"],
                                                   "resourceLimits": {}}).json()
        story = self.story("stranger", tenant="blue", sandbox=made["id"], unknown=UNKNOWN, requests=REQUESTS)
        for method, path, _ in REQUESTS:
            with self.subTest(method=method, path=path):
                other, unknown = story[f"other {method} {path}"], story[f"unknown {method} {path}"]
                self.assertEqual(other["status"], 404, other)
                self.assertEqual(other, unknown)
        self.assertEqual(story["list"]["items"], [])
        self.assertEqual(story.error("connect")["status"], 404)
        self.assertEqual(self.call("GET", f"/v1/sandboxes/{made['id']}").json()["status"]["state"], "Running")
        # Another agent of the same tenant is a stranger, too.
        mine, theirs = self.key("red", agent="mine"), self.key("red", agent="theirs")
        wanted = {"image": {"uri": "python"}, "entrypoint": ["sleep", "infinity"], "resourceLimits": {}}
        of_agent = self.call("POST", "/v1/sandboxes", wanted, key=mine).json()["id"]
        for method, path, body in REQUESTS:
            answer = self.call(method, f"/v1/sandboxes/{of_agent}{path}", body, key=theirs)
            self.assertEqual(answer.status, 404, (method, path, answer.text))
        for sandbox, key in ((made["id"], None), (of_agent, mine)):
            self.assertEqual(self.call("DELETE", f"/v1/sandboxes/{sandbox}", key=key).status, 204)


class Egress(opensandbox_case.OpenSandboxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        document = opensandbox_case.policy("granted.example.com:443", "third.example.com:443", "third.example.com:80")
        applied = cls.server.request("POST", "/v1/policies", {"document": document})
        assert applied.status == 201, applied.text

    def targets(self, policy):
        return {(rule["action"], rule["target"]) for rule in policy["egress"]}

    def test_a_wish_is_cut_to_what_policy_grants(self):
        story = self.story("egress")
        self.assertEqual(story["policy"]["defaultAction"], "deny")
        self.assertEqual(self.targets(story["policy"]), {("allow", "granted.example.com")})
        raw = story["raw"]
        self.assertEqual([rule["target"] for rule in raw["cut"]], ["other.example.org"])
        self.assertTrue(raw["cut"][0]["reason"])
        story["patch"]
        self.assertEqual(self.targets(story["patched"]), {
            ("allow", "third.example.com"), ("deny", "granted.example.com")})
        story["delete"]
        self.assertEqual(self.targets(story["deleted"]), {("allow", "third.example.com")})
        self.assertEqual(story.error("bad")["status"], 400)
        self.assertEqual(story.error("vault")["status"], 501)
        # Every name is more than policy grants: what it grants is there.
        self.assertEqual(self.targets(story["of allow all"]), {
            ("allow", "granted.example.com"), ("allow", "third.example.com")})
        self.assertEqual(story["none"]["policy"], {"defaultAction": "deny", "egress": []})
        self.assertIn("without a network", story["none"]["cut"][0]["reason"])

    # The door obeys, and not only the answer.
    def test_the_network_follows_the_policy(self):
        made = self.call("POST", "/v1/sandboxes", {
            "image": {"uri": "python"}, "entrypoint": ["sleep", "infinity"], "resourceLimits": {},
            "networkPolicy": {"defaultAction": "deny", "egress": [{"action": "allow", "target": "third.example.com"}]}})
        sandbox = made.json()["id"]
        session = self.server.request("GET", f"/v1/sessions/{sandbox}").json()
        self.assertEqual({entry if isinstance(entry, str) else entry["name"]
                          for entry in session["network_policy"]["allow"]}, {"third.example.com"})
        answer = self.call("DELETE", f"/v1/sandboxes/{sandbox}/proxy/18080/policy", ["third.example.com"])
        self.assertEqual(answer.status, 200, answer.text)
        session = self.server.request("GET", f"/v1/sessions/{sandbox}").json()
        self.assertEqual(session["network_policy"]["tier"], "none")
        self.assertEqual(self.call("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)


if __name__ == "__main__":
    unittest.main()
