# SPDX-License-Identifier: Apache-2.0
"""E2B's code interpreter client, unmodified, and pauses, snapshots and links of its sandboxes."""

import json
import os
import tempfile
import unittest

import e2b_case
import opensandbox_case

ROOT_PORT = 18_751


class Code(e2b_case.E2bCase):
    client = "@e2b/code-interpreter"

    def test_cells(self):
        story = self.story("code")
        value = story["value"]
        self.assertEqual((value["text"], value["error"]), ("42", None))
        self.assertEqual(value["results"], [{"main": True, "formats": [], "text": "42"}])
        self.assertEqual(story["state"]["text"], "7")
        self.assertEqual(story["string"], "quoted")
        output = story["output"]
        self.assertEqual((output["stdout"], output["stderr"], output["seen"]), ("out\n", "err\n", {"out": "out\n", "err": "err\n"}))
        error = story["error"]
        self.assertEqual(error["error"], {"name": "ZeroDivisionError", "value": "division by zero"})
        self.assertEqual((error["stdout"], error["stderr"]), ("before\n", ""), "the traceback is apart")
        self.assertIn("Traceback", error["traceback"])
        self.assertEqual(story["syntax error"]["error"]["name"], "SyntaxError")
        self.assertEqual(story["await"], "done")
        self.assertEqual(story["rich"], {"html": "<b>h</b>", "text": "H", "main": True})
        self.assertGreater(story["count"], 1)
        self.assertEqual(story["environment"], "it's")
        self.assertEqual(story["javascript"]["text"], "22")
        self.assertEqual(story["bash"]["stdout"], "from bash\n")
        self.assertEqual(story["files"], "made")
        self.assertEqual(story["context"]["language"], "python")
        self.assertEqual(story["contexts are apart"]["name"], "NameError")
        self.assertEqual(story["context state"], "5")
        self.assertEqual(story["restart"]["name"], "NameError")
        self.assertEqual((story["contexts"], story["remove"]), (True, False))
        self.assertEqual(story.error("removed")["name"], "NotFoundError")
        self.assertIs(story["many contexts"], True, "a removed context gives room")
        self.assertIn("cwd", story.error("missing directory")["message"])
        self.assertIn("klingon", story.error("unknown language")["message"])
        self.assertEqual(story.error("timeout")["name"], "TimeoutError")
        self.assertEqual(story["after the timeout"], "6", "the client's end interrupts the cell, and state stays")


class Times(e2b_case.E2bCase):
    def test_pauses(self):
        story = self.story("pause")
        self.assertEqual((story["pause"], story["pause again"], story["running"]), (True, False, False))
        self.assertEqual((len(story["listed"][0]), story["not running"]), (1, [[]]))
        self.assertEqual(story["state"], "paused")
        self.assertIn("SandboxNotFound", story.error("command")["name"])
        self.assertEqual(story["resume"], {"text": "by the pause", "goesOn": True, "state": "running"})
        self.assertIn("keeps the memory", story.error("without memory")["message"])

    def test_pauses_at_the_timeout(self):
        story = self.story("autoPause")
        self.assertEqual(story["lifecycle"], {"onTimeout": "pause", "autoResume": True})
        self.assertIs(story["paused"], True)
        self.assertEqual(story["wakes"], ["awake\n", "running"])
        self.assertIs(story["sleeps"], False, "without autoResume a request does not wake it")
        self.assertIs(story["connects"][0], True)
        self.assertAlmostEqual(story["connects"][1], 30_000, delta=15_000)

    def test_ends_at_the_timeout(self):
        story = self.story("ends")
        self.assertIs(story["ends"], True)
        self.assertIs(story["gone"], False)

    def test_snapshots_and_forks(self):
        story = self.story("snapshots", key=self.key("red", "agent", "operator"))
        snapshot = story["snapshot"]["snapshotId"]
        self.assertEqual(story["snapshot"]["names"], ["first"])
        self.assertEqual((story["list"], story["list of the sandbox"]), ([[snapshot]], [[snapshot]]))
        self.assertEqual(story["restore"], "in the snapshot")
        fork = {"text": "later", "metadata": {"of": "fork"}, "env": "too", "other": True}
        self.assertEqual(story["fork"], [fork, fork])
        self.assertEqual((story["delete"], story["delete again"]), (True, False))
        self.assertIn(snapshot, story.error("restore the deleted")["message"])


class Links(e2b_case.E2bCase):
    config = f"compat: {{e2b: {{listen: '127.0.0.1:{ROOT_PORT}'}}, images: {{mine: '', theirs: no-such-image}}}}\n"
    root = f"http://127.0.0.1:{ROOT_PORT}"

    def test_signed_urls_at_the_root_of_a_port(self):
        story = self.story("signed", url=self.root)
        self.assertEqual(story["upload"], [200, "by a link"])
        self.assertEqual(story["download"], [200, "by a link"])
        self.assertEqual(story["refusals"], [401] * 5)
        self.assertEqual(story["after the end"], 401)

    def test_the_whole_interface_at_the_root(self):
        story = self.story("lifecycle", url=self.root)
        self.assertIs(story["kill"], True)

    def test_configured_images(self):
        self.create(templateID="mine")
        refused = self.call("POST", "/sandboxes", {"templateID": "theirs"})
        self.assertGreaterEqual(refused.status, 400)
        self.assertIn("no-such-image", refused.json()["message"])


class Guesses(e2b_case.E2bCase):
    config = "auth: {failures_per_minute: 3}\n"

    def test_wrong_signatures_are_few(self):
        self.create()
        guesses = [self.server.request("GET", f"/e2b/files?path=a&signature=v1_{number}", key=False) for number in range(5)]
        self.assertEqual([each.status for each in guesses], [401] * 3 + [429] * 2, guesses[0].text)
        self.assertEqual(self.call("GET", "/sandboxes").status, 200)


class Networks(e2b_case.E2bCase):
    config = "policy: {document: POLICY}\n"

    @classmethod
    def setUpClass(cls):
        document = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
        document.write(opensandbox_case.policy("allowed.example:80", "allowed.example:443"))
        document.close()
        cls.config = cls.config.replace("POLICY", document.name)
        os.chmod(document.name, 0o644)
        cls.addClassCleanup(os.unlink, document.name)
        super().setUpClass()

    def test_a_wish_is_cut_to_the_grant(self):
        story = self.story("network")
        self.assertEqual(set(story["cut"]["allowOut"]), {"allowed.example"})
        self.assertEqual(story["none"]["network"]["allowOut"], [])
        self.assertEqual((story["none"]["allowed"], story["none"]["reach"]), (False, "no"))
        story["update"]
        self.assertIn("network.rules", story.error("rules")["message"])


class Boundaries(e2b_case.E2bCase):
    def test_another_tenants_sandbox_is_unknown(self):
        operator = self.key("red", "agent", "operator")
        sandbox = self.call("POST", "/sandboxes", {"templateID": "base"}, key=operator).json()
        snapshot = self.call("POST", f"/sandboxes/{sandbox['sandboxID']}/snapshots", {}, key=operator).json()
        story = self.story("stranger", key=self.key("blue", "agent", "operator"), other=sandbox["sandboxID"],
                           otherSnapshot=snapshot["snapshotID"])
        for step in ("info", "connect", "timeout", "pause", "metrics", "snapshot", "fork"):
            self.assertEqual(story.error(step)["name"], "SandboxNotFoundError", step)
        self.assertEqual((story["kill"], story["delete snapshot"]), (False, False))
        self.assertEqual((story["list"], story["snapshots"]), ([[]], [[]]))
        for method, path in (("GET", "/files?path=x"), ("GET", "/health"), ("GET", "/contexts")):
            answer = self.call(method, path, tenant="blue", headers={"E2b-Sandbox-Id": sandbox["sandboxID"]})
            self.assertEqual(answer.status, 404, path)
            self.assertEqual(answer.json()["code"], 404, path)
        self.assertEqual(self.call("DELETE", f"/sandboxes/{sandbox['sandboxID']}", key=operator).status, 204)

    def test_a_token_is_good_for_its_sandbox_alone(self):
        one, other = self.create(), self.create()
        self.assertEqual(self.inside("GET", "/health", one).status, 204)
        for token in (other["envdAccessToken"], one["envdAccessToken"] + "0", "x", self.keys["red"]):
            self.assertEqual(self.inside("GET", "/health", one, token=token).status, 401, token)
        # The control plane takes no token of a sandbox.
        answer = self.inside("DELETE", f"/sandboxes/{one['sandboxID']}", one)
        self.assertEqual(answer.status, 401)
        self.assertEqual(self.inside("GET", "/contexts", one, headers={"X-Access-Token": ""}).status, 401)

    def test_a_token_ends_with_its_key(self):
        made = self.server.request("POST", "/v1/keys", {"tenant": "red", "name": "short", "format": "e2b"}).json()
        sandbox = self.call("POST", "/sandboxes", {"templateID": "base"}, key=made["secret"]).json()
        self.assertEqual(self.inside("GET", "/health", sandbox).status, 204)
        self.server.request("DELETE", f"/v1/keys/{made['id']}")
        self.assertEqual(self.inside("GET", "/health", sandbox).status, 401)
        self.call("DELETE", f"/sandboxes/{sandbox['sandboxID']}")

    def test_a_viewer_changes_nothing(self):
        sandbox = self.create()
        viewer = self.key("red", "viewer")
        seen = self.call("GET", f"/sandboxes/{sandbox['sandboxID']}", key=viewer)
        self.assertEqual(seen.status, 200)
        for path, body in (("/sandboxes", {"templateID": "base"}),
                           (f"/sandboxes/{sandbox['sandboxID']}/timeout", {"timeout": 10})):
            self.assertEqual(self.call("POST", path, body, key=viewer).status, 403, path)
        # Its token has the viewer's rights.
        token = seen.json()["envdAccessToken"]
        self.assertEqual(self.inside("POST", "/files?path=x", sandbox, "y", token=token,
                                     headers={"Content-Type": "application/octet-stream"}).status, 403)

    def test_errors_have_the_clients_form(self):
        for headers in ({}, {"X-API-KEY": "e2b_00"}):
            answer = self.server.request("GET", "/e2b/v2/sandboxes", headers=headers, key=False)
            self.assertEqual((answer.status, answer.json()["code"]), (401, 401))
        answer = self.call("GET", "/nonsense")
        self.assertEqual((answer.status, answer.json()["code"]), (404, 404))
        for method, path in (("GET", "/templates"), ("POST", "/v3/templates"), ("GET", "/volumes"),
                             ("GET", "/secrets"), ("GET", "/teams")):
            answer = self.call(method, path, {} if method == "POST" else None)
            self.assertEqual((answer.status, answer.json()["code"]), (501, 501), path)
        for body, field in (({}, "templateID"), ({"templateID": "base", "timeout": "x"}, "timeout"),
                            ({"templateID": "base", "metadata": {"a": 1}}, "metadata"),
                            ({"templateID": "base", "envVars": {"A-B": "c"}}, "envVars"),
                            ({"templateID": "base", "metadata": {"cloister.e2b.template": "x"}}, "metadata")):
            answer = self.call("POST", "/sandboxes", body)
            self.assertEqual((answer.status, answer.json()["code"]), (400, 400), body)
            self.assertIn(field, answer.json()["message"], body)
        for member in ("mcp", "volumeMounts", "iam"):
            answer = self.call("POST", "/v2/sandboxes", {"templateID": "base", member: {"x": {}}})
            self.assertEqual((answer.status, answer.json()["code"]), (501, 501), member)
        sandbox = self.create()
        for name, body, code in (("Stat", {"path": "none"}, "not_found"), ("Stat", {"path": 7}, "invalid_argument")):
            answer = self.inside("POST", f"/filesystem.Filesystem/{name}", sandbox, body)
            self.assertEqual(answer.json()["code"], code, body)
        streamed = self.inside("POST", "/process.Process/Start", sandbox, b"\0\0\0\0\2{}",
                               headers={"Content-Type": "application/connect+json"})
        self.assertEqual((streamed.status, streamed.body[0]), (200, 2))
        self.assertEqual(json.loads(streamed.body[5:])["error"]["code"], "invalid_argument")

    def test_watchers_that_are_asked(self):
        sandbox = self.create()
        call = lambda name, body: self.inside("POST", f"/filesystem.Filesystem/{name}", sandbox, body)  # noqa: E731
        self.assertEqual(call("MakeDir", {"path": "d"}).status, 200)
        watcher = call("CreateWatcher", {"path": "d"}).json()["watcherId"]
        self.assertEqual(self.inside("POST", "/files?path=d/f", sandbox, "x",
                                     headers={"Content-Type": "application/octet-stream"}).status, 200)
        seen = []

        def created():
            seen.extend(call("GetWatcherEvents", {"watcherId": watcher}).json()["events"])
            return {"name": "f", "type": "EVENT_TYPE_CREATE"} in seen
        e2b_case.harness.wait_for("the change", created)
        self.assertEqual(call("RemoveWatcher", {"watcherId": watcher}).status, 200)
        self.assertEqual(call("GetWatcherEvents", {"watcherId": watcher}).json()["code"], "not_found")

    def test_hostile_bodies(self):
        sandbox = self.create()
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n--b--\r\n'
        good = self.inside("POST", "/files", sandbox, part % (b"dir/name.txt", b"\r\n--bx\r\n"), headers=form)
        self.assertEqual(good.status, 200, good.text)
        self.assertEqual(self.inside("GET", "/files?path=dir/name.txt", sandbox).body, b"\r\n--bx\r\n")
        for body in (b"", b"--b\r\n", b"--b\r\n\r\nx\r\n--b--", b"x" * 20_000,
                     b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nno end'):
            answer = self.inside("POST", "/files", sandbox, body, headers=form)
            self.assertEqual((answer.status // 100, answer.json()["code"] // 100), (4, 4), body[:40])
        octets = {"Content-Type": "application/octet-stream"}
        for body in (b"not gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff", b"\x1f\x8b"):
            answer = self.inside("POST", "/files?path=packed", sandbox, body,
                                 headers={**octets, "Content-Encoding": "gzip"})
            self.assertEqual(answer.status // 100, 4, body)
        self.assertEqual(self.inside("GET", "/files?path=packed", sandbox).status, 404)
        for path in ("/etc/passwd", "../../etc/passwd", "/proc/self/environ"):
            self.assertEqual(self.inside("GET", f"/files?path={path}", sandbox).status, 404, path)

    def test_keys_of_the_command_line(self):
        self.assertRegex(self.keys["red"], r"^e2b_[0-9a-f]{64}$")
        refused = self.server.request("POST", "/v1/keys", {"tenant": "red", "name": "x", "format": "aws"})
        self.assertEqual(refused.status, 422)
        made = self.server.cli("key", "create", "--tenant", "red", "--format", "e2b")
        self.assertRegex(made.stdout, r"^e2b_[0-9a-f]{64}\n$")


if __name__ == "__main__":
    unittest.main()
