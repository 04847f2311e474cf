# SPDX-License-Identifier: Apache-2.0
"""E2B's own clients, unmodified: sandboxes, programs, files and code."""

import unittest

import e2b_case
import harness

HOME = "/home/user"


class Stories(e2b_case.E2bCase):
    kill_tells = True  # whether a sandbox was there

    def test_a_sandbox_from_its_creation_to_its_end(self):
        self.check_lifecycle(self.story("lifecycle"))

    def check_lifecycle(self, story):
        first, second = story["id"], story["second"]
        info = story["info"]
        self.assertEqual(info["metadata"], {"team": "red", "note": "one & two"})
        self.assertEqual((info["state"], info["templateId"]), ("running", "base"))
        self.assertAlmostEqual(info["lasts"], 120_000, delta=15_000)
        self.assertGreater(info["memoryMB"], 0)
        self.assertTrue(story["running"])
        self.assertEqual(story["environment"], "hello\n")
        self.assertEqual(story["list"], [[second, first]], "the newest is first")
        self.assertEqual(story["list by metadata"], [[first]])
        self.assertEqual(story["list by state"], [[]])
        self.assertEqual(story["pages"], [[second], [first]])
        self.assertAlmostEqual(story["timeout"], 600_000, delta=15_000)
        self.assertAlmostEqual(story["shorter"], 30_000, delta=15_000)
        self.assertIn("session.max_ttl_seconds", story.error("too long")["message"])
        self.assertEqual(story["connect"], "again\n")
        self.assertEqual(len(story["metrics"]), 1)
        self.assertGreater(story["metrics"][0]["memTotal"], 0)
        self.assertIn(first, story["host"])
        self.assertEqual([story["kill"], story["kill again"]], [True, False] if self.kill_tells else [None, None])
        self.assertIs(story["running after"], False)
        for step in ("command after", "file after", "info after", "connect after"):
            self.assertRegex(story.error(step)["name"], "NotFound|Timeout|SandboxError", step)
        self.assertIs(story["kill by id"], True)
        self.assertEqual(story["list after"], [[]])
        self.assertIn("no-such-template", story.error("unknown template")["message"])

    def test_programs(self):
        self.check_commands(self.story("commands"))

    def check_commands(self, story):
        self.assertEqual(story["run"], {"exitCode": 0, "stdout": "out\n", "stderr": "err\n"})
        self.assertEqual(story["callbacks"], {"out": "out\n", "err": "err\n"})
        self.assertEqual(story["exit code"], {"exitCode": 3, "stdout": "before\n", "stderr": ""})
        self.assertEqual(story["environment"], "1-b c\n")
        self.assertEqual(story["directory"], "er\n")
        self.assertEqual(story["large output"], 3_000_000)
        self.assertEqual(story["unicode"], "héllo 😀")
        background = story["background"]
        self.assertEqual(background["cmd"], "/bin/bash")
        self.assertEqual(background["args"][:2], ["-l", "-c"])
        self.assertEqual((background["killed"], background["gone"], background["again"]), (True, True, False))
        self.assertEqual(story["ended by a signal"]["exitCode"], -1)
        self.assertEqual(story["stdin"], {"exitCode": 0, "stdout": "to the program\n", "stderr": ""})
        self.assertEqual(story["without stdin"], {"exitCode": 0, "stdout": "end\n", "stderr": ""})
        self.assertEqual(story.error("timeout")["name"], "TimeoutError")
        disconnected = story["disconnect"]
        self.assertTrue(disconnected["same"])
        self.assertEqual((disconnected["exitCode"], disconnected["stdout"]), (0, "begun\nended\n"))
        self.assertEqual(story["connect to the ended"]["stdout"], "kept\n")
        self.assertEqual(story.error("connect to none")["name"], "NotFoundError")
        self.assertIs(story["kill none"], False)
        self.assertNotEqual(story["root"].strip(), "0", "root is the sandbox's own user")
        self.assertEqual(story["many"], ["1", "2", "3", "4", "5"])

    def test_files(self):
        story = self.story("files")
        self.check_files(story)
        self.assertEqual(story["octets"],
                         {"name": "octets", "type": "file", "path": f"{HOME}/octets", "text": "as octets"})
        self.assertEqual(story["gzip"], 200_000)
        self.assertIn("keeps none", story.error("metadata")["message"])

    def check_files(self, story):
        self.assertEqual(story["write"], {"name": "one.txt", "type": "file", "path": f"{HOME}/one.txt"})
        self.assertEqual([story["read"], story["read absolute"], story["seen inside"]], ["first"] * 3)
        self.assertEqual(story["overwrite"], "second")
        self.assertEqual(story["bytes"], [0, 255, 13, 10, 45, 45, 7])
        self.assertEqual([story["blob"], story["stream"]], ["second"] * 2)
        self.assertEqual(story["empty"], {"text": "", "bytes": 0})
        self.assertEqual([each["path"] for each in story["several"]["all"]], [f"{HOME}/a/1", f"{HOME}/a/2"])
        self.assertEqual(story["several"]["length"], 300_000)
        self.assertEqual(story["list"], [{"name": "1", "type": "file", "path": f"{HOME}/a/1"},
                                         {"name": "2", "type": "file", "path": f"{HOME}/a/2"}])
        self.assertEqual([(each["name"], each["type"]) for each in story["list deep"]],
                         [("er", "dir"), ("bytes.bin", "file")])
        self.assertEqual(story["exists"], [True, False])
        info = story["info"]
        self.assertEqual((info["size"], info["mode"], info["permissions"]), (6, 0o644, "-rw-r--r--"))
        self.assertTrue(info["recent"] and info["owner"])
        self.assertEqual(story["make directory"], [True, False])
        self.assertEqual(story["rename"], {"name": "moved.txt", "type": "file", "path": f"{HOME}/made/in/moved.txt",
                                           "text": "second", "old": False})
        self.assertIs(story["remove"], False)
        self.assertEqual(story["dots"], "x")
        for step in ("read none", "list none", "outside"):
            self.assertRegex(story.error(step)["name"], "NotFoundError", step)
        for step in ("list a file", "read a directory"):
            self.assertEqual(story.error(step)["name"], "InvalidArgumentError", step)

    def test_changes_of_files(self):
        story = self.story("watch")
        flat = [(each["name"], each["type"]) for each in story["flat"]]
        self.assertIn(("a", "create"), flat)
        self.assertIn(("a", "rename"), flat)
        self.assertIn(("b", "remove"), flat)
        self.assertFalse([name for name, _ in flat if "unseen" in name])
        self.assertIn("below/last", [each["name"] for each in story["recursive"]])
        entries = [each["entry"] for each in story["entries"] if "entry" in each]
        self.assertIn({"name": "3last", "type": "file", "path": f"{HOME}/w/3last"}, entries)
        self.assertEqual(story.error("none")["name"], "FileNotFoundError")

    def test_terminals(self):
        story = self.story("pty")
        self.assertEqual((story["size"], story["resize"], story["kill"]), (True, True, [True, True]))
        self.assertEqual(story["exit"]["exitCode"], 7)


class Hosts(e2b_case.E2bCase):
    config = "ports:\n  domain: boxes.test\n"

    def test_a_port_by_its_host(self):
        story = self.story("host", port=self.server.port)
        self.assertRegex(story["host"], r"^8000-ses_[0-9a-z]+\.boxes\.test$")
        self.assertEqual(story["page"], "from inside")
        self.assertEqual((story["without"], story["forged"]), (401, 401))

    def test_the_token_stays_outside(self):
        """The server inside gets no credential, and a token opens its own sandbox alone."""
        code = ("import http.server as h\nclass E(h.BaseHTTPRequestHandler):\n def do_GET(self):\n  self.send_response(200); "
                "self.end_headers(); self.wfile.write(str(self.headers).encode())\nh.HTTPServer(('', 8000), E).serve_forever()")
        mine, other = self.create(), self.create()
        session = f"/v1/sessions/{mine['sandboxID']}"
        begun = self.server.request("POST", f"{session}/exec", {"command": ["python3", "-c", code], "timeout_seconds": 120, "background": True},
                                    {"X-API-Key": self.keys["red"]}, key=False)
        self.assertEqual(begun.status, 202, begun.text)

        def ask(token):
            host = f"8000-{mine['sandboxID']}.boxes.test"
            return self.server.request("GET", "/", None, {"Host": host, "E2B-Traffic-Access-Token": token}, key=False)
        seen = harness.wait_for("the server inside", lambda: next(iter(
            answer.text for answer in [ask(mine["trafficAccessToken"])] if answer.status == 200), None))
        self.assertNotIn("raffic", seen)
        self.assertNotIn(mine["trafficAccessToken"], seen)
        self.assertEqual(ask(other["trafficAccessToken"]).status, 401)
        self.assertEqual(ask(mine["envdAccessToken"]).status, 401, "each token has its use")
        traffic = {"E2b-Sandbox-Id": mine["sandboxID"], "E2b-Sandbox-Port": "49983"}
        for name in ("X-Access-Token", "E2B-Traffic-Access-Token"):
            refused = self.server.request("GET", "/e2b/files?path=x", None, {**traffic, name: mine["trafficAccessToken"]}, key=False)
            self.assertEqual(refused.status, 401, "whoever may see a port may not read files")


class OldClients(Stories):
    """Earlier versions of the client: what they have in common with the present one."""

    test_changes_of_files = test_terminals = None
    kill_tells = False

    def story(self, name, **options):
        return super().story(name, client="e2b-2.20", **options)

    def test_files(self):
        self.check_files(self.story("files"))


class MiddleClients(OldClients):
    kill_tells = True

    def story(self, name, **options):
        return e2b_case.E2bCase.story(self, name, client="e2b-2.45", **options)


if __name__ == "__main__":
    unittest.main()
