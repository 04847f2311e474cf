# SPDX-License-Identifier: Apache-2.0
"""Another agent's objects of the same tenant do not exist: every route, list, stream and tool. And the rules in
force where two agents meet."""

import contextlib
import json
import socket
import unittest

import harness
import mcp_client
import websocket
from api_case import CONFIG, DOCUMENT, ApiTest
from boundary_case import list_queries, operations, permission, request_of, unknown

SAYS_AGENT = {"X-Agent": "alice", "X-Agent-Id": "alice", "X-Cloister-Agent": "alice", "X-App": "alices", "Agent": "alice"}


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class Crew(ApiTest):
    """Agents of a tenant, with keys of several roles."""

    @classmethod
    def key(cls, *roles, **who):
        made = cls.server.request("POST", "/v1/keys", {"tenant": cls.tenant, "name": "test", "roles": roles, **who})
        assert made.status == 201, made.text
        return made.json()["secret"]

    @classmethod
    def setUpClass(cls):
        cls.alice, cls.bob, cls.nobody = cls.key("agent", agent="alice"), cls.key("agent", agent="bob"), cls.key("agent")
        cls.boss = cls.key("tenant-admin", user="boss")
        cls.bob_views = cls.key("agent", "viewer", agent="bob")
        cls.bob_operates = cls.key("agent", "operator", agent="bob")

    @classmethod
    def made(cls, method, path, body, key=None):
        answer = cls.server.request(method, path, body, key=key or cls.alice)
        assert answer.status in (200, 201), (path, answer.status, answer.text)
        return answer.json()


class Boundary(Crew):
    tenant = "crew"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.permissions = set(cls.server.request("GET", "/v1/whoami", key=cls.bob).json()["permissions"])
        cls.ids = cls.make()

    @classmethod
    def make(cls):
        """Makes an object of every kind for alice → {the path after /v1/: its id}."""
        cls.made("POST", "/v1/agents/alice/sandbox", {"level": "standard", "allowed_commands": ["python3 *"]}, cls.boss)
        cls.made("PUT", "/v1/quotas/agents/alice", {"sessions": 7}, cls.boss)
        run = cls.made("POST", "/v1/executions?wait=60", {"language": "python", "code": "open('f', 'w').write('x')"})
        session = cls.made("POST", "/v1/sessions", {"language": "python"})["id"]
        cls.addClassCleanup(cls.server.request, "DELETE", f"/v1/sessions/{session}", key=cls.alice)
        cls.made("PUT", f"/v1/sessions/{session}/files/f", b"x")
        cls.made("PUT", f"/v1/sessions/{session}/memory/k", {"a": 1})
        cls.cell = cls.made("POST", f"/v1/sessions/{session}/exec?wait=60", {"code": "kept = 7"})["id"]
        sleeps = cls.server.request("POST", f"/v1/sessions/{session}/exec",
                                    {"command": ["sleep", "600"], "background": True}, key=cls.alice)
        assert sleeps.status == 202, sleeps.text
        cls.running = sleeps.json()["id"]
        cls.made("POST", f"/v1/sessions/{session}/ports/8000/tokens", {})
        refused = cls.server.request("POST", "/v1/executions?wait=5", {"command": "sudo ls"}, key=cls.alice)
        assert refused.json()["status"] in ("denied", "blocked"), refused.text
        cls.refused = refused.json()["id"]
        cls.upload("alices")
        return {
            "executions": run["id"],
            "sessions": session,
            "artifacts": run["artifacts"][0]["id"],
            "snapshots": cls.made("POST", f"/v1/sessions/{session}/snapshots", {})["id"],
            "escalations": cls.made("POST", "/v1/escalations",
                                    {"operation": "file_read", "path": "/etc/x", "reason": "r"})["id"],
            "tool-calls": cls.made("POST", "/v1/tool-calls",
                                   {"tool_id": "python.execute", "arguments": {"code": "1"}})["id"],
            "uploads": "alices",
            "agents": "alice",
        }

    @classmethod
    def upload(cls, name):
        """Half of an upload, which is kept."""
        with socket.create_connection((cls.server.host, cls.server.port)) as client:
            client.sendall(f"POST /v1/artifacts?path=f&upload={name} HTTP/1.1\r\nHost: localhost\r\n"
                           f"X-API-Key: {cls.alice}\r\nContent-Length: 8\r\n\r\nhalf".encode())
        harness.wait_for("the upload to be kept", lambda: (cls.server.request(
            "GET", f"/v1/uploads/{name}", key=cls.alice).json().get("expires_at")))

    def ask(self, operation, id_, key):
        method, path, body = request_of(operation, id_)
        answer = self.server.request(method, path, body, key=key, headers=SAYS_AGENT)
        if method != "HEAD":
            DOCUMENT.check(method, path, answer)
        return answer.status, answer.text.replace(id_, "ID")

    def of_ids(self):
        """Every operation by an id that an agent's key may use → its id."""
        for operation in operations():
            kind = operation.split("/")[2] if "{" in operation else None
            if kind in self.ids and permission(operation) in self.permissions:
                yield operation, self.ids[kind]

    # - what is whose -

    def test_ids_are_as_random_ones(self):
        asked = set()
        for operation, id_ in self.of_ids():
            ids = [id_] + ([self.running, self.cell, self.refused] if operation.split("/")[2] == "executions" else [])
            for key, each in ((key, each) for key in (self.bob, self.nobody) for each in ids):
                with self.subTest(operation, id=each, named=key == self.bob):
                    real = self.ask(operation, each, key)
                    self.assertEqual(real, self.ask(operation, unknown(each), key))
                    # Everybody receives the default for an agent that never had a policy.
                    self.assertEqual(real[0], 200 if operation.endswith("/escalation-policy") else 404, real)
                    asked.add(operation.split("/")[2])
        self.assertEqual(asked, set(self.ids))

    def test_nothing_became_of_it(self):
        for operation, id_ in self.of_ids():
            self.ask(operation, id_, self.bob)
        for kind, id_ in self.ids.items():
            path = "/v1/agents/alice/sandbox" if kind == "agents" else f"/v1/{kind}/{id_}"
            shown = self.call("GET", path, key=self.alice, status=200).json()
            self.assertNotIn(shown.get("status"), ("denied", "ended", "cancelled"), shown)
        session = f"/v1/sessions/{self.ids['sessions']}"
        self.assertEqual(self.call("GET", session + "/files/f", key=self.alice, status=200).body, b"x")
        self.assertEqual(self.call("GET", session + "/memory/k", key=self.alice, status=200).json(), {"a": 1})
        self.assertEqual(self.call("GET", f"/v1/executions/{self.running}", key=self.alice).json()["status"], "running")
        cell = self.call("POST", session + "/exec?wait=60", {"code": "print(kept)"}, key=self.alice, status=200).json()
        self.assertEqual(cell["stdout"], "7\n")

    def test_lists_hold_ones_own(self):
        ids = [*self.ids.values(), self.running, self.cell, self.refused]
        walked = 0
        for operation in operations():
            method, path = operation.split(" ")
            if method != "GET" or "{" in path or permission(operation) not in self.permissions:
                continue
            for query in list_queries(path, (
                    ("session_id", self.ids["sessions"]), ("execution_id", self.ids["executions"]), ("agent", "alice"),
                    ("status", "running"), ("status", "pending"))):
                for key in (self.bob, self.nobody):
                    with self.subTest(path + query):
                        answer = self.server.request("GET", path + query, headers=SAYS_AGENT, key=key)
                        for id_ in ids if answer.status == 200 else []:
                            self.assertNotIn(id_, answer.text)
                        walked += answer.status == 200
        self.assertGreater(walked, 20)
        self.call("GET", "/v1/quotas?agent=alice", key=self.bob, status=404)
        self.call("GET", "/v1/quotas?agent=nobody-at-all", key=self.bob, status=404)
        own = self.call("GET", "/v1/quotas?agent=alice", key=self.alice, status=200).json()["quotas"]
        self.assertEqual(own[0]["own"]["sessions"], 7)
        self.assertEqual(self.call("GET", "/v1/agents:health", key=self.bob, status=200).json()["agents"], 0)

    def test_streams(self):
        session, run = self.ids["sessions"], self.running
        for path in (f"/v1/executions/{run}/events", f"/v1/sessions/{session}/events",
                     f"/v1/sessions/{session}/ports/8000/x"):
            for secret in (self.bob, self.nobody):
                for each in (path, path.replace(session, unknown(session)).replace(run, unknown(run))):
                    with self.subTest(each), websocket.WebSocket(
                            self.server.host, self.server.port, each, {"X-API-Key": secret, **SAYS_AGENT}) as stream:
                        self.assertEqual(stream.status, 404)

    def test_keys_without_an_agent_are_one(self):
        run = self.made("POST", "/v1/executions?wait=60", {"command": "true"}, self.nobody)["id"]
        self.call("GET", f"/v1/executions/{run}", key=self.key("agent", user="another"), status=200)
        for key in (self.alice, self.bob):
            self.call("GET", f"/v1/executions/{run}", key=key, status=404)

    def test_a_name_is_each_agents_own(self):
        """For an upload's name, and for an idempotency key."""
        made = self.call("POST", "/v1/artifacts?path=f&upload=alices", b"bobs", key=self.bob, status=201).json()
        self.assertEqual(self.call("GET", "/v1/uploads/alices", key=self.bob).json()["artifact_id"], made["id"])
        kept = self.call("GET", "/v1/uploads/alices", key=self.alice, status=200).json()
        self.assertEqual((kept["size"], kept["artifact_id"]), (4, None))
        once = {"Idempotency-Key": "once"}
        runs = {self.call("POST", "/v1/executions?wait=60", {"command": "true"}, once, key, 200).json()["id"]
                for key in (self.alice, self.bob, self.nobody, self.alice)}
        self.assertEqual(len(runs), 3)
        self.call("DELETE", "/v1/uploads/alices", key=self.bob, status=204)
        self.call("GET", "/v1/uploads/alices", key=self.alice, status=200)

    # - roles above -

    def test_a_viewer_sees_and_does_nothing(self):
        for operation, id_ in self.of_ids():
            kind = operation.split("/")[2]
            # Streams last as long as the program, a page of ports only redirects, and a request is for approvers.
            if kind in ("uploads", "agents") or operation.endswith(("/events", ":watch", "/ports/{port}", "/request")):
                continue
            with self.subTest(operation):
                status, text = self.ask(operation, self.running if kind == "executions" else id_, self.bob_views)
                reads = operation.startswith("GET") and "/ports/" not in operation
                self.assertTrue(status in (200, 404, 409) and "there is no" not in text if reads else status == 403,
                                (status, text[:500]))
        for key in (self.key("viewer", user="v"), self.key("approver", user="a"), self.boss):
            for kind in ("executions", "sessions", "escalations"):
                self.call("GET", f"/v1/{kind}/{self.ids[kind]}", key=key, status=200)
                self.assertIn(self.ids[kind], self.call("GET", f"/v1/{kind}?limit=100", key=key, status=200).text)
            self.call("GET", f"/v1/sessions/{self.ids['sessions']}/files/f", key=key, status=200)
            self.call("GET", f"/v1/artifacts/{self.ids['artifacts']}/content", key=key, status=200)
            self.call("GET", "/v1/agents/alice/sandbox/stats", key=key, status=200)

    def test_an_operator_ends_what_runs(self):
        session = self.made("POST", "/v1/sessions", {"language": "bash"})["id"]
        run = self.server.request("POST", f"/v1/sessions/{session}/exec", {"command": ["sleep", "600"], "background": True},
                                  key=self.alice).json()["id"]
        operator = self.key("operator", user="o")
        self.assertIn(self.call("DELETE", f"/v1/executions/{run}", key=operator).status, (200, 202))
        self.call("DELETE", f"/v1/sessions/{session}", key=operator, status=200)
        made = self.call("POST", "/v1/artifacts?path=f", b"x", key=self.alice, status=201).json()["id"]
        self.call("DELETE", f"/v1/artifacts/{made}", key=self.bob_views, status=403)
        self.call("DELETE", f"/v1/artifacts/{made}", key=self.boss, status=204)

    # - MCP -

    def test_mcp(self):
        session, artifact = self.ids["sessions"], self.ids["artifacts"]
        uris = (f"cloister://artifacts/{artifact}", f"cloister://sessions/{session}/files/f")
        tools = (("exec", {"session_id": session, "command": "true"}), ("get_logs", {"execution_id": self.running}),
                 ("list_memory", {"session_id": session}), ("get_memory", {"session_id": session, "key": "k"}),
                 ("terminate", {"session_id": session}), ("cancel", {"execution_id": self.running}))
        for era in mcp_client.ERAS:
            with contextlib.ExitStack() as stack:
                alice, bob = (stack.enter_context(mcp_client.connect(self.server, era, "http", key=key))
                              for key in (self.alice, self.bob))
                for uri in uris:
                    self.assertTrue(alice.call("resources/read", {"uri": uri})["contents"])
                    with self.assertRaises(mcp_client.McpError) as caught:
                        bob.call("resources/read", {"uri": uri})
                    self.assertIn("there is no", str(caught.exception))
                for name, arguments in tools:
                    with self.subTest(name, era=era):
                        self.assertIn("there is no", json.dumps(bob.tool(name, **arguments)))
                for name in ("list_sessions", "list_artifacts"):
                    seen = json.dumps(bob.tool(name, limit=100))
                    self.assertNotIn(session, seen)
                    self.assertNotIn(artifact, seen)
                if alice.session:
                    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
                    self.assertEqual(bob.raw(body, {"Mcp-Session-Id": alice.session}).status, 404)
        self.assertEqual(self.call("GET", f"/v1/executions/{self.running}", key=self.alice).json()["status"], "running")

    # - who one is -

    def test_nobody_says_whose_agent_they_are(self):
        """An agent or app in a header is nothing, in a body no field, in metadata a word."""
        asked = {"command": "true", "metadata": {"agent": "carol", "app": "carols"}}
        done = self.call("POST", "/v1/executions?wait=60", asked, SAYS_AGENT, self.bob, 200).json()
        self.assertEqual(done["principal"]["agent"], "bob")
        self.assertNotIn(done["principal"].get("app"), ("alices", "carols"))
        self.assertEqual(self.call("GET", "/v1/whoami", headers=SAYS_AGENT, key=self.bob).json().get("agent"), "bob")
        for field in ("agent", "agent_id", "app", "principal", "requester"):
            for path, body in (("/v1/executions", {"command": "true"}), ("/v1/sessions", {"language": "bash"}),
                               ("/v1/tool-calls", {"tool_id": "python.execute", "arguments": {"code": "1"}}),
                               ("/v1/escalations", {"operation": "file_read", "path": "/etc/x", "reason": "r"})):
                with self.subTest(f"{field} to {path}"):
                    self.assertProblem(self.call("POST", path, {**body, field: "alice"}, key=self.bob), 422, field=field)
        self.call("POST", "/v1/keys", {"agent": "alice", "roles": ["agent"]}, key=self.bob, status=403)


class Rules(Crew):
    """The caller's own rules hold wherever the caller runs something."""
    tenant = "ruled"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for agent, level in (("alice", "standard"), ("bob", "isolated"), ("carol", "standard")):
            cls.made("POST", f"/v1/agents/{agent}/sandbox", {"level": level}, cls.boss)
        cls.made("POST", "/v1/agents/carol/sandbox:update", {"add": {"forbidden_paths": ["/workspace/carols"]}}, cls.boss)
        cls.carol = cls.key("agent", "operator", agent="carol")
        cls.session = cls.made("POST", "/v1/sessions", {"language": "bash"})["id"]
        cls.addClassCleanup(cls.server.request, "DELETE", f"/v1/sessions/{cls.session}", key=cls.alice)

    def exec(self, key, **request):
        return self.call("POST", f"/v1/sessions/{self.session}/exec?wait=60", request, key=key)

    def refused_entries(self):
        entries = self.call("GET", "/v1/audit?action=session.refused&order=newest", key=self.boss, status=200).json()
        return [each for each in entries["entries"] if each["subject"] == self.session]

    def test_stricter_rules_than_the_sandbox_holds(self):
        for request in ({"command": "echo x"}, {"command": ["echo", "x"]}, {"code": "echo x"},
                        {"code": "echo x", "kernel": "none"}, {"command": "echo x", "sandbox": "fresh"}):
            with self.subTest(request):
                problem = self.assertProblem(self.exec(self.bob_operates, **request), 403, "PERMISSION_DENIED")
                self.assertIn("the session was made by agent alice, and its sandbox lets programs do what agent bob may "
                              "not; make a session of your own (POST /v1/sessions)", problem["detail"])
        self.assertEqual(self.refused_entries()[0]["details"]["reason"], "agent_boundary")
        for key in (self.alice, self.carol):
            self.assertEqual(self.exec(key, command="echo x").json()["stdout"], "x\n")
        bobs = self.made("POST", "/v1/sessions", {"language": "bash"}, self.bob)["id"]
        self.addCleanup(self.call, "DELETE", f"/v1/sessions/{bobs}", key=self.bob)
        self.call("GET", f"/v1/sessions/{bobs}", key=self.carol, status=200)

    def test_files_are_held_to_both(self):
        path = f"/v1/sessions/{self.session}/files/"
        self.call("PUT", path + "carols", b"x", key=self.alice, status=200)
        self.call("GET", path + "carols", key=self.alice, status=200)
        refused = self.call("GET", path + "carols", key=self.carol, status=403)
        self.assertIn("the rules of both hold", refused.json()["detail"])
        self.call("PUT", path + "free", b"x", key=self.carol, status=200)
        self.call("PUT", path + "free", b"y", key=self.bob_operates, status=403)

    def test_nobody_types_for_another(self):
        waits = self.call("POST", f"/v1/sessions/{self.session}/exec",
                          {"command": "cat", "keep_input": True, "background": True}, key=self.alice)
        self.assertEqual(waits.status, 202, waits.text)
        path = f"/v1/executions/{waits.json()['id']}/input"
        self.assertProblem(self.call("POST", path, {"data": "x"}, key=self.bob_operates), 403, "PERMISSION_DENIED")
        self.call("POST", path, {"eof": True}, key=self.alice, status=200)


    def test_ports_are_input(self):
        ports = f"/v1/sessions/{self.session}/ports/8000"
        for key in (self.bob_operates, self.carol):
            self.assertProblem(self.call("POST", ports + "/tokens", {}, key=key), 403, "PERMISSION_DENIED")
            problem = self.assertProblem(self.call("GET", ports + "/x", key=key), 403, "PERMISSION_DENIED")
            self.assertIn("cannot be held to the rules of agent", problem["detail"])
            with websocket.WebSocket(self.server.host, self.server.port, ports + "/x", {"X-API-Key": key}) as stream:
                self.assertEqual(stream.status, 403)
        held_to_nothing = self.key("agent", "operator", agent="dave")
        self.call("POST", ports + "/tokens", {}, key=held_to_nothing, status=201)

    def test_who_is_held_to_nothing_is_held_to_the_makers_rules(self):
        held_to_nothing = self.key("agent", "operator", agent="dave")
        denied = self.exec(held_to_nothing, command="sudo ls").json()
        self.assertEqual((denied["status"], denied["error"]["details"]["agent"]), ("denied", "alice"))
        violation = self.call("GET", "/v1/agents/dave/sandbox/violations", key=self.boss, status=200).json()["violations"][0]
        self.assertEqual((violation["outcome"], violation["subject"]), ("agent_boundary", denied["id"]))


if __name__ == "__main__":
    unittest.main()
