# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox's own client, unmodified: sandboxes, commands, code and files."""

import unittest

import harness
import opensandbox_case

IDLE = ["tail", "-f", "/dev/null"]


class Lifecycle(opensandbox_case.OpenSandboxCase):
    def test_a_sandbox_from_its_creation_to_its_end(self):
        story = self.story("lifecycle")
        info = story["info"]
        self.assertEqual(info["status"]["state"], "Running")
        self.assertEqual(info["metadata"], {"team": "red", "name": "one & two"})
        self.assertEqual(info["entrypoint"], IDLE)
        self.assertEqual(info["image"]["uri"], "python:3.11")
        self.assertTrue(story["healthy"])
        self.assertEqual(story["metrics"]["cpuCount"], 0.5)
        self.assertEqual(story["metrics"]["memoryTotalMiB"], 256)
        self.assertGreater(story["metrics"]["memoryUsedMiB"], 0)
        self.assertEqual(story["env"]["stdout"], ["hello"])
        ids = [each["id"] for each in story["list"]["items"]]
        self.assertEqual(ids, [story["second"], story["id"]], "the newest is first")
        self.assertEqual(story["list"]["pagination"], {
            "page": 1, "pageSize": 20, "totalItems": 2, "totalPages": 1, "hasNextPage": False})
        self.assertEqual([each["id"] for each in story["list by metadata"]["items"]], [story["id"]])
        self.assertEqual(story["list by state"]["items"], [])
        self.assertEqual([each["id"] for each in story["page"]["items"]], [story["id"]])
        self.assertEqual(story["page"]["pagination"]["totalPages"], 2)
        self.assertEqual(story["beyond"]["items"], [])
        self.assertEqual(story["patch"]["metadata"], {"team": "green", "more": "yes"})
        self.assertEqual(story.error("patch reserved")["status"], 400)
        self.assertIn("reserved", story.error("patch reserved")["raw"])
        self.assertIn("expiresAt", story["renew"])
        self.assertEqual(story.error("renew to the past")["status"], 400)
        got = story["get"]
        self.assertEqual(got["metadata"], {"team": "green", "more": "yes"})
        self.assertLess(got["expiresAt"], story["renew"]["expiresAt"], "the later renewal was to an earlier time")
        self.assertEqual(story["connect"], {"id": story["id"], "out": ["again"]})
        for gone in ("kill again", "info of the killed", "command of the killed"):
            self.assertEqual(story.error(gone)["status"], 404, gone)
        self.assertEqual(story.error("kill again")["code"], "SANDBOX::NOT_FOUND")
        self.assertEqual(story["list after"]["items"], [])

    def test_a_wrong_request_names_its_field(self):
        refused = {
            "image": ({"image": "registry.example.com/unknown:1"}, 400, "image.uri"),
            "auth": ({"image": {"uri": "python:3.11", "auth": {"username": "u", "password": "secret-word"}}}, 501,
                     "image.auth"),
            "memory": ({"resource": {"cpu": "1", "memory": "lots"}}, 400, "resourceLimits.memory"),
            "gpu": ({"resource": {"cpu": "1", "memory": "256Mi", "gpu": "1"}}, 501, "resourceLimits.gpu"),
            "platform": ({"platform": {"os": "windows", "arch": "amd64"}}, 400, "platform.os"),
            "volumes": ({"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/"}}]}, 501, "volumes"),
            "vault": ({"credentialProxy": {"enabled": True}}, 501, "credentialProxy"),
            "extension": ({"extensions": {"unknown": "1"}}, 501, "extensions.unknown"),
            "pool": ({"extensions": {"poolRef": "no-such-pool"}}, 404, "extensions.poolRef"),
            "metadata": ({"metadata": {"opensandbox.io/x": "y"}}, 400, "metadata.opensandbox.io/x"),
            "target": ({"networkPolicy": {"egress": [{"action": "allow", "target": "no name"}]}}, 400,
                       "networkPolicy.egress[0].target"),
            "entrypoint": ({"entrypoint": ["/no/such/program"]}, None, None),
            "too long": ({"timeoutSeconds": 10_000_000}, 400, "seconds"),
        }
        story = self.story("refusals", refused={name: more for name, (more, _, _) in refused.items()})
        for name, (_, status, field) in refused.items():
            if status is None:
                story[name]  # the program fails inside, and the sandbox is there
                continue
            error = story.error(name)
            self.assertEqual(error["status"], status, (name, error))
            self.assertIn(field, error["raw"], name)
            self.assertNotIn("secret-word", error["raw"], name)
        self.assertEqual(self.call("GET", "/v1/sandboxes").json()["pagination"]["totalItems"], 0)

    def test_without_a_key(self):
        for headers, code in (({}, "MISSING_API_KEY"), ({"OPEN-SANDBOX-API-KEY": "clo_wrong"}, "INVALID_API_KEY")):
            answer = self.server.request("GET", "/opensandbox/v1/sandboxes", headers=headers, key=False)
            self.assertEqual((answer.status, answer.json()["code"]), (401, code))

    def test_paths_and_fields_that_are_not_there(self):
        self.assertEqual(self.call("GET", "/v1/nonsense").status, 404)
        for method, path, body in (("POST", "/v1/pools", {}), ("DELETE", "/v1/pools/x", None)):
            answer = self.call(method, path, body)
            self.assertEqual((answer.status, answer.json()["code"]), (501, "NOT_SUPPORTED"), path)
        answer = self.call("POST", "/v1/sandboxes", {"image": {"uri": "python"}, "unknownField": 1,
                                                     "entrypoint": IDLE, "resourceLimits": {}})
        self.assertEqual(answer.status, 400)
        self.assertIn("unknownField", answer.json()["message"])

    def test_health_and_diagnostics(self):
        answer = self.server.request("GET", "/opensandbox/health", key=False)
        self.assertEqual((answer.status, answer.json()), (200, {"status": "healthy"}))
        made = self.call("POST", "/v1/sandboxes", {"image": {"uri": "python"}, "resourceLimits": {},
                                                   "entrypoint": ["echo", "from the entrypoint"]}).json()
        path = f"/v1/sandboxes/{made['id']}"
        self.assertEqual(made["entrypoint"], ["echo", "from the entrypoint"])
        harness.wait_for("the entrypoint's output", lambda: "from the entrypoint" in self.call(
            "GET", f"{path}/diagnostics/logs?scope=container").json()["content"])
        events = self.call("GET", f"{path}/diagnostics/events").json()
        self.assertEqual((events["kind"], events["scope"], events["delivery"]), ("events", "all", "inline"))
        self.assertIn("created", events["content"])
        self.assertEqual(self.call("DELETE", path).status, 204)

    def test_pools_are_the_services(self):
        pools = self.call("GET", "/v1/pools").json()["items"]
        names = [pool["name"] for pool in pools]
        self.assertEqual((names[0], len(set(names))), ("any", len(names)))
        self.assertIn("python", names)
        for name in ("any", "python"):
            made = self.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": name}, "timeout": 60})
            self.assertEqual(made.status, 202, made.text)
            self.assertEqual(self.call("DELETE", f"/v1/sandboxes/{made.json()['id']}").status, 204)

    def test_each_access_moves_the_end(self):
        made = self.call("POST", "/v1/sandboxes", {
            "image": {"uri": "python"}, "entrypoint": IDLE, "resourceLimits": {}, "timeout": 60,
            "extensions": {"access.renew.extend.seconds": "5000"}}).json()
        path = f"/v1/sandboxes/{made['id']}"
        self.assertEqual(self.call("GET", f"{path}/proxy/44772/ping").status, 200)
        later = self.call("GET", path).json()["expiresAt"]
        self.assertGreater(later, made["expiresAt"])
        self.assertEqual(self.call("GET", f"{path}/proxy/44772/ping").status, 200)
        self.assertEqual(self.call("GET", path).json()["expiresAt"], later, "not with each request")
        self.call("DELETE", path)


class Commands(opensandbox_case.OpenSandboxCase):
    def test_commands_and_shells(self):
        story = self.story("commands")
        self.assertEqual(story["echo"]["stdout"], ["one", "three"])
        self.assertEqual(story["echo"]["stderr"], ["two"])
        self.assertEqual((story["echo"]["exitCode"], story["echo"]["complete"]), (0, True))
        self.assertEqual(story["exit"]["exitCode"], 3)
        self.assertEqual(story["exit"]["error"]["name"], "CommandExecError")
        self.assertEqual(story["exit"]["error"]["traceback"], ["exit status 3"])
        self.assertFalse(story["exit"]["complete"])
        self.assertEqual(story["signal"]["exitCode"], -1)
        self.assertIn("SIGKILL", story["signal"]["error"]["traceback"][0])
        self.assertEqual(story["cwd"]["stdout"], ["/tmp"])
        self.assertEqual(story["envs"]["stdout"], ["x y 1"])
        self.assertEqual(story["timeout"]["exitCode"], -1)
        self.assertFalse(story["timeout"]["complete"])
        self.assertNotEqual(story["uid"]["stdout"], ["0"])
        self.assertIn("uid 0 is not offered", story["status events"][0])
        self.assertEqual(story["stream"], ["init", "stdout", "stdout", "execution_complete"])
        self.assertEqual(sum(story["long line"]), 200_000)
        self.assertEqual(story["not UTF-8"], ["a\ufffdb"])

        self.assertTrue(story["background"]["complete"])
        self.assertEqual(story["background"]["stdout"], [])
        at_once = story["status at once"]
        self.assertEqual((at_once["running"], at_once["exitCode"]), (True, None))
        self.assertIn("sleep 0.5", at_once["content"])
        self.assertNotIn("exec 2>&1", at_once["content"])
        self.assertEqual(story["status at the end"]["exitCode"], 4)
        self.assertIsNotNone(story["status at the end"]["finishedAt"])
        self.assertEqual(story["logs"], {"content": "begin\nerr\nend\n", "cursor": 3})
        self.assertEqual(story["logs from 1"], {"content": "err\nend\n", "cursor": 3})
        self.assertEqual(story["logs from 3"], {"content": "", "cursor": 3})
        self.assertFalse(story["interrupt"]["running"])
        self.assertNotEqual(story["interrupt"]["exitCode"], 0)
        self.assertEqual(story["interrupt a foreground one"]["stdout"], ["up"])
        self.assertFalse(story["interrupt a foreground one"]["complete"])
        self.assertEqual(story.error("unknown status")["status"], 404)
        self.assertEqual(story.error("no command")["status"], 400)
        self.assertEqual(story["outlives the client"], ["lived"])

        self.assertEqual(story["shell 1"]["stdout"], ["/tmp"])
        self.assertEqual(story["shell 2"]["stdout"], ["5", "/workspace"])
        self.assertEqual(story["shell exit"]["exitCode"], 7)
        self.assertEqual(story["shell cwd"]["stdout"], ["/tmp"])
        self.assertEqual(story["shell timeout"]["exitCode"], -1)
        story["delete shell"]
        self.assertEqual(story.error("deleted shell")["status"], 404)
        self.assertEqual(story["many shells"], "all", "a deleted shell frees its place")


class Code(opensandbox_case.OpenSandboxCase):
    config = "kernels:\n  max_per_session: 8\n"

    def results(self, events):
        return [event["results"]["text"] for event in events if event["type"] == "result"]

    def test_contexts_keep_their_state(self):
        story = self.story("code")
        self.assertEqual(story["context"]["language"], "python")
        first = story["cell 1"]
        self.assertEqual([event["type"] for event in first],
                         ["init", "stdout", "execution_count", "result", "execution_complete"])
        self.assertEqual(first[0]["text"], story["context"]["id"])
        self.assertEqual(first[1]["text"], "out")
        self.assertEqual(first[2]["execution_count"], 1)
        self.assertEqual(self.results(first), ["21"])
        self.assertEqual(self.results(story["cell 2"]), ["42"])
        error = story["error"][-1]
        self.assertEqual((error["type"], error["error"]["ename"]), ("error", "NameError"))
        self.assertEqual(error["error"]["evalue"], "name 'undefined_name' is not defined")
        self.assertIn("Traceback", error["error"]["traceback"][0])
        self.assertEqual(self.results(story["default"]), ["1"])
        self.assertEqual(self.results(story["javascript"]), ["42"])
        self.assertEqual([e["text"] for e in story["bash"] if e["type"] == "stdout"], ["hi"])
        self.assertEqual({each["id"] for each in story["contexts"]["body"]}, {story["context"]["id"], "python"})
        self.assertEqual(story["get"]["body"], story["context"])
        self.assertEqual(self.results(story["in a directory"]), ["'/tmp'"])
        self.assertEqual(story["interrupt"]["ended"]["type"], "error")
        self.assertEqual(self.results(story["interrupt"]["after"]), ["20"], "the context keeps its state")
        self.assertEqual(story["delete"]["status"], 200)
        self.assertEqual(story["deleted"]["status"], 404)
        self.assertEqual(story["deleted"]["body"]["code"], "CONTEXT_NOT_FOUND")
        self.assertEqual(story["delete all"]["status"], 200)
        self.assertEqual(story["none left"]["body"], [])
        self.assertEqual(story["unknown language"]["status"], 400)
        self.assertEqual(story["many contexts"], "all", "a deleted context frees its place")


class Files(opensandbox_case.OpenSandboxCase):
    def test_files_and_directories(self):
        for folder in ("/workspace/some",):
            with self.subTest(folder=folder):
                self.check(folder, self.story("files", folder=folder))

    def check(self, home, story):
        story["write"], story["write a stream"]
        self.assertEqual(story["read"], "line 1\nline 2\nline 3\nline 4\n")
        self.assertEqual(story["read bytes"], [0, 255, 10, 13, 45, 45])
        self.assertEqual(story["read empty"], "")
        self.assertEqual(story["read range"], "1\nlin")
        self.assertEqual(story["read lines"], "line 2\nline 3\n")
        self.assertEqual(story["read a stream"], 300_000)
        self.assertEqual(story.error("read missing")["status"], 404)
        self.assertIn("FILE_NOT_FOUND", story.error("read missing")["raw"])
        self.assertIn(story.error("read outside")["status"], (400, 404))
        self.assertIn(story.error("read through a link")["status"], (400, 404, 409))
        info = story["info"][f"{home}/a.txt"]
        self.assertEqual((info["type"], info["size"], info["mode"]), ("file", 28, 640))
        self.assertEqual(story["info"][f"{home}/deep"]["type"], "directory")
        self.assertEqual(story.error("info missing")["status"], 404)
        self.assertEqual(story["permissions"], 755)
        self.assertEqual(story.error("permissions of another")["status"], 501)
        self.assertEqual(story["replace"], "row 1\nrow 2\nrow 3\nrow 4\n")
        self.assertEqual(story["replace detailed"], [{"path": f"{home}/a.txt", "replacedCount": 4},
                                                     {"path": f"{home}/empty", "replacedCount": 0}])
        self.assertEqual(story["mode after"], 755)
        self.assertEqual(story["search"], [f"{home}/deep/er/b.bin"])
        self.assertEqual(story["search all"], [f"{home}/a.txt", f"{home}/deep/er/b.bin", f"{home}/empty",
                                               f"{home}/link", f"{home}/streamed"])
        made = story["make directories"]
        self.assertEqual((made[f"{home}/d1"]["mode"], made[f"{home}/d2/d3"]["mode"]), (755, 700))
        self.assertEqual(story["list"], [
            [f"{home}/a.txt", "file", 28], [f"{home}/d1", "directory", story["list"][1][2]],
            [f"{home}/d2", "directory", story["list"][2][2]], [f"{home}/deep", "directory", story["list"][3][2]],
            [f"{home}/empty", "file", 0], [f"{home}/link", "symlink", story["list"][5][2]],
            [f"{home}/streamed", "file", 300_000]])
        self.assertIn(f"{home}/deep/er/b.bin", story["list deep"])
        self.assertEqual(story["move"], "line 1\nline 2\nline 3\nline 4\n")
        self.assertEqual(story.error("delete directory as a file")["status"], 400)
        self.assertEqual(story["delete"], 0)
        self.assertEqual(story["delete directories"], [f"{home}/deep", f"{home}/link", f"{home}/streamed"])


if __name__ == "__main__":
    unittest.main()
